//! Loads the transcript files of sessions for which only input from programs has arrived: a late hook, or the first
//! hook of a resumed session.
//!
//! Rows are derived from all that is known of a session, so the files that its rows were derived from are read once,
//! before the rows are derived again. This happens inside the hub's turn: it is rare, and most sessions take some
//! milliseconds.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::PathBuf,
};

use subscope_collect::expand;
use subscope_model::{SessionId, Text};

use super::{EventLoop, session_table::Backfill};
use crate::loader::{FileLoader, file_spec};

impl EventLoop {
    /// Loads the transcript files of sessions that programs sent input for, with the dialects of that input.
    pub(super) fn backfill(&mut self, touched: &BTreeMap<SessionId, BTreeSet<Text>>) {
        for (session, dialects) in touched {
            if self.driver.reload_evicted(session, &mut self.router) {
                tracing::debug!(%session, "reloaded");
                self.sessions.load(session).is_reloading = true;
            }
            let is_looked_up = self.backfill_state(session) != Backfill::NotLookedUp;
            let files = if is_looked_up || self.driver.follows(session) {
                Some(Vec::new())
            } else {
                self.store.read("the files of a session", self.store.files_of(session))
            };
            // If the store cannot be read, it is read again when the session gets more input.
            let Some(files) = files else { continue };
            let live = self.sessions.load(session);
            live.backfill = live.backfill.max(Backfill::LookedUp);
            // File content may be old; input from programs is new, whatever its timestamps.
            if let Some(published) = live.published(session, &self.startup, &self.store) {
                published.add_new_dialects(dialects);
            }
            self.read_files(session, &files);
        }
    }

    /// Reads files that the background index found for a session that already has input from programs.
    pub(super) fn backfill_files(&mut self, session: &SessionId, files: &[PathBuf]) {
        if self.backfill_state(session) != Backfill::Read && !self.driver.follows(session) {
            self.read_files(session, files);
        }
    }

    fn read_files(&mut self, session: &SessionId, files: &[PathBuf]) {
        if files.is_empty() {
            return;
        }
        self.sessions.load(session).is_reloading = true;
        let group = self.router.new_group();
        self.router.receive_at(None);
        let (mut seen, mut loader, mut has_read) = (HashSet::new(), FileLoader::default(), false);
        for file in files {
            // A missing file is reported by the index.
            let Ok(expanded) = expand(file) else { continue };
            for found in expanded.groups.into_iter().flat_map(|group| group.files) {
                if !seen.insert(found.path.clone()) {
                    continue;
                }
                // A file that cannot be read is reported by the index.
                let _ = loader.load(&found.path, file_spec(&found, group, None), &mut self.router);
                has_read = true;
            }
        }
        if has_read {
            self.sessions.load(session).backfill = Backfill::Read;
        }
        // The index has already reported these problems.
        let _ = self.router.take_problems();
        let changed = self.router.take_changed();
        self.mark_dirty(changed);
    }

    fn backfill_state(&self, session: &SessionId) -> Backfill {
        self.sessions.live(session).map_or(Backfill::NotLookedUp, |live| live.backfill)
    }
}
