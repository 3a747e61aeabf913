//! The table of sessions: everything that the hub knows of a session except its facts and its stored rows, and when
//! work on it is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use subscope_model::{Agent, AgentId, Millis, SessionId, Tree};
use subscope_store::SourceFile;

use super::{
    budget::SessionCost, duplicates::LiveKeys, inbox_replay::SessionInput, publish_dedup::PublishedEvents,
    retained::RetainedState, row_broadcast::BroadcastState,
};

/// Work on a session that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Derive it: it has changes.
    Derive,
    /// Send its changed rows to subscribers.
    Broadcast,
    /// Save its rows.
    Save,
    /// Read again what could not be read of it.
    Retry,
}

/// All sessions of which the hub knows more than the store.
#[derive(Default)]
pub(super) struct SessionTable {
    slots: BTreeMap<SessionId, SessionSlot>,
    /// Sessions with each [`Task`], by time.
    tasks: [BTreeSet<(Instant, SessionId)>; 4],
    /// Deadlines by time.
    deadlines: BTreeSet<(Millis, SessionId)>,
    /// Number of recently evicted sessions.
    recent: usize,
    /// Number of sessions with unprocessed input.
    unprocessed: usize,
    /// Number of sessions with agents that are to stop.
    stopping: usize,
}

/// A session in memory, and what outlasts its eviction.
#[derive(Default)]
struct SessionSlot {
    /// `None` while it is evicted: then it is served from the store.
    live: Option<Box<LiveSession>>,
    /// Sequence number of the change log before the commit that last changed its rows.
    rows_changed_at: Option<u64>,
    /// Time of the last derivation before it was evicted, if that is not long ago.
    recent_since: Option<Instant>,
    /// Whether the inbox has acknowledged input of it that no rows contain.
    is_unprocessed: bool,
    /// Time at which it began, if its stored keys are among those that are compared for duplicates.
    stored_keys_since: Option<Millis>,
    /// Time at which its rows may change without new input: then it is loaded, if it is not in memory.
    deadline: Option<Millis>,
}

/// A session in memory.
#[derive(Default)]
pub(super) struct LiveSession {
    /// When each [`Task`] is due; `None` if there is nothing to do.
    due: [Option<Instant>; 4],
    /// It is not derived before this time, so that big sessions do not delay small ones.
    pub(super) derive_after: Option<Instant>,
    /// Its rows as last derived, and when. Shared with the questions that are being answered from them.
    pub(super) rows: Option<(Arc<Tree>, Instant)>,
    pub(super) broadcast: Option<BroadcastState>,
    /// Agents with a pending order to stop.
    stop_orders: Vec<AgentId>,
    /// Whether its input was replayed and not yet searched for stop orders.
    has_unknown_orders: bool,
    /// Whether its files are being read for the first time; until then its stored rows are served.
    pub(super) is_loading: bool,
    /// Whether its input was read again since the last derivation.
    pub(super) is_reloading: bool,
    /// Whether it was running when the hub started and only its inbox input was replayed: it is derived when silence
    /// counts.
    pub(super) is_replayed_running: bool,
    /// Whether only the start-up scan loaded it, so that it may be evicted as soon as it is idle.
    pub(super) evicts_after_startup: bool,
    /// Whether only a deadline loaded it, so that it may be evicted as soon as its rows are saved.
    pub(super) is_due_only: bool,
    /// Whether everything that its stored rows were derived from is in the router.
    pub(super) is_complete: bool,
    /// Files that were read although the driver does not tail them.
    pub(super) backfilled: Vec<SourceFile>,
    /// Those of them that are not saved as its sources.
    pub(super) unsaved_files: Vec<SourceFile>,
    /// What could not be read of it, or is in no file any more.
    pub(super) retained: RetainedState,
    /// What an earlier hub process published of it; `None` until it is needed.
    pub(super) published: Option<PublishedEvents>,
    /// Its input from programs, once all of it is in the router.
    pub(super) inbox: Option<SessionInput>,
    pub(super) keys: Option<LiveKeys>,
    pub(super) cost: SessionCost,
}

impl LiveSession {
    /// Rows as last derived.
    pub(super) fn tree(&self) -> Option<&Arc<Tree>> {
        self.rows.as_ref().map(|(tree, _)| tree)
    }

