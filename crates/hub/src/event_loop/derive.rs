//! Derives rows and events from facts, commits them and publishes them; retries failed commits.

use std::time::{Duration, Instant};

use subscope_model::{AgentId, Event, EventKind, Problem, SessionId, Tree, Update};
use subscope_session::{Limits, Now, SessionUpdate, problem_event};
use subscope_store::{Commit, StoreError};

use super::{
    EventLoop,
    budget::BudgetWatch,
    duty_cycle::DutyCycle,
    session_slot::{LoadedSession, StopOrders, Task},
};
use crate::{command::IngestError, read_view::describe};

/// Revisions reserved at once: enough for some minutes. Unused ones of a process that ends are skipped. Revisions begin
/// at the microsecond at which the store was created; even with skipped ones they stay lower than the clock.
const REVS_PER_RESERVATION: u64 = 1 << 16;

/// Pause before a failed commit is retried.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Pause of a session after it was derived, as a multiple of the time that took: a big session is derived less often.
const SESSION_PAUSE: u32 = 4;

/// Ingests in one commit from which deriving is throttled, so that acknowledgements come first.
const THROTTLE_FROM_INGESTS: usize = 8;
/// Pause of all deriving in that case, as a multiple of the time that deriving took.
const THROTTLE_PAUSE: u32 = 6;

/// How often sessions are derived.
pub(super) struct DerivePace {
    pub(super) last_derived: Instant,
    /// Most ingests in one commit since the last derivation.
    pub(super) largest_ingest_batch: usize,
    pub(super) throttle: DutyCycle,
}

impl DerivePace {
    pub(super) fn new(now: Instant) -> Self {
        Self { last_derived: now, largest_ingest_batch: 0, throttle: DutyCycle::new(THROTTLE_PAUSE) }
    }
}

/// A commit that failed. It is kept whole and retried before any other input is read or accepted, so nothing in it is
/// lost while the process lives. Its ingests were answered with the error; a repeat of one is answered with the error
/// again until the commit succeeds, then as a repeat.
pub(super) struct FailedCommit {
    commit: Commit,
    error: IngestError,
    last_attempt: Option<Instant>,
}

impl FailedCommit {
    /// Makes the next retry due immediately.
    pub(super) fn make_due(&mut self) {
        self.last_attempt = None;
    }
}

impl EventLoop {
    /// Schedules that these sessions are derived: they have changes, or a moment has come at which they change.
    pub(super) fn mark_dirty(&mut self, sessions: impl IntoIterator<Item = SessionId>) {
        self.sessions.mark_dirty(sessions, self.time.tick());
    }

    /// Derives all dirty sessions. Does nothing while a failed commit is pending.
    pub(super) fn derive_dirty(&mut self, has_ended: bool) {
        if self.has_failed_commit() {
            return;
        }
        let mut dirty = self.sessions.with_task(Task::Derive);
        dirty.retain(|session| self.is_ready(session));
        for session in &dirty {
            self.sessions.schedule(session, Task::Derive, None);
        }
        self.mark_all_derived();
        // A failed commit is retried before the next turn reads anything.
        let _ = self.derive(&dirty, has_ended);
        self.pace.derive.last_derived = self.time.tick();
    }

    /// Derives the dirty sessions that are due, one by one. The time that each takes decides when it is due again, so
    /// that big sessions do not delay small ones.
    pub(super) fn derive_due(&mut self) {
        let began = self.time.tick();
        if !self.pace.derive.throttle.pause_left(began).is_zero() {
            return;
        }
        let due = self.sessions.due(Task::Derive, began);
        if due.is_empty() {
            return;
        }
        for session in due {
            if self.has_failed_commit() {
                return;
            }
            if !self.is_ready(&session) {
                continue;
            }
            self.sessions.schedule(&session, Task::Derive, None);
            let began = self.time.tick();
            let _ = self.derive(std::slice::from_ref(&session), false);
            let ended = self.time.tick();
            self.pace.derive.last_derived = ended;
            if let Some(loaded) = self.sessions.loaded_mut(&session) {
                loaded.derive_after = Some(DutyCycle::new(SESSION_PAUSE).record(began, ended));
            }
        }
        if self.sessions.has_none(Task::Derive) {
            self.mark_all_derived();
        }
        // While many ingests wait for acknowledgement, these come first.
        let pace = &mut self.pace.derive;
        if pace.largest_ingest_batch >= THROTTLE_FROM_INGESTS {
            pace.throttle.record(began, pace.last_derived);
        } else {
            pace.throttle.resume();
        }
        pace.largest_ingest_batch = 0;
    }

    /// Derives one session if it is dirty and can be derived now.
    pub(super) fn derive_one(&mut self, session: &SessionId) {
        if !self.sessions.is_dirty(session) || self.has_failed_commit() || !self.is_ready(session) {
            return;
        }
        // A failed commit is retried before the next turn reads anything.
        let _ = self.derive(std::slice::from_ref(session), false);
        self.pace.derive.last_derived = self.time.tick();
        if self.sessions.has_none(Task::Derive) {
            self.mark_all_derived();
        }
    }

