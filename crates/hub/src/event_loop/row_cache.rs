//! RowCache as they were last shown, and which of them are not kept yet.
//!
//! RowCache can be made again from what is kept, so their keeping is not what anybody waits for: a session that changes all
//! the time is written once a [`PACE`], and questions are answered from here meanwhile. What a process that dies has not
//! written is told by the store ([`subscope_store::Ledger::unsettled`]) and by the state of the files it was made from.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use subscope_model::{Agent, AgentId, SessionId, SessionRow, SessionStatus, Tree};
use subscope_store::ListQuery;

use super::hub_store::HubStore;
use crate::clock;

/// How long rows may wait to be kept.
const PACE: Duration = Duration::from_secs(1);

/// How long a writing may take about: everything else waits for it.
const SLICE: Duration = Duration::from_millis(4);
/// Writing may take this share of the time.
const SHARE: u32 = 8;
/// What a session costs beside its agents and calls, in their cost.
const SESSION_SIZE: usize = 50;

pub(super) struct RowCache {
    shown: BTreeMap<SessionId, Tree>,
    /// When they were last concluded.
    concluded: BTreeMap<SessionId, Instant>,
    /// Since when these are not kept as they are shown.
    unwritten: BTreeMap<SessionId, Instant>,
    /// How much is written at once, by what a writing took.
    slice: usize,
    /// Before this nothing is written.
    throttled_until: Option<Instant>,
}

/// How a tree differs from what was shown of its session.
pub(super) enum RowDiff {
    /// Nothing was.
    New,
    Same,
    /// With the agents that are no more.
    Changed {
        removed: Vec<AgentId>,
    },
}

impl Default for RowCache {
    fn default() -> Self {
        Self {
            shown: BTreeMap::new(),
            concluded: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            slice: SESSION_SIZE * 8,
            throttled_until: None,
        }
    }
}

