//! The spans of one trace, and what they say together.
//!
//! A span is reported when it has ended, so those below it come first, and requests come in any order. What a span is
//! part of, whether it is an agent at all, and which agent is the root, follow from all spans of the trace. So a session
//! keeps the spans, and each derivation asks the trace again: the same spans say the same, in whatever order they came.
//!
//! [`structure`] finds the agents and what belongs to them, [`emit`] says it as observations.

mod call_ids;
mod emit;
mod structure;

use std::{collections::BTreeMap, sync::Arc};

use subscope_model::{SpanKind, Text, TraceSpan};

pub use self::call_ids::CallIds;

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

#[cfg(test)]
mod tests {
    use subscope_model::Fact;

    use super::*;

    fn span(id: u64, parent: Option<u64>, kind: SpanKind) -> Arc<TraceSpan> {
        let (start, end) = (Some(id.cast_signed()), Some(id.cast_signed() + 1));
        Arc::new(TraceSpan { trace: 1, id, parent, start, end, kind, ..TraceSpan::default() })
    }

    #[test]
    fn spans_that_contradict_each_other_are_read_in_linear_time() {
        let mut trace = Trace::default();
        let count = 100_000_u64;
        for id in 0..count {
            // Pairs that are above each other, spans above themselves, and one long chain.
            let parent = match id % 4 {
                0 => id + 1,
                1 => id - 1,
                2 => id,
                _ => id.saturating_sub(4),
            };
            let kind = if id % 3 == 0 { SpanKind::Agent } else { SpanKind::Response };
            trace.add(span(id, Some(parent), kind));
        }
        let mut responses = 0;
        trace.observe(&CallIds::default(), &mut |seen| {
            responses += u64::from(matches!(seen.fact, Fact::Response(_)))
        });
        assert!(responses > 0 && responses < count);
    }

    #[test]
    fn topmost_span_that_names_a_session_decides_whichever_comes_first() {
        let named = |id, parent, session: Option<&str>| {
            let known = span(id, parent, SpanKind::Agent);
            Arc::new(TraceSpan { session: session.map(Text::from), ..TraceSpan::clone(&known) })
        };
        let spans = [
            named(4, Some(3), Some("below")),
            named(3, Some(2), Some("above")),
            named(2, Some(1), None),
            named(1, None, None),
        ];
        for first in 0..spans.len() {
            let mut trace = Trace::default();
            for span in spans.iter().cycle().skip(first).take(spans.len()) {
                trace.add(Arc::clone(span));
            }
            assert_eq!(trace.session().as_deref(), Some("above"), "{first}");
            assert!(!trace.add(Arc::clone(&spans[0])), "it is known");
        }
    }
}
