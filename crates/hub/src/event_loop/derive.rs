//! Derives rows and events from facts, commits them and publishes them; retries failed commits.

use std::time::{Duration, Instant};

use subscope_model::{AgentId, Event, EventKind, Problem, SessionId, Tree, Update};
use subscope_session::{Limits, SessionUpdate, problem_event};
use subscope_store::Commit;

use super::{
    EventLoop,
    budget::BudgetWatch,
    duplicates::ComparedSessions,
    duty_cycle::DutyCycle,
    hub_store::RETRY_AFTER,
    session_slot::{LoadedSession, StopOrders, Task},
};
use crate::command::IngestError;

/// Pause of a session after it was derived, as a multiple of the time that took: a big session is derived less often.
const SESSION_PAUSE: u32 = 4;

/// Ingests in one commit from which deriving is throttled, so that acknowledgements come first.
const THROTTLE_FROM_INGESTS: usize = 8;
/// Pause of all deriving in that case, as a multiple of the time that deriving took.
const THROTTLE_PAUSE: u32 = 6;

/// Time that deriving takes of a turn, the session in which it ends not counted: input waits for its acknowledgement
/// meanwhile.
const TURN_TIME: Duration = Duration::from_millis(10);

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

impl EventLoop {
    /// Schedules that these sessions are derived: they have changes, or a moment has come at which they change.
    pub(super) fn mark_dirty(&mut self, sessions: impl IntoIterator<Item = SessionId>) {
        self.sessions.mark_dirty(sessions, self.time.tick());
    }

    /// Derives all dirty sessions.
    pub(super) fn derive_dirty(&mut self, has_ended: bool) {
        self.derive_ready(self.sessions.with_task(Task::Derive), has_ended);
    }

    /// Derives those of these dirty sessions that can be derived now. Does nothing while a failed commit is pending.
    pub(super) fn derive_ready(&mut self, mut sessions: Vec<SessionId>, has_ended: bool) {
        if self.store.has_failed_commit() {
            return;
        }
        sessions.retain(|session| self.is_ready(session));
        // A failed commit is retried before the next turn reads anything.
        let _ = self.derive(&sessions, has_ended);
        self.pace.derive.last_derived = self.time.tick();
        if self.sessions.has_none(Task::Derive) {
            (self.pending.has_underived, self.pending.has_new_order) = (false, false);
            self.startup.has_underived_replay = false;
        }
    }

    /// Derives the dirty sessions that are due, one by one, the longest waiting first, until a turn's time is over. The
    /// time that each takes decides when it is due again, so that big sessions do not delay small ones.
    pub(super) fn derive_due(&mut self) {
        let began = self.time.tick();
        if !self.pace.derive.throttle.pause_left(began).is_zero() {
            return;
        }
        let scheduled = self.sessions.scheduled(Task::Derive).take_while(|(at, _)| *at <= began);
        let due: Vec<SessionId> = scheduled.map(|(_, session)| session.clone()).collect();
        if due.is_empty() {
            return;
        }
        let mut ended = began;
        for session in due {
            if self.store.has_failed_commit() {
                return;
            }
            let session_began = ended;
            self.derive_ready(vec![session.clone()], false);
            ended = self.pace.derive.last_derived;
            if let Some(loaded) = self.sessions.loaded_mut(&session) {
                loaded.derive_after = Some(DutyCycle::new(SESSION_PAUSE).record(session_began, ended));
            }
            if ended.duration_since(began) >= TURN_TIME {
                break;
            }
        }
        // While many ingests wait for acknowledgement, these come first.
        let pace = &mut self.pace.derive;
        if pace.largest_ingest_batch >= THROTTLE_FROM_INGESTS {
            pace.throttle.record(began, ended);
        } else {
            pace.throttle.resume();
        }
        pace.largest_ingest_batch = 0;
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
        let Self { duplicates, sessions: table, router, store, .. } = self;
        let ComparedSessions { loaded: sessions, evicted } =
            duplicates.resolve(sessions, table, router, store);
        for session in evicted {
            if self.driver.reload_evicted(&session, &mut self.router) {
                self.ensure_replayed(&session);
                self.sessions.record_reread(&session);
                self.mark_dirty([session]);
            }
        }
        let at = self.read_clock();
        let limits = self.limits();
        let (mut trees, mut events) = (Vec::new(), Vec::new());
        for session in &sessions {
            let Some(loaded) = self.sessions.loaded_mut(session) else { continue };
            let is_reread = loaded.input.derive() || !self.startup.is_done;
            let is_settled = self.published(session).is_some_and(|it| it.is_settled(is_reread));
            let now = self.options.now(at, has_ended, limits.clone());
            let update = match is_settled {
                true => self.router.update_settled(session, &now),
                false => self.router.update(session, &now),
            };
            let Some(mut update) = update else {
                self.sessions.set_deadline(session, None);
                continue;
            };
            if self.joins_facts_for(session, &update.tree)
                && let now = self.options.now(at, has_ended, limits.clone())
                && let Some(again) = self.router.update(session, &now)
            {
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
            self.sessions.set_stop_orders(session, agents_to_stop(&update.tree));
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
        if self.store.has_failed_commit() {
            return;
        }
        let now = self.options.now(self.driver.now(), false, Limits::endless());
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
        let now = self.options.now(self.driver.now(), false, self.limits());
        for session in unknown {
            let tree = self.router.tree(session, &now);
            self.sessions.set_stop_orders(session, tree.as_ref().map(agents_to_stop).unwrap_or_default());
        }
    }

    /// Retries the failed commit, if there is one and its pause has passed. Returns its error while it is still
    /// pending.
    pub(super) fn retry_failed_commit(&mut self) -> Result<(), IngestError> {
        let Some(commit) = self.store.take_failed_commit(self.time.tick())? else { return Ok(()) };
        tracing::info!("the failed commit is tried again");
        self.commit(commit)
    }

    /// Commits, then publishes the committed events. A commit that fails is kept and retried.
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
                Err(self.store.keep_failed_commit(commit, &error, self.time.tick()))
            }
        }
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

/// Agents of a tree with a pending stop order.
fn agents_to_stop(tree: &Tree) -> Vec<AgentId> {
    tree.agents.iter().filter(|row| row.is_to_stop()).map(|row| row.id.clone()).collect()
}
