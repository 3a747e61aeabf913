//! What happened, by session and in order of time, within a bound.

use std::collections::{HashMap, HashSet};

use subscope_model::{AgentId, Event, EventKind, Millis, SessionId, Text};

use crate::log_entry::LogEntry;

/// Memory for all moments. Beyond it the oldest of the longest log go; they are counted, and can be read again.
const MOST_BYTES: usize = 40 << 20;

/// The logs of all sessions.
#[derive(Debug, Default)]
pub struct Logs {
    by_session: HashMap<SessionId, Log>,
    bytes: usize,
}

/// What happened in one session.
#[derive(Debug, Default)]
pub struct Log {
    /// In order of time; what has no time stands where it came.
    moments: Vec<LogEntry>,
    ids: HashSet<Text>,
    bytes: usize,
    /// Whether what happened before it was followed was read.
    pub is_whole: bool,
    /// How many moments are not kept any more, or were never told.
    pub missed: u64,
}

impl Logs {
    /// What happened in a session, as far as it is known.
    pub fn of(&self, session: &SessionId) -> Option<&Log> {
        self.by_session.get(session)
    }

    /// The sessions of which something is known, in no order.
    pub fn sessions(&self) -> impl Iterator<Item = (&SessionId, &Log)> {
        self.by_session.iter()
    }

    /// Takes one event: adds it, or corrects what was told before. Returns whether anything changed.
    pub fn take(&mut self, event: &Event) -> bool {
        let log = self.by_session.entry(event.session_id.clone()).or_default();
        let before = log.bytes;
        let has_changed = log.take(event);
        self.bytes += log.bytes - before;
        self.shrink();
        has_changed
    }

    /// Takes the whole feed of a session, some of which may be known.
    pub fn fill(&mut self, session: &SessionId, events: &[Event]) {
        let log = self.by_session.entry(session.clone()).or_default();
        let before = log.bytes;
        log.is_whole = true;
        log.missed = 0;
        for event in events {
            log.take(event);
        }
        let mut last = Millis::MIN;
        let keys: Vec<Millis> = log
            .moments
            .iter()
            .map(|moment| {
                last = moment.at_ms.unwrap_or(last);
                last
            })
            .collect();
        // What has no time stays behind what it came after.
        let mut both: Vec<(Millis, LogEntry)> =
            keys.into_iter().zip(std::mem::take(&mut log.moments)).collect();
        both.sort_by_key(|(at, _)| *at);
        log.moments = both.into_iter().map(|(_, moment)| moment).collect();
        self.bytes += log.bytes - before;
        self.shrink();
    }

    /// Notes that some events were not told; nobody knows of which session.
    pub fn miss(&mut self, count: u64) {
        for log in self.by_session.values_mut() {
            log.is_whole = false;
            log.missed += count;
        }
    }

    fn shrink(&mut self) {
        while self.bytes > MOST_BYTES {
            let Some(log) = self.by_session.values_mut().max_by_key(|log| log.bytes) else { return };
            let freed = log.drop_oldest();
            self.bytes = self.bytes.saturating_sub(freed);
            if freed == 0 {
                return;
            }
        }
    }
}

impl Log {
    /// All moments in order of time.
    pub fn moments(&self) -> &[LogEntry] {
        &self.moments
    }

