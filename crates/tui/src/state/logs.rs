//! Event logs by session, in chronological order, bounded in memory.

use std::collections::{HashMap, HashSet};

use subscope_model::{AgentId, Event, EventKind, Millis, SessionId, Text};

use crate::log_entry::LogEntry;

/// Memory limit of all logs. Beyond it the largest log cuts its long texts, then drops and counts its oldest entries.
const MAX_BYTES: usize = 40 << 20;

#[derive(Debug, Default)]
pub(crate) struct EventLogs {
    by_session: HashMap<SessionId, EventLog>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct EventLog {
    /// In chronological order; entries without a time stay where they arrived.
    entries: Vec<LogEntry>,
    ids: HashSet<Text>,
    /// Ids of the calls whose begin is an entry.
    begun: HashSet<Text>,
    bytes: usize,
    /// Whether the events before the subscription were loaded.
    pub(crate) is_complete: bool,
    /// Number of entries dropped here or missed by the feed.
    pub(crate) missed: u64,
}

impl EventLogs {
    pub(crate) fn get(&self, session: &SessionId) -> Option<&EventLog> {
        self.by_session.get(session)
    }

    /// All logs, in no order.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&SessionId, &EventLog)> {
        self.by_session.iter()
    }

    /// Adds an event, or applies a correction to earlier ones. Returns whether anything changed.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        let log = self.by_session.entry(event.session_id.clone()).or_default();
        let before = log.bytes;
        let has_changed = log.apply(event);
        self.bytes += log.bytes - before;
        self.enforce_limit();
        has_changed
    }

    /// Adds all events of a session; known ones are skipped.
    pub(crate) fn load(&mut self, session: &SessionId, events: &[Event]) {
        let log = self.by_session.entry(session.clone()).or_default();
        let before = log.bytes;
        log.is_complete = true;
        log.missed = 0;
        for event in events {
            log.apply(event);
        }
        // An entry without a time follows its predecessor.
        let mut last = Millis::MIN;
        let dated = std::mem::take(&mut log.entries).into_iter().map(|entry| {
            last = entry.at_ms.unwrap_or(last);
            (last, entry)
        });
        let mut dated: Vec<(Millis, LogEntry)> = dated.collect();
        dated.sort_by_key(|(at, _)| *at);
        log.entries = dated.into_iter().map(|(_, entry)| entry).collect();
        self.bytes += log.bytes - before;
        self.enforce_limit();
    }

    /// Records that the feed missed events; the sessions are unknown, so all logs are marked.
    pub(crate) fn mark_missed(&mut self, count: u64) {
        for log in self.by_session.values_mut() {
            log.is_complete = false;
            log.missed += count;
        }
    }

    fn enforce_limit(&mut self) {
        while self.bytes > MAX_BYTES {
            let Some(log) = self.by_session.values_mut().max_by_key(|log| log.bytes) else { return };
            let freed = match log.shorten_texts() {
                0 => log.drop_oldest(),
                freed => freed,
            };
            self.bytes = self.bytes.saturating_sub(freed);
            if freed == 0 {
                return;
            }
        }
    }
}

impl EventLog {
    /// All entries in chronological order.
    pub(crate) fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// Whether an entry is the end of a call whose begin is an entry, too.
    pub(crate) fn is_end_of_begun(&self, entry: &LogEntry) -> bool {
        entry.is_end_of_call() && entry.call.as_ref().is_some_and(|call| self.begun.contains(call))
    }

    /// The end of a call, if it is an entry.
    pub(crate) fn end_of(&self, call: &str) -> Option<&LogEntry> {
        self.entries.iter().rev().find(|entry| entry.is_end_of_call() && entry.call.as_deref() == Some(call))
    }

    fn apply(&mut self, event: &Event) -> bool {
        if event.kind == EventKind::Attribution {
            return self.correct(event);
        }
        if event.kind == EventKind::AgentRenamed {
            return self.rename(event);
        }
        let Some(entry) = LogEntry::of(event).filter(|entry| !self.ids.contains(&entry.id)) else {
            return false;
        };
        self.ids.insert(entry.id.clone());
        self.begun.extend(entry.call.clone().filter(|_| entry.kind == EventKind::ToolPre));
        self.bytes += entry.bytes();
        let place = match entry.at_ms {
            // Nearly always the end: events arrive in order.
            Some(at) => {
                let later =
                    self.entries.iter().rev().take_while(|known| known.at_ms.is_none_or(|its| its > at));
                let dated = later.enumerate().filter(|(_, known)| known.at_ms.is_some());
                self.entries.len() - dated.last().map_or(0, |(place, _)| place + 1)
            }
            None => self.entries.len(),
        };
        self.entries.insert(place, entry);
        true
    }

