//! The ledger in memory with places in its log that never step back, also over a restart: they begin at the time of the
//! start in microseconds (design, "seq"), which no log outruns. So a reader of a former run is told that its place is gone
//! instead of being given the wrong events.

use subscope_hub::{Commit, History, Ledger, LedgerError, Memory};
use subscope_model::{Event, Millis, Session, SessionId, Tree};

/// A ledger in memory whose first event stands behind a given place.
pub(super) struct Numbered {
    memory: Memory,
    base: u64,
}

impl Numbered {
    /// An empty ledger that began at this time.
    pub(super) fn since(began: Millis) -> Self {
        Self { memory: Memory::new(), base: u64::try_from(began).unwrap_or(0).saturating_mul(1000) }
    }

    fn number(&self, mut events: Vec<Event>) -> Vec<Event> {
        events.iter_mut().for_each(|event| event.seq += self.base);
        events
    }
}

impl Ledger for Numbered {
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError> {
        let events = self.memory.commit(commit)?;
        Ok(self.number(events))
    }

    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError> {
        self.memory.has_received(source, key)
    }
}

impl History for Numbered {
    fn sessions(&self) -> Vec<Session> {
        self.memory.sessions()
    }

    fn tree(&self, session: &SessionId) -> Option<Tree> {
        self.memory.tree(session)
    }

    fn events_after(&self, seq: u64) -> Option<Vec<Event>> {
        // 0 is the place before everything, whatever the first event's place is.
        let place = if seq == 0 { 0 } else { seq.checked_sub(self.base)? };
        self.memory.events_after(place).map(|events| self.number(events))
    }
}

#[cfg(test)]
mod tests {
    use subscope_hub::Keeper;

    use super::*;

    fn event() -> Event {
        let json = r#"{"schema":"subscope.event/1","id":"a","seq":0,"at_ms":null,"session_id":"s","run":0,"actor_id":"agent:root","basis":"link","source":"x","kind":"heartbeat","data":{}}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn places_begin_at_the_start_and_those_of_former_runs_are_gone() {
        let mut keeper: Box<dyn Keeper> = Box::new(Numbered::since(5));
        let kept = keeper.commit(&Commit { events: vec![event(); 2], ..Commit::default() }).unwrap();
        assert_eq!(kept.iter().map(|event| event.seq).collect::<Vec<_>>(), [5001, 5002]);
        let after =
            |seq| keeper.events_after(seq).map(|events| events.iter().map(|it| it.seq).collect::<Vec<_>>());
        assert_eq!(after(0), Some(vec![5001, 5002]));
        assert_eq!(after(5001), Some(vec![5002]));
        assert_eq!(after(4999), None);
    }
}
