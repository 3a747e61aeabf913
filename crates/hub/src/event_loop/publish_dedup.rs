//! Drops events that an earlier hub process already published, without losing events that it did not.
//!
//! A hub reads the files of live sessions from their beginning. Only the change log shows what was published: rows may
//! be newer, since an index updates them before the hub reads, or older, since events are saved before rows. For a
//! session that is in the change log, an event is published if the log does not contain it and it is not far older than
//! the oldest logged event of the session. For other sessions every event after the stop of the last hub (or the
//! creation of the store) is published; older ones are past. For a session that was idle when this hub started and
//! continues now, everything that its rows contain is past; if no index has read it yet, everything before the stop of
//! the last hub. What this hub itself has published of a session is known exactly, also after an eviction
//! ([`SessionRouter::has_published`]).

use std::collections::{BTreeSet, HashSet};

use subscope_model::{Event, Millis, SessionId, Text, Tree};

use subscope_session::{SessionRouter, id_by_request};

use super::{EventLoop, hub_store::HubStore, session_slot::LoadedBy, startup::Startup};
use crate::{driver::Driver, session_sources::RowCounts};

/// Most recent event ids loaded per session: far more than arrive out of order.
const MAX_EVENT_IDS: usize = 20_000;

/// Tolerance for events that arrive out of order: files are read concurrently, and some lines are understood only by
/// later ones. Far more than that takes; at most this much of the past is published again.
const REORDER_MS: Millis = 10_000;

/// `source` of events that the hub derives itself.
const DERIVED_SOURCE: &str = "subscope";

/// Events at the end of the change log that are searched for the time at which the last hub stopped: some have no time.
const LAST_EVENTS: u64 = 200;

/// Published events of one session.
pub(super) struct PublishedEvents {
    /// Events up to this time are past.
    until: Option<Millis>,
    /// The same for new input: set if more events were published than ids are loaded.
    unchecked_until: Option<Millis>,
    ids: HashSet<Text>,
    /// Dialects of input that arrived after the rows were saved: its events may have any time.
    new_dialects: BTreeSet<Text>,
    /// Size of its rows when this hub loaded it; `None` if it had none.
    stored: Option<RowCounts>,
    scope: PastScope,
}

/// For how long events of a session may be past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PastScope {
    /// Never: this hub has published events of it before, and knows which.
    Never,
    /// While its input is read again.
    Reread,
    /// Until its rows are first saved: its files are older than this hub, and no index had read them.
    FirstContent,
    /// Always: it was idle when this hub started, and its files are read from their beginning once they grow.
    Always,
}

/// Returns the time up to which the last hub published all events; `None` if it is unknown.
pub(super) fn last_stop(store: &HubStore) -> Option<Millis> {
    let last = store.last_seq();
    let events = store.events_after(last.saturating_sub(LAST_EVENTS), None, usize::MAX);
    let events = store.read("the end of the change log", events).flatten().unwrap_or_default();
    match events.as_slice() {
        // Sequence numbers begin with the microsecond at which the store was created.
        [] => Millis::try_from(last / 1000).ok(),
        events => events.iter().filter_map(|event| event.at_ms).max().map(|last| last - REORDER_MS),
    }
}

impl EventLoop {
    /// Records dialects in which new input of a session arrived.
    pub(super) fn add_new_dialects(&mut self, session: &SessionId, dialects: &BTreeSet<Text>) {
        if let Some(published) = self.published(session) {
            published.new_dialects.extend(dialects.iter().cloned());
        }
    }

    /// Whether a session had rows when this hub first loaded it: they contain all of it, as far as an index read it.
    /// `None` if the store cannot be read.
    pub(super) fn has_stored_rows(&mut self, session: &SessionId) -> Option<bool> {
        self.published(session).map(|events| events.stored.is_some())
    }

