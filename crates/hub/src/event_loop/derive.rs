//! Derives rows and events from facts, commits them and publishes them; retries failed commits.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use subscope_fold::{FeedBuilder, Now, next_deadline};
use subscope_model::{Change, Event, EventKind, Problem, SessionId, Tree, Update};
use subscope_store::{Commit, StoreError};

use super::{DERIVE_SHARE, EventLoop, THROTTLE_FROM_INGESTS, THROTTLE_SHARE, row_cache::RowDiff};
use crate::clock;

/// Revisions reserved at once: enough for some minutes. Those of a process that ends early are skipped; revisions begin
/// at the microsecond at which the store was created and stay behind the clock even so.
const REVS_PER_RESERVATION: u64 = 1 << 16;

/// Pause before a failed commit is retried.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A commit that failed. It is kept whole and retried before any other input is read or accepted, so nothing in it is
/// lost while the process lives. Its ingests were answered with the error; a repeat of one is answered with the error
/// again until the commit succeeds, then as a repeat.
pub(super) struct FailedCommit {
    commit: Commit,
    error: String,
    last_attempt: Option<Instant>,
}

impl FailedCommit {
    /// Makes the next retry due immediately.
    pub(super) fn make_due(&mut self) {
        self.last_attempt = None;
    }
}

impl EventLoop {
    /// Derives all dirty sessions. Does nothing while a failed commit is pending.
    pub(super) fn derive_dirty(&mut self, has_ended: bool) {
        if self.failed_commit.is_some() {
            return;
        }
        let dirty = std::mem::take(&mut self.dirty);
        let (sessions, unreadable): (Vec<SessionId>, Vec<SessionId>) =
            dirty.into_iter().partition(|session| self.is_filter_loaded(session));
        self.dirty.extend(unreadable);
        self.has_unprocessed_acked = false;
        self.startup_replay.has_underived = false;
        self.has_new_order = false;
        // A failed commit is retried before the next turn reads anything.
        let _ = self.derive(&sessions, has_ended);
        self.last_derived = clock::tick();
    }

    /// Derives the dirty sessions that are due, one by one. The time that each takes decides when it is due again, so
    /// that big sessions do not delay small ones.
    pub(super) fn derive_due(&mut self) {
        let now = clock::tick();
        if self.throttled_until.is_some_and(|until| now < until) {
            return;
        }
        let due = |session: &SessionId| self.next_derivations.get(session).is_none_or(|next| *next <= now);
        let due: Vec<SessionId> = self.dirty.iter().filter(|session| due(session)).cloned().collect();
        if due.is_empty() {
            return;
        }
        self.next_derivations.retain(|_, next| *next > now);
        for session in due {
            if self.failed_commit.is_some() {
                return;
            }
            if !self.is_filter_loaded(&session) {
                continue;
            }
            self.dirty.remove(&session);
            let began = clock::tick();
            let _ = self.derive(std::slice::from_ref(&session), false);
            self.last_derived = clock::tick();
            self.next_derivations
                .insert(session, self.last_derived + (self.last_derived - began) * DERIVE_SHARE);
        }
        if self.dirty.is_empty() {
            self.has_unprocessed_acked = false;
            self.startup_replay.has_underived = false;
            self.has_new_order = false;
        }
        // While many ingests wait for acknowledgement, these come first.
        let is_throttled = self.largest_ingest_batch >= THROTTLE_FROM_INGESTS;
        self.throttled_until =
            is_throttled.then(|| self.last_derived + (self.last_derived - now) * THROTTLE_SHARE);
        self.largest_ingest_batch = 0;
    }

    /// Whether the published events of a session are known. If the store cannot be read, the session is derived after a
    /// pause: otherwise its events would be published twice.
    fn is_filter_loaded(&mut self, session: &SessionId) -> bool {
        let is_loaded = self.published.has_rows(session, &self.store).is_some();
        if !is_loaded {
            self.next_derivations.insert(session.clone(), clock::tick() + RETRY_AFTER);
        }
        is_loaded
    }

