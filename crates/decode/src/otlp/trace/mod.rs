//! The spans of one trace, and what they say together.
//!
//! A span is reported when it has ended, so those below it come first, and requests come in any order. What a span is
//! part of, whether it is an agent at all, and which agent is the root, follow from all spans of the trace. So a session
//! keeps the spans, and each derivation asks the trace again: the same spans say the same, in whatever order they came.
//!
//! [`structure`] finds the agents and what belongs to them, [`emit`] says it as observations.

mod emit;
mod structure;

use std::{collections::BTreeMap, sync::Arc};

use subscope_model::{SpanKind, Text, TraceSpan};

/// Most spans of a trace that are kept; of later ones nothing is known.
const MAX_SPANS: usize = 1_000_000;

/// The known spans of a trace.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    spans: BTreeMap<u64, Arc<TraceSpan>>,
    /// How many spans name each session.
    sessions: BTreeMap<Text, usize>,
    /// Whether a span reports an agent, a call or a response.
    has_work: bool,
}

impl Trace {
    /// Adds a span. Returns whether it says something new: a span that is reported again says nothing.
    pub fn add(&mut self, span: Arc<TraceSpan>) -> bool {
        let known = self.spans.get(&span.id);
        // Of two spans with one id the one that ended last counts.
        if known.is_some_and(|known| (known.end, known.start) >= (span.end, span.start))
            || (known.is_none() && self.spans.len() >= MAX_SPANS)
        {
            return false;
        }
        if let Some(session) = self.spans.get(&span.id).and_then(|known| known.session.clone())
            && let Some(count) = self.sessions.get_mut(&session)
        {
            *count -= 1;
        }
        if let Some(session) = &span.session {
            *self.sessions.entry(session.clone()).or_default() += 1;
        }
        self.has_work |= span.kind != SpanKind::Link;
        self.spans.insert(span.id, span);
        true
    }

    /// Adds the spans of the same trace that another source has.
    pub fn join(&mut self, other: Self) {
        other.spans.into_values().for_each(|span| {
            self.add(span);
        });
    }

    /// Whether an agent program reports something: other spans alone are no session.
    pub fn has_work(&self) -> bool {
        self.has_work
    }

    /// Returns the spans, in the order of their ids.
    pub fn spans(&self) -> impl Iterator<Item = &Arc<TraceSpan>> {
        self.spans.values()
    }

    /// Returns the session that the topmost span names of those that name one.
    pub fn session(&self) -> Option<Text> {
        let mut named = self.sessions.iter().filter(|(_, count)| **count > 0).map(|(session, _)| session);
        let only = named.next()?;
        if named.next().is_none() {
            return Some(only.clone());
        }
        let naming = self.spans.values().filter(|span| span.session.is_some());
        let mut depths = structure::Depths::new(&self.spans);
        let topmost = naming.min_by_key(|span| (depths.of(span.id), span.start, span.id))?;
        topmost.session.clone()
    }
}