impl RowCache {
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.shown.keys()
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.shown.values()
    }

    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.shown.contains_key(session)
    }

    /// How many subagents are at work.
    pub(super) fn running(&self) -> u64 {
        self.shown.values().map(|tree| u64::from(tree.summary.running)).sum()
    }

    pub(super) fn tree(&self, session: &SessionId, store: &HubStore) -> Option<Tree> {
        self.shown
            .get(session)
            .cloned()
            .or_else(|| store.read("a session's rows", store.tree(session)).flatten())
    }

    pub(super) fn shown(&self, session: &SessionId) -> Option<&Tree> {
        self.shown.get(session)
    }

    /// Takes a tree as shown. Returns how it differs from what was shown.
    pub(super) fn show(&mut self, mut tree: Tree, rev: u64, now: Instant) -> RowDiff {
        let id = tree.session.id.clone();
        self.concluded.insert(id.clone(), now);
        let Some(known) = self.shown.get(&id) else {
            tree.stamp(rev);
            self.unwritten.insert(id.clone(), now);
            self.shown.insert(id, tree);
            return RowDiff::New;
        };
        tree.stamp_news(known, rev);
        if *known == tree {
            return RowDiff::Same;
        }
        self.unwritten.entry(id.clone()).or_insert(now);
        let ids: BTreeSet<&AgentId> = tree.agents.iter().map(|row| &row.id).collect();
        let gone = known.agents.iter().map(|row| &row.id).filter(|id| !ids.contains(id));
        let removed: Vec<AgentId> = gone.cloned().collect();
        self.shown.insert(id, tree);
        RowDiff::Changed { removed }
    }

    /// Sessions that are written and of which nothing is at work, with when they were last concluded.
    pub(super) fn settled(&self) -> impl Iterator<Item = (&SessionId, Instant)> {
        let settled =
            self.shown.iter().filter(|(id, tree)| is_settled(tree) && !self.unwritten.contains_key(*id));
        settled.filter_map(|(id, _)| Some((id, *self.concluded.get(id)?)))
    }

    /// About how many rows the sessions have of which nothing is at work.
    pub(super) fn settled_size(&self) -> usize {
        self.shown.values().filter(|tree| is_settled(tree)).map(size).sum()
    }

    /// From now on a session is shown as it is kept.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.shown.remove(session);
        self.concluded.remove(session);
    }

    /// Whether some are to be written now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due_in(now).is_some_and(|wait| wait.is_zero())
    }

    /// How long until some are.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let due = *self.unwritten.values().min()? + PACE;
        Some(due.max(self.throttled_until.unwrap_or(due)).saturating_duration_since(now))
    }

    /// Those that are to be written now and may be, the longest waiting first, as many as one commit may hold.
    pub(super) fn due(&self, now: Instant, may_be: impl Fn(&SessionId) -> bool) -> Vec<SessionId> {
        let mut due: Vec<(&Instant, &SessionId)> = self
            .unwritten
            .iter()
            .filter(|(session, since)| now.duration_since(**since) >= PACE && may_be(session))
            .map(|(session, since)| (since, session))
            .collect();
        due.sort_unstable();
        let mut room = self.slice;
        let fits = |(_, session): &(&Instant, &SessionId)| {
            let is_first = room == self.slice;
            let rest = room.checked_sub(self.size(session));
            room = rest.unwrap_or(0);
            is_first || rest.is_some()
        };
        due.into_iter().take_while(fits).map(|(_, session)| session.clone()).collect()
    }

    fn size(&self, session: &SessionId) -> usize {
        self.shown.get(session).map_or(SESSION_SIZE, size)
    }

    /// That many were written in that time: the next are as many as take a [`SLICE`].
    pub(super) fn took(&mut self, written: &[SessionId], began: Instant, ended: Instant) {
        let took = ended.duration_since(began);
        let size: usize = written.iter().map(|session| self.size(session)).sum();
        let fit = size as f64 * SLICE.as_secs_f64() / took.as_secs_f64().max(1e-6);
        // Half way there: one slow write says little.
        self.slice = (self.slice + fit as usize) / 2;
        self.throttled_until = Some(ended + took * (SHARE - 1));
    }

    /// All that are not written.
    pub(super) fn unwritten(&self) -> Vec<SessionId> {
        self.unwritten.keys().cloned().collect()
    }

    /// They are written.
    pub(super) fn wrote(&mut self, trees: &[Tree]) {
        for tree in trees {
            self.unwritten.remove(&tree.session.id);
        }
    }

    /// Lines of a list, those that are not written among them.
    pub(super) fn list(&self, query: &ListQuery, store: &HubStore) -> Vec<SessionRow> {
        let more = ListQuery { limit: query.limit.saturating_add(self.unwritten.len()), ..query.clone() };
        let mut all = store.read("the list of sessions", store.list(&more)).unwrap_or_default();
        all.retain(|row| !self.unwritten.contains_key(&row.id));
        let own =
            self.unwritten.iter().filter_map(|(session, since)| Some((self.shown.get(session)?, since)));
        // They will have been kept when they are written; until then since when they are to be.
        let since = |at: &Instant| i64::try_from(at.elapsed().as_millis()).unwrap_or(0);
        let now = clock::now_ms();
        let own =
            own.map(|(tree, at)| SessionRow { kept_at_ms: Some(now - since(at)), ..SessionRow::of(tree) });
        let own = own.filter(|row| !query.only_live || row.status == SessionStatus::Live);
        all.extend(own.filter(|row| query.after.as_ref().is_none_or(|(at, id)| row.is_behind(*at, id))));
        all.sort_by_cached_key(SessionRow::place);
        all.truncate(query.limit);
        all
    }

    /// Sessions whose id begins so, the newest first, those that are not written among them.
    pub(super) fn named(&self, prefix: &str, limit: usize, store: &HubStore) -> Vec<SessionId> {
        let kept = store.read("session ids", store.sessions_with_prefix(prefix, limit)).unwrap_or_default();
        // What is not kept at all has just begun.
        let fresh = self.unwritten.keys().filter(|session| session.starts_with(prefix));
        let fresh = fresh.filter(|session| !kept.contains(session)).cloned().collect::<Vec<_>>();
        fresh.into_iter().chain(kept).take(limit).collect()
    }

    /// Agents whose id begins so, those that are not written among them.
    pub(super) fn agents(&self, prefix: &str, limit: usize, store: &HubStore) -> Vec<(SessionId, AgentId)> {
        let fresh = self.unwritten.keys().filter_map(|session| self.shown.get(session));
        let fresh = fresh.flat_map(|tree| tree.agents.iter().map(|row| (&tree.session.id, &row.id)));
        let fresh = fresh.filter(|(_, agent)| !agent.is_root() && agent.starts_with(prefix));
        let mut all: Vec<(SessionId, AgentId)> =
            fresh.map(|(session, agent)| (session.clone(), agent.clone())).collect();
        let kept = store.read("agent ids", store.agents_with_prefix(prefix, limit)).unwrap_or_default();
        all.extend(kept.into_iter().filter(|(session, _)| !self.unwritten.contains_key(session)));
        all.truncate(limit);
        all
    }
}

/// Whether nothing of a session is at work.
fn is_settled(tree: &Tree) -> bool {
    !tree.agents.iter().any(Agent::is_at_work)
}

/// About how many rows a session has.
fn size(tree: &Tree) -> usize {
    SESSION_SIZE + tree.agents.len() + tree.summary.tool_calls as usize
}
