//! Observations: the interface between decoders and the tracker. Each is one statement of a source at one position.
//!
//! An observation borrows from the decoded bytes; a consumer copies what it stores. The vocabulary is not
//! vendor-specific: a decoder translates its dialect into it. [`Fact`] lists all statements; the larger ones are in the
//! modules below.

mod call;
mod end;
mod ids;
mod response;
mod spawn;
mod trace_span;

use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

pub use call::{CallBegin, CallEnd, Outcome, ToolClass};
pub use end::{AgentEnd, EndEvidence};
pub use response::{Checksum, Response};
pub use spawn::{Parent, Spawn, SpawnBatch, SpawnInput, SpawnMode, SpawnResult, SpawnTotals};
pub use trace_span::{SpanKind, SpanStatus, TraceSpan};

use crate::{
    AgentStatus, Basis, EventKind, MicroUsd, Millis, ProcessActivity, ProcessExit, RawJson, SourceId,
    StopStep, Text, Usage, VendorCost,
};

/// Kind of a source, the most detailed first. If two kinds have the same fact, the lesser (earlier) kind wins (design,
/// section 3 "Times").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SourceKind {
    /// A conversation file written by the harness.
    Transcript,
    /// Printed output of a run of the harness.
    Stream,
    /// Events published by a program about its own subagents.
    Posted,
    /// OpenTelemetry records of the harness: log events, spans and metrics.
    Otel,
    /// Payloads of the harness's hooks.
    Hook,
}

/// Clock of a timestamp, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// The line of a transcript.
    Transcript,
    /// A timestamp in a stream, or an `end_time`.
    Stream,
    /// A timestamp of an OpenTelemetry record.
    Otel,
    /// Time of arrival at the hub.
    Receiver,
}

/// Position of a line in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// The source.
    pub source: SourceId,
    /// Byte offset of the line.
    pub offset: u64,
    /// Line number (1-based).
    pub line: u64,
}

/// Actor named by the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim<'a> {
    /// The root, with this evidence.
    Root(Basis),
    /// A subagent by its id, with this evidence.
    Agent(&'a str, Basis),
    /// The agent that this spawn call started.
    SpawnedBy(&'a str),
    /// The agent whose lines are linked with this one, by line id and the previous line's id.
    Chain {
        /// This line.
        line: &'a str,
        /// The previous line; `None` for an agent's first.
        parent: Option<&'a str>,
    },
    /// No actor: the root if the session's input has identity, else decided by `sole`, `stack` or `unknown`.
    Silent,
}

/// One statement of a source at one position. Immutable.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// Its position.
    pub place: SourcePosition,
    /// The kind of its source.
    pub kind: SourceKind,
    /// Time, if the source has it.
    pub time: Option<Millis>,
    /// Clock of `time`.
    pub clock: Clock,
    /// The harness's session id.
    pub session: Option<&'a str>,
    /// Id of its line, equal in every source that has the line.
    pub line_id: Option<&'a str>,
    /// Actor.
    pub claim: Claim<'a>,
    /// The statement.
    pub fact: Fact<'a>,
}

/// Output of a decoder.
#[derive(Debug)]
pub enum Decoded<'o, 'a> {
    /// A statement of the source.
    Observation(&'o Observation<'a>),
    /// A line that could not be decoded, as text.
    Problem {
        /// Its position.
        place: SourcePosition,
        /// The problem.
        what: Cow<'o, str>,
        /// The line, truncated to 4 KiB; empty if it was too long to buffer.
        text: &'o str,
    },
}

/// Receives the output of a decoder, in order.
pub type Sink<'s> = dyn for<'o, 'a> FnMut(Decoded<'o, 'a>) + 's;

/// Kind of a text with the user's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// A task for the actor: from the user to the root, or from an agent to its subagent.
    Asked,
    /// Text inserted by the harness or another agent.
    Meta,
    /// A command of the user to the harness itself, or its output: not sent to the model.
    Local,
    /// Notice that the request was interrupted.
    Interrupted,
}

/// Origin of a title, the strongest first.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitleOrigin {
    /// The person named the session; the last name counts.
    Person,
    /// The harness named it; the last name counts.
    Harness,
    /// What the person asked in the prompt of this line, without what their editor or the harness put around it.
    Prompt,
}

/// A linked work tree, as `git worktree add` makes one.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkTree {
    /// Its folder, an absolute path.
    pub folder: Text,
    /// The folder of its project, an absolute path: that of the main work tree.
    pub project: Text,
}

