//! A session: the facts of its sources, and the events that are not published yet.

use std::collections::BTreeSet;

use subscope_decode::Dialect;
use subscope_model::{
    Event, EventRecord, Millis, Observation, Payload, Problem, SessionId, SessionText, SourceId, Tree,
};
use subscope_track::{Now, Tracker, next_deadline};

use crate::{
    feed::SessionFeed,
    pending_event::{EventUse, PendingEvent, to_pending_event},
    router::{EventScope, RouterOptions, UnreadLines, add_problems},
    source::SourceSpec,
    traces::SessionTraces,
};

/// One session.
pub(crate) struct Session {
    /// Facts of all sources but traces.
    tracker: Tracker,
    pub(crate) traces: SessionTraces,
    /// Whether an observation that is of no trace was joined.
    has_own_facts: bool,
    /// Which events are recorded, and until when.
    events: (EventScope, Option<Millis>),
    /// Sources with lines of the session.
    sources: BTreeSet<SourceId>,
    /// Whether it has facts that a store kept, of lines that no source has.
    has_stored_facts: bool,
    pending_events: Vec<PendingEvent>,
    feed: SessionFeed,
}

/// What a session is at a moment, and what happened since the last update.
#[derive(Debug)]
pub struct SessionUpdate {
    /// Rows of all agents and of the session.
    pub tree: Tree,
    /// New events, in order.
    pub events: Vec<Event>,
    /// Time at which rows or events may change without new input.
    pub deadline: Option<Millis>,
}

impl Session {
    /// Creates a session without input. `feed` is what was published of it before it was evicted, if it was.
    pub(crate) fn new(id: SessionId, options: &RouterOptions, feed: SessionFeed) -> Self {
        Self {
            tracker: Tracker::new(id, options.keep, options.cutoff),
            traces: SessionTraces::default(),
            has_own_facts: false,
            events: (options.events, options.cutoff),
            sources: BTreeSet::new(),
            has_stored_facts: false,
            pending_events: Vec::new(),
            feed,
        }
    }

    /// Returns the session's id.
    pub(crate) fn id(&self) -> &SessionId {
        self.tracker.session()
    }

    /// Facts of all sources but traces.
    pub(crate) fn own_facts(&self) -> &Tracker {
        &self.tracker
    }

    /// Facts of all sources but traces, for changes.
    pub(crate) fn own_facts_mut(&mut self) -> &mut Tracker {
        self.traces.invalidate();
        &mut self.tracker
    }

    /// Facts of all sources.
    pub(crate) fn facts(&self) -> &Tracker {
        self.traces.joined(&self.tracker)
    }

    /// Drops everything but what was published.
    pub(crate) fn into_feed(self) -> SessionFeed {
        self.feed
    }

    /// Whether events of it were published.
    pub(crate) fn has_published(&self) -> bool {
        self.feed.published_count() > 0
    }

    /// Whether it has any input.
    pub(crate) fn has_input(&self) -> bool {
        !self.sources.is_empty() || self.has_stored_facts
    }

    /// Whether nothing but traces gave it input, or may give it facts.
    pub(crate) fn is_of_traces_alone(&self) -> bool {
        !self.has_own_facts && !self.has_stored_facts
    }

    /// Joins facts that a store kept. Returns whether they could be read.
    pub(crate) fn join_facts(&mut self, json: &[u8], sources: u32) -> bool {
        let is_joined = self.own_facts_mut().join_facts(json, sources).is_ok();
        self.has_stored_facts |= is_joined;
        is_joined
    }

    /// Records a source that has lines of the session.
    pub(crate) fn add_source(&mut self, source: SourceId) {
        self.sources.insert(source);
    }

    pub(crate) fn sources(&self) -> &BTreeSet<SourceId> {
        &self.sources
    }

