//! Which trace of a session has an id of a call.

use std::collections::HashMap;

use subscope_model::{Millis, SpanKind, TraceSpan};

use super::Trace;

/// Owners of the ids that programs give their calls.
///
/// Some models count their calls, so two traces of one session give one id to different calls: the one that began first
/// has it. Two spans of one name that overlap in time are one call, which two instrumentations report.
#[derive(Debug, Default)]
pub struct CallIds<'t> {
    owners: HashMap<&'t str, &'t TraceSpan>,
}

impl<'t> CallIds<'t> {
    /// Returns the owners of the ids in the traces of one session.
    pub fn of(traces: impl IntoIterator<Item = &'t Trace>) -> Self {
        let mut owners: HashMap<&str, &TraceSpan> = HashMap::new();
        let order = |span: &TraceSpan| (span.start.unwrap_or(Millis::MAX), span.trace, span.id);
        let spans = traces.into_iter().flat_map(Trace::spans).filter(|span| span.kind == SpanKind::Call);
        for span in spans {
            let Some(id) = span.own_id.as_deref() else { continue };
            let owner = owners.entry(id).or_insert(span);
            if order(span) < order(owner) {
                *owner = span;
            }
        }
        Self { owners }
    }

    /// Whether the call of a span has the id that the program gives it.
    pub(super) fn is_owner(&self, span: &TraceSpan) -> bool {
        let owner = span.own_id.as_deref().and_then(|id| self.owners.get(id));
        owner.is_none_or(|owner| {
            let (began, ended) = (owner.start.max(span.start), owner.end.min(span.end));
            owner.trace == span.trace || owner.name == span.name && began <= ended
        })
    }
}
