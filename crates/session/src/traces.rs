//! The traces of a session: spans of agent programs, whose meaning follows from all spans of their trace.
//!
//! A session keeps the spans. What they say is derived from all of them whenever one was added, and joined with the facts
//! of its other sources: so what an early span seemed to say is taken back by a later one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use subscope_decode::otlp::{CallIds, OTEL_GENAI, Trace};
use subscope_model::{Millis, Observation, SessionId, TraceSpan};
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
            let mut joined = joinable(facts);
            let call_ids = self.call_ids();
            for trace in self.all.values() {
                trace.observe(&call_ids, &mut |seen| {
                    joined.absorb(seen);
                });
            }
            joined
        })
    }

    /// Joins the facts of a session with what its traces say, if that has changed, and takes the events of the traces that
    /// have changed, but those that `is_published` names.
    pub(crate) fn advance(
        &mut self,
        facts: &Tracker,
        (events, cutoff): (EventScope, Option<Millis>),
        is_published: &dyn Fn(&Observation<'_>) -> bool,
    ) -> Vec<PendingEvent> {
        let mut pending = Vec::new();
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return pending;
        }
        let wanted = match events {
            EventScope::Texts => EventUse::Texts { is_read_once: true },
            EventScope::Records => EventUse::Records { is_read_once: true },
            EventScope::Nothing | EventScope::Waits | EventScope::All => EventUse::Feed,
        };
        let mut joined = self.joined.get().is_none().then(|| joinable(facts));
        let call_ids = self.call_ids();
        for (id, trace) in &self.all {
            let takes_events = events.is_any() && changed.contains(id);
            if joined.is_none() && !takes_events {
                continue;
            }
            trace.observe(&call_ids, &mut |seen| {
                if let Some(joined) = &mut joined {
                    joined.absorb(seen);
                }
                let is_late = cutoff.is_some_and(|cutoff| seen.time.is_some_and(|time| time > cutoff));
                if takes_events && events.includes(&seen.fact) && !is_late && !is_published(seen) {
                    pending.extend(to_pending_event(seen, OTEL_GENAI, "", wanted));
                }
            });
        }
        if let Some(joined) = joined {
            self.joined = OnceLock::from(joined);
        }
        pending
    }
}

/// Returns facts to which those of traces can be added.
fn joinable(facts: &Tracker) -> Tracker {
    let mut joined = facts.clone();
    joined.inline_payloads(true);
    joined
}