    /// Whether a task is to be done, now or later.
    pub(super) fn has(&self, task: Task) -> bool {
        self.due(task).is_some()
    }

    /// Time at which a task is due.
    pub(super) fn due(&self, task: Task) -> Option<Instant> {
        self.due[task as usize]
    }

    /// Whether it has rows, all saved, without running agents. Returns the time of the last derivation.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let (tree, derived_at) = self.rows.as_ref()?;
        (is_idle(tree) && !self.has(Task::Save)).then_some(*derived_at)
    }

    /// Time of the last derivation.
    pub(super) fn derived_at(&self) -> Option<Instant> {
        self.rows.as_ref().map(|(_, derived_at)| *derived_at)
    }

    /// Whether work on it is pending, so that it cannot be evicted.
    pub(super) fn is_busy(&self) -> bool {
        self.has(Task::Derive)
            || self.has(Task::Broadcast)
            || self.is_loading
            || self.is_reloading
            || !self.stop_orders.is_empty()
    }
}

impl SessionTable {
    /// A session in memory.
    pub(super) fn live(&self, session: &SessionId) -> Option<&LiveSession> {
        self.slots.get(session)?.live.as_deref()
    }

    /// A session in memory, for changes.
    pub(super) fn live_mut(&mut self, session: &SessionId) -> Option<&mut LiveSession> {
        self.slots.get_mut(session)?.live.as_deref_mut()
    }

    /// A session in memory; added if it is missing.
    pub(super) fn load(&mut self, session: &SessionId) -> &mut LiveSession {
        self.slot(session).live.get_or_insert_default()
    }

    fn slot(&mut self, session: &SessionId) -> &mut SessionSlot {
        self.slots.entry(session.clone()).or_default()
    }

    /// All sessions in memory, in order of their ids.
    pub(super) fn all(&self) -> impl Iterator<Item = (&SessionId, &LiveSession)> {
        self.slots.iter().filter_map(|(id, slot)| Some((id, slot.live.as_deref()?)))
    }

