//! Sends changed rows to subscribers, rate-limited per session.
//!
//! A changed agent row is sent complete, with all its calls, so its cost grows with the session and with the number of
//! subscribers; events are small and are sent at once. So the rows of a session are sent at an interval that follows
//! from both: at once for one subscriber of a small session, about a second for fifty agents with hundreds of calls.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use subscope_model::{AgentId, Change, Tree};

/// Bytes of rows per second that one session may cost, approximately, over all subscribers.
const BYTES_PER_SECOND: f64 = 5_000_000.0;
/// Approximate size of an agent and of a call as JSON.
const AGENT_BYTES: usize = 1_200;
const CALL_BYTES: usize = 180;

/// What subscribers have of a session.
pub(super) struct BroadcastState {
    /// Rows with a greater revision are unsent.
    sent_rev: u64,
    removed: Vec<AgentId>,
    /// No change is sent before this time.
    throttled_until: Instant,
}

impl BroadcastState {
    /// State after a snapshot with this revision was published.
    pub(super) fn after_snapshot(rev: u64, now: Instant) -> Self {
        Self { sent_rev: rev, removed: Vec::new(), throttled_until: now }
    }

    /// Adds removed agents. Returns the time at which they may be sent.
    pub(super) fn add_removed(&mut self, removed: &[AgentId]) -> Instant {
        self.removed.extend_from_slice(removed);
        self.throttled_until
    }

    /// Takes the unsent changes; `None` if there are none.
    pub(super) fn take_change(&mut self, tree: &Tree, readers: usize, now: Instant) -> Option<Change> {
        let sent_rev = self.sent_rev;
        let is_news = |rev: Option<u64>| rev.is_some_and(|rev| rev > sent_rev);
        if !self.removed.is_empty() {
            let ids: HashSet<&AgentId> = tree.agents.iter().map(|agent| &agent.id).collect();
            self.removed.retain(|gone| !ids.contains(gone));
        }
        let removed = std::mem::take(&mut self.removed);
        let change = Change::of(tree, |agent| is_news(agent.rev), removed);
        let bytes: usize =
            change.agents.iter().map(|agent| AGENT_BYTES + CALL_BYTES * agent.tools.len()).sum();
        self.throttled_until = now + Duration::from_secs_f64((bytes * readers) as f64 / BYTES_PER_SECOND);
        let revs = change.agents.iter().map(|agent| agent.rev).chain([tree.session.rev]);
        self.sent_rev = revs.flatten().fold(self.sent_rev, u64::max);
        let has_news = is_news(tree.session.rev) || !change.agents.is_empty() || !change.removed.is_empty();
        has_news.then_some(change)
    }
}
