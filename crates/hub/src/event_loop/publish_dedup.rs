//! What hubs of before have told, so that it is told neither again nor never.
//!
//! A hub reads the files of live sessions from their beginning. What was told is known by the change log alone: rows may
//! know more, since an index brings them up to date before the hub reads, and less, since events are kept before rows. Of a
//! session that the log knows, an event is told if the log does not have it and it is not far older than what the log begins
//! with. Nothing was ever told of any other: of that all is told that happened since the last hub stopped, which may have
//! been its first moment; what was before is past. So is what the rows know of a session that was at rest when this hub began
//! and goes on now.

use std::collections::{BTreeSet, HashMap, HashSet, hash_map::Entry};

use super::hub_store::HubStore;
use subscope_model::{Event, Millis, SessionId, Text};

/// How many of a session's last events are looked through for those that were told: far more than come out of order.
const TOLD_EVENTS: usize = 20_000;

/// How much older than what was told something may be that was not: files are read side by side, and some lines are
/// understood by later ones. Far more than that takes; at most so much of what was past is told after all.
const UNTOLD_MS: Millis = 10_000;

/// The source of events that no source tells.
const CONCLUDED: &str = "subscope";

/// How many of the log's last events are looked at for the moment at which the last hub stopped: some have no time.
const LAST_EVENTS: u64 = 200;

/// What was told before this hub began.
pub(super) struct PublishedFilter {
    /// Until when the last hub had told everything; `None` where nothing tells.
    stopped_ms: Option<Millis>,
    sessions: HashMap<SessionId, OfSession>,
    /// Whether what stood in the files of live sessions is read.
    startup_done: bool,
}

/// What was told of one session.
struct OfSession {
    /// What is older, or as old, is past.
    until: Option<Millis>,
    /// The same whatever tells it: more was told than is looked through.
    always_until: Option<Millis>,
    ids: HashSet<Text>,
    /// Dialects of which only the part is read again that the rows do not know: their events may be of any time.
    fresh: BTreeSet<Text>,
    has_rows: bool,
    /// Whether it was at rest when this hub began: its files are read from their beginning once it goes on.
    was_at_rest: bool,
}

impl PublishedFilter {
    /// Looks where the last hub stopped.
    pub(super) fn before(store: &HubStore) -> Self {
        let last = store.last_seq();
        let events = store.events_after(last.saturating_sub(LAST_EVENTS), None, usize::MAX);
        let events = store.read("the end of the change log", events).flatten();
        let events = events.unwrap_or_default();
        let stopped_ms = match events.as_slice() {
            // Places begin with the microsecond at which the store was made.
            [] => Millis::try_from(last / 1000).ok(),
            events => events.iter().filter_map(|event| event.at_ms).max().map(|last| last - UNTOLD_MS),
        };
        Self { stopped_ms, sessions: HashMap::new(), startup_done: false }
    }

    /// What stood in the files of live sessions is read: of other sessions that is past which their rows know.
    pub(super) fn announced(&mut self) {
        self.startup_done = true;
    }

    /// A session is at rest again: what its rows know is past.
    pub(super) fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// Says of which dialects only that part of a session is read again that its rows do not know.
    pub(super) fn is_fresh(&mut self, session: &SessionId, dialects: &BTreeSet<Text>, store: &HubStore) {
        if let Some(of) = self.of(session, store) {
            of.fresh.extend(dialects.iter().cloned());
        }
    }

    /// Whether a session had rows when this hub first heard of it: they know it whole, as far as an index read it. `None` where
    /// the store cannot say.
    pub(super) fn has_rows(&mut self, session: &SessionId, store: &HubStore) -> Option<bool> {
        self.of(session, store).map(|of| of.has_rows)
    }

    /// Keeps what was not told before. Only of what stands in a session's files when they are read for the first time does the
    /// age of an event say anything; some that were told come later, since they are told with a delay.
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
        // Since when one rests, its rows say better than when the last hub stopped.
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
            // Of a session that was handed over just now, whatever was concluded.
            return false;
        }
        let until = if self.fresh.contains(&event.source) { self.always_until } else { self.until };
        event.at_ms.zip(until).is_some_and(|(at, until)| at <= until)
    }
}
