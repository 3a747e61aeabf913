//! The ledger in memory: for path TARGETs, demos and `--no-store`.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    path::PathBuf,
};

use subscope_model::{
    Agent, AgentId, Event, Millis, SessionId, SessionKeys, SessionRow, SessionStatus, Stats, StatsRow, Text,
    Tree,
};

use crate::{
    Commit, History, Keys, Ledger, LedgerError, ListQuery, Named, ReceivedInput, StoredSessionKeys,
    days::{self, By},
};

/// How many events the change log holds. Readers that fall further behind start anew from a snapshot; at some hundred
/// bytes an event this bounds the log to tens of megabytes.
const LOG_EVENTS: usize = 65_536;

/// How many bytes that were handed over are held, to be folded again when a followed file is cut or replaced.
const INBOX_BYTES: usize = 64 << 20;

/// Keeps the newest rows of each session and a bounded change log.
#[derive(Debug)]
pub struct Memory {
    /// How many events the log holds.
    log_events: usize,
    trees: BTreeMap<SessionId, Tree>,
    /// When something new of a session was last kept.
    kept: BTreeMap<SessionId, Millis>,
    log: VecDeque<Event>,
    held: BTreeMap<SessionId, SessionKeys>,
    /// Sources and keys of what was received.
    received: HashSet<(String, String)>,
    /// The newest of it.
    inbox: VecDeque<ReceivedInput>,
    inbox_bytes: usize,
    /// Whether something is not in it any more.
    has_dropped: bool,
    seq: u64,
    rev: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self::with_log(LOG_EVENTS)
    }
}

impl Memory {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// One whose change log holds no more than so many events: for readers that are there from the beginning and never come
    /// back.
    pub fn with_log(log_events: usize) -> Self {
        Self {
            log_events,
            trees: BTreeMap::new(),
            kept: BTreeMap::new(),
            log: VecDeque::new(),
            held: BTreeMap::new(),
            received: HashSet::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            has_dropped: false,
            seq: 0,
            rev: 0,
        }
    }
}

/// How many bytes one of what was received has.
fn bytes(one: &ReceivedInput) -> usize {
    one.body.len() + one.parts.iter().map(|part| part.body.len()).sum::<usize>()
}

impl Memory {
    fn receive(&mut self, received: &[ReceivedInput]) {
        for one in received {
            if self.received.insert((one.source.clone(), one.key.clone())) {
                self.inbox_bytes += bytes(one);
                self.inbox.push_back(one.clone());
            }
        }
        while self.inbox_bytes > INBOX_BYTES
            && let Some(oldest) = self.inbox.pop_front()
        {
            self.inbox_bytes -= bytes(&oldest);
            self.has_dropped = true;
        }
    }

    fn hold(&mut self, held: &StoredSessionKeys) {
        let told = &held.holdings;
        let known = self.held.entry(told.session.clone()).or_insert_with(|| told.clone());
        let before = if held.is_whole { Vec::new() } else { std::mem::take(&mut known.keys) };
        known.clone_from(told);
        known.keys.extend(before);
        known.keys.sort_unstable();
        known.keys.dedup();
    }
}

impl Ledger for Memory {
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError> {
        self.receive(&commit.received);
        for tree in &commit.trees {
            let before = self.trees.insert(tree.session.id.clone(), tree.clone());
            if before.is_none_or(|before| SessionRow::of(&before) != SessionRow::of(tree)) {
                self.kept.insert(tree.session.id.clone(), commit.at_ms);
            }
        }
        for held in &commit.held {
            self.hold(held);
        }
        let mut events = commit.events.clone();
        for event in &mut events {
            self.seq += 1;
            event.seq = self.seq;
            self.log.push_back(event.clone());
        }
        let excess = self.log.len().saturating_sub(self.log_events);
        self.log.drain(..excess);
        Ok(events)
    }

    fn reserve_revs(&mut self, count: u64) -> Result<u64, LedgerError> {
        self.rev += count;
        Ok(self.rev + 1 - count)
    }

    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError> {
        Ok(self.received.contains(&(source.to_owned(), key.to_owned())))
    }

    fn received_within(
        &self,
        session: &SessionId,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> Result<bool, LedgerError> {
        if self.has_dropped || self.received_bytes(session)? > bytes {
            return Ok(false);
        }
        for one in self.inbox.iter().filter(|one| one.sessions.contains(session)) {
            let parts = one.parts.iter().filter(|part| part.session == *session).cloned().collect();
            each(ReceivedInput { parts, sessions: Vec::new(), ..one.clone() });
        }
        Ok(true)
    }

    fn received_bytes(&self, session: &SessionId) -> Result<u64, LedgerError> {
        let of = self.inbox.iter().filter(|one| one.sessions.contains(session));
        let own = |one: &ReceivedInput| {
            let parts = one.parts.iter().filter(|part| part.session == *session);
            (one.body.len() + parts.map(|part| part.body.len()).sum::<usize>()) as u64
        };
        Ok(of.map(own).sum())
    }

    fn keeps_received(&self) -> bool {
        !self.has_dropped
    }

    fn sessions_with_unprocessed_input(&self) -> Result<Vec<SessionId>, LedgerError> {
        // What is not kept beyond the process is never taken up again.
        Ok(Vec::new())
    }
}

impl History for Memory {
    fn list(&self, query: &ListQuery) -> Result<Vec<SessionRow>, LedgerError> {
        let row = |tree: &Tree| SessionRow {
            kept_at_ms: self.kept.get(&tree.session.id).copied().filter(|at| *at > 0),
            ..SessionRow::of(tree)
        };
        let mut all: Vec<SessionRow> = self.trees.values().map(row).collect();
        all.sort_by_cached_key(SessionRow::place);
        if let Some((at, id)) = &query.after {
            all.retain(|row| row.is_behind(*at, id));
        }
        all.retain(|row| !query.only_live || row.status == SessionStatus::Live);
        all.retain(|row| query.kept_since.is_none_or(|since| row.kept_at_ms >= Some(since)));
        all.truncate(query.limit);
        Ok(all)
    }

    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, LedgerError> {
        Ok(self.trees.get(session).cloned())
    }

