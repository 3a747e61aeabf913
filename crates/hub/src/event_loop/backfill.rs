//! Sessions that are told of while nobody follows their files: a hook that comes late, or that is the first of a session
//! which is resumed.
//!
//! RowCache are made of all that is known of a session, so the files that its rows were made from are read once, before they
//! are made anew. That happens in the hub's own turn: it is seldom, and most sessions take some milliseconds.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::PathBuf,
};

use subscope_collect::{expand, read};
use subscope_model::{SessionId, Text};

use super::EventLoop;
use crate::file_tail::spec;

/// The groups of files that are read here begin there: those of followed files begin at 0, those of what is handed over at
/// the greatest number, downwards.
const FIRST_GROUP: u32 = u32::MAX / 2;

impl EventLoop {
    /// Sees to it that the fold has the files of these sessions, which were told of in these dialects.
    pub(super) fn backfill(&mut self, touched: &BTreeMap<SessionId, BTreeSet<Text>>) {
        for (session, dialects) in touched {
            if self.driver.reload_evicted(session, &mut self.fold) {
                tracing::debug!(%session, "reloaded");
                self.reloading.insert(session.clone());
            }
            let is_known = self.backfilled.contains_key(session);
            let files = if is_known || self.driver.follows(session) {
                Some(Vec::new())
            } else {
                self.store.read("the files of a session", self.store.files_of(session))
            };
            // Where the store cannot say, it is asked again when the session is next touched.
            let Some(files) = files else { continue };
            self.backfilled.entry(session.clone()).or_default();
            // What files tell may be old. What is handed over is new, of whatever time it is.
            self.published.is_fresh(session, dialects, &self.store);
            self.read_files(session, &files);
        }
    }

    /// Reads the files that an index has found of a session that was told of before.
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
        let group = FIRST_GROUP.saturating_add(self.groups_read);
        self.groups_read += 1;
        let (mut seen, mut chunk, mut sources) = (HashSet::new(), Vec::new(), Vec::new());
        for file in files {
            // One that is gone is told of by the index.
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
        // They were told when the files were indexed.
        let _ = self.fold.take_problems();
        self.dirty.extend(self.fold.take_changed());
    }
}