/// The content of an observation.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// Properties of the session.
    Session {
        /// The harness's version.
        version: Option<&'a str>,
        /// The working directory.
        cwd: Option<Cow<'a, str>>,
        /// The root's model.
        model: Option<&'a str>,
        /// Whether this source reports agent starts at once: then an open spawn call proves no agent.
        tells_starts: bool,
    },
    /// The harness, where the dialect is of no single one.
    Harness {
        /// Its name.
        name: &'a str,
    },
    /// The actor was active.
    Activity,
    /// The actor began a turn: ends before it are of earlier turns.
    TurnStart,
    /// A text with the user's role.
    Prompt {
        /// The harness's id of the prompt.
        prompt_id: Option<&'a str>,
        /// The text.
        text: RawJson<'a>,
        /// Its kind.
        what: PromptKind,
    },
    /// A linked work tree, and the project that it belongs to.
    WorkTree(WorkTree),
    /// A title of the session.
    Title {
        /// The title.
        text: Cow<'a, str>,
        /// Who gave it.
        origin: TitleOrigin,
    },
    /// A text of the model.
    Message {
        /// The API's id of the message.
        message_id: Option<&'a str>,
        /// The text.
        text: RawJson<'a>,
    },
    /// A thought of the model.
    Thought {
        /// The API's id of the message.
        message_id: Option<&'a str>,
        /// The thought; `None` if it is encrypted.
        text: Option<RawJson<'a>>,
    },
    /// A line of an API response.
    Response(Response<'a>),
    /// A tool call began.
    CallBegin(CallBegin<'a>),
    /// A tool call ended.
    CallEnd(CallEnd<'a>),
    /// Description and origin of an agent.
    Spawn(Spawn<'a>),
    /// An agent ended.
    AgentEnd(AgentEnd<'a>),
    /// A stop request for the claimed agent, or its delivery.
    Stop {
        /// Request or delivery.
        step: StopStep,
        /// The call that the agent was about to make, or had made, at the delivery.
        call: Option<&'a str>,
        /// Whether that call was denied with it.
        is_refused: bool,
    },
    /// The root ended its turn, reported by the harness.
    TurnEnd {
        /// Outcome.
        status: AgentStatus,
        /// Evidence.
        evidence: EndEvidence,
        /// Whether the turn answered a prompt of the user.
        counts_run: bool,
        /// The error, or the final text.
        text: Option<RawJson<'a>>,
    },
    /// The harness reported an agent's progress.
    Progress {
        /// The agent's id.
        agent: Option<&'a str>,
        /// Current activity.
        message: Option<Cow<'a, str>>,
        /// Number of calls so far.
        tool_calls: Option<u64>,
        /// The harness's token count.
        total_tokens: Option<u64>,
    },
    /// An API request is retried, or no longer (`attempt` 0).
    Retry {
        /// The agent's id.
        agent: Option<&'a str>,
        /// Number of the attempt (1-based).
        attempt: u32,
        /// Maximum number of attempts.
        limit: u32,
        /// Delay before the attempt.
        delay_ms: Option<u64>,
        /// Reason.
        error: Cow<'a, str>,
    },
    /// A sign of life of the harness.
    Heartbeat,
    /// The user is asked to allow a call, or by it.
    Permission {
        /// The tool.
        name: &'a str,
        /// Its class.
        class: ToolClass,
        /// The digest of the call's begin.
        digest: u64,
        /// The arguments.
        input: Option<RawJson<'a>>,
    },
    /// The user answered the question whether a call is allowed.
    PermissionReply {
        /// The digest of the call's begin.
        digest: u64,
    },
    /// A process of the harness opened the session.
    SessionStart {
        /// Reason (`startup`, `resume`).
        source: Option<Cow<'a, str>>,
    },
    /// A process of the harness closed the session.
    SessionEnd {
        /// Reason.
        reason: Option<Cow<'a, str>>,
    },
    /// The session's process has ended, and with it everything that it had running.
    ProcessEnd(ProcessExit),
    /// The note of the session's process says what the process does.
    ProcessActivity {
        /// What it does.
        activity: ProcessActivity,
        /// Since when.
        since: Millis,
    },
    /// The actor is a warm-up that the harness started by itself, unless a call started it.
    Warmup,
    /// The harness made a request of which no line has the tokens: the session's sum is a lower bound, unless the harness
    /// reports its own.
    Uncounted,
    /// The harness waits for the user's next prompt.
    AwaitsPrompt,
    /// The session's own total.
    Checksum(Checksum),
    /// What the session has cost in a unit of the vendor.
    VendorCost {
        /// The cost.
        cost: VendorCost,
        /// As [`Checksum::part`].
        part: Option<Millis>,
    },
    /// The actor's own total, from a source that does not have its responses.
    Totals {
        /// Tokens.
        usage: Usage,
        /// Cost.
        cost_micro_usd: Option<MicroUsd>,
    },
    /// From here on, the actor of a line that names none is the root.
    WireHasIdentity,
    /// The source reports each question to the person.
    ReportsQuestions,
    /// A span of a trace: what it says follows from all spans of the trace. Its session is that of the trace.
    Span(Arc<TraceSpan>),
    /// An event that is only shown in the feed.
    Note {
        /// Its kind.
        kind: EventKind,
        /// The details, an object.
        data: RawJson<'a>,
    },
}