    fn correct(&mut self, event: &Event) -> bool {
        let (Some(id), Some(actor)) = (event.text("event_id"), event.text("actor_id")) else { return false };
        let Some(entry) = self.entries.iter_mut().rev().find(|entry| &*entry.id == id) else {
            return false;
        };
        entry.agent = AgentId::from(actor.strip_prefix("subagent:").unwrap_or(AgentId::ROOT));
        entry.is_guess = matches!(event.text("basis"), Some("stack" | "unknown"));
        true
    }

    fn rename(&mut self, event: &Event) -> bool {
        let (Some(from), Some(to)) = (event.text("from"), event.text("to")) else { return false };
        let to = AgentId::from(to);
        for entry in self.entries.iter_mut().filter(|entry| &*entry.agent == from) {
            entry.agent = to.clone();
        }
        true
    }

    /// Drops the oldest quarter; returns the number of bytes freed.
    /// Cuts the long texts of all entries. Returns the number of bytes freed.
    fn shorten_texts(&mut self) -> usize {
        let freed = self.entries.iter_mut().map(LogEntry::shorten).sum();
        self.bytes -= freed;
        freed
    }

    fn drop_oldest(&mut self) -> usize {
        let count = self.entries.len().div_ceil(4);
        let mut freed = 0;
        for entry in self.entries.drain(..count) {
            freed += entry.bytes();
            self.ids.remove(&entry.id);
            if let Some(call) = entry.call.as_ref().filter(|_| entry.kind == EventKind::ToolPre) {
                self.begun.remove(call);
            }
        }
        self.bytes -= freed;
        self.missed += count as u64;
        freed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use subscope_model::{Actor, Basis, EventSchema};

    use super::*;

    fn event(id: &str, at_ms: Option<Millis>, kind: EventKind, data: Value) -> Event {
        Event {
            schema: EventSchema,
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

    fn ids(logs: &EventLogs) -> Vec<&str> {
        logs.get(&"s".into()).unwrap().entries().iter().map(|entry| &*entry.id).collect()
    }

    #[test]
    fn moments_stand_once_and_in_order_of_time() {
        let mut logs = EventLogs::default();
        for (id, at) in [("a", Some(1)), ("c", Some(5)), ("d", None), ("b", Some(3)), ("a", Some(1))] {
            logs.apply(&says(id, at));
        }
        assert_eq!(ids(&logs), ["a", "b", "c", "d"]);
        logs.load(&"s".into(), &[says("0", Some(0)), says("b", Some(3)), says("e", Some(9))]);
        assert_eq!(ids(&logs), ["0", "a", "b", "c", "d", "e"]);
        assert!(logs.get(&"s".into()).unwrap().is_complete);
    }

    #[test]
    fn corrections_and_names_change_what_was_told() {
        let mut logs = EventLogs::default();
        logs.apply(&says("a", Some(1)));
        let data = json!({"event_id": "a", "actor_id": "subagent:a2", "basis": "wire"});
        assert!(logs.apply(&event("x", None, EventKind::Attribution, data)));
        logs.apply(&event("y", None, EventKind::AgentRenamed, json!({"from": "a2", "to": "a3"})));
        let entry = &logs.get(&"s".into()).unwrap().entries()[0];
        assert_eq!((&*entry.agent, entry.is_guess), ("a3", false));
    }

    #[test]
    fn memory_is_bounded_and_what_goes_is_counted() {
        let mut logs = EventLogs::default();
        let text = "x".repeat(4_000);
        for at in 0..20_000 {
            let data = json!({ "text": text });
            logs.apply(&event(&at.to_string(), Some(at), EventKind::AgentMessage, data));
        }
        let log = logs.get(&"s".into()).unwrap();
        assert!(logs.bytes <= MAX_BYTES && log.bytes == logs.bytes);
        assert_eq!(log.entries.len() as u64 + log.missed, 20_000);
        assert_eq!(log.ids.len(), log.entries.len());
        assert_eq!(&*log.entries.last().unwrap().id, "19999");
    }
}