    fn mark_all_derived(&mut self) {
        self.pending.has_underived = false;
        self.startup.has_underived_replay = false;
        self.pending.has_new_order = false;
    }

    /// Whether the published events of a session are known and everything is loaded that its stored rows were derived
    /// from. If the store cannot be read, the session is derived after a pause: otherwise its events would be published
    /// twice, or its rows would have less.
    fn is_ready(&mut self, session: &SessionId) -> bool {
        let is_ready = self.has_stored_rows(session).is_some() && self.complete(session);
        if !is_ready {
            let retry = self.time.tick() + RETRY_AFTER;
            self.sessions.schedule(session, Task::Derive, Some(retry));
        }
        is_ready
    }

    /// Derives these sessions, updates their rows, and commits and publishes their events.
    fn derive(&mut self, sessions: &[SessionId], has_ended: bool) -> Result<(), IngestError> {
        for session in sessions {
            // This derivation covers all input that was read for it.
            self.sessions.schedule(session, Task::Derive, None);
        }
        let sessions = &self.resolve_duplicates(sessions);
        let at = self.read_clock();
        let limits = self.limits();
        let (mut trees, mut events) = (Vec::new(), Vec::new());
        for session in sessions {
            let Some(loaded) = self.sessions.loaded_mut(session) else { continue };
            let is_reread = loaded.input.derive() || !self.startup.is_done;
            let (is_growing, limits) = (!has_ended, limits.clone());
            let now = Now { at, has_ended, is_growing, prices: &self.options.prices, limits };
            let published =
                loaded.published(session, &self.startup, &self.store, &self.router, &*self.driver);
            let update = match published.is_some_and(|published| published.is_settled(is_reread)) {
                true => self.router.update_settled(session, &now),
                false => self.router.update(session, &now),
            };
            let Some(mut update) = update else {
                self.sessions.set_deadline(session, None);
                continue;
            };
            let Now { limits, .. } = now;
            let has_joined = self.joins_facts_for(session, &update.tree);
            let now = Now { at, has_ended, is_growing, prices: &self.options.prices, limits };
            if has_joined && let Some(again) = self.router.update(session, &now) {
                update.events.extend(again.events);
                (update.tree, update.deadline) = (again.tree, again.deadline);
            }
            let mut budget = BudgetWatch {
                budgets: self.options.budgets,
                zone: &self.options.zone,
                day_cost: &mut self.day_cost,
                sessions: &mut self.sessions,
                store: &self.store,
            };
            update.events.extend(budget.alerts(&update.tree, at));
            // Files of live sessions are read from their beginning: drop events that an earlier hub published.
            let loaded = self.sessions.loaded(session);
            if let Some(published) = loaded.and_then(|loaded| loaded.published.as_ref()) {
                published.retain_new(&mut update.events, is_reread);
            }
            let orders = StopOrders::Known(agents_to_stop(&update.tree));
            self.sessions.change_stop_orders(session, |known| *known = orders);
            self.sessions.set_deadline(session, update.deadline);
            events.extend(update.events);
            trees.push(self.retain_rows(session, update.tree));
        }
        // Rows are derived from saved input: they are shown even if the disk is full.
        self.update_rows(trees);
        if events.is_empty() {
            return Ok(());
        }
        let outcome = self.commit(Commit { events, ..Commit::default() });
        self.publish_failure(outcome)
    }

    pub(super) fn publish_failure(&mut self, outcome: Result<(), IngestError>) -> Result<(), IngestError> {
        if let Err(error) = &outcome {
            let problem = Problem { at: "store".to_owned(), what: error.to_string() };
            self.publish(&Update::event(problem_event(&problem)));
        }
        outcome
    }

    /// Publishes the new events of a session whose input is being read, so that they need no memory. Its rows wait until
    /// all of it is read.
    pub(super) fn publish_events(&mut self, session: &SessionId) {
        if self.has_failed_commit() {
            return;
        }
        let now = Now {
            at: self.driver.now(),
            has_ended: false,
            is_growing: true,
            prices: &self.options.prices,
            limits: Limits::endless(),
        };
        let Some(SessionUpdate { mut events, .. }) = self.router.update(session, &now) else { return };
        if let Some(published) = self.published(session) {
            published.retain_new(&mut events, true);
        }
        if !events.is_empty() {
            let outcome = self.commit(Commit { events, ..Commit::default() });
            let _ = self.publish_failure(outcome);
        }
    }