    /// The same, for changes.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (&SessionId, &mut LiveSession)> {
        self.slots.iter_mut().filter_map(|(id, slot)| Some((id, slot.live.as_deref_mut()?)))
    }

    /// Sessions with rows in memory.
    pub(super) fn with_rows(&self) -> impl Iterator<Item = (&SessionId, &Arc<Tree>)> {
        self.all().filter_map(|(id, live)| Some((id, live.tree()?)))
    }

    /// Rows of a session in memory.
    pub(super) fn tree(&self, session: &SessionId) -> Option<&Arc<Tree>> {
        self.live(session)?.tree()
    }

    pub(super) fn has_rows(&self, session: &SessionId) -> bool {
        self.tree(session).is_some()
    }

    /// Sets the time at which a task of a session in memory is due; `None` if there is nothing to do.
    pub(super) fn schedule(&mut self, session: &SessionId, task: Task, at: Option<Instant>) {
        let Some(live) = self.slots.get_mut(session).and_then(|slot| slot.live.as_mut()) else { return };
        let before = std::mem::replace(&mut live.due[task as usize], at);
        let tasks = &mut self.tasks[task as usize];
        if let Some(before) = before.filter(|_| before != at) {
            tasks.remove(&(before, session.clone()));
        }
        tasks.extend(at.filter(|_| before != at).map(|at| (at, session.clone())));
    }

    /// Sessions with a task, with its time, the earliest first.
    pub(super) fn scheduled(&self, task: Task) -> impl Iterator<Item = (Instant, &SessionId)> {
        self.tasks[task as usize].iter().map(|(at, session)| (*at, session))
    }

    /// Whether no session has a task.
    pub(super) fn has_none(&self, task: Task) -> bool {
        self.tasks[task as usize].is_empty()
    }

    /// Sets the time at which a session's rows may change without new input. It stays when the session is evicted.
    pub(super) fn set_deadline(&mut self, session: &SessionId, deadline: Option<Millis>) {
        let slot = self.slots.get_mut(session);
        if let Some(before) = slot.and_then(|slot| slot.deadline.take()) {
            self.deadlines.remove(&(before, session.clone()));
        }
        if let Some(deadline) = deadline {
            self.slot(session).deadline = Some(deadline);
            self.deadlines.insert((deadline, session.clone()));
        }
    }

    pub(super) fn deadline_of(&self, session: &SessionId) -> Option<Millis> {
        self.slots.get(session)?.deadline
    }

    /// Sessions with a deadline, the earliest first.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = (Millis, &SessionId)> {
        self.deadlines.iter().map(|(deadline, session)| (*deadline, session))
    }

    /// Records the sequence number of the change log before a change of a session's rows.
    pub(super) fn record_change(&mut self, session: &SessionId, seq: u64) {
        self.slot(session).rows_changed_at = Some(seq);
    }

    /// Sessions whose rows changed since a sequence number.
    pub(super) fn changed_since(&self, seq: u64) -> impl Iterator<Item = &SessionId> {
        self.sessions(move |slot| slot.rows_changed_at.is_some_and(|changed| changed >= seq))
    }

    /// Drops a session from memory. `derived_at` is set if new subscribers still get it in their snapshots.
    pub(super) fn evict(&mut self, session: &SessionId, derived_at: Option<Instant>) {
        for task in [Task::Derive, Task::Broadcast, Task::Save, Task::Retry] {
            self.schedule(session, task, None);
        }
        self.set_stop_orders(session, Vec::new());
        self.end_eviction(session);
        self.recent += usize::from(derived_at.is_some());
        let slot = self.slot(session);
        (slot.live, slot.recent_since) = (None, derived_at);
    }

    /// Records that an evicted session has rows in memory again.
    pub(super) fn end_eviction(&mut self, session: &SessionId) {
        let since = self.slots.get_mut(session).and_then(|slot| slot.recent_since.take());
        self.recent -= usize::from(since.is_some());
    }

    /// Number of recently evicted sessions.
    pub(super) fn recent_count(&self) -> usize {
        self.recent
    }

    /// Recently evicted sessions.
    pub(super) fn recently_evicted(&self) -> impl Iterator<Item = &SessionId> {
        self.sessions(|slot| slot.recent_since.is_some())
    }

    pub(super) fn is_recently_evicted(&self, session: &SessionId) -> bool {
        self.slots.get(session).is_some_and(|slot| slot.recent_since.is_some())
    }

    /// Forgets evictions that `is_recent` denies.
    pub(super) fn expire_evictions(&mut self, is_recent: impl Fn(Instant) -> bool) {
        if self.recent == 0 {
            return;
        }
        for slot in self.slots.values_mut() {
            slot.recent_since = slot.recent_since.filter(|since| is_recent(*since));
        }
        self.slots.retain(|_, slot| !slot.is_empty());
        self.recent = self.recently_evicted().count();
    }

    /// Records that the inbox has acknowledged input of these sessions that no rows contain.
    pub(super) fn add_unprocessed(&mut self, sessions: impl IntoIterator<Item = SessionId>) {
        for session in sessions {
            let before = std::mem::replace(&mut self.slot(&session).is_unprocessed, true);
            self.unprocessed += usize::from(!before);
        }
    }

    /// Records that a session's input from the inbox is replayed.
    pub(super) fn end_unprocessed(&mut self, session: &SessionId) {
        let slot = self.slots.get_mut(session);
        let before = slot.is_some_and(|slot| std::mem::take(&mut slot.is_unprocessed));
        self.unprocessed -= usize::from(before);
    }

    /// Whether the inbox has acknowledged input of a session that no rows contain.
    pub(super) fn is_unprocessed(&self, session: &SessionId) -> bool {
        self.slots.get(session).is_some_and(|slot| slot.is_unprocessed)
    }

    /// Sessions of which the inbox has acknowledged input that no rows contain.
    pub(super) fn unprocessed(&self) -> impl Iterator<Item = &SessionId> {
        self.sessions(|slot| slot.is_unprocessed)
    }

    /// Number of [`SessionTable::unprocessed`].
    pub(super) fn unprocessed_count(&self) -> usize {
        self.unprocessed
    }

    /// Sets the agents of a session in memory that are to stop.
    pub(super) fn set_stop_orders(&mut self, session: &SessionId, agents: Vec<AgentId>) {
        let Some(live) = self.slots.get_mut(session).and_then(|slot| slot.live.as_mut()) else { return };
        live.has_unknown_orders = false;
        self.stopping += usize::from(!agents.is_empty());
        let before = std::mem::replace(&mut live.stop_orders, agents);
        self.stopping -= usize::from(!before.is_empty());
    }

    /// Records that a session's input was replayed: it may contain orders.
    pub(super) fn expect_stop_orders(&mut self, session: &SessionId) {
        self.load(session).has_unknown_orders = true;
    }

    /// Whether a session's input was replayed and not yet searched for stop orders.
    pub(super) fn has_unknown_orders(&self, session: &SessionId) -> bool {
        self.live(session).is_some_and(|live| live.has_unknown_orders)
    }

    /// Agents of a session in memory that are to stop.
    pub(super) fn stop_orders(&self, session: &SessionId) -> &[AgentId] {
        self.live(session).map_or(&[], |live| live.stop_orders.as_slice())
    }

    /// Whether some agent is to stop.
    pub(super) fn has_stop_orders(&self) -> bool {
        self.stopping > 0
    }

    /// Sets the time at which a session began whose stored keys are compared for duplicates; `None` if they are not.
    pub(super) fn set_stored_keys(&mut self, session: &SessionId, began_ms: Option<Millis>) {
        self.slot(session).stored_keys_since = began_ms;
    }

    /// Time at which a session began whose stored keys are compared for duplicates.
    pub(super) fn stored_keys_since(&self, session: &SessionId) -> Option<Millis> {
        self.slots.get(session)?.stored_keys_since
    }

    /// Forgets which sessions' stored keys are compared for duplicates. Returns them.
    pub(super) fn take_stored_keys(&mut self) -> Vec<SessionId> {
        let slots = self.slots.iter_mut();
        slots.filter_map(|(id, slot)| slot.stored_keys_since.take().map(|_| id.clone())).collect()
    }

    /// Sessions by state.
    fn sessions(&self, is_wanted: impl Fn(&SessionSlot) -> bool) -> impl Iterator<Item = &SessionId> {
        self.slots.iter().filter(move |(_, slot)| is_wanted(slot)).map(|(id, _)| id)
    }
}

