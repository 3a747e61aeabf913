//! Loads what a session's rows are derived from, before they are derived: its files and its input from programs.
//!
//! Rows are derived from all input of a session. A driver tails files that change; a late hook, the first hook of a
//! resumed session, or a deadline may concern a session whose files it does not tail. So the first derivation after a
//! session was loaded reads everything else that its stored rows were derived from. This happens inside the hub's turn:
//! it is rare, and most sessions take some milliseconds.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use super::{
    EventLoop,
    retained::UnreadFile,
    session_slot::{Coverage, LoadedBy},
};
use crate::{
    loader::{Unread, file_spec},
    session_sources::{files_at, is_beside_main},
};
use subscope_collect::{Found, length};
use subscope_model::SessionId;
use subscope_session::SourceSpec;

impl EventLoop {
    /// Loads everything that a session's stored rows were derived from and that is not in the router. Returns whether
    /// all of it could be looked for; if not, its stored rows are better than what would be derived now.
    pub(super) fn complete(&mut self, session: &SessionId) -> bool {
        let is_covered = self.sessions.loaded(session).is_some_and(|it| it.coverage == Coverage::Complete);
        if is_covered && self.sessions.is_replayed(session) {
            return true;
        }
        if self.driver.reload_evicted(session, &mut self.router) {
            tracing::debug!(%session, "reloaded");
            self.sessions.record_reread(session);
        }
        let files = self.store.read("the files of a session", self.store.files_of(session));
        let Some(files) = files else { return false };
        self.backfill_files(session, &files);
        self.ensure_replayed(session);
        if !self.sessions.is_replayed(session) || self.restore_facts(session).is_none() {
            return false;
        }
        self.sessions.loaded_mut(session).into_iter().for_each(|it| it.coverage = Coverage::Complete);
        true
    }

    /// Reads files of a session that the driver does not tail and that were not read before.
    pub(super) fn backfill_files(&mut self, session: &SessionId, files: &[PathBuf]) {
        let mut files: Vec<&PathBuf> = files.iter().collect();
        files.sort_by_key(|path| is_beside_main(path));
        let loaded = self.sessions.loaded(session);
        let known = loaded.map_or(&[][..], |loaded| &loaded.backfilled);
        let waiting = loaded.map_or(&[][..], |loaded| &loaded.retained.unread);
        let mut seen: HashSet<PathBuf> = known.iter().map(|known| known.path.clone()).collect();
        seen.extend(waiting.iter().map(|unread| unread.found.path.clone()));
        seen.extend(self.driver.tailed_files(session).into_iter().map(Path::to_owned));
        let (mut unread, mut unfound) = (Vec::new(), Vec::new());
        for file in files {
            // A main transcript comes with the files of its agents.
            if seen.contains(file) {
                continue;
            }
            match self.find_file(session, file) {
                Ok(found) => {
                    unread.extend(found.into_iter().filter(|found| seen.insert(found.path.clone())));
                }
                Err(error) => unfound.push(error),
            }
        }
        if unread.is_empty() && unfound.is_empty() {
            let loaded = self.sessions.loaded_mut(session);
            loaded.into_iter().for_each(|loaded| loaded.retained.unfound.clear());
            return;
        }
        self.sessions.load(session, LoadedBy::Input);
        let Some(loaded) = self.sessions.loaded_mut(session) else { return };
        let group = self.router.new_group();
        for found in unread {
            let spec = SourceSpec { only: Some(session.clone()), ..file_spec(&found, group, None) };
            loaded.retained.unread.push(UnreadFile::new(found, self.router.open(spec)));
        }
        loaded.retained.unfound = unfound;
        self.read_unread(session);
        let changed = self.router.take_changed();
        self.mark_dirty(changed);
        self.schedule_retry(session);
    }

    /// Returns a file with those that belong to it, or its archived copy. Empty if it is gone.
    pub(super) fn find_file(&self, session: &SessionId, file: &Path) -> Result<Vec<Found>, Unread> {
        if length(file).map_err(|error| Unread::new(file, error))?.is_some() {
            let (found, skipped) =
                files_at(file, session).map_err(|error| Unread::new(file, io::Error::other(error)))?;
            return match skipped.into_iter().next() {
                Some(skipped) => Err(Unread::new(&skipped.path, io::Error::other(skipped.why))),
                None => Ok(found),
            };
        }
        let Some(texts) = &self.options.texts else { return Ok(Vec::new()) };
        let kept = texts.archive.find(file).map_err(|error| Unread::new(file, error))?;
        let found = kept.and_then(|kept| Found::again(file, session.as_str(), Some(kept)));
        Ok(found.into_iter().collect())
    }
}