    /// Derives these sessions, updates their rows, and commits and publishes their events.
    fn derive(&mut self, sessions: &[SessionId], has_ended: bool) -> Result<(), String> {
        let sessions = &self.resolve_duplicates(sessions);
        let at = self.read_clock();
        let limits = self.limits();
        let now = Now { at, has_ended, is_growing: !has_ended, prices: &self.options.prices, limits };
        let (trees, mut events) = self.feed.advance(&mut self.fold, sessions, &now);
        // Files of live sessions are read from their beginning: drop events that an earlier hub published.
        let reloading: Vec<&SessionId> =
            sessions.iter().filter(|session| self.reloading.remove(*session)).collect();
        let startup_done = self.startup_done;
        let is_reread = |session: &SessionId| !startup_done || reloading.contains(&session);
        self.published.retain(&mut events, &is_reread, &self.store);
        for tree in &trees {
            let due = self.feed.next_due(&tree.session.id);
            match next_deadline(tree, &now).into_iter().chain(due).min() {
                Some(deadline) => self.deadlines.insert(tree.session.id.clone(), deadline),
                None => self.deadlines.remove(&tree.session.id),
            };
        }
        self.update_stop_orders(&trees);
        // Rows are derived from saved input: they are shown even if the disk is full.
        self.update_rows(trees);
        if events.is_empty() {
            return Ok(());
        }
        let outcome = self.commit(Commit { events, ..Commit::default() });
        self.publish_failure(outcome)
    }

    /// Saves the rows that are due, a few milliseconds' worth. Skips dirty sessions: saved rows must include all input
    /// saved for their session.
    pub(super) fn save_due_rows(&mut self) {
        let began = clock::tick();
        if self.failed_commit.is_some() || !self.rows.is_due(began) {
            return;
        }
        let due = self.rows.due(began, |session| !self.dirty.contains(session));
        let _ = self.save_trees(&due);
        self.rows.record_save(&due, began, clock::tick());
    }

    /// Derives dirty sessions and saves all unsaved rows.
    pub(super) fn save_rows(&mut self) -> Result<(), String> {
        self.retry_failed_commit()?;
        self.derive_dirty(self.has_ended);
        self.save_trees(&self.rows.unsaved())
    }

    pub(super) fn save_trees(&mut self, sessions: &[SessionId]) -> Result<(), String> {
        let trees: Vec<Tree> =
            sessions.iter().filter_map(|session| self.rows.tree(session, &self.store)).collect();
        if trees.is_empty() || self.failed_commit.is_some() {
            return Ok(());
        }
        let due = |tree: &Tree| self.deadlines.get(&tree.session.id).copied();
        let deadlines = trees.iter().filter_map(|tree| Some((tree.session.id.clone(), due(tree)?))).collect();
        let session_keys = self.duplicates.take_unsaved(sessions);
        let outcome =
            self.commit(Commit { trees, is_provisional: true, deadlines, session_keys, ..Commit::default() });
        self.publish_failure(outcome)
    }

    fn publish_failure(&mut self, outcome: Result<(), String>) -> Result<(), String> {
        if let Err(error) = &outcome {
            let problem = Problem { at: "store".to_owned(), what: error.clone() };
            self.publish(&Update::event(FeedBuilder::problem(&problem)));
        }
        outcome
    }

    /// Advances the feed of these sessions and discards the events: an earlier process published them.
    pub(super) fn discard_events(&mut self, sessions: &[SessionId]) {
        let (at, limits) = (self.driver.now(), self.limits());
        let now = Now { at, has_ended: false, is_growing: true, prices: &self.options.prices, limits };
        let (trees, _) = self.feed.advance(&mut self.fold, sessions, &now);
        self.update_stop_orders(&trees);
    }

    /// Retries the failed commit, if there is one and its pause is over. Returns its error while it is still pending.
    pub(super) fn retry_failed_commit(&mut self) -> Result<(), String> {
        let Some(failed_commit) = self.failed_commit.take() else { return Ok(()) };
        if failed_commit.last_attempt.is_some_and(|at| at.elapsed() < RETRY_AFTER) {
            let error = failed_commit.error.clone();
            self.failed_commit = Some(failed_commit);
            return Err(error);
        }
        tracing::info!("the failed commit is tried again");
        self.commit(failed_commit.commit)
    }