    /// What was published of a session; `None` if the store cannot be read.
    pub(super) fn published(&mut self, session: &SessionId) -> Option<&mut PublishedEvents> {
        let Self { startup, store, router, driver, sessions, .. } = self;
        sessions.load(session, LoadedBy::Input);
        let loaded = sessions.loaded_mut(session)?;
        if loaded.published.is_none() {
            loaded.published = PublishedEvents::load(session, startup, store, router, &**driver);
        }
        loaded.published.as_mut()
    }
}

impl PublishedEvents {
    fn load(
        session: &SessionId,
        startup: &Startup,
        store: &HubStore,
        router: &SessionRouter,
        driver: &dyn Driver,
    ) -> Option<Self> {
        let logged =
            store.read("a session's published events", store.latest_events(session, MAX_EVENT_IDS))?;
        let rows = store.read("a session's rows", store.tree(session))?;
        let first = logged.iter().rev().find_map(|(_, at)| *at).map(|first| first - REORDER_MS);
        let known = rows.as_ref().and_then(last_event_time);
        let (until, scope) = if router.has_published(session) {
            (None, PastScope::Never)
        } else if startup.is_done && rows.is_some() {
            // Its rows are a better limit than what the log still holds, or the time at which the last hub stopped.
            (known.or(first), PastScope::Always)
        } else if startup.is_done && logged.is_empty() && driver.is_older_than_hub(session) {
            (startup.last_stop_ms, PastScope::FirstContent)
        } else {
            (first.or(startup.last_stop_ms).or(known), PastScope::Reread)
        };
        Some(Self {
            until,
            unchecked_until: first.filter(|_| logged.len() == MAX_EVENT_IDS),
            ids: logged.into_iter().map(|(id, _)| id).collect(),
            new_dialects: BTreeSet::new(),
            stored: rows.as_ref().map(RowCounts::of),
            scope,
        })
    }

    /// Whether all content of the session up to now is read for the first time, or again after another hub: its events
    /// wait for no other source.
    pub(super) fn is_settled(&self, is_reread: bool) -> bool {
        is_reread && self.scope != PastScope::Never
    }

    /// Ends the first content of a session that appeared beside the hub: its rows are saved.
    pub(super) fn end_first_content(&mut self) {
        if self.scope == PastScope::FirstContent {
            self.scope = PastScope::Reread;
        }
    }

    /// Whether the stored rows had more agents than these, or a title that these lack.
    pub(super) fn has_more_than(&self, derived: &Tree) -> bool {
        self.stored.is_some_and(|stored| stored.exceed_in_agents(RowCounts::of(derived)))
    }

    /// Removes events that were published before. The age of an event counts only while the session's input is read
    /// again; later, events may be old because they are published with a delay.
    pub(super) fn retain_new(&self, events: &mut Vec<Event>, is_reread: bool) {
        let may_be_past = match self.scope {
            PastScope::Never => false,
            PastScope::Reread => is_reread,
            PastScope::FirstContent | PastScope::Always => true,
        };
        let is_known = |event: &Event| {
            self.ids.contains(&event.id) || id_by_request(event).is_some_and(|id| self.ids.contains(&id))
        };
        events.retain(|event| !(is_known(event) || (may_be_past && self.is_past(event))));
    }

    fn is_past(&self, event: &Event) -> bool {
        if self.stored.is_none() && !self.new_dialects.is_empty() && *event.source == *DERIVED_SOURCE {
            // Derived from input of programs that has no rows yet: new, whatever its time.
            return false;
        }
        let until = if self.new_dialects.contains(&event.source) { self.unchecked_until } else { self.until };
        event.at_ms.zip(until).is_some_and(|(at, until)| at <= until)
    }
}

/// Returns the time of the last event of a session, by its rows.
fn last_event_time(tree: &Tree) -> Option<Millis> {
    let agents = tree.agents.iter().filter_map(|row| row.last_event_at_ms);
    agents.chain(tree.session.ended_at_ms).max()
}