    fn files_of(&self, _: &SessionId) -> Result<Vec<PathBuf>, LedgerError> {
        Ok(Vec::new())
    }

    fn received_body(&self, _: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        Ok(None)
    }

    fn named(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, LedgerError> {
        let all = self.list(&ListQuery::first(usize::MAX))?;
        Ok(all.into_iter().map(|row| row.id).filter(|id| id.starts_with(prefix)).take(limit).collect())
    }

    fn agents(&self, prefix: &str, limit: usize) -> Result<Vec<(SessionId, AgentId)>, LedgerError> {
        let found = self.trees.values().flat_map(|tree| {
            let own = tree.agents.iter().filter(|agent| !agent.id.is_root() && agent.id.starts_with(prefix));
            own.map(|agent| (tree.session.id.clone(), agent.id.clone()))
        });
        Ok(found.take(limit).collect())
    }

    fn first_keys(&self) -> Result<Vec<(SessionId, Vec<u64>)>, LedgerError> {
        Ok(self.held.values().map(|held| (held.session.clone(), held.first_keys.clone())).collect())
    }

    fn holders(&self, keys: &Keys) -> Result<Vec<(SessionId, u64)>, LedgerError> {
        let all = self.held.values().flat_map(|held| held.keys.iter().map(|key| (&held.session, *key)));
        Ok(all.filter(|(_, key)| keys.contains(key)).map(|(session, key)| (session.clone(), key)).collect())
    }

    fn holdings(&self, session: &SessionId) -> Result<Option<SessionKeys>, LedgerError> {
        Ok(self.held.get(session).cloned())
    }

    fn who(&self, session: &SessionId, agent: &str) -> Result<Option<Named>, LedgerError> {
        let agents = self.trees.get(session).into_iter().flat_map(|tree| &tree.agents);
        let by_id = agents.clone().find(|row| row.id.as_str() == agent);
        let started_by = |row: &&Agent| row.spawned_by.as_ref().is_some_and(|call| call.as_str() == agent);
        let row = by_id.or_else(|| agents.clone().find(started_by));
        Ok(row.map(|row| Named {
            id: row.id.clone(),
            agent_type: row.agent_type.clone(),
            description: row.description.clone(),
        }))
    }

    fn stats(&self) -> Result<Stats, LedgerError> {
        let mut total = StatsRow { name: "all".into(), ..StatsRow::default() };
        let mut by_name: BTreeMap<(By, String), StatsRow> = BTreeMap::new();
        let mut by_day: BTreeMap<i64, StatsRow> = BTreeMap::new();
        for tree in self.trees.values() {
            let (mut names, mut dates) = (BTreeSet::new(), BTreeSet::new());
            for ((day, by, name), row) in days::days(tree) {
                if by == By::Type {
                    days::add(&mut total, &row);
                    let sum = by_day.entry(day).or_default();
                    sum.sessions += u64::from(dates.insert(day));
                    days::add(sum, &row);
                }
                let sum = by_name.entry((by, name.clone())).or_default();
                sum.name = row.name.clone();
                sum.sessions += u64::from(names.insert((by, name)));
                days::add(sum, &row);
            }
            total.sessions += 1;
        }
        let of = |by: By| {
            by_name.iter().filter(|((known, _), _)| *known == by).map(|(_, row)| row.clone()).collect()
        };
        Ok(days::stats(total, of, by_day.into_iter().collect()))
    }

    fn last_seq(&self) -> u64 {
        self.seq
    }

    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Vec<Event>>, LedgerError> {
        let first = self.log.front().map_or(self.seq + 1, |event| event.seq);
        let is_asked =
            |event: &&Event| event.seq > seq && session.is_none_or(|session| *session == event.session_id);
        let reaches = seq == 0 || seq.saturating_add(1) >= first;
        Ok(reaches.then(|| self.log.iter().filter(is_asked).take(limit).cloned().collect()))
    }

    fn told_last(
        &self,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<(Text, Option<Millis>)>, LedgerError> {
        let own = self.log.iter().rev().filter(|event| event.session_id == *session);
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
    fn commit_numbers_events_and_log_reaches_back_as_far_as_it_holds() {
        let mut ledger = Memory::new();
        let commit = |count: usize| Commit { events: vec![event("a"); count], ..Commit::default() };
        assert_eq!(
            ledger.commit(&commit(2)).unwrap().iter().map(|event| event.seq).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(ledger.events_after(1, None, usize::MAX).unwrap().map(|events| events.len()), Some(1));
        ledger.commit(&commit(LOG_EVENTS)).unwrap();
        assert_eq!(ledger.events_after(1, None, usize::MAX).unwrap(), None);
        assert!(ledger.events_after(0, None, 1).unwrap().is_some());
        assert_eq!(
            ledger.events_after(2, None, usize::MAX).unwrap().map(|events| events.len()),
            Some(LOG_EVENTS)
        );
        assert_eq!(ledger.events_after(LOG_EVENTS as u64 + 2, None, usize::MAX).unwrap(), Some(Vec::new()));
    }
}
