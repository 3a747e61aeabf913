//! The ledger in memory: for path TARGETs, demos and `--no-store`.

use std::collections::{BTreeMap, HashSet, VecDeque};

use subscope_model::{Event, Session, SessionId, Tree};

use crate::{Commit, History, Ledger, LedgerError};

/// How many events the change log holds. Readers that fall further behind start anew from a snapshot; at some hundred
/// bytes an event this bounds the log to tens of megabytes.
const LOG_EVENTS: usize = 65_536;

/// Keeps the newest rows of each session and a bounded change log.
#[derive(Debug, Default)]
pub struct Memory {
    trees: BTreeMap<SessionId, Tree>,
    log: VecDeque<Event>,
    /// Sources and keys of what was received; the bytes themselves are kept by nobody.
    received: HashSet<(String, String)>,
    seq: u64,
}

impl Memory {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Ledger for Memory {
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError> {
        self.received.extend(commit.received.iter().map(|it| (it.source.clone(), it.key.clone())));
        for tree in &commit.trees {
            self.trees.insert(tree.session.id.clone(), tree.clone());
        }
        let mut events = commit.events.clone();
        for event in &mut events {
            self.seq += 1;
            event.seq = self.seq;
            self.log.push_back(event.clone());
        }
        let excess = self.log.len().saturating_sub(LOG_EVENTS);
        self.log.drain(..excess);
        Ok(events)
    }

    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError> {
        Ok(self.received.contains(&(source.to_owned(), key.to_owned())))
    }
}

impl History for Memory {
    fn sessions(&self) -> Vec<Session> {
        let mut all: Vec<Session> = self.trees.values().map(|tree| tree.session.clone()).collect();
        all.sort_by(|one, other| (other.ended_at_ms, &one.id).cmp(&(one.ended_at_ms, &other.id)));
        all
    }

    fn tree(&self, session: &SessionId) -> Option<Tree> {
        self.trees.get(session).cloned()
    }

    fn events_after(&self, seq: u64) -> Option<Vec<Event>> {
        let first = self.log.front().map_or(self.seq + 1, |event| event.seq);
        (seq + 1 >= first).then(|| self.log.iter().filter(|event| event.seq > seq).cloned().collect())
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
        assert_eq!(ledger.events_after(1).map(|events| events.len()), Some(1));
        ledger.commit(&commit(LOG_EVENTS)).unwrap();
        assert_eq!(ledger.events_after(0), None);
        assert_eq!(ledger.events_after(2).map(|events| events.len()), Some(LOG_EVENTS));
        assert_eq!(ledger.events_after(LOG_EVENTS as u64 + 2), Some(Vec::new()));
    }
}