    /// Looks for orders to stop in replayed input of these sessions that is not derived yet.
    pub(super) fn find_replayed_orders(&mut self, sessions: &[SessionId]) {
        let is_outdated = |loaded: &LoadedSession| matches!(loaded.stop_orders, StopOrders::Outdated(_));
        let unknown: Vec<_> =
            sessions.iter().filter(|id| self.sessions.loaded(id).is_some_and(is_outdated)).collect();
        if unknown.is_empty() {
            return;
        }
        let (at, limits) = (self.driver.now(), self.limits());
        let now = Now { at, has_ended: false, is_growing: true, prices: &self.options.prices, limits };
        for session in unknown {
            let tree = self.router.tree(session, &now);
            let orders = StopOrders::Known(tree.as_ref().map(agents_to_stop).unwrap_or_default());
            self.sessions.change_stop_orders(session, |known| *known = orders);
        }
    }

    pub(super) fn has_failed_commit(&self) -> bool {
        self.store.failed_commit.is_some()
    }

    /// Retries the failed commit, if there is one and its pause has passed. Returns its error while it is still
    /// pending.
    pub(super) fn retry_failed_commit(&mut self) -> Result<(), IngestError> {
        let Some(failed_commit) = self.store.failed_commit.take() else { return Ok(()) };
        let now = self.time.tick();
        if failed_commit.last_attempt.is_some_and(|at| now.duration_since(at) < RETRY_AFTER) {
            let error = failed_commit.error.clone();
            self.store.failed_commit = Some(failed_commit);
            return Err(error);
        }
        tracing::info!("the failed commit is tried again");
        self.commit(failed_commit.commit)
    }

    /// Commits, then publishes the committed events. A commit that fails becomes the [`FailedCommit`].
    pub(super) fn commit(&mut self, mut commit: Commit) -> Result<(), IngestError> {
        commit.at_ms = self.time.now_ms();
        match self.store.commit(&commit) {
            Ok(events) => {
                self.figures.commits += 1;
                self.figures.events += events.len() as u64;
                let (inputs, trees) = (commit.received.len(), commit.trees.len());
                tracing::debug!(inputs, trees, events = events.len(), "committed");
                for tree in &commit.trees {
                    self.sessions.schedule(&tree.session.id, Task::Save, None);
                }
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
                let error = IngestError::from(&error);
                tracing::warn!("commit failed: {error}");
                let last_attempt = Some(self.time.tick());
                self.store.failed_commit = Some(FailedCommit { commit, error: error.clone(), last_attempt });
                Err(error)
            }
        }
    }

    /// Returns a new row revision. If none can be reserved, rows cannot be saved either; rows shown meanwhile get the
    /// revisions that follow.
    pub(super) fn next_rev(&mut self) -> u64 {
        if self.store.revs.is_empty() {
            let reserved = self.store.reserve_revs(REVS_PER_RESERVATION);
            let reserved = self.store.read("row revisions", reserved);
            self.store.has_reserved_revs |= reserved.is_some();
            let first = reserved.unwrap_or(self.store.revs.end);
            self.store.revs = first..first + REVS_PER_RESERVATION;
        }
        self.store.revs.next().unwrap_or(self.store.revs.end)
    }

    /// Returns a revision that is greater than those of all rows so far and not greater than those of later ones; `None`
    /// if this hub has no revisions yet, or none that continue the store's.
    pub(super) fn next_unused_rev(&self) -> Option<u64> {
        self.store.has_reserved_revs.then_some(self.store.revs.start)
    }

    pub(super) fn publish(&mut self, update: &Update) {
        // Taken out while each subscriber may ask for rows.
        let mut subscribers = std::mem::take(&mut self.subscribers);
        let mut missed = 0;
        subscribers.retain_mut(|subscriber| {
            let is_connected = subscriber.send(update.clone(), &|session| self.tree(session));
            let dropped = subscriber.take_dropped();
            if dropped > 0 {
                tracing::debug!(dropped, "a slow subscriber misses events");
            }
            missed += dropped;
            is_connected
        });
        self.subscribers = subscribers;
        self.figures.missed += missed;
    }

    /// Sends subscribers that have room again what they missed, although there is no new update.
    pub(super) fn catch_up_subscribers(&mut self) {
        let mut subscribers = std::mem::take(&mut self.subscribers);
        subscribers.retain_mut(|subscriber| {
            !subscriber.is_behind() || subscriber.catch_up(&|session| self.tree(session))
        });
        self.subscribers = subscribers;
    }

    pub(super) fn publish_problem(&mut self, problem: Problem) {
        let event: Event = problem_event(&problem);
        let commit = Commit { events: vec![event.clone()], ..Commit::default() };
        for event in self.store.commit(&commit).unwrap_or_else(|_| vec![event]) {
            self.figures.seq = self.figures.seq.max(event.seq);
            self.publish(&Update::event(event));
        }
    }
}

impl From<&StoreError> for IngestError {
    fn from(error: &StoreError) -> Self {
        Self::Store(describe(error))
    }
}

/// Agents of a tree with a pending stop order.
fn agents_to_stop(tree: &Tree) -> Vec<AgentId> {
    tree.agents.iter().filter(|row| row.is_to_stop()).map(|row| row.id.clone()).collect()
}
