//! The traces of a session: spans of agent programs, whose meaning follows from all spans of their trace.
//!
//! A session keeps the spans. What they say is derived from all of them whenever one was added, and joined with the facts
//! of its other sources: so what an early span seemed to say is taken back by a later one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use subscope_decode::otlp::{CallIds, OTEL_GENAI, Trace};
use subscope_model::{Millis, SessionId, TraceSpan};
use subscope_track::Tracker;

use crate::{
    pending_event::{EventUse, PendingEvent, to_pending_event},
    router::EventScope,
};

/// Spans of traces, by trace.
#[derive(Default)]
pub(crate) struct SessionTraces {
    all: BTreeMap<u128, Trace>,
    /// Those whose events are not pending yet.
    changed: BTreeSet<u128>,
    /// Facts of the session with what its traces say.
    joined: OnceLock<Tracker>,
}

impl SessionTraces {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether some have events that are not pending yet.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Adds the spans of a trace. Returns whether one of them is new.
    pub(crate) fn add(&mut self, trace: u128, spans: impl IntoIterator<Item = Arc<TraceSpan>>) -> bool {
        let known = self.all.entry(trace).or_default();
        let mut is_new = false;
        for span in spans {
            is_new |= known.add(span);
        }
        if is_new {
            self.changed.insert(trace);
            self.joined = OnceLock::new();
        }
        is_new
    }

    /// Takes a trace that is of another session.
    pub(crate) fn remove(&mut self, trace: u128) -> Option<Trace> {
        self.changed.remove(&trace);
        self.joined = OnceLock::new();
        self.all.remove(&trace)
    }

    /// Adds a trace of another session.
    pub(crate) fn join(&mut self, trace: u128, spans: Trace) {
        self.all.entry(trace).or_default().join(spans);
        self.changed.insert(trace);
        self.joined = OnceLock::new();
    }

    /// Returns all traces.
    pub(crate) fn into_all(self) -> impl Iterator<Item = (u128, Trace)> {
        self.all.into_iter()
    }

    /// Returns the ids of the traces.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u128> {
        self.all.keys().copied()
    }

    /// Returns the session that a trace names.
    pub(crate) fn session_of(&self, trace: u128) -> Option<SessionId> {
        self.all.get(&trace)?.session().map(SessionId)
    }

    /// Forgets what was joined: the facts of other sources have changed.
    pub(crate) fn invalidate(&mut self) {
        if !self.all.is_empty() {
            self.joined = OnceLock::new();
        }
    }

    /// Returns which trace has each id of a call. A single trace has all of its own.
    fn call_ids(&self) -> CallIds<'_> {
        if self.all.len() < 2 { CallIds::default() } else { CallIds::of(self.all.values()) }
    }

    /// Returns the facts of a session with what its traces say.
    pub(crate) fn joined<'t>(&'t self, facts: &'t Tracker) -> &'t Tracker {
        if self.all.is_empty() {
            return facts;
        }
        self.joined.get_or_init(|| {
            let mut joined = facts.clone();
            joined.inline_payloads(true);
            let call_ids = self.call_ids();
            for trace in self.all.values() {
                trace.observe(&call_ids, &mut |seen| {
                    joined.absorb(seen);
                });
            }
            joined
        })
    }

    /// Takes the events of traces that have changed: also those that were published before.
    pub(crate) fn take_events(&mut self, events: EventScope, cutoff: Option<Millis>) -> Vec<PendingEvent> {
        let mut pending = Vec::new();
        let changed = std::mem::take(&mut self.changed);
        if !events.is_any() {
            return pending;
        }
        let call_ids = self.call_ids();
        for trace in changed {
            let Some(trace) = self.all.get(&trace) else { continue };
            let wanted = match events {
                EventScope::Texts => EventUse::Texts { is_read_once: true },
                EventScope::Records => EventUse::Records { is_read_once: true },
                EventScope::Nothing | EventScope::Waits | EventScope::All => EventUse::Feed,
            };
            trace.observe(&call_ids, &mut |seen| {
                let is_late = cutoff.is_some_and(|cutoff| seen.time.is_some_and(|time| time > cutoff));
                if events.includes(&seen.fact) && !is_late {
                    pending.extend(to_pending_event(seen, OTEL_GENAI, "", wanted));
                }
            });
        }
        pending
    }
}
