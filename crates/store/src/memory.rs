//! In-memory store: for path TARGETs, demos and `--no-store`.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    ops::Add,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use subscope_model::{
    AgentId, AgentName, Event, Looks, Millis, SessionId, SessionKeys, SessionRow, Stats, StatsQuery, Text,
    Tree, Zone,
};

use crate::{
    AgentLabel, Commit, DayCost, History, KeySet, Ledger, ListQuery, MovedInput, OpenReader, ReceivedInput,
    RemotePosition, SessionPart, SessionQueries, StoreResult, StoredFacts, StoredSessionKeys, days,
    stats::{Sums, with_known_project},
};

/// Default size of the event log, at some hundred bytes an event. Readers that fall further behind restart from a
/// snapshot.
const MAX_LOG_EVENTS: usize = 65_536;

/// Bytes of received input kept for replay after a followed file was truncated or replaced.
const MAX_INBOX_BYTES: usize = 64 << 20;

/// In-memory store: the newest tree of each session, a bounded event log and a bounded inbox. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<MemoryRows>>);

#[derive(Debug, Default)]
struct MemoryRows {
    /// `None`: [`MAX_LOG_EVENTS`].
    max_log_events: Option<usize>,
    trees: BTreeMap<SessionId, Tree>,
    /// Time at which the row of a session last changed.
    changed_ms: BTreeMap<SessionId, Millis>,
    log: VecDeque<Event>,
    session_keys: BTreeMap<SessionId, SessionKeys>,
    facts: BTreeMap<SessionId, StoredFacts>,
    /// Sources and delivery keys of all received input.
    delivery_keys: HashSet<(String, String)>,
    /// The newest received input.
    inbox: VecDeque<ReceivedInput>,
    inbox_bytes: usize,
    /// Number of deliveries that were dropped from the inbox.
    dropped: u64,
    looks: Looks,
    remotes: BTreeMap<Text, RemotePosition>,
    seq: u64,
    rev: u64,
}

impl MemoryStore {
    /// Empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empty store with an event log of at most `max_log_events`: for readers that are connected from the beginning and
    /// never reconnect.
    pub fn with_log(max_log_events: usize) -> Self {
        let rows = MemoryRows { max_log_events: Some(max_log_events), ..MemoryRows::default() };
        Self(Arc::new(Mutex::new(rows)))
    }

    fn rows(&self) -> MutexGuard<'_, MemoryRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryRows {
    fn row(&self, tree: &Tree) -> SessionRow {
        let kept_at_ms = self.changed_ms.get(&tree.session.id).copied().filter(|at| *at > 0);
        SessionRow { kept_at_ms, ..SessionRow::of(tree) }
    }

    fn add_to_inbox(&mut self, received: &[ReceivedInput]) {
        for one in received {
            if self.delivery_keys.insert((one.source.clone(), one.key.clone())) {
                self.inbox_bytes += body_bytes(one, |_| true);
                self.inbox.push_back(one.clone());
            }
        }
        while self.inbox_bytes > MAX_INBOX_BYTES
            && let Some(oldest) = self.inbox.pop_front()
        {
            self.inbox_bytes -= body_bytes(&oldest, |_| true);
            self.dropped += 1;
        }
    }

    fn move_input(&mut self, moved: &MovedInput) {
        let MovedInput { named, from, to, is_whole } = moved;
        for one in self.inbox.iter_mut().filter(|one| one.session.as_deref() == Some(named.as_str())) {
            one.sessions = vec![named.clone(), to.clone()];
        }
        if *is_whole {
            self.trees.remove(from);
            self.changed_ms.remove(from);
            self.session_keys.remove(from);
            self.log.retain(|event| event.session_id != *from);
        }
    }