    /// Joins one observation; its event is published by the next update if `events` includes it. `spec` describes its
    /// source. Returns `false` if it was dropped because of the cutoff.
    pub(crate) fn absorb(
        &mut self,
        seen: &Observation<'_>,
        dialect: Dialect,
        spec: &SourceSpec,
        events: EventScope,
    ) -> bool {
        let is_read_once = spec.origin.is_read_once();
        self.traces.invalidate();
        self.tracker.inline_payloads(is_read_once);
        self.has_own_facts = true;
        let is_taken = self.tracker.absorb(seen);
        if is_taken && events.includes(&seen.fact) {
            let wanted = match events {
                EventScope::Texts => EventUse::Texts { is_read_once },
                EventScope::Records => EventUse::Records { is_read_once },
                EventScope::Nothing | EventScope::Waits | EventScope::All => EventUse::Feed,
            };
            self.pending_events.extend(to_pending_event(seen, dialect, &spec.label, wanted));
        }
        is_taken
    }

    /// Joins the same session of another router. Adds `base` to its source numbers.
    pub(crate) fn join(&mut self, other: Self, base: u32) {
        self.own_facts_mut().join(other.tracker, base);
        for (trace, spans) in other.traces.into_all() {
            self.traces.join(trace, spans);
        }
        self.has_stored_facts |= other.has_stored_facts;
        self.has_own_facts |= other.has_own_facts;
        self.sources.extend(other.sources.into_iter().map(|source| SourceId(source.0 + base)));
        self.pending_events.extend(other.pending_events.into_iter().map(|mut event| {
            event.place.source.0 += base;
            let text = event.text_place.as_mut().map(|place| &mut place.payload);
            if let Some(Payload::At { source, .. }) = text.or_else(|| event.data.missing_payload()) {
                source.0 += base;
            }
            event
        }));
    }

    /// Whether events wait for an update, because of new input or of time.
    pub(crate) fn has_pending_events(&self) -> bool {
        !self.pending_events.is_empty() || self.traces.has_changed() || self.next_event_at().is_some()
    }

    /// Returns the time at which an update has events without new input.
    pub(crate) fn next_event_at(&self) -> Option<Millis> {
        self.feed.next_due()
    }

    fn add_trace_events(&mut self) {
        let Self { tracker, traces, feed, events, pending_events, .. } = self;
        let is_published = |seen: &Observation<'_>| feed.has_published(tracker.session(), seen);
        pending_events.extend(traces.advance(tracker, *events, &is_published));
    }

    /// Derives the session for a moment. `problems` are its problems besides those of its facts, `lines` the lines of
    /// problems. With `is_settled`, no event waits for a better source.
    pub(crate) fn update(
        &mut self,
        now: &Now<'_>,
        is_settled: bool,
        problems: &[Problem],
        lines: &UnreadLines,
    ) -> SessionUpdate {
        self.add_trace_events();
        let mut derived = self.traces.joined(&self.tracker).derive(now);
        add_problems(&mut derived.tree, problems);
        let pending = std::mem::take(&mut self.pending_events);
        let waits = Now { is_growing: now.is_growing && !is_settled, ..now.clone() };
        let events = self.feed.advance(&derived, pending, &waits, lines);
        let events = events.into_iter().map(EventRecord::into_event).collect();
        let deadline = next_deadline(&derived.tree, now).into_iter().chain(self.feed.next_due()).min();
        SessionUpdate { tree: derived.tree, events, deadline }
    }

    /// Returns all prompts, messages and thoughts in order of time; complete with [`EventScope::Texts`].
    pub(crate) fn texts(&mut self, now: &Now<'_>) -> Vec<SessionText> {
        self.add_trace_events();
        self.sort_pending();
        let derived = self.traces.joined(&self.tracker).derive(now);
        self.feed.texts(&derived, std::mem::take(&mut self.pending_events))
    }

    /// Two sources may report one event: the first is published, so the better source goes first.
    fn sort_pending(&mut self) {
        self.pending_events
            .sort_by_key(|event| (event.time.is_none(), event.source_kind, event.place.offset));
    }

    /// Returns the whole feed in order of time.
    pub(crate) fn whole_feed(
        &mut self,
        now: &Now<'_>,
        problems: &[Problem],
        lines: &UnreadLines,
    ) -> Vec<EventRecord> {
        self.add_trace_events();
        self.sort_pending();
        let mut derived = self.traces.joined(&self.tracker).derive(now);
        add_problems(&mut derived.tree, problems);
        let mut events = self.feed.advance(&derived, std::mem::take(&mut self.pending_events), now, lines);
        for (seq, event) in (1..).zip(&mut events) {
            event.seq = seq;
        }
        events
    }
}