impl SessionSlot {
    fn is_empty(&self) -> bool {
        let Self { live, rows_changed_at, recent_since, is_unprocessed, stored_keys_since, deadline } = self;
        live.is_none()
            && rows_changed_at.is_none()
            && recent_since.is_none()
            && !is_unprocessed
            && stored_keys_since.is_none()
            && deadline.is_none()
    }
}

/// Whether a session has no running agent.
pub(super) fn is_idle(tree: &Tree) -> bool {
    !tree.agents.iter().any(Agent::is_at_work)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn task_of_a_session_is_due_once_at_its_latest_time() {
        let (mut table, now) = (SessionTable::default(), crate::clock::tick());
        let (one, two) = (SessionId::from("1"), SessionId::from("2"));
        for (session, ms) in [(&one, 5), (&two, 3), (&one, 1), (&two, 3)] {
            table.load(session);
            table.schedule(session, Task::Save, Some(now + Duration::from_millis(ms)));
        }
        let due: Vec<&SessionId> = table.scheduled(Task::Save).map(|(_, session)| session).collect();
        assert_eq!(due, [&one, &two]);
        assert!(table.has_none(Task::Derive));
        table.schedule(&one, Task::Save, None);
        assert_eq!(table.scheduled(Task::Save).count(), 1);
        table.evict(&two, None);
        assert!(table.has_none(Task::Save));
    }

    #[test]
    fn evicted_session_leaves_nothing_but_its_change_number() {
        let (mut table, now) = (SessionTable::default(), crate::clock::tick());
        for name in ["1", "2"] {
            let session = SessionId::from(name);
            table.load(&session);
            table.set_deadline(&session, Some(7));
            table.evict(&session, Some(now));
            assert_eq!(table.deadline_of(&session), Some(7), "it is loaded when it is due");
            table.set_deadline(&session, None);
        }
        table.record_change(&"1".into(), 40);
        assert_eq!((table.recent_count(), table.deadlines().count()), (2, 0));
        table.load(&"2".into());
        assert!(table.is_recently_evicted(&"2".into()), "until it has rows");
        table.end_eviction(&"2".into());
        table.expire_evictions(|_| false);
        assert_eq!((table.recent_count(), table.recently_evicted().count()), (0, 0));
        assert_eq!(table.changed_since(40).count(), 1);
        assert_eq!((table.all().count(), table.slots.len()), (1, 2));
    }
}
