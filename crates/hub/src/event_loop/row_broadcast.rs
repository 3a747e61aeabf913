//! Which rows subscribers have not been told of yet.
//!
//! A row is told whole, with all of its calls, so what it costs grows with the session, and with the readers; events, which
//! are small, are told at once. So the rows of a session follow at a pace that these set: at once for one reader of a small
//! one, a second for fifty of agents with hundreds of calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use subscope_model::{AgentId, Change, SessionId, Tree};

/// How many bytes of rows a second one session may cost, about, to all readers together.
const BYTES: f64 = 5_000_000.0;
/// About how many bytes an agent and a call are as JSON.
const AGENT_BYTES: usize = 1_200;
const CALL_BYTES: usize = 180;

#[derive(Default)]
pub(super) struct PendingBroadcast {
    sessions: BTreeMap<SessionId, OfSession>,
    /// Those of which something is still to be told: few of many.
    waiting: BTreeSet<SessionId>,
}

struct OfSession {
    /// RowCache with a greater rev are news.
    told: u64,
    removed: Vec<AgentId>,
    /// Before this nothing more is told.
    throttled_until: Instant,
}

impl PendingBroadcast {
    /// A session was told whole.
    pub(super) fn told_whole(&mut self, session: &SessionId, rev: u64, now: Instant) {
        let of = OfSession { told: rev, removed: Vec::new(), throttled_until: now };
        self.waiting.remove(session);
        self.sessions.insert(session.clone(), of);
    }

    /// Something of a session changed, and these agents are no more.
    pub(super) fn add(&mut self, session: &SessionId, removed: Vec<AgentId>) {
        if let Some(of) = self.sessions.get_mut(session) {
            of.removed.extend(removed);
            self.waiting.insert(session.clone());
        }
    }

    /// Whether something of a session is still to be told.
    pub(super) fn is_waiting(&self, session: &SessionId) -> bool {
        self.waiting.contains(session)
    }

    /// Nothing more will be told of a session before it is told whole.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.waiting.remove(session);
    }

    /// How long until some are to be told.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let waiting = self.waiting.iter().filter_map(|session| self.sessions.get(session));
        waiting.map(|of| of.throttled_until.saturating_duration_since(now)).min()
    }

    /// Takes what is to be told now; everything where nobody is to wait.
    pub(super) fn take<'t>(
        &mut self,
        now: Instant,
        is_all: bool,
        readers: usize,
        shown: &dyn Fn(&SessionId) -> Option<&'t Tree>,
    ) -> Vec<Change> {
        let mut all = Vec::new();
        let mut later = BTreeSet::new();
        for session in std::mem::take(&mut self.waiting) {
            let Some(of) = self.sessions.get_mut(&session) else { continue };
            if !is_all && of.throttled_until > now {
                later.insert(session);
                continue;
            }
            let Some(tree) = shown(&session) else { continue };
            let told = of.told;
            let is_news = |rev: Option<u64>| rev.is_some_and(|rev| rev > told);
            of.removed.retain(|gone| tree.agents.iter().all(|agent| agent.id != *gone));
            let removed = std::mem::take(&mut of.removed);
            let change = Change::of(tree, |agent| is_news(agent.rev), removed);
            let bytes: usize =
                change.agents.iter().map(|agent| AGENT_BYTES + CALL_BYTES * agent.tools.len()).sum();
            of.throttled_until = now + Duration::from_secs_f64((bytes * readers) as f64 / BYTES);
            let revs = change.agents.iter().map(|agent| agent.rev).chain([tree.session.rev]);
            of.told = revs.flatten().fold(of.told, u64::max);
            if is_news(tree.session.rev) || !change.agents.is_empty() || !change.removed.is_empty() {
                all.push(change);
            }
        }
        self.waiting = later;
        all
    }
}
