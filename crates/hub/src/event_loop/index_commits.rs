//! What an index made beside the hub: kept in slices, one a turn, after all that is live.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
};

use subscope_model::{SessionId, SessionRow, SessionStatus, Tree, Update};
use subscope_store::Commit;

use super::{EventLoop, derive::describe};
use crate::{
    clock,
    command::{IngestError, Reply},
};

/// Slices that wait. Whoever makes them waits for each before the next, so that they are few.
pub(super) type IndexCommits = VecDeque<(Commit, Reply<Result<(), IngestError>>)>;

impl EventLoop {
    /// Keeps the next slice. Sessions that the hub has heard of itself are its own: what it knows of them is newer. Files of
    /// theirs that it has not read it reads now.
    pub(super) fn commit_index_batch(&mut self) {
        let Some((mut commit, reply)) = self.index_commits.pop_front() else { return };
        if let Err(error) = self.retry_failed_commit() {
            return reply(Err(IngestError::Store(error)));
        }
        let mut late: BTreeMap<SessionId, Vec<PathBuf>> = BTreeMap::new();
        for source in &commit.sources {
            late.entry(source.session.clone()).or_default().push(source.path.clone());
        }
        let outdated = self.outdated(&commit);
        let is_own = |session: &SessionId| {
            self.rows.has(session) || self.dirty.contains(session) || outdated.contains(session)
        };
        late.retain(|session, _| is_own(session));
        commit.trees.retain(|tree| !is_own(&tree.session.id));
        commit.deadlines.retain(|(session, _)| !is_own(session));
        commit.sources.retain(|source| !is_own(&source.session));
        commit.session_keys.retain(|held| !is_own(&held.keys.session));
        if !commit.trees.is_empty() {
            let rev = self.next_rev();
            commit.trees.iter_mut().for_each(|tree| tree.stamp(rev));
        }
        commit.at_ms = clock::now_ms();
        if let Err(error) = self.store.commit(&commit) {
            self.figures.failed_commits += 1;
            tracing::warn!("index batch not committed: {}", describe(&error));
            return reply(Err(IngestError::Store(describe(&error))));
        }
        self.figures.commits += 1;
        tracing::debug!(trees = commit.trees.len(), sources = commit.sources.len(), "index batch committed");
        self.duplicates.kept(&commit.session_keys);
        for (session, files) in &late {
            self.backfill_files(session, files);
        }
        if commit.duplicate_scan.is_some() {
            // What is live may hold what was not known when it was concluded.
            self.duplicates.reset();
            self.dirty.extend(self.rows.sessions().cloned());
        }
        // Readers were shown the sessions at work that were known when they came.
        for tree in commit.trees {
            if SessionRow::of(&tree).status == SessionStatus::Live {
                self.publish(&Update::snapshot(tree));
            }
        }
        reply(Ok(()));
    }

    /// Sessions of which the hub knew more when it let go of them than the index did when it read them.
    fn outdated(&self, commit: &Commit) -> BTreeSet<SessionId> {
        let is_outdated = |tree: &&Tree| {
            self.evictor.has(&tree.session.id)
                && self
                    .tree(&tree.session.id)
                    .is_some_and(|kept| kept.session.ended_at_ms > tree.session.ended_at_ms)
        };
        commit.trees.iter().filter(is_outdated).map(|tree| tree.session.id.clone()).collect()
    }
}
