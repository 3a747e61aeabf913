//! Write-back cache of the rows of loaded sessions.
//!
//! Rows can be derived again from saved input, so no caller waits for them to be saved: a session that changes all the
//! time is saved once per [`SAVE_INTERVAL`], and queries are answered from the cache. What a process that dies has not
//! saved is found by the store ([`subscope_store::Ledger::sessions_with_unprocessed_input`]) and by the state of the
//! source files.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use subscope_model::{Agent, AgentId, SessionId, SessionRow, SessionStatus, Tree};
use subscope_store::ListQuery;

use super::hub_store::HubStore;
use crate::clock;

/// Delay before changed rows are saved.
const PACE: Duration = Duration::from_secs(1);

/// Target duration of a save: everything else waits for it.
const SLICE: Duration = Duration::from_millis(4);
/// Saving may take one part in this many of the time.
const SHARE: u32 = 8;
/// Cost of saving a session itself, in rows.
const SESSION_SIZE: usize = 50;

pub(super) struct RowCache {
    shown: BTreeMap<SessionId, Tree>,
    /// Time of the last derivation.
    concluded: BTreeMap<SessionId, Instant>,
    /// Unsaved sessions, with the time of their first unsaved change.
    unwritten: BTreeMap<SessionId, Instant>,
    /// Rows per save; adjusted by the duration of the last saves.
    slice: usize,
    /// Nothing is saved before this time.
    throttled_until: Option<Instant>,
}

/// Difference between a tree and the cached tree of its session.
pub(super) enum RowDiff {
    /// The session was not cached.
    New,
    Same,
    /// Changed; with the agents that no longer exist.
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

    /// Number of running subagents.
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

    /// Puts a tree into the cache. Returns how it differs from the cached one.
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

    /// Saved sessions without running agents, with the time of their last derivation.
    pub(super) fn settled(&self) -> impl Iterator<Item = (&SessionId, Instant)> {
        let settled =
            self.shown.iter().filter(|(id, tree)| is_settled(tree) && !self.unwritten.contains_key(*id));
        settled.filter_map(|(id, _)| Some((id, *self.concluded.get(id)?)))
    }

    /// Approximate number of rows of sessions without running agents.
    pub(super) fn settled_size(&self) -> usize {
        self.shown.values().filter(|tree| is_settled(tree)).map(size).sum()
    }

    /// Removes a session: it is served from the store.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.shown.remove(session);
        self.concluded.remove(session);
    }

    /// Whether some sessions are due to be saved.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due_in(now).is_some_and(|wait| wait.is_zero())
    }

    /// Time until the oldest unsaved session is due to be saved; `None` if all are saved.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let due = *self.unwritten.values().min()? + PACE;
        Some(due.max(self.throttled_until.unwrap_or(due)).saturating_duration_since(now))
    }

    /// Sessions to save in the next commit: due, allowed by `may_be`, oldest first, at most `slice` rows but at least
    /// one session.
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

    /// Adjusts `slice` and the pause after a save.
    pub(super) fn took(&mut self, written: &[SessionId], began: Instant, ended: Instant) {
        let took = ended.duration_since(began);
        let size: usize = written.iter().map(|session| self.size(session)).sum();
        let fit = size as f64 * SLICE.as_secs_f64() / took.as_secs_f64().max(1e-6);
        // Move half way: one slow write says little.
        self.slice = (self.slice + fit as usize) / 2;
        self.throttled_until = Some(ended + took * (SHARE - 1));
    }

    /// All unsaved sessions.
    pub(super) fn unwritten(&self) -> Vec<SessionId> {
        self.unwritten.keys().cloned().collect()
    }

    /// Records that trees were saved.
    pub(super) fn wrote(&mut self, trees: &[Tree]) {
        for tree in trees {
            self.unwritten.remove(&tree.session.id);
        }
    }

    /// Lists sessions, merging unsaved rows into the stored list.
    pub(super) fn list(&self, query: &ListQuery, store: &HubStore) -> Vec<SessionRow> {
        let more = ListQuery { limit: query.limit.saturating_add(self.unwritten.len()), ..query.clone() };
        let mut all = store.read("the list of sessions", store.list(&more)).unwrap_or_default();
        all.retain(|row| !self.unwritten.contains_key(&row.id));
        let own =
            self.unwritten.iter().filter_map(|(session, since)| Some((self.shown.get(session)?, since)));
        // Unsaved rows count as kept since their first unsaved change.
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

    /// Sessions by id prefix: unsaved ones first, then stored ones.
    pub(super) fn named(&self, prefix: &str, limit: usize, store: &HubStore) -> Vec<SessionId> {
        let kept = store.read("session ids", store.sessions_with_prefix(prefix, limit)).unwrap_or_default();
        // A session that is not stored at all has just begun.
        let fresh = self.unwritten.keys().filter(|session| session.starts_with(prefix));
        let fresh = fresh.filter(|session| !kept.contains(session)).cloned().collect::<Vec<_>>();
        fresh.into_iter().chain(kept).take(limit).collect()
    }

    /// Agents by id prefix, including those of unsaved sessions.
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

/// Whether a session has no running agent.
fn is_settled(tree: &Tree) -> bool {
    !tree.agents.iter().any(Agent::is_at_work)
}

/// Approximate number of rows of a session.
fn size(tree: &Tree) -> usize {
    SESSION_SIZE + tree.agents.len() + tree.summary.tool_calls as usize
}
