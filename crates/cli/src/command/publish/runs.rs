//! Which runs on stdin still go on.

use std::collections::HashSet;

use subscope_client::publish::EventKind;

use crate::error::Kind;

/// The runs of a stream of events.
#[derive(Debug, Default)]
pub(super) struct Runs {
    under_way: HashSet<String>,
    aborted: HashSet<String>,
    /// What the first failure was; decides the exit code.
    first: Option<Kind>,
    /// Lines of which nobody knows whose they were.
    unknown: usize,
}

impl Runs {
    /// Notes an event of a run, and returns whether it is to be posted: of an aborted one only the ending is.
    pub(super) fn goes_on(&mut self, run: &str, kind: EventKind) -> bool {
        if kind == EventKind::SubagentEnd {
            self.under_way.remove(run);
            return true;
        }
        if self.aborted.contains(run) {
            return false;
        }
        if !self.under_way.contains(run) {
            self.under_way.insert(run.to_owned());
        }
        true
    }

    pub(super) fn is_aborted(&self, run: &str) -> bool {
        self.aborted.contains(run)
    }

    /// Notes that an event of a run was lost.
    pub(super) fn abort(&mut self, run: Option<String>, kind: Kind) {
        self.first.get_or_insert(kind);
        match run {
            Some(run) => {
                self.under_way.remove(&run);
                self.aborted.insert(run);
            }
            None => self.unknown += 1,
        }
    }

    /// Whether the one failure that there was has left nobody.
    pub(super) fn is_last_gone(&self) -> bool {
        self.under_way.is_empty()
    }

    /// What went wrong in all; `None` where nothing did.
    pub(super) fn outcome(&self) -> Option<(Kind, String)> {
        let kind = self.first?;
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
