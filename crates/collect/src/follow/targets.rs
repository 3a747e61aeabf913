//! The scope of explicit TARGETs: those that exist, and those that are waited for.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{EventSink, FileEvent, FollowState, Scope};
use crate::{
    CollectError, Skipped,
    peek::Peeks,
    target::{Seen, Target},
};

#[derive(Debug)]
pub(super) struct Targets {
    /// As given, absolute.
    missing: Vec<PathBuf>,
    /// The path as given, and what exists there.
    found: Vec<(PathBuf, Target)>,
    peeks: Peeks,
    /// What was reported to be unreadable, so that it is reported once.
    reported: BTreeSet<Skipped>,
}

impl Targets {
    pub(super) fn new(targets: Vec<PathBuf>) -> Self {
        Self { missing: targets, found: Vec::new(), peeks: Peeks::default(), reported: BTreeSet::new() }
    }
}

impl Scope for Targets {
    fn is_waiting(&self) -> bool {
        !self.missing.is_empty()
    }

    fn scan(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) -> Result<(), CollectError> {
        self.check_base();
        let Self { found, peeks, reported, .. } = self;
        for (_, target) in found {
            target.list(peeks, &mut |seen| notice(seen, reported, state, out));
        }
        self.resolve(state, out)
    }

    /// Marks TARGETs as missing whose folder was removed.
    fn check_base(&mut self) {
        let lost = self.found.extract_if(.., |(_, target)| !target.base().is_dir());
        self.missing.extend(lost.map(|(given, _)| given));
    }

    fn resolve(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) -> Result<(), CollectError> {
        let mut outcome = Ok(());
        for given in std::mem::take(&mut self.missing) {
            match await_target(&given, state) {
                Ok(Some(target)) => {
                    let Self { peeks, reported, .. } = self;
                    target.list(peeks, &mut |seen| notice(seen, reported, state, out));
                    self.found.push((given, target));
                }
                Ok(None) => self.missing.push(given),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn enter(&mut self, folder: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let Self { found, peeks, reported, .. } = self;
        for (_, target) in found {
            if target.base().starts_with(folder) {
                target.list(peeks, &mut |seen| notice(seen, reported, state, out));
            } else if target.covers(folder) {
                target.list_below(folder, peeks, &mut |seen| notice(seen, reported, state, out));
            }
        }
    }

    fn take_bundle(&mut self, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let Self { found, peeks, reported, .. } = self;
        for (_, target) in found {
            if target.covers(path) {
                target.list_below(path, peeks, &mut |seen| notice(seen, reported, state, out));
            }
            for rows in target.folders_below(path) {
                target.list_below(rows, peeks, &mut |seen| notice(seen, reported, state, out));
            }
        }
    }

    fn take(&mut self, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let Self { found, peeks, reported, .. } = self;
        for (_, target) in found {
            let seen = match target.take(path, peeks) {
                Ok(Some(found)) => Seen::File(found),
                Ok(None) => continue,
                Err(skipped) => Seen::Skipped(skipped),
            };
            notice(seen, reported, state, out);
        }
    }
}

/// Returns what is at a path; if nothing is, watches the nearest existing folder above.
fn await_target(given: &Path, state: &mut FollowState) -> Result<Option<Target>, CollectError> {
    loop {
        match Target::classify(given) {
            Ok(target) => return Ok(Some(target)),
            // It may have been created before the folder was watched: check again.
            Err(CollectError::Missing { .. }) if state.watch.nearest_above(given) => {}
            Err(CollectError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn notice(
    seen: Seen<'_>,
    reported: &mut BTreeSet<Skipped>,
    state: &mut FollowState,
    out: &mut EventSink<'_>,
) {
    match seen {
        Seen::Folder(folder) => {
            state.watch.folder(folder);
        }
        Seen::File(found) => state.files.open(&found, out),
        Seen::Skipped(skipped) if reported.contains(&skipped) => {}
        Seen::Skipped(skipped) => {
            out.send(FileEvent::Problem { path: &skipped.path, what: &skipped.why });
            reported.insert(skipped);
        }
    }
}
