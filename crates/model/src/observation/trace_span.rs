//! A span of a trace, as agent programs report them.
//!
//! What a span is part of follows from all spans of its trace, which come in any order: a session keeps them and derives
//! its agents from all that are known.

use crate::{Millis, SourcePosition, Text, ToolClass, Usage};

/// What a span reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// An agent at work.
    Agent,
    /// A workflow: an agent at work, if it is more than the frame around others.
    Workflow,
    /// A tool call.
    Call,
    /// A response of a model.
    Response,
    /// The hand-off from one agent to another.
    HandOff,
    /// Anything else: a link between the spans above and below it.
    #[default]
    Link,
}

/// How a span ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpanStatus {
    /// Without an error.
    #[default]
    Ok,
    /// With an error.
    Error,
    /// It was canceled.
    Canceled,
    /// It was denied.
    Denied,
}

/// A span of a trace, with the names that its program gives. Ids are safe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSpan {
    /// Its trace.
    pub trace: u128,
    /// Its id within the trace.
    pub id: u64,
    /// The span that it is a part of.
    pub parent: Option<u64>,
    /// The line that reports it.
    pub place: SourcePosition,
    /// When it began.
    pub start: Option<Millis>,
    /// When it ended.
    pub end: Option<Millis>,
    /// What it reports.
    pub kind: SpanKind,
    /// How it ended.
    pub status: SpanStatus,
    /// The session that it names.
    pub session: Option<Text>,
    /// Of an agent its name, of a call the tool.
    pub name: Option<Text>,
    /// The agent that the span names as the one at work.
    pub worker: Option<Text>,
    /// Whether the span is of a graph of nodes: one named like its worker is that agent, whatever its kind.
    pub is_graph: bool,
    /// The name of a node of such a graph.
    pub node: Option<Text>,
    /// The program's id of a response, a call or a run of an agent.
    pub own_id: Option<Text>,
    /// The agent that handed over to this one, or in a hand-off the one that hands over.
    pub from_agent: Option<Text>,
    /// The agent that a hand-off is to.
    pub to_agent: Option<Text>,
    /// The agent that the arguments of a call name.
    pub asked_agent: Option<Text>,
    /// Description of an agent.
    pub description: Option<Text>,
    /// The last text of the user in the request.
    pub prompt: Option<Text>,
    /// The model.
    pub model: Option<Text>,
    /// Tokens of a response; of an agent its sum.
    pub usage: Option<Usage>,
    /// Whether the response ended a turn.
    pub ends_turn: bool,
    /// Whether the response has a call.
    pub has_call: bool,
    /// Answers, in order, and whether each is a thought.
    pub answers: Vec<(bool, Text)>,
    /// The class of a tool.
    pub class: ToolClass,
    /// Hash of a call's arguments.
    pub digest: u64,
    /// Short description of a call's target.
    pub detail: Option<Text>,
    /// A call's arguments, JSON.
    pub input: Option<Text>,
    /// A call's result, JSON.
    pub result: Option<Text>,
    /// The error, as its program names it.
    pub error: Option<Text>,
    /// The version of the program.
    pub version: Option<Text>,
    /// The harness, where the program is a known one.
    pub harness: Option<&'static str>,
    /// Whether its users do not pay list prices.
    pub is_unpriced: bool,
}

impl TraceSpan {
    /// Returns its id as every format writes it.
    pub fn hex_id(&self) -> String {
        format!("{:016x}", self.id)
    }

    /// Returns the id of the session of a trace that names none.
    pub fn session_of_trace(trace: u128) -> String {
        format!("{TRACE_PREFIX}{trace:032x}")
    }

    /// Returns the trace of such a session id.
    pub fn trace_of_session(session: &str) -> Option<u128> {
        let hex = session.strip_prefix(TRACE_PREFIX).filter(|hex| hex.len() == 32)?;
        u128::from_str_radix(hex, 16).ok()
    }
}

/// Prefix of the ids of sessions that are known by their trace.
const TRACE_PREFIX: &str = "trace-";
