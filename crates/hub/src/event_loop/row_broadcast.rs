//! Sends changed rows to subscribers, rate-limited per session.
//!
//! A changed agent row is sent complete, with all its calls, so its cost grows with the session and with the number of
//! subscribers; events are small and are sent at once. So the rows of a session are sent at an interval that follows
//! from both: at once for one subscriber of a small session, about a second for fifty agents with hundreds of calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use subscope_model::{Agent, AgentId, Change, SessionId, Tree, Update};

/// Bytes of rows per second that one session may cost, approximately, over all subscribers.
const BYTES: f64 = 5_000_000.0;
/// Approximate size of an agent and of a call as JSON.
const AGENT_BYTES: usize = 1_200;
const CALL_BYTES: usize = 180;

#[derive(Default)]
pub(super) struct PendingBroadcast {
    sessions: BTreeMap<SessionId, OfSession>,
    /// Sessions with unsent changes.
    waiting: BTreeSet<SessionId>,
}

struct OfSession {
    /// Rows with a greater revision are unsent.
    told: u64,
    removed: Vec<AgentId>,
    /// No change is sent before this time.
    throttled_until: Instant,
}

impl PendingBroadcast {
    /// Records that a snapshot of a session was published.
    pub(super) fn told_whole(&mut self, session: &SessionId, rev: u64, now: Instant) {
        let of = OfSession { told: rev, removed: Vec::new(), throttled_until: now };
        self.waiting.remove(session);
        self.sessions.insert(session.clone(), of);
    }

    /// Queues a changed session and its removed agents.
    pub(super) fn add(&mut self, session: &SessionId, removed: Vec<AgentId>) {
        if let Some(of) = self.sessions.get_mut(session) {
            of.removed.extend(removed);
            self.waiting.insert(session.clone());
        }
    }

    /// Whether a session has unsent changes.
    pub(super) fn is_waiting(&self, session: &SessionId) -> bool {
        self.waiting.contains(session)
    }

    /// Forgets a session; its next update is a snapshot.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.waiting.remove(session);
    }

    /// Time until the next change may be sent; `None` if there is none.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let waiting = self.waiting.iter().filter_map(|session| self.sessions.get(session));
        waiting.map(|of| of.throttled_until.saturating_duration_since(now)).min()
    }

    /// Takes the changes that are due; with `is_all`, all of them.
    pub(super) fn take<'t>(
        &mut self,
        now: Instant,
        is_all: bool,
        readers: usize,
        shown: &dyn Fn(&SessionId) -> Option<&'t Tree>,
    ) -> Vec<Update> {
        let mut all = Vec::new();
        let mut later = BTreeSet::new();
        for session in std::mem::take(&mut self.waiting) {
            let Some(of) = self.sessions.get_mut(&session) else { continue };
            if !is_all && of.throttled_until > now {
                later.insert(session);
                continue;
            }
            let Some(tree) = shown(&session) else { continue };
            let is_news = |rev: Option<u64>| rev.is_some_and(|rev| rev > of.told);
            let agents: Vec<Agent> = tree.agents.iter().filter(|agent| is_news(agent.rev)).cloned().collect();
            of.removed.retain(|gone| tree.agents.iter().all(|agent| agent.id != *gone));
            let removed = std::mem::take(&mut of.removed);
            let bytes: usize = agents.iter().map(|agent| AGENT_BYTES + CALL_BYTES * agent.tools.len()).sum();
            of.throttled_until = now + Duration::from_secs_f64((bytes * readers) as f64 / BYTES);
            let revs = agents.iter().map(|agent| agent.rev).chain([tree.session.rev]);
            of.told = revs.flatten().fold(of.told, u64::max);
            if !agents.is_empty() || !removed.is_empty() {
                let session = tree.session.clone();
                all.push(Update::Change(Box::new(Change { session, agents, removed })));
            }
        }
        self.waiting = later;
        all
    }
}
