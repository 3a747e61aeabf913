//! Commits batches of the background index, one per turn, after all live input.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
};

use subscope_model::{SessionId, SessionRow, SessionStatus, Tree, Update};
use subscope_store::Commit;

use super::{EventLoop, session_slot::Coverage};
use crate::command::{IngestError, ReplyCallback};

/// Queued batches. The index waits for each commit before it sends the next, so there are few.
pub(super) type IndexCommits = VecDeque<(Commit, ReplyCallback<Result<(), IngestError>>)>;

impl EventLoop {
    /// Commits the next batch without the sessions that the hub has loaded or evicted with newer rows: the hub's own
    /// rows are newer. Their files that the hub has not read are backfilled now.
    pub(super) fn commit_index_batch(&mut self) {
        let Some((mut commit, reply)) = self.pending.index_commits.pop_front() else { return };
        if let Err(error) = self.retry_failed_commit() {
            return reply(Err(error));
        }
        let mut files_by_session: BTreeMap<SessionId, Vec<PathBuf>> = BTreeMap::new();
        for source in &commit.sources {
            files_by_session.entry(source.session.clone()).or_default().push(source.path.clone());
        }
        let outdated = self.outdated_sessions(&commit);
        let is_own = |session: &SessionId| {
            self.sessions.has_rows(session) || self.sessions.is_dirty(session) || outdated.contains(session)
        };
        files_by_session.retain(|session, _| is_own(session));
        commit.trees.retain(|tree| !is_own(&tree.session.id));
        commit.deadlines.retain(|(session, _)| !is_own(session));
        commit.facts.retain(|facts| !is_own(&facts.session));
        commit.session_keys.retain(|stored| !is_own(&stored.keys.session));
        let deadline_of = |session: &SessionId| {
            let due = commit.deadlines.iter().find(|(due, _)| due == session);
            due.map(|(_, deadline)| *deadline)
        };
        let ids = commit.trees.iter().map(|tree| &tree.session.id);
        let deadlines: Vec<_> = ids.map(|session| (session.clone(), deadline_of(session))).collect();
        for (session, _) in &deadlines {
            // It may have files now that the hub does not know.
            let loaded = self.sessions.loaded_mut(session);
            loaded.into_iter().for_each(|loaded| loaded.coverage = Coverage::Unknown);
        }
        if !commit.trees.is_empty() {
            let rev = self.store.next_rev();
            commit.trees.iter_mut().for_each(|tree| tree.stamp(rev));
        }
        commit.at_ms = self.time.now_ms();
        if let Err(error) = self.store.commit(&commit) {
            self.figures.failed_commits += 1;
            let error = IngestError::from(&error);
            tracing::warn!("index batch not committed: {error}");
            return reply(Err(error));
        }
        self.figures.commits += 1;
        tracing::debug!(trees = commit.trees.len(), sources = commit.sources.len(), "index batch committed");
        self.duplicates.record_committed(&commit.session_keys, &mut self.sessions);
        for (session, deadline) in deadlines {
            self.sessions.set_deadline(&session, deadline);
        }
        for (session, files) in &files_by_session {
            self.backfill_files(session, files);
        }
        if commit.duplicate_scan.is_some() {
            // Live sessions may share keys that were unknown when they were derived.
            self.duplicates.reset(&mut self.sessions);
            self.sessions.mark_all_dirty(self.time.tick());
        }
        // Subscribers have snapshots of the live sessions that were known when they joined: send the new ones.
        for tree in commit.trees {
            if SessionRow::of(&tree).status == SessionStatus::Live {
                self.publish(&Update::snapshot(tree));
            }
        }
        reply(Ok(()));
    }

    /// Sessions of a batch whose stored rows, written by the hub before it evicted them, are newer than the batch.
    fn outdated_sessions(&self, commit: &Commit) -> BTreeSet<SessionId> {
        let is_outdated = |tree: &&Tree| {
            self.sessions.is_recently_evicted(&tree.session.id)
                && self
                    .tree(&tree.session.id)
                    .is_some_and(|stored| stored.session.ended_at_ms > tree.session.ended_at_ms)
        };
        commit.trees.iter().filter(is_outdated).map(|tree| tree.session.id.clone()).collect()
    }
}
