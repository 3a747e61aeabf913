//! The table of sessions: the slot of each, and when work on it is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use subscope_model::{AgentId, Millis, SessionId, Tree};

use super::session_slot::{
    InboxInput, InputState, LiveRows, LoadedBy, LoadedSession, SessionSlot, Shown, StopOrders, Task,
};

/// All sessions of which the hub knows more than the store.
#[derive(Default)]
pub(super) struct SessionTable {
    slots: BTreeMap<SessionId, SessionSlot>,
    /// Sessions with each [`Task`], by time.
    tasks: [BTreeSet<(Instant, SessionId)>; Task::ALL.len()],
    /// Deadlines by time.
    deadlines: BTreeSet<(Millis, SessionId)>,
    counts: SlotCounts,
}

/// Numbers of slots.
#[derive(Clone, Copy, Default)]
struct SlotCounts {
    /// Recently evicted.
    recent: usize,
    /// With agents that are to stop.
    stopping: usize,
}

impl SlotCounts {
    /// The counts of one slot.
    fn of(slot: &SessionSlot) -> Self {
        let is_stopping = slot.loaded().is_some_and(|session| !session.stop_orders.agents().is_empty());
        Self { recent: usize::from(slot.evicted_since().is_some()), stopping: usize::from(is_stopping) }
    }

    /// Replaces the counts that one slot had.
    fn replace(&mut self, before: Self, after: Self) {
        self.recent = self.recent + after.recent - before.recent;
        self.stopping = self.stopping + after.stopping - before.stopping;
    }
}

impl SessionTable {
    /// A session in memory.
    pub(super) fn loaded(&self, session: &SessionId) -> Option<&LoadedSession> {
        self.slots.get(session)?.loaded()
    }

    /// A session in memory, for changes.
    pub(super) fn loaded_mut(&mut self, session: &SessionId) -> Option<&mut LoadedSession> {
        self.slots.get_mut(session)?.loaded_mut()
    }

    /// Changes the slot of a session, and what the table counts of it.
    fn change<T>(&mut self, session: &SessionId, change: impl FnOnce(&mut SessionSlot) -> T) -> T {
        let slot = self.slots.entry(session.clone()).or_default();
        let before = SlotCounts::of(slot);
        let result = change(slot);
        self.counts.replace(before, SlotCounts::of(slot));
        result
    }

    /// Brings a session into memory; `by` counts only if it was not there.
    pub(super) fn load(&mut self, session: &SessionId, by: LoadedBy) {
        self.change(session, |slot| slot.load(by));
    }

    /// All sessions in memory, in order of their ids.
    pub(super) fn all(&self) -> impl Iterator<Item = (&SessionId, &LoadedSession)> {
        self.slots.iter().filter_map(|(id, slot)| Some((id, slot.loaded()?)))
    }