    /// Commits, then publishes the committed events. A commit that fails becomes the [`FailedCommit`].
    pub(super) fn commit(&mut self, mut commit: Commit) -> Result<(), String> {
        commit.at_ms = clock::now_ms();
        match self.store.commit(&commit) {
            Ok(events) => {
                self.figures.commits += 1;
                self.figures.events += events.len() as u64;
                let (inputs, trees) = (commit.received.len(), commit.trees.len());
                tracing::debug!(inputs, trees, events = events.len(), "committed");
                self.rows.mark_saved(&commit.trees);
                for event in events {
                    self.figures.seq = self.figures.seq.max(event.seq);
                    if event.kind == EventKind::Stall && self.options.stops_stalled {
                        self.stop_stalled(&event);
                    }
                    self.publish(&Update::event(event));
                }
                Ok(())
            }
            Err(error) => {
                self.figures.failed_commits += 1;
                let error = describe(&error);
                tracing::warn!("commit failed: {error}");
                let last_attempt = Some(clock::tick());
                self.failed_commit = Some(FailedCommit { commit, error: error.clone(), last_attempt });
                Err(error)
            }
        }
    }

    /// Returns a new row revision. If none can be reserved, rows cannot be saved either; rows shown meanwhile get the
    /// revisions that follow.
    pub(super) fn next_rev(&mut self) -> u64 {
        if self.revs.is_empty() {
            let reserved = self.store.reserve_revs(REVS_PER_RESERVATION);
            let first = self.store.read("row revisions", reserved).unwrap_or(self.revs.end);
            self.revs = first..first + REVS_PER_RESERVATION;
        }
        self.revs.next().unwrap_or(self.revs.end)
    }

    /// Puts derived trees into the row cache and queues their changes for broadcast ([`super::row_broadcast`]). A new
    /// session is published as a snapshot at once.
    fn update_rows(&mut self, trees: Vec<Tree>) {
        if trees.is_empty() {
            return;
        }
        let (at, rev) = (clock::tick(), self.next_rev());
        for tree in trees {
            let session = tree.session.id.clone();
            match self.rows.update(tree, rev, at) {
                RowDiff::Same => {}
                RowDiff::Changed { removed } => self.broadcast.add_change(&session, removed),
                RowDiff::New => {
                    self.evictor.remove(&session);
                    self.broadcast.record_snapshot(&session, rev, at);
                    let Some(tree) = self.rows.cached(&session).cloned() else { continue };
                    self.rows_changed_at.insert(session, self.figures.seq);
                    self.publish(&Update::snapshot(tree));
                }
            }
        }
        self.broadcast_rows(false);
    }

    /// Publishes the changed rows that are due; with `is_all`, all of them.
    pub(super) fn broadcast_rows(&mut self, is_all: bool) {
        let (rows, readers) = (&self.rows, self.subscribers.len());
        for change in self.broadcast.take_due(clock::tick(), is_all, readers, &|session| rows.cached(session))
        {
            let seq = self.figures.seq;
            self.rows_changed_at.insert(change.session().id.clone(), seq);
            self.publish(&Update::change(Change { seq, ..change }));
        }
    }

    pub(super) fn publish(&mut self, update: &Update) {
        let (rows, store) = (&self.rows, &self.store);
        let tree = |session: &SessionId| rows.tree(session, store);
        let missed = &mut self.figures.missed;
        self.subscribers.retain_mut(|subscriber| {
            let is_connected = subscriber.send(update.clone(), &tree);
            let dropped = subscriber.take_dropped();
            if dropped > 0 {
                tracing::debug!(dropped, "a slow subscriber misses events");
            }
            *missed += dropped;
            is_connected
        });
    }

    /// Sends subscribers that have room again what they missed, although there is no new update.
    pub(super) fn catch_up_subscribers(&mut self) {
        let (rows, store) = (&self.rows, &self.store);
        let tree = |session: &SessionId| rows.tree(session, store);
        self.subscribers.retain_mut(|subscriber| !subscriber.is_behind() || subscriber.catch_up(&tree));
    }

    pub(super) fn publish_problem(&mut self, problem: Problem) {
        let event: Event = FeedBuilder::problem(&problem);
        let commit = Commit { events: vec![event.clone()], ..Commit::default() };
        for event in self.store.commit(&commit).unwrap_or_else(|_| vec![event]) {
            self.figures.seq = self.figures.seq.max(event.seq);
            self.publish(&Update::event(event));
        }
    }
}

/// The message of a store error followed by its causes.
pub(super) fn describe(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
