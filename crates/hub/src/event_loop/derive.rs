//! RowCache from facts, what is kept of them, and what subscribers are told.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use subscope_fold::{FeedBuilder, Now, next_deadline};
use subscope_model::{Change, Event, EventKind, Problem, SessionId, Tree, Update};
use subscope_store::{Commit, StoreError};

use super::{DERIVE_SHARE, EventLoop, PRESSED, PRESSED_SHARE, row_cache::RowDiff};
use crate::clock;

/// How many revs are reserved at once: for some minutes of work. Those of a process that ends early are lost; revs begin at
/// the microsecond in which a store was made, so that even then they never come before the clock.
const REVS: u64 = 1 << 16;

/// How long after a failed commit it is tried again.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A commit that failed. It is kept whole and tried again before anything else is read or taken, so nothing that it
/// holds is lost while the process lives. Its ingests were answered with the error; one that comes again meanwhile is
/// answered with it again, and as a repeat once the commit went through.
pub(super) struct FailedCommit {
    commit: Commit,
    error: String,
    tried: Option<Instant>,
}

impl FailedCommit {
    /// Lets the next try happen at once.
    pub(super) fn make_due(&mut self) {
        self.tried = None;
    }
}

impl EventLoop {
    /// Concludes what is pending and measures how long it takes. Not while something is failed_commit.
    pub(super) fn derive_dirty(&mut self, has_ended: bool) {
        if self.failed_commit.is_some() {
            return;
        }
        let dirty = std::mem::take(&mut self.dirty);
        let (sessions, unreadable): (Vec<SessionId>, Vec<SessionId>) =
            dirty.into_iter().partition(|session| self.is_filter_loaded(session));
        self.dirty.extend(unreadable);
        self.has_unprocessed_acked = false;
        self.recall.is_unconcluded = false;
        self.has_new_order = false;
        // A failed commit is tried again before the next turn reads anything.
        let _ = self.derive(&sessions, has_ended);
        self.last_derived = clock::tick();
    }

