//! Bytes of one dialect to observations and problems.
//!
//! [`Decoder`] is the one seam: bytes cut anywhere in, observations out. Most dialects implement [`LineDecoder`]: the
//! bytes are cut into lines, and each is read by itself with [`lenient`] fields. A decoder remembers no more than the
//! links inside its own source. It cannot fail: input that it does not understand is reported as a problem with its
//! position.
//!
//! The dialects of subscope itself are here: [`subagent_events`], [`feed`], [`executions`], [`trajectories`],
//! [`stop_orders`] and [`process_ends`]; and [`otlp`], OpenTelemetry records of any program. Those of harnesses are in the
//! crate `harness`, one folder each. Nothing here knows files, sockets, a clock or a vendor, and no dialect
//! knows another.
//!
//! To add a dialect of ours: a module with a [`Decoder`], a [`DialectSpec`] in [`OWN`], and its marks in
//! [`recognize()`].

mod array;
mod dialect;
mod digest;
mod emitter;
pub mod executions;
pub mod feed;
pub mod lenient;
mod lifecycle_filter;
mod lines;
pub mod otlp;
mod own;
pub mod process_ends;
mod repair;
mod safe_ids;
pub mod stop_orders;
pub mod subagent_events;
mod tool_arguments;
pub mod trajectories;
mod unrecognized;

pub use dialect::{
    Answers, AskMoment, AskedPermission, Asker, CallPart, Dialect, DialectSpec, Lifecycle, LineSession,
    Permissions, ReadCalls, SpawnCalls, StopAnswer,
};
pub use digest::{canonical_digest, digest};
pub use emitter::Emitter;
pub use lifecycle_filter::{LifecycleFilter, session_of};
pub use lines::{
    JsonLines, LineDecoder, LineError, LinesDecoder, MAX_LINE_BYTES, ObjectDecoder, ObjectsDecoder, Parsed,
};
pub use own::{EXECUTIONS, FEED, OWN, PROCESS_ENDS, STOP_ORDERS, SUBAGENT_EVENTS, TRAJECTORIES, recognize};
pub use repair::repair_json;
use subscope_model::{Sink, SourceId, ToolClass};
pub use tool_arguments::ToolArguments;
pub use unrecognized::{UNRECOGNIZED, Unrecognized, UnrecognizedLines};

/// Known properties of a source, from its path and the registry of harnesses.
#[derive(Clone, Debug)]
pub struct Hint {
    /// The source's number within its `SessionRouter`.
    pub source: SourceId,
    /// The session that its path names.
    pub session: Option<String>,
    /// The agent that its path names.
    pub agent: Option<String>,
    /// The workflow run that its path names.
    pub workflow: Option<String>,
    /// Returns the class of a tool whose harness the source does not name.
    pub tool_class: fn(&str) -> ToolClass,
    /// Returns the harness that calls itself so in OpenTelemetry's `service.name`.
    pub harness_of_service: fn(&str) -> Option<otlp::Service>,
    /// Returns the dialects of OpenTelemetry records of harnesses.
    pub otel_sources: fn() -> Vec<&'static otlp::OtelSource>,
}

impl Default for Hint {
    fn default() -> Self {
        Self {
            source: SourceId::default(),
            session: None,
            agent: None,
            workflow: None,
            tool_class: |_| ToolClass::Other,
            harness_of_service: |_| None,
            otel_sources: Vec::new,
        }
    }
}

/// The seam between bytes and observations.
pub trait Decoder: Send + Sync {
    /// Decodes the next bytes, cut anywhere, and emits the observations of every complete line, in order.
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>);

    /// Emits the observations of an unfinished last line; called when no bytes will follow.
    fn flush(&mut self, sink: &mut Sink<'_>);

    /// Sets the number (from 1) and the offset of the next line, where lines before it went to other decoders or were
    /// skipped. Implemented by dialects whose bodies are divided by session ([`Dialect::line_session`]), and by
    /// streams.
    fn skip_to(&mut self, _line: u64, _offset: u64) {}
}
