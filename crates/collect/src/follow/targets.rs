//! The scope of explicit TARGETs: those that exist, and those that are waited for.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{FileEvent, Hands, Out};
use crate::{
    CollectError, Skipped,
    peek::Peeks,
    target::{Seen, Target},
};

#[derive(Debug)]
pub(super) struct Targets {
    /// As given, absolute.
    missing: Vec<PathBuf>,
    /// As given, and what stands there.
    found: Vec<(PathBuf, Target)>,
    peeks: Peeks,
    /// What was told to be unreadable, so that it is told once.
    told: BTreeSet<Skipped>,
}

impl Targets {
    pub(super) fn new(targets: Vec<PathBuf>) -> Self {
        Self { missing: targets, found: Vec::new(), peeks: Peeks::default(), told: BTreeSet::new() }
    }

    /// The first TARGET as given; empty where there is none.
    pub(super) fn first(&self) -> &Path {
        self.missing.first().map_or(Path::new(""), PathBuf::as_path)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Lists everything.
    pub(super) fn scan(&mut self, hands: &mut Hands, out: &mut Out<'_>) -> Result<(), CollectError> {
        self.check_bases();
        let Self { found, peeks, told, .. } = self;
        for (_, target) in found {
            target.list(peeks, &mut |seen| notice(seen, told, hands, out));
        }
        self.resolve(hands, out)
    }

    /// Takes those TARGETs back among the missing whose folder is gone.
    pub(super) fn check_bases(&mut self) {
        let lost = self.found.extract_if(.., |(_, target)| !target.base().is_dir());
        self.missing.extend(lost.map(|(given, _)| given));
    }

    /// Looks for the missing ones.
    pub(super) fn resolve(&mut self, hands: &mut Hands, out: &mut Out<'_>) -> Result<(), CollectError> {
        let mut outcome = Ok(());
        for given in std::mem::take(&mut self.missing) {
            match await_target(&given, hands) {
                Ok(Some(target)) => {
                    let Self { peeks, told, .. } = self;
                    target.list(peeks, &mut |seen| notice(seen, told, hands, out));
                    self.found.push((given, target));
                }
                Ok(None) => self.missing.push(given),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// A folder is there that was not, or not so.
    pub(super) fn enter(&mut self, folder: &Path, hands: &mut Hands, out: &mut Out<'_>) {
        let Self { found, peeks, told, .. } = self;
        for (_, target) in found {
            if target.base() == folder {
                target.list(peeks, &mut |seen| notice(seen, told, hands, out));
            } else if target.covers(folder) {
                target.list_below(folder, peeks, &mut |seen| notice(seen, told, hands, out));
            }
        }
    }

    /// A file that is not followed was made or changed.
    pub(super) fn take(&mut self, path: &Path, hands: &mut Hands, out: &mut Out<'_>) {
        let Self { found, peeks, told, .. } = self;
        for (_, target) in found {
            let seen = match target.take(path, peeks) {
                Ok(Some(found)) => Seen::File(found),
                Ok(None) => continue,
                Err(skipped) => Seen::Skipped(skipped),
            };
            notice(seen, told, hands, out);
        }
    }
}

/// Returns what stands at a path; where nothing does, sees to it that its coming is noticed.
fn await_target(given: &Path, hands: &mut Hands) -> Result<Option<Target>, CollectError> {
    loop {
        match Target::classify(given) {
            Ok(target) => return Ok(Some(target)),
            // It may have come before the folder was watched: look again.
            Err(CollectError::Missing { .. }) if hands.watch.nearest_above(given) => {}
            Err(CollectError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn notice(seen: Seen<'_>, told: &mut BTreeSet<Skipped>, hands: &mut Hands, out: &mut Out<'_>) {
    match seen {
        Seen::Folder(folder) => {
            hands.watch.folder(folder);
        }
        Seen::File(found) => hands.files.open(&found, out),
        Seen::Skipped(skipped) if told.contains(&skipped) => {}
        Seen::Skipped(skipped) => {
            out.send(FileEvent::Problem { path: &skipped.path, what: &skipped.why });
            told.insert(skipped);
        }
    }
}