    /// Concludes those of what is pending that are due, each by itself: what it costs says when it is due again, so that big
    /// sessions do not hold up small ones.
    pub(super) fn derive_due(&mut self) {
        let now = clock::tick();
        if self.throttled_until.is_some_and(|until| now < until) {
            return;
        }
        let due = |session: &SessionId| self.paces.get(session).is_none_or(|next| *next <= now);
        let due: Vec<SessionId> = self.dirty.iter().filter(|session| due(session)).cloned().collect();
        if due.is_empty() {
            return;
        }
        self.paces.retain(|_, next| *next > now);
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
            self.paces.insert(session, self.last_derived + (self.last_derived - began) * DERIVE_SHARE);
        }
        if self.dirty.is_empty() {
            self.has_unprocessed_acked = false;
            self.recall.is_unconcluded = false;
            self.has_new_order = false;
        }
        // Where many wait for their answers, these go before.
        let is_pressed = self.last_group >= PRESSED;
        self.throttled_until =
            is_pressed.then(|| self.last_derived + (self.last_derived - now) * PRESSED_SHARE);
        self.last_group = 0;
    }

    /// Whether it is known which events of a session were published before. If the store cannot say, the session is derived after
    /// a pause: its events would be published twice.
    fn is_filter_loaded(&mut self, session: &SessionId) -> bool {
        let is_loaded = self.published.has_rows(session, &self.store).is_some();
        if !is_loaded {
            self.paces.insert(session.clone(), clock::tick() + RETRY_AFTER);
        }
        is_loaded
    }

    /// Concludes these sessions, shows their rows, and keeps and shows their events.
    fn derive(&mut self, sessions: &[SessionId], has_ended: bool) -> Result<(), String> {
        let sessions = &self.settle_copies(sessions);
        let at = self.look();
        let limits = self.limits();
        let now = Now { at, has_ended, is_growing: !has_ended, prices: &self.options.prices, limits };
        let (trees, mut events) = self.events.advance(&mut self.fold, sessions, &now);
        // Files of live sessions are read from their beginning: what a hub of before has told is not told again.
        let reloading: Vec<&SessionId> =
            sessions.iter().filter(|session| self.reloading.remove(*session)).collect();
        let startup_done = self.startup_done;
        let is_read_again = |session: &SessionId| !startup_done || reloading.contains(&session);
        self.published.retain(&mut events, &is_read_again, &self.store);
        for tree in &trees {
            let due = self.events.next_due(&tree.session.id);
            match next_deadline(tree, &now).into_iter().chain(due).min() {
                Some(deadline) => self.deadlines.insert(tree.session.id.clone(), deadline),
                None => self.deadlines.remove(&tree.session.id),
            };
        }
        self.note_orders(&trees);
        // They rest on what is kept; a full disk does not hide them.
        self.show(trees);
        if events.is_empty() {
            return Ok(());
        }
        let outcome = self.keep(Commit { events, ..Commit::default() });
        self.tell_failure(outcome)
    }

    /// Keeps the rows that are due, some milliseconds' worth. Only of sessions of which all that was handed over is concluded:
    /// their rows know of all that is kept of them.
    pub(super) fn write_due(&mut self) {
        let began = clock::tick();
        if self.failed_commit.is_some() || !self.rows.is_due(began) {
            return;
        }
        let due = self.rows.due(began, |session| !self.dirty.contains(session));
        let _ = self.write(&due);
        self.rows.took(&due, began, clock::tick());
    }

    /// Keeps all rows as they were last shown.
    pub(super) fn save_rows(&mut self) -> Result<(), String> {
        self.retry_failed_commit()?;
        self.derive_dirty(self.has_ended);
        self.write(&self.rows.unwritten())
    }

    pub(super) fn write(&mut self, sessions: &[SessionId]) -> Result<(), String> {
        let trees: Vec<Tree> =
            sessions.iter().filter_map(|session| self.rows.tree(session, &self.store)).collect();
        if trees.is_empty() || self.failed_commit.is_some() {
            return Ok(());
        }
        let due = |tree: &Tree| self.deadlines.get(&tree.session.id).copied();
        let deadlines = trees.iter().filter_map(|tree| Some((tree.session.id.clone(), due(tree)?))).collect();
        let held = self.duplicates.told_of(sessions);
        let outcome = self.keep(Commit {
            trees,
            is_provisional: true,
            deadlines,
            session_keys: held,
            ..Commit::default()
        });
        self.tell_failure(outcome)
    }

    fn tell_failure(&mut self, outcome: Result<(), String>) -> Result<(), String> {
        if let Err(error) = &outcome {
            let problem = Problem { at: "store".to_owned(), what: error.clone() };
            self.publish(&Update::event(FeedBuilder::problem(&problem)));
        }
        outcome
    }

    /// Takes what is known of these sessions as told.
    pub(super) fn pass_over(&mut self, sessions: &[SessionId]) {
        let (at, limits) = (self.driver.now(), self.limits());
        let now = Now { at, has_ended: false, is_growing: true, prices: &self.options.prices, limits };
        let (trees, _) = self.events.advance(&mut self.fold, sessions, &now);
        self.note_orders(&trees);
    }

    /// Tries again what could not be kept, if it is time.
    pub(super) fn retry_failed_commit(&mut self) -> Result<(), String> {
        let Some(failed_commit) = self.failed_commit.take() else { return Ok(()) };
        if failed_commit.tried.is_some_and(|tried| tried.elapsed() < RETRY_AFTER) {
            let error = failed_commit.error.clone();
            self.failed_commit = Some(failed_commit);
            return Err(error);
        }
        tracing::info!("the failed commit is tried again");
        self.keep(failed_commit.commit)
    }

    /// Keeps a commit, and shows its events once that is done.
    pub(super) fn keep(&mut self, mut commit: Commit) -> Result<(), String> {
        commit.at_ms = clock::now_ms();
        match self.store.commit(&commit) {
            Ok(events) => {
                self.figures.commits += 1;
                self.figures.events += events.len() as u64;
                let (inputs, trees) = (commit.received.len(), commit.trees.len());
                tracing::debug!(inputs, trees, events = events.len(), "committed");
                self.rows.wrote(&commit.trees);
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
                let tried = Some(clock::tick());
                self.failed_commit = Some(FailedCommit { commit, error: error.clone(), tried });
                Err(error)
            }
        }
    }

    /// A rev that no row was given. Where none can be reserved, rows are not kept either, and what is shown meanwhile gets
    /// the numbers that follow.
    pub(super) fn next_rev(&mut self) -> u64 {
        if self.revs.is_empty() {
            let reserved = self.store.reserve_revs(REVS);
            let first = self.store.read("row revisions", reserved).unwrap_or(self.revs.end);
            self.revs = first..first + REVS;
        }
        self.revs.next().unwrap_or(self.revs.end)
    }

    /// Shows trees: whoever listens is told what of them changed, at the pace that [`super::row_broadcast`] sets.
    fn show(&mut self, trees: Vec<Tree>) {
        if trees.is_empty() {
            return;
        }
        let (at, rev) = (clock::tick(), self.next_rev());
        for tree in trees {
            let session = tree.session.id.clone();
            match self.rows.show(tree, rev, at) {
                RowDiff::Same => {}
                RowDiff::Changed { removed } => self.broadcast.add(&session, removed),
                RowDiff::New => {
                    self.evictor.goes_on(&session);
                    self.broadcast.told_whole(&session, rev, at);
                    let Some(tree) = self.rows.shown(&session).cloned() else { continue };
                    self.moved.insert(session, self.figures.seq);
                    self.publish(&Update::snapshot(tree));
                }
            }
        }
        self.broadcast_rows(false);
    }

    /// Tells the rows that are due; all where nothing may wait.
    pub(super) fn broadcast_rows(&mut self, is_all: bool) {
        let (rows, readers) = (&self.rows, self.subscribers.len());
        for change in self.broadcast.take(clock::tick(), is_all, readers, &|session| rows.shown(session)) {
            let seq = self.figures.seq;
            self.moved.insert(change.session().id.clone(), seq);
            self.publish(&Update::change(Change { seq, ..change }));
        }
    }

    pub(super) fn publish(&mut self, update: &Update) {
        let (rows, store) = (&self.rows, &self.store);
        let tree = |session: &SessionId| rows.tree(session, store);
        let missed = &mut self.figures.missed;
        self.subscribers.retain_mut(|subscriber| {
            let is_there = subscriber.send(update.clone(), &tree);
            let dropped = subscriber.take_dropped();
            if dropped > 0 {
                tracing::debug!(dropped, "a slow subscriber misses events");
            }
            *missed += dropped;
            is_there
        });
    }

    /// Tells subscribers that have room again what they missed, although nothing new happens.
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

/// An error with its causes, for people.
pub(super) fn describe(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
