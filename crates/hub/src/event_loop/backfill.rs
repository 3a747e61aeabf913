//! Loads what a session's rows are derived from, before they are derived: its files and its input from programs.
//!
//! Rows are derived from all input of a session. A driver tails files that change; a late hook, the first hook of a
//! resumed session, or a deadline may concern a session whose files it does not tail. So the first derivation after a
//! session was loaded reads everything else that its stored rows were derived from. This happens inside the hub's turn:
//! it is rare, and most sessions take some milliseconds.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use subscope_collect::Found;
use subscope_model::{SessionId, Tree};
use subscope_session::SourceSpec;
use subscope_store::SourceFile;

use super::EventLoop;
use crate::{
    loader::{FileLoader, file_identity, file_spec},
    session_sources::{files_at, is_missing},
};

impl EventLoop {
    /// Loads everything that a session's stored rows were derived from and that is not in the router.
    pub(super) fn complete(&mut self, session: &SessionId) {
        if self.sessions.live(session).is_some_and(|live| live.is_complete) {
            return;
        }
        if self.driver.reload_evicted(session, &mut self.router) {
            tracing::debug!(%session, "reloaded");
            self.sessions.load(session).is_reloading = true;
        }
        // If the store cannot be read, it is read again when the session is derived again.
        let files = self.store.read("the files of a session", self.store.files_of(session));
        let Some(files) = files else { return };
        self.sessions.load(session).is_complete = true;
        self.backfill_files(session, &files);
        self.ensure_replayed(session);
    }

    /// Reads files of a session that the driver does not tail and that were not read before.
    pub(super) fn backfill_files(&mut self, session: &SessionId, files: &[PathBuf]) {
        let known = self.sessions.live(session).map_or(&[][..], |live| &live.backfilled);
        let mut seen: HashSet<PathBuf> = known.iter().map(|known| known.path.clone()).collect();
        seen.extend(self.driver.tailed_files(session).into_iter().map(Path::to_owned));
        let mut unread: Vec<Found> = Vec::new();
        for file in files {
            // A main transcript comes with the files of its agents.
            if !seen.contains(file) {
                let found = self.find_file(session, file).into_iter();
                unread.extend(found.filter(|found| seen.insert(found.path.clone())));
            }
        }
        if unread.is_empty() {
            return;
        }
        let group = self.router.new_group();
        self.router.receive_at(None);
        let (mut loader, mut read) = (FileLoader::default(), Vec::new());
        for found in unread {
            let identity = file_identity(&found.path);
            // A file that cannot be read is reported by the index.
            let spec = SourceSpec { only: Some(session.clone()), ..file_spec(&found, group, None) };
            let _ = loader.load(found.place(), spec, &mut self.router);
            read.push(SourceFile { path: found.path, session: session.clone(), identity });
        }
        // The index has already reported these problems.
        let _ = self.router.take_problems();
        let changed = self.router.take_changed();
        self.mark_dirty(changed);
        let live = self.sessions.load(session);
        live.is_reloading |= !read.is_empty();
        live.backfilled.extend(read.iter().cloned());
        live.unsaved_files.extend(read.into_iter().filter(|file| file.identity.inode > 0));
    }

    /// Returns a file with those that belong to it, or its archived copy. Empty if it is gone, which the index reports.
    fn find_file(&self, session: &SessionId, file: &Path) -> Vec<Found> {
        if let Ok(found) = files_at(file, session) {
            return found;
        }
        let archive = self.options.texts.as_ref().map(|texts| &texts.archive);
        let kept = archive.and_then(|archive| archive.find(file).ok().flatten());
        kept.and_then(|kept| Found::again(file, session.as_str(), Some(kept))).into_iter().collect()
    }

    /// Whether the stored rows of a session that was just loaded have more than these because one of its files is gone:
    /// then the stored rows stay.
    pub(super) fn lacks_files(&self, session: &SessionId, derived: &Tree) -> bool {
        let Some(live) = self.sessions.live(session).filter(|live| live.rows.is_none()) else { return false };
        let has_more = live.published.as_ref().is_some_and(|published| published.has_more_than(derived));
        has_more
            && self
                .store
                .read("the files of a session", self.store.files_of(session))
                .is_some_and(|files| files.iter().any(|file| is_missing(file)))
    }
}