    fn add_keys(&mut self, written: &StoredSessionKeys) {
        let new = &written.keys;
        let stored = self.session_keys.entry(new.session.clone()).or_insert_with(|| new.clone());
        let before = if written.replaces { Vec::new() } else { std::mem::take(&mut stored.keys) };
        stored.clone_from(new);
        stored.keys.extend(before);
        stored.keys.sort_unstable();
        stored.keys.dedup();
    }
}

/// Returns the length of a delivery's body and of the parts that count, in bytes.
fn body_bytes(received: &ReceivedInput, counts: impl Fn(&SessionPart) -> bool) -> usize {
    let parts = received.parts.iter().filter(|part| counts(part));
    received.body.len() + parts.map(|part| part.body.len()).sum::<usize>()
}

impl Ledger for MemoryStore {
    fn commit(&mut self, commit: &Commit) -> StoreResult<Vec<Event>> {
        let mut rows = self.rows();
        commit.moved.iter().for_each(|moved| rows.move_input(moved));
        rows.add_to_inbox(&commit.received);
        for tree in &commit.trees {
            let known = rows.trees.get(&tree.session.id).map(SessionRow::of);
            let kept = known.and_then(|known| with_known_project(tree, known));
            let tree = kept.as_ref().unwrap_or(tree);
            let before = rows.trees.insert(tree.session.id.clone(), tree.clone());
            if before.is_none_or(|before| SessionRow::of(&before) != SessionRow::of(tree)) {
                rows.changed_ms.insert(tree.session.id.clone(), commit.at_ms);
            }
        }
        for session in &commit.removed {
            rows.trees.remove(session);
            rows.changed_ms.remove(session);
        }
        rows.remotes.extend(commit.remote.iter().map(|remote| (remote.machine.clone(), remote.clone())));
        for keys in &commit.session_keys {
            rows.add_keys(keys);
        }
        rows.facts.extend(commit.facts.iter().map(|facts| (facts.session.clone(), facts.clone())));
        let mut events = commit.events.clone();
        for event in &mut events {
            rows.seq += 1;
            event.seq = rows.seq;
            rows.log.push_back(event.clone());
        }
        let excess = rows.log.len().saturating_sub(rows.max_log_events.unwrap_or(MAX_LOG_EVENTS));
        rows.log.drain(..excess);
        Ok(events)
    }

    fn dismiss(&mut self, session: &SessionId, facts: &[Text], _: Millis) -> StoreResult<()> {
        self.rows().looks.dismissed.insert(session.clone(), facts.to_vec());
        Ok(())
    }

    fn mark_seen(&mut self, until_ms: Millis) -> StoreResult<()> {
        let mut rows = self.rows();
        rows.looks.seen_until_ms = rows.looks.seen_until_ms.max(Some(until_ms));
        Ok(())
    }

    fn reserve_revs(&mut self, count: u64) -> StoreResult<u64> {
        let mut rows = self.rows();
        rows.rev += count;
        Ok(rows.rev + 1 - count)
    }

    fn has_received(&self, source: &str, key: &str) -> StoreResult<bool> {
        let rows = self.rows();
        Ok(rows.delivery_keys.contains(&(source.to_owned(), key.to_owned())))
    }

    fn read_received(
        &self,
        session: &SessionId,
        after: u64,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> StoreResult<Option<u64>> {
        let (mut page, mut next) = (Vec::new(), None);
        {
            let rows = self.rows();
            let (mut last, mut passed) = (after, 0);
            for (number, one) in (rows.dropped + 1..).zip(&rows.inbox) {
                if number <= after || !one.sessions.contains(session) {
                    continue;
                }
                if last > after && passed >= bytes {
                    next = Some(last);
                    break;
                }
                let parts = one.parts.iter().filter(|part| part.session == *session).cloned().collect();
                passed += body_bytes(one, |part| part.session == *session) as u64;
                last = number;
                page.push(ReceivedInput { parts, sessions: Vec::new(), ..one.clone() });
            }
        }
        // The callback may ask the store.
        page.into_iter().for_each(each);
        Ok(next)
    }

    fn received_bytes(&self, session: &SessionId) -> StoreResult<u64> {
        let rows = self.rows();
        let of = rows.inbox.iter().filter(|one| one.sessions.contains(session));
        Ok(of.map(|one| body_bytes(one, |part| part.session == *session) as u64).sum())
    }

    fn keeps_received(&self) -> bool {
        let rows = self.rows();
        rows.dropped == 0
    }

    fn sessions_with_unprocessed_input(&self) -> StoreResult<Vec<SessionId>> {
        // Nothing survives the process, so nothing is replayed.
        Ok(Vec::new())
    }
}

impl SessionQueries for MemoryStore {
    fn list(&self, query: &ListQuery) -> StoreResult<Vec<SessionRow>> {
        let rows = self.rows();
        Ok(query.select(rows.trees.values().map(|tree| rows.row(tree))))
    }

