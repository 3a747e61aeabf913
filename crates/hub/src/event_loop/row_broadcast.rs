//! Sends changed rows to subscribers, rate-limited per session.
//!
//! A changed agent row is sent complete, with all its calls, so its cost grows with the session and with the number of
//! subscribers; events are small and are sent at once. So the rows of a session are sent at an interval that follows
//! from both: at once for one subscriber of a small session, about a second for fifty agents with hundreds of calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use subscope_model::{AgentId, Change, SessionId, Tree};

/// Bytes of rows per second that one session may cost, approximately, over all subscribers.
const BYTES_PER_SECOND: f64 = 5_000_000.0;
/// Approximate size of an agent and of a call as JSON.
const AGENT_BYTES: usize = 1_200;
const CALL_BYTES: usize = 180;

#[derive(Default)]
pub(super) struct PendingBroadcast {
    sessions: BTreeMap<SessionId, SessionBroadcast>,
    /// Sessions with unsent changes.
    pending: BTreeSet<SessionId>,
}

struct SessionBroadcast {
    /// Rows with a greater revision are unsent.
    sent_rev: u64,
    removed: Vec<AgentId>,
    /// No change is sent before this time.
    throttled_until: Instant,
}

impl PendingBroadcast {
    /// Records that a snapshot of a session was published.
    pub(super) fn record_snapshot(&mut self, session: &SessionId, rev: u64, now: Instant) {
        let state = SessionBroadcast { sent_rev: rev, removed: Vec::new(), throttled_until: now };
        self.pending.remove(session);
        self.sessions.insert(session.clone(), state);
    }

    /// Queues a changed session and its removed agents.
    pub(super) fn add_change(&mut self, session: &SessionId, removed: Vec<AgentId>) {
        if let Some(state) = self.sessions.get_mut(session) {
            state.removed.extend(removed);
            self.pending.insert(session.clone());
        }
    }

    /// Whether a session has unsent changes.
    pub(super) fn has_pending(&self, session: &SessionId) -> bool {
        self.pending.contains(session)
    }

    /// Forgets a session; its next update is a snapshot.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.pending.remove(session);
    }

    /// Time until the next change may be sent; `None` if there is none.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let pending = self.pending.iter().filter_map(|session| self.sessions.get(session));
        pending.map(|state| state.throttled_until.saturating_duration_since(now)).min()
    }

    /// Takes the changes that are due; with `is_all`, all of them.
    pub(super) fn take_due<'t>(
        &mut self,
        now: Instant,
        is_all: bool,
        readers: usize,
        shown: &dyn Fn(&SessionId) -> Option<&'t Tree>,
    ) -> Vec<Change> {
        let mut updates = Vec::new();
        let mut later = BTreeSet::new();
        for session in std::mem::take(&mut self.pending) {
            let Some(state) = self.sessions.get_mut(&session) else { continue };
            if !is_all && state.throttled_until > now {
                later.insert(session);
                continue;
            }
            let Some(tree) = shown(&session) else { continue };
            let told = state.sent_rev;
            let is_news = |rev: Option<u64>| rev.is_some_and(|rev| rev > told);
            state.removed.retain(|gone| tree.agents.iter().all(|agent| agent.id != *gone));
            let removed = std::mem::take(&mut state.removed);
            let change = Change::of(tree, |agent| is_news(agent.rev), removed);
            let bytes: usize =
                change.agents.iter().map(|agent| AGENT_BYTES + CALL_BYTES * agent.tools.len()).sum();
            state.throttled_until =
                now + Duration::from_secs_f64((bytes * readers) as f64 / BYTES_PER_SECOND);
            let revs = change.agents.iter().map(|agent| agent.rev).chain([tree.session.rev]);
            state.sent_rev = revs.flatten().fold(state.sent_rev, u64::max);
            if is_news(tree.session.rev) || !change.agents.is_empty() || !change.removed.is_empty() {
                updates.push(change);
            }
        }
        self.pending = later;
        updates
    }
}