    fn take(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::Attribution => return self.correct(event),
            EventKind::AgentRenamed => return self.rename(event),
            _ => {}
        }
        let Some(moment) = LogEntry::of(event).filter(|moment| !self.ids.contains(&moment.id)) else {
            return false;
        };
        self.ids.insert(moment.id.clone());
        self.bytes += moment.bytes();
        let place = match moment.at_ms {
            // Nearly always the last: what happens is told when it happens.
            Some(at) => {
                let later =
                    self.moments.iter().rev().take_while(|known| known.at_ms.is_none_or(|its| its > at));
                let dated = later.enumerate().filter(|(_, known)| known.at_ms.is_some());
                self.moments.len() - dated.last().map_or(0, |(place, _)| place + 1)
            }
            None => self.moments.len(),
        };
        self.moments.insert(place, moment);
        true
    }

    fn correct(&mut self, event: &Event) -> bool {
        let (Some(id), Some(actor)) = (event.text("event_id"), event.text("actor_id")) else { return false };
        let Some(moment) = self.moments.iter_mut().rev().find(|moment| &*moment.id == id) else {
            return false;
        };
        moment.agent = AgentId::from(actor.strip_prefix("subagent:").unwrap_or(AgentId::ROOT));
        moment.is_guess = matches!(event.text("basis"), Some("stack" | "unknown"));
        true
    }

    fn rename(&mut self, event: &Event) -> bool {
        let (Some(from), Some(to)) = (event.text("from"), event.text("to")) else { return false };
        let to = AgentId::from(to);
        for moment in self.moments.iter_mut().filter(|moment| &*moment.agent == from) {
            moment.agent = to.clone();
        }
        true
    }

    /// Drops a quarter; returns how many bytes that frees.
    fn drop_oldest(&mut self) -> usize {
        let count = self.moments.len().div_ceil(4);
        let mut freed = 0;
        for moment in self.moments.drain(..count) {
            freed += moment.bytes();
            self.ids.remove(&moment.id);
        }
        self.bytes -= freed;
        self.missed += count as u64;
        freed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use subscope_model::{Actor, Basis};

    use super::*;

    fn event(id: &str, at_ms: Option<Millis>, kind: EventKind, data: Value) -> Event {
        Event {
            schema: Event::SCHEMA.into(),
            id: id.into(),
            seq: 1,
            at_ms,
            session_id: SessionId::from("s"),
            run: 1,
            actor_id: Actor(AgentId::from("a1")),
            basis: Basis::Stack,
            source: "claude.hook".into(),
            kind,
            data,
        }
    }

    fn says(id: &str, at_ms: Option<Millis>) -> Event {
        event(id, at_ms, EventKind::AgentMessage, json!({ "text": id }))
    }

    fn ids(logs: &Logs) -> Vec<&str> {
        logs.of(&"s".into()).unwrap().moments().iter().map(|moment| &*moment.id).collect()
    }

    #[test]
    fn moments_stand_once_and_in_order_of_time() {
        let mut logs = Logs::default();
        for (id, at) in [("a", Some(1)), ("c", Some(5)), ("d", None), ("b", Some(3)), ("a", Some(1))] {
            logs.take(&says(id, at));
        }
        assert_eq!(ids(&logs), ["a", "b", "c", "d"]);
        logs.fill(&"s".into(), &[says("0", Some(0)), says("b", Some(3)), says("e", Some(9))]);
        assert_eq!(ids(&logs), ["0", "a", "b", "c", "d", "e"]);
        assert!(logs.of(&"s".into()).unwrap().is_whole);
    }

    #[test]
    fn corrections_and_names_change_what_was_told() {
        let mut logs = Logs::default();
        logs.take(&says("a", Some(1)));
        let data = json!({"event_id": "a", "actor_id": "subagent:a2", "basis": "wire"});
        assert!(logs.take(&event("x", None, EventKind::Attribution, data)));
        logs.take(&event("y", None, EventKind::AgentRenamed, json!({"from": "a2", "to": "a3"})));
        let moment = &logs.of(&"s".into()).unwrap().moments()[0];
        assert_eq!((&*moment.agent, moment.is_guess), ("a3", false));
    }

    #[test]
    fn memory_is_bounded_and_what_goes_is_counted() {
        let mut logs = Logs::default();
        let text = "x".repeat(4_000);
        for at in 0..20_000 {
            let data = json!({ "text": text });
            logs.take(&event(&at.to_string(), Some(at), EventKind::AgentMessage, data));
        }
        let log = logs.of(&"s".into()).unwrap();
        assert!(logs.bytes <= MOST_BYTES && log.bytes == logs.bytes);
        assert_eq!(log.moments.len() as u64 + log.missed, 20_000);
        assert_eq!(log.ids.len(), log.moments.len());
        assert_eq!(&*log.moments.last().unwrap().id, "19999");
    }
}