    fn tree(&self, session: &SessionId) -> StoreResult<Option<Tree>> {
        let rows = self.rows();
        Ok(rows.trees.get(session).cloned())
    }

    fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<SessionId>> {
        let all = self.list(&ListQuery::first(usize::MAX))?;
        Ok(all.into_iter().map(|row| row.id).filter(|id| id.starts_with(prefix)).take(limit).collect())
    }

    fn agents_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<(SessionId, AgentId)>> {
        let rows = self.rows();
        let found = rows.trees.values().flat_map(|tree| {
            let own = tree.agents.iter().filter(|agent| !agent.id.is_root() && agent.id.starts_with(prefix));
            own.map(|agent| (tree.session.id.clone(), agent.id.clone()))
        });
        Ok(found.take(limit).collect())
    }

    fn agents_with_words(&self, words: &str, limit: usize) -> StoreResult<Vec<AgentName>> {
        let newest = self.list(&ListQuery::first(usize::MAX))?;
        let rows = self.rows();
        let trees = newest.iter().filter_map(|row| rows.trees.get(&row.id));
        Ok(trees.flat_map(|tree| AgentName::found_in(tree, words)).take(limit).collect())
    }

    fn session_row(&self, session: &SessionId) -> StoreResult<Option<SessionRow>> {
        let rows = self.rows();
        Ok(rows.trees.get(session).map(|tree| rows.row(tree)))
    }

    fn stats(&self, query: &StatsQuery) -> StoreResult<Stats> {
        self.stats_with(query, &[])
    }
}

impl History for MemoryStore {
    fn reader(&self) -> OpenReader {
        let shared = self.clone();
        Arc::new(move || Ok(Box::new(shared.clone())))
    }

    fn stats_with(&self, query: &StatsQuery, unsaved: &[&Tree]) -> StoreResult<Stats> {
        let rows = self.rows();
        let is_unsaved: HashSet<&SessionId> = unsaved.iter().map(|tree| &tree.session.id).collect();
        let mut sums = Sums::new(query);
        let stored = rows.trees.values().filter(|tree| !is_unsaved.contains(&tree.session.id));
        stored.chain(unsaved.iter().copied()).for_each(|tree| sums.add_tree(tree));
        Ok(sums.finish())
    }

    fn agent_label(&self, session: &SessionId, agent: &str) -> StoreResult<Option<AgentLabel>> {
        let rows = self.rows();
        Ok(rows.trees.get(session).and_then(|tree| AgentLabel::of(tree, agent)))
    }

    fn files_of(&self, _: &SessionId) -> StoreResult<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn facts_of(&self, session: &SessionId) -> StoreResult<Option<StoredFacts>> {
        Ok(self.rows().facts.get(session).cloned())
    }

    fn needs_facts(&self, session: &SessionId) -> StoreResult<bool> {
        Ok(self.rows().facts.get(session).is_some_and(|facts| facts.is_needed))
    }

    fn deadlines(&self) -> StoreResult<Vec<(SessionId, Millis)>> {
        // Nothing survives the process, so this is never queried.
        Ok(Vec::new())
    }