    /// All sessions in memory, for changes.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (&SessionId, &mut LoadedSession)> {
        self.slots.iter_mut().filter_map(|(id, slot)| Some((id, slot.loaded_mut()?)))
    }

    /// Rows of a session in memory, and what subscribers have of them.
    pub(super) fn rows(&self, session: &SessionId) -> Option<&LiveRows> {
        self.slots.get(session)?.rows()
    }

    /// Rows of a session in memory, for changes.
    pub(super) fn rows_mut(&mut self, session: &SessionId) -> Option<&mut LiveRows> {
        self.slots.get_mut(session)?.rows_mut()
    }

    /// Sessions with rows in memory.
    pub(super) fn with_rows(&self) -> impl Iterator<Item = (&SessionId, &Arc<Tree>)> {
        self.slots.iter().filter_map(|(id, slot)| Some((id, &slot.rows()?.tree)))
    }

    /// Time since which a session in memory is idle.
    pub(super) fn idle_since(&self, session: &SessionId) -> Option<Instant> {
        self.slots.get(session)?.idle_since()
    }

    /// Rows of a session in memory.
    pub(super) fn tree(&self, session: &SessionId) -> Option<&Arc<Tree>> {
        Some(&self.rows(session)?.tree)
    }

    pub(super) fn has_rows(&self, session: &SessionId) -> bool {
        self.rows(session).is_some()
    }

    /// Takes derived rows of a session in memory, and schedules that they are saved and broadcast; first ones are
    /// published by the caller.
    pub(super) fn show(&mut self, tree: Tree, rev: u64, now: Instant, save_after: Duration) -> Shown {
        let session = tree.session.id.clone();
        let shown = self.change(&session, |slot| slot.show(tree, rev, now));
        let is_saved = self.loaded(&session).is_some_and(|loaded| !loaded.has(Task::Save));
        if shown != Shown::Unchanged && is_saved {
            self.schedule(&session, Task::Save, Some(now + save_after));
        }
        if let Shown::Changed(gone) = &shown
            && let Some(rows) = self.rows_mut(&session)
        {
            let due = rows.broadcast.add_removed(gone);
            self.schedule(&session, Task::Broadcast, Some(due));
        }
        shown
    }

    /// Sets the time at which a task of a session in memory is due; `None` if there is nothing to do.
    pub(super) fn schedule(&mut self, session: &SessionId, task: Task, at: Option<Instant>) {
        let Some(loaded) = self.slots.get_mut(session).and_then(SessionSlot::loaded_mut) else { return };
        let before = loaded.schedule(task, at);
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

    /// Time until a task of some session is due; `None` if there is none.
    pub(super) fn due_in(&self, task: Task, now: Instant) -> Option<Duration> {
        let (due, _) = self.scheduled(task).next()?;
        Some(due.saturating_duration_since(now))
    }

    /// Sessions with a task that is due, in order of their ids.
    pub(super) fn due(&self, task: Task, now: Instant) -> Vec<SessionId> {
        let due = self.scheduled(task).take_while(|(at, _)| *at <= now);
        let mut due: Vec<SessionId> = due.map(|(_, session)| session.clone()).collect();
        due.sort_unstable();
        due
    }

    /// Sessions with a task, in order of their ids.
    pub(super) fn with_task(&self, task: Task) -> Vec<SessionId> {
        let mut all: Vec<SessionId> = self.scheduled(task).map(|(_, session)| session.clone()).collect();
        all.sort_unstable();
        all
    }

    /// Whether a session has changes that are not derived.
    pub(super) fn is_dirty(&self, session: &SessionId) -> bool {
        self.loaded(session).is_some_and(|loaded| loaded.has(Task::Derive))
    }

    /// Schedules that these sessions are derived: they have changes, or a moment has come at which they change.
    pub(super) fn mark_dirty(&mut self, sessions: impl IntoIterator<Item = SessionId>, now: Instant) {
        for session in sessions {
            self.load(&session, LoadedBy::Input);
            let waiting = self.loaded(&session).filter(|loaded| !loaded.has(Task::Derive));
            if let Some(due) = waiting.map(|loaded| loaded.derive_after.unwrap_or(now)) {
                self.schedule(&session, Task::Derive, Some(due));
            }
        }
    }

    /// Schedules that all sessions with rows in memory are derived.
    pub(super) fn mark_all_dirty(&mut self, now: Instant) {
        let all: Vec<SessionId> = self.with_rows().map(|(session, _)| session.clone()).collect();
        self.mark_dirty(all, now);
    }

    /// Ends a wait of all sessions, and schedules that those are derived that were in it.
    pub(super) fn end_wait(&mut self, wait: InputState, now: Instant) {
        let ended = self.all_mut().filter_map(|(id, loaded)| loaded.input.end_wait(wait).then(|| id.clone()));
        let ended: Vec<SessionId> = ended.collect();
        self.mark_dirty(ended, now);
    }

    /// Records that some input of a session was read again.
    pub(super) fn record_reread(&mut self, session: &SessionId) {
        self.load(session, LoadedBy::Input);
        self.loaded_mut(session).into_iter().for_each(|loaded| loaded.input.record_reread());
    }

    /// Records that nothing but the start-up scan keeps the sessions that have rows in memory. Returns the idle ones.
    pub(super) fn end_scan(&mut self) -> Vec<SessionId> {
        for slot in self.slots.values_mut().filter(|slot| slot.rows().is_some()) {
            slot.loaded_mut().into_iter().for_each(|loaded| loaded.loaded_by = LoadedBy::StartupScan);
        }
        self.sessions(|slot| slot.idle_since().is_some()).cloned().collect()
    }

    /// Sets the time at which a session's rows may change without new input. It stays when the session is evicted.
    pub(super) fn set_deadline(&mut self, session: &SessionId, deadline: Option<Millis>) {
        let slot = self.slots.get_mut(session);
        if let Some(before) = slot.and_then(|slot| slot.deadline.take()) {
            self.deadlines.remove(&(before, session.clone()));
        }
        if let Some(deadline) = deadline {
            self.slots.entry(session.clone()).or_default().deadline = Some(deadline);
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
        self.slots.entry(session.clone()).or_default().rows_changed_at = Some(seq);
    }

    /// Sessions whose rows changed since a sequence number.
    pub(super) fn changed_since(&self, seq: u64) -> impl Iterator<Item = &SessionId> {
        self.sessions(move |slot| slot.rows_changed_at.is_some_and(|changed| changed >= seq))
    }

    /// Takes a session out of memory. `has_room` if new subscribers can still get its rows.
    pub(super) fn evict(&mut self, session: &SessionId, has_room: bool) {
        for task in Task::ALL {
            self.schedule(session, task, None);
        }
        self.change(session, |slot| slot.evict(has_room));
    }

    /// Number of recently evicted sessions.
    pub(super) fn recent_count(&self) -> usize {
        self.counts.recent
    }

    /// Recently evicted sessions without rows in memory.
    pub(super) fn recently_evicted(&self) -> impl Iterator<Item = &SessionId> {
        self.sessions(|slot| slot.evicted_since().is_some())
    }

    pub(super) fn is_recently_evicted(&self, session: &SessionId) -> bool {
        self.slots.get(session).is_some_and(|slot| slot.evicted_since().is_some())
    }

    /// Forgets evictions that `is_recent` denies.
    pub(super) fn expire_evictions(&mut self, is_recent: impl Fn(Instant) -> bool) {
        if self.counts.recent == 0 {
            return;
        }
        self.slots.values_mut().for_each(|slot| slot.expire(&is_recent));
        self.slots.retain(|_, slot| !slot.is_empty());
        self.counts.recent = self.recently_evicted().count();
    }

    /// Changes where a session's input from programs is.
    pub(super) fn change_inbox(&mut self, session: &SessionId, change: impl FnOnce(&mut InboxInput)) {
        self.change(session, |slot| change(&mut slot.inbox));
    }

    /// Where a session's input from programs is.
    pub(super) fn inbox(&self, session: &SessionId) -> InboxInput {
        self.slots.get(session).map(|slot| slot.inbox).unwrap_or_default()
    }

    /// Sessions of which the inbox has acknowledged input that no rows contain, except dirty ones: their derivation
    /// replays it.
    pub(super) fn unprocessed(&self) -> impl Iterator<Item = &SessionId> {
        let is_dirty = |slot: &SessionSlot| slot.loaded().is_some_and(|loaded| loaded.has(Task::Derive));
        self.sessions(move |slot| slot.inbox == InboxInput::Unprocessed && !is_dirty(slot))
    }

    /// Sets the agents of a session in memory that are to stop.
    pub(super) fn set_stop_orders(&mut self, session: &SessionId, agents: Vec<AgentId>) {
        let orders = StopOrders::Known(agents);
        self.change(session, |slot| slot.loaded_mut().map(|loaded| loaded.stop_orders = orders));
    }

    /// Agents of a session in memory that are to stop.
    pub(super) fn stop_orders(&self, session: &SessionId) -> &[AgentId] {
        self.loaded(session).map_or(&[], |loaded| loaded.stop_orders.agents())
    }

    /// Agents of these sessions that are to stop.
    pub(super) fn agents_to_stop(&self, sessions: &[SessionId]) -> Vec<AgentId> {
        sessions.iter().flat_map(|session| self.stop_orders(session)).cloned().collect()
    }

    /// Whether some agent is to stop.
    pub(super) fn has_stop_orders(&self) -> bool {
        self.counts.stopping > 0
    }

    /// Sets the time at which a session began whose stored keys are compared for duplicates.
    pub(super) fn set_stored_keys(&mut self, session: &SessionId, began_ms: Millis) {
        self.slots.entry(session.clone()).or_default().stored_keys_since = Some(began_ms);
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

#[cfg(test)]
mod tests {
    use subscope_model::AgentStatus;

    use super::{super::session_slot::tests::tree, *};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn task_of_a_session_is_due_once_at_its_latest_time() {
        let (mut table, now) = (SessionTable::default(), crate::clock::tick());
        let (one, two) = (SessionId::from("1"), SessionId::from("2"));
        for (session, ms) in [(&one, 5), (&two, 3), (&one, 1), (&two, 3)] {
            table.load(session, LoadedBy::Input);
            table.schedule(session, Task::Save, Some(now + Duration::from_millis(ms)));
        }
        let due: Vec<&SessionId> = table.scheduled(Task::Save).map(|(_, session)| session).collect();
        assert_eq!(due, [&one, &two]);
        assert_eq!(table.due(Task::Save, now + Duration::from_millis(2)), std::slice::from_ref(&one));
        assert!(table.has_none(Task::Derive));
        table.schedule(&one, Task::Save, None);
        assert_eq!(table.with_task(Task::Save), std::slice::from_ref(&two));
        table.evict(&two, true);
        assert!(table.has_none(Task::Save));
    }

    #[test]
    fn evicted_session_leaves_nothing_but_its_change_number() {
        let (mut table, now) = (SessionTable::default(), crate::clock::tick());
        for name in ["1", "2"] {
            let session = SessionId::from(name);
            table.load(&session, LoadedBy::Input);
            table.show(tree(name, &["root"], AgentStatus::Completed), 1, now, SECOND);
            table.set_deadline(&session, Some(7));
            table.evict(&session, true);
            assert_eq!(table.deadline_of(&session), Some(7), "it is loaded when it is due");
            table.set_deadline(&session, None);
        }
        table.record_change(&"1".into(), 40);
        assert_eq!((table.recent_count(), table.deadlines().count()), (2, 0));
        table.load(&"2".into(), LoadedBy::Input);
        assert!(table.is_recently_evicted(&"2".into()), "until it has rows");
        table.show(tree("2", &["root"], AgentStatus::Completed), 2, now, SECOND);
        assert_eq!(table.recent_count(), 1);
        table.expire_evictions(|_| false);
        assert_eq!((table.recent_count(), table.recently_evicted().count()), (0, 0));
        assert_eq!(table.changed_since(40).count(), 1);
        assert_eq!((table.all().count(), table.slots.len()), (1, 2));
    }

    #[test]
    fn numbers_of_slots_follow_their_changes() {
        let (mut table, session) = (SessionTable::default(), SessionId::from("1"));
        for _ in 0..2 {
            table.change_inbox(&session, |inbox| *inbox = InboxInput::Unprocessed);
            assert_eq!(table.unprocessed().count(), 1);
        }
        table.load(&session, LoadedBy::Input);
        table.set_stop_orders(&session, vec![AgentId::from("a")]);
        assert!(table.has_stop_orders());
        table.change_inbox(&session, InboxInput::begin_replay);
        assert_eq!(table.unprocessed().count(), 0);
        table.evict(&session, true);
        assert!(!table.has_stop_orders() && table.stop_orders(&session).is_empty());
    }
}
