//! What several harnesses share.

pub(crate) mod hook_repeats;
pub(crate) mod late_session;
pub(crate) mod parts;
pub(crate) mod tools;
pub(crate) mod turn_gap;

use subscope_decode::Emitter;
use subscope_model::{Fact, RawJson, Response};

/// The text of a prompt without text: the user may send images only.
pub(crate) const EMPTY_TEXT: RawJson<'static> = RawJson { json: "\"\"", offset: u64::MAX };

/// Emits that a request failed for good: the turn has failed with this text, unless it goes on.
pub(crate) fn emit_failure(text: Option<RawJson<'_>>, out: &mut Emitter<'_, '_>) {
    out.emit_made(Fact::Response(Response {
        has_stop_reason: true,
        synthetic: true,
        api_error: true,
        ..Response::default()
    }));
    if let Some(text) = text {
        out.emit_made(Fact::Message { message_id: None, text });
    }
}