    fn received_row(&self, _: u64) -> StoreResult<Option<ReceivedInput>> {
        Ok(None)
    }

    fn first_keys(&self) -> StoreResult<Vec<(SessionId, Vec<u64>)>> {
        let rows = self.rows();
        Ok(rows.session_keys.values().map(|keys| (keys.session.clone(), keys.first_keys.clone())).collect())
    }

    fn sessions_with_keys(&self, keys: &KeySet) -> StoreResult<Vec<(SessionId, u64)>> {
        let rows = self.rows();
        let all = rows.session_keys.values().flat_map(|of| of.keys.iter().map(|key| (&of.session, *key)));
        Ok(all.filter(|(_, key)| keys.contains(key)).map(|(session, key)| (session.clone(), key)).collect())
    }

    fn session_keys(&self, session: &SessionId) -> StoreResult<Option<SessionKeys>> {
        let rows = self.rows();
        Ok(rows.session_keys.get(session).cloned())
    }

    fn cost_of_day(&self, day: i64, zone: &Zone, session: Option<&SessionId>) -> StoreResult<DayCost> {
        let rows = self.rows();
        let of = rows.trees.iter().filter(|(id, _)| session.is_none_or(|session| *session == **id));
        Ok(of.map(|(_, tree)| days::cost_of_day(tree, day, zone)).fold(DayCost::default(), Add::add))
    }

    fn is_forgotten(&self, _: &SessionId) -> StoreResult<bool> {
        // Nothing is forgotten here: that is a chore of the persistent store.
        Ok(false)
    }

    fn remote_position(&self, machine: &str) -> StoreResult<Option<RemotePosition>> {
        Ok(self.rows().remotes.get(machine).cloned())
    }

    fn looks(&self) -> StoreResult<Looks> {
        Ok(self.rows().looks.clone())
    }

    fn last_seq(&self) -> u64 {
        let rows = self.rows();
        rows.seq
    }

    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> StoreResult<Option<Vec<Event>>> {
        let rows = self.rows();
        let first = rows.log.front().map_or(rows.seq + 1, |event| event.seq);
        let matches =
            |event: &&Event| event.seq > seq && session.is_none_or(|session| *session == event.session_id);
        let reaches = seq == 0 || seq.saturating_add(1) >= first;
        Ok(reaches.then(|| rows.log.iter().filter(matches).take(limit).cloned().collect()))
    }

    fn latest_events(&self, session: &SessionId, limit: usize) -> StoreResult<Vec<(Text, Option<Millis>)>> {
        let rows = self.rows();
        let own = rows.log.iter().rev().filter(|event| event.session_id == *session);
        Ok(own.take(limit).map(|event| (event.id.clone(), event.at_ms)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str) -> Event {
        let json = format!(
            r#"{{"schema":"subscope.event/1","id":"{id}","seq":0,"at_ms":null,"session_id":"s","run":0,"actor_id":"agent:root","basis":"link","source":"x","kind":"heartbeat","data":{{}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn commit_numbers_events_and_log_is_bounded() {
        let mut store = MemoryStore::new();
        let commit = |count: usize| Commit { events: vec![event("a"); count], ..Commit::default() };
        assert_eq!(
            store.commit(&commit(2)).unwrap().iter().map(|event| event.seq).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(store.events_after(1, None, usize::MAX).unwrap().map(|events| events.len()), Some(1));
        store.commit(&commit(MAX_LOG_EVENTS)).unwrap();
        assert_eq!(store.events_after(1, None, usize::MAX).unwrap(), None);
        assert!(store.events_after(0, None, 1).unwrap().is_some());
        assert_eq!(
            store.events_after(2, None, usize::MAX).unwrap().map(|events| events.len()),
            Some(MAX_LOG_EVENTS)
        );
        assert_eq!(
            store.events_after(MAX_LOG_EVENTS as u64 + 2, None, usize::MAX).unwrap(),
            Some(Vec::new())
        );
    }
}
