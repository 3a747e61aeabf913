//! Tracks which runs on stdin are active or aborted.

use std::collections::HashSet;

use subscope_client::publish::EventKind;

use crate::prelude::*;

/// Active and aborted runs of a stream of events.
#[derive(Debug, Default)]
pub(super) struct RunTracker {
    active: HashSet<String>,
    aborted: HashSet<String>,
    /// Kind of the first failure; decides the exit code.
    first_failure: Option<ErrorKind>,
    /// Bad lines without a readable run id.
    unknown: usize,
}

impl RunTracker {
    /// Records an event of a run. Returns whether it is to be published: of an aborted run only the end is.
    pub(super) fn accept(&mut self, run: &str, kind: EventKind) -> bool {
        if kind == EventKind::SubagentEnd {
            self.active.remove(run);
            return true;
        }
        if self.aborted.contains(run) {
            return false;
        }
        if !self.active.contains(run) {
            self.active.insert(run.to_owned());
        }
        true
    }

    pub(super) fn is_aborted(&self, run: &str) -> bool {
        self.aborted.contains(run)
    }

    /// Records that an event of a run was lost; `None`: the run is unknown.
    pub(super) fn abort(&mut self, run: Option<String>, kind: ErrorKind) {
        self.first_failure.get_or_insert(kind);
        match run {
            Some(run) => {
                self.active.remove(&run);
                self.aborted.insert(run);
            }
            None => self.unknown += 1,
        }
    }

    /// Whether no run is active any more.
    pub(super) fn has_no_active_run(&self) -> bool {
        self.active.is_empty()
    }

    /// Returns the kind and the summary of all failures; `None` if there was none.
    pub(super) fn outcome(&self) -> Option<(ErrorKind, String)> {
        let kind = self.first_failure?;
        let runs = counted(self.aborted.len(), "run was aborted", "runs were aborted");
        let lines = counted(self.unknown, "line was left out", "lines were left out");
        let all: Vec<_> = [runs, lines].into_iter().flatten().collect();
        Some((kind, all.join(", ")))
    }
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {many}")),
    }
}
