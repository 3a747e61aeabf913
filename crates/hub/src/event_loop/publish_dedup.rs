//! Drops events that an earlier hub process already published, without losing events that it did not.
//!
//! A hub reads the files of live sessions from their beginning. Only the change log says what was published: rows may
//! be newer, since an index updates them before the hub reads, or older, since events are saved before rows. For a
//! session that is in the change log, an event is published if the log does not contain it and it is not far older than
//! the oldest logged event of the session. For other sessions every event after the stop of the last hub (or the
//! creation of the store) is published; older ones are past. For a session that was idle when this hub started and
//! continues now, everything that its rows contain is past.

use std::collections::{BTreeSet, HashMap, HashSet, hash_map::Entry};

use super::hub_store::HubStore;
use subscope_model::{Event, Millis, SessionId, Text};

/// Most recent event ids loaded per session: far more than arrive out of order.
const TOLD_EVENTS: usize = 20_000;

/// Tolerance for events that arrive out of order: files are read concurrently, and some lines are understood only by
/// later ones. Far more than that takes; at most this much of the past is published again.
const UNTOLD_MS: Millis = 10_000;

/// `source` of events that the hub derives itself.
const CONCLUDED: &str = "subscope";

/// Events at the end of the change log that are searched for the time at which the last hub stopped: some have no time.
const LAST_EVENTS: u64 = 200;

/// Filter for events that were published before this hub started.
pub(super) struct PublishedFilter {
    /// Time up to which the previous hub published all events; `None` if unknown.
    stopped_ms: Option<Millis>,
    sessions: HashMap<SessionId, OfSession>,
    /// Whether the initial content of live files is read.
    startup_done: bool,
}

/// Published events of one session.
struct OfSession {
    /// Events up to this time are past.
    until: Option<Millis>,
    /// The same for new input: set if more events were published than ids are loaded.
    always_until: Option<Millis>,
    ids: HashSet<Text>,
    /// Dialects of input that arrived after the rows were saved: its events may have any time.
    fresh: BTreeSet<Text>,
    has_rows: bool,
    /// Whether it was idle when this hub started: its files are read from their beginning once they grow.
    was_at_rest: bool,
}

impl PublishedFilter {
    /// Finds the time at which the last hub stopped.
    pub(super) fn before(store: &HubStore) -> Self {
        let last = store.last_seq();
        let events = store.events_after(last.saturating_sub(LAST_EVENTS), None, usize::MAX);
        let events = store.read("the end of the change log", events).flatten();
        let events = events.unwrap_or_default();
        let stopped_ms = match events.as_slice() {
            // Sequence numbers begin with the microsecond at which the store was created.
            [] => Millis::try_from(last / 1000).ok(),
            events => events.iter().filter_map(|event| event.at_ms).max().map(|last| last - UNTOLD_MS),
        };
        Self { stopped_ms, sessions: HashMap::new(), startup_done: false }
    }

    /// Records that the initial content of live files is read: of sessions loaded from now on, everything in their rows
    /// is past.
    pub(super) fn announced(&mut self) {
        self.startup_done = true;
    }

    /// Forgets an evicted session: everything in its rows is past.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// Records dialects in which new input of a session arrived.
    pub(super) fn is_fresh(&mut self, session: &SessionId, dialects: &BTreeSet<Text>, store: &HubStore) {
        if let Some(of) = self.of(session, store) {
            of.fresh.extend(dialects.iter().cloned());
        }
    }

    /// Whether a session had rows when this hub first loaded it: they contain all of it, as far as an index read it.
    /// `None` if the store cannot be read.
    pub(super) fn has_rows(&mut self, session: &SessionId, store: &HubStore) -> Option<bool> {
        self.of(session, store).map(|of| of.has_rows)
    }

    /// Removes events that were published before. The age of an event counts only while its session's files are read
    /// again; later, events may be old because they are published with a delay.
    pub(super) fn retain(
        &mut self,
        events: &mut Vec<Event>,
        is_read_again: &dyn Fn(&SessionId) -> bool,
        store: &HubStore,
    ) {
        events.retain(|event| {
            let Some(told) = self.of(&event.session_id, store) else { return true };
            let may_be_past = told.was_at_rest || is_read_again(&event.session_id);
            !(told.ids.contains(&event.id) || (may_be_past && told.is_past(event)))
        });
    }

    fn of(&mut self, session: &SessionId, store: &HubStore) -> Option<&mut OfSession> {
        let Self { stopped_ms, startup_done, sessions } = self;
        match sessions.entry(session.clone()) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(vacant) => {
                OfSession::look(session, *stopped_ms, *startup_done, store).map(|of| vacant.insert(of))
            }
        }
    }
}

impl OfSession {
    fn look(
        session: &SessionId,
        stopped_ms: Option<Millis>,
        startup_done: bool,
        store: &HubStore,
    ) -> Option<Self> {
        let logged = store.read("a session's published events", store.latest_events(session, TOLD_EVENTS))?;
        let rows = store.read("a session's rows", store.tree(session))?;
        let first = logged.iter().rev().find_map(|(_, at)| *at).map(|first| first - UNTOLD_MS);
        let known = rows.as_ref().and_then(|tree| tree.session.ended_at_ms);
        let was_at_rest = startup_done && rows.is_some();
        // The rows of an idle session are a better limit than the time at which the last hub stopped.
        let stopped_ms = stopped_ms.filter(|_| !was_at_rest);
        Some(Self {
            until: first.or(stopped_ms).or(known),
            always_until: first.filter(|_| logged.len() == TOLD_EVENTS),
            ids: logged.into_iter().map(|(id, _)| id).collect(),
            fresh: BTreeSet::new(),
            has_rows: rows.is_some(),
            was_at_rest,
        })
    }

    fn is_past(&self, event: &Event) -> bool {
        if !self.has_rows && !self.fresh.is_empty() && *event.source == *CONCLUDED {
            // Derived from input of programs that has no rows yet: new, whatever its time.
            return false;
        }
        let until = if self.fresh.contains(&event.source) { self.always_until } else { self.until };
        event.at_ms.zip(until).is_some_and(|(at, until)| at <= until)
    }
}
