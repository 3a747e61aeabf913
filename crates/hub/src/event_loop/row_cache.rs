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
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Target duration of a save: everything else waits for it.
const SAVE_TIME: Duration = Duration::from_millis(4);
/// Saving may take one part in this many of the time.
const SAVE_SHARE: u32 = 8;
/// Cost of saving a session itself, in rows.
const SESSION_ROWS: usize = 50;

pub(super) struct RowCache {
    trees: BTreeMap<SessionId, Tree>,
    /// Time of the last derivation.
    derived_at: BTreeMap<SessionId, Instant>,
    /// Unsaved sessions, with the time of their first unsaved change.
    unsaved: BTreeMap<SessionId, Instant>,
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
            trees: BTreeMap::new(),
            derived_at: BTreeMap::new(),
            unsaved: BTreeMap::new(),
            slice: SESSION_ROWS * 8,
            throttled_until: None,
        }
    }
}

impl RowCache {
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.trees.keys()
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.trees.values()
    }

    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.trees.contains_key(session)
    }

    /// Number of running subagents.
    pub(super) fn running(&self) -> u64 {
        self.trees.values().map(|tree| u64::from(tree.summary.running)).sum()
    }

    pub(super) fn tree(&self, session: &SessionId, store: &HubStore) -> Option<Tree> {
        self.trees
            .get(session)
            .cloned()
            .or_else(|| store.read("a session's rows", store.tree(session)).flatten())
    }

    pub(super) fn cached(&self, session: &SessionId) -> Option<&Tree> {
        self.trees.get(session)
    }

    /// Puts a tree into the cache. Returns how it differs from the cached one.
    pub(super) fn update(&mut self, mut tree: Tree, rev: u64, now: Instant) -> RowDiff {
        let id = tree.session.id.clone();
        self.derived_at.insert(id.clone(), now);
        let Some(cached) = self.trees.get(&id) else {
            tree.stamp(rev);
            self.unsaved.insert(id.clone(), now);
            self.trees.insert(id, tree);
            return RowDiff::New;
        };
        tree.stamp_news(cached, rev);
        if *cached == tree {
            return RowDiff::Same;
        }
        self.unsaved.entry(id.clone()).or_insert(now);
        let ids: BTreeSet<&AgentId> = tree.agents.iter().map(|row| &row.id).collect();
        let missing = cached.agents.iter().map(|row| &row.id).filter(|id| !ids.contains(id));
        let removed: Vec<AgentId> = missing.cloned().collect();
        self.trees.insert(id, tree);
        RowDiff::Changed { removed }
    }

    /// Saved sessions without running agents, with the time of their last derivation.
    pub(super) fn idle_sessions(&self) -> impl Iterator<Item = (&SessionId, Instant)> {
        let idle = self.trees.iter().filter(|(id, tree)| is_idle(tree) && !self.unsaved.contains_key(*id));
        idle.filter_map(|(id, _)| Some((id, *self.derived_at.get(id)?)))
    }

    /// Approximate number of rows of sessions without running agents.
    pub(super) fn idle_size(&self) -> usize {
        self.trees.values().filter(|tree| is_idle(tree)).map(row_count).sum()
    }

    /// Removes a session: it is served from the store.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.trees.remove(session);
        self.derived_at.remove(session);
    }

    /// Whether some sessions are due to be saved.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due_in(now).is_some_and(|wait| wait.is_zero())
    }

    /// Time until the oldest unsaved session is due to be saved; `None` if all are saved.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let due = *self.unsaved.values().min()? + SAVE_INTERVAL;
        Some(due.max(self.throttled_until.unwrap_or(due)).saturating_duration_since(now))
    }

    /// Sessions to save in the next commit: due, allowed by `may_save`, oldest first, at most `slice` rows but at least
    /// one session.
    pub(super) fn due(&self, now: Instant, may_save: impl Fn(&SessionId) -> bool) -> Vec<SessionId> {
        let mut due: Vec<(&Instant, &SessionId)> = self
            .unsaved
            .iter()
            .filter(|(session, since)| now.duration_since(**since) >= SAVE_INTERVAL && may_save(session))
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
        self.trees.get(session).map_or(SESSION_ROWS, row_count)
    }

    /// Adjusts `slice` and the pause after a save.
    pub(super) fn record_save(&mut self, written: &[SessionId], began: Instant, ended: Instant) {
        let took = ended.duration_since(began);
        let size: usize = written.iter().map(|session| self.size(session)).sum();
        let fit = size as f64 * SAVE_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6);
        // Move half way: one slow write says little.
        self.slice = (self.slice + fit as usize) / 2;
        self.throttled_until = Some(ended + took * (SAVE_SHARE - 1));
    }

    /// All unsaved sessions.
    pub(super) fn unsaved(&self) -> Vec<SessionId> {
        self.unsaved.keys().cloned().collect()
    }

    /// Records that trees were saved.
    pub(super) fn mark_saved(&mut self, trees: &[Tree]) {
        for tree in trees {
            self.unsaved.remove(&tree.session.id);
        }
    }

    /// Lists sessions, merging unsaved rows into the stored list.
    pub(super) fn list(&self, query: &ListQuery, store: &HubStore) -> Vec<SessionRow> {
        let more = ListQuery { limit: query.limit.saturating_add(self.unsaved.len()), ..query.clone() };
        let mut all = store.read("the list of sessions", store.list(&more)).unwrap_or_default();
        all.retain(|row| !self.unsaved.contains_key(&row.id));
        let unsaved =
            self.unsaved.iter().filter_map(|(session, since)| Some((self.trees.get(session)?, since)));
        // Unsaved rows count as kept since their first unsaved change.
        let since = |at: &Instant| i64::try_from(at.elapsed().as_millis()).unwrap_or(0);
        let now = clock::now_ms();
        let unsaved = unsaved
            .map(|(tree, at)| SessionRow { kept_at_ms: Some(now - since(at)), ..SessionRow::of(tree) });
        let unsaved = unsaved.filter(|row| !query.only_live || row.status == SessionStatus::Live);
        all.extend(unsaved.filter(|row| query.after.as_ref().is_none_or(|(at, id)| row.is_behind(*at, id))));
        all.sort_by_cached_key(SessionRow::place);
        all.truncate(query.limit);
        all
    }

    /// Sessions by id prefix: unsaved ones first, then stored ones.
    pub(super) fn sessions_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
        store: &HubStore,
    ) -> Vec<SessionId> {
        let stored = store.read("session ids", store.sessions_with_prefix(prefix, limit)).unwrap_or_default();
        // A session that is not stored at all has just begun.
        let unsaved = self.unsaved.keys().filter(|session| session.starts_with(prefix));
        let unsaved = unsaved.filter(|session| !stored.contains(session)).cloned().collect::<Vec<_>>();
        unsaved.into_iter().chain(stored).take(limit).collect()
    }

    /// Agents by id prefix, including those of unsaved sessions.
    pub(super) fn agents_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
        store: &HubStore,
    ) -> Vec<(SessionId, AgentId)> {
        let unsaved = self.unsaved.keys().filter_map(|session| self.trees.get(session));
        let unsaved = unsaved.flat_map(|tree| tree.agents.iter().map(|row| (&tree.session.id, &row.id)));
        let unsaved = unsaved.filter(|(_, agent)| !agent.is_root() && agent.starts_with(prefix));
        let mut all: Vec<(SessionId, AgentId)> =
            unsaved.map(|(session, agent)| (session.clone(), agent.clone())).collect();
        let stored = store.read("agent ids", store.agents_with_prefix(prefix, limit)).unwrap_or_default();
        all.extend(stored.into_iter().filter(|(session, _)| !self.unsaved.contains_key(session)));
        all.truncate(limit);
        all
    }
}

/// Whether a session has no running agent.
fn is_idle(tree: &Tree) -> bool {
    !tree.agents.iter().any(Agent::is_at_work)
}

/// Approximate number of rows of a session.
fn row_count(tree: &Tree) -> usize {
    SESSION_ROWS + tree.agents.len() + tree.summary.tool_calls as usize
}
