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

use subscope_collect::{expand, read};
use subscope_model::{SessionId, Text};

use super::EventLoop;
use crate::file_tail::spec;

/// First group number of backfilled files. Tailed files are numbered from 0 upwards, inbox partitions from `u32::MAX`
/// downwards.
const FIRST_GROUP: u32 = u32::MAX / 2;

impl EventLoop {
    /// Loads the transcript files of sessions that programs sent input for, with the dialects of that input.
    pub(super) fn backfill(&mut self, touched: &BTreeMap<SessionId, BTreeSet<Text>>) {
        for (session, dialects) in touched {
            if self.driver.reload_evicted(session, &mut self.fold) {
                tracing::debug!(%session, "reloaded");
                self.reloading.insert(session.clone());
            }
            let is_looked_up = self.backfilled.contains_key(session);
            let files = if is_looked_up || self.driver.follows(session) {
                Some(Vec::new())
            } else {
                self.store.read("the files of a session", self.store.files_of(session))
            };
            // If the store cannot be read, it is read again when the session gets more input.
            let Some(files) = files else { continue };
            self.backfilled.entry(session.clone()).or_default();
            // File content may be old; input from programs is new, whatever its timestamps.
            self.published.mark_new_input(session, dialects, &self.store);
            self.read_files(session, &files);
        }
    }

    /// Reads files that the background index found for a session that already has input from programs.
    pub(super) fn backfill_files(&mut self, session: &SessionId, files: &[PathBuf]) {
        let is_read = self.backfilled.get(session).is_some_and(|sources| !sources.is_empty());
        if !is_read && !self.driver.follows(session) {
            self.read_files(session, files);
        }
    }

    fn read_files(&mut self, session: &SessionId, files: &[PathBuf]) {
        if files.is_empty() {
            return;
        }
        self.reloading.insert(session.clone());
        let group = FIRST_GROUP.saturating_add(self.backfilled_groups);
        self.backfilled_groups += 1;
        let (mut seen, mut chunk, mut sources) = (HashSet::new(), Vec::new(), Vec::new());
        for file in files {
            // A missing file is reported by the index.
            let Ok(expanded) = expand(file) else { continue };
            for found in expanded.groups.into_iter().flat_map(|group| group.files) {
                if !seen.insert(found.path.clone()) {
                    continue;
                }
                let source = self.fold.open(spec(&found, group, None));
                self.fold.receive_at(None);
                let _ = read::read_file(&found.path, 0, &mut chunk, &mut |_, bytes| {
                    self.fold.push(source, bytes);
                });
                self.fold.flush(source);
                sources.push(source);
            }
        }
        self.backfilled.entry(session.clone()).or_default().extend(sources);
        // The index has already reported these problems.
        let _ = self.fold.take_problems();
        self.dirty.extend(self.fold.take_changed());
    }
}
