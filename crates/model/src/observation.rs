//! Observations: the interface between decoders and the tracker. Each is one statement of a source at one position.
//!
//! An observation borrows from the decoded bytes; a consumer copies what it stores. The vocabulary is not
//! vendor-specific: a decoder translates its dialect into it.

use std::borrow::Cow;

use crate::{
    AgentStatus, Basis, EventKind, MicroUsd, Millis, ProcessExit, RawJson, SourceId, StopStep, Usage,
};

/// Kind of a source, the most detailed first. If two kinds have the same fact, the lesser (earlier) kind wins (design,
/// section 3 "Times").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Whether the caller of a spawn waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpawnMode {
    /// Its caller waits for it.
    Foreground,
    /// Its caller continues.
    Background,
}

/// Parent of an agent, if the input names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent<'a> {
    /// The root.
    Root,
    /// The subagent with this id.
    Agent(&'a str),
}

/// Description and origin of an agent. Every field may be unknown.
#[derive(Clone, Debug, Default)]
pub struct Spawn<'a> {
    /// The agent's id, if the claim does not name it.
    pub agent: Option<&'a str>,
    /// The call that started or resumed it.
    pub call: Option<&'a str>,
    /// Alias of `call` on later lines.
    pub run_id: Option<&'a str>,
    /// Its parent.
    pub parent: Option<Parent<'a>>,
    /// The harness's agent type.
    pub agent_type: Option<Cow<'a, str>>,
    /// Short description of its task.
    pub description: Option<Cow<'a, str>>,
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<RawJson<'a>>,
    /// The model.
    pub model: Option<Cow<'a, str>>,
    /// Whether its caller waits.
    pub mode: Option<SpawnMode>,
    /// Whether the agent starts working now; otherwise this only describes it.
    pub starts: bool,
    /// Whether `call` is certainly its spawn call, even if other calls name the agent too.
    pub is_origin: bool,
    /// Whether no call of its own started it, as with a workflow's agents.
    pub detached: bool,
    /// Whether this does not prove that the agent exists: metadata may be copied from another session.
    pub is_note: bool,
    /// The batch of agents that were started together with it.
    pub batch: Option<SpawnBatch<'a>>,
    /// Whether the agent's id is one that its source made up, as it has none: the id that another source has for the
    /// agent of the same call replaces it.
    pub has_stand_in_id: bool,
    /// Whether all of its data is a copy from another session.
    pub is_copy: bool,
}

/// Start of several agents at once, as by a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnBatch<'a> {
    /// By this call.
    Call(&'a str),
    /// By the call whose result, or whose arguments, name this run.
    Run(&'a str),
}

/// Arguments of a spawn call.
#[derive(Clone, Debug, Default)]
pub struct SpawnInput<'a> {
    /// The harness's agent type.
    pub agent_type: Option<Cow<'a, str>>,
    /// Short description of its task.
    pub description: Option<Cow<'a, str>>,
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<RawJson<'a>>,
    /// The requested model.
    pub model: Option<Cow<'a, str>>,
    /// Whether the caller waits; `None` if it depends on an unknown default of the harness.
    pub mode: Option<SpawnMode>,
}

/// A class of tools that the tracker treats alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolClass {
    /// Starts a subagent.
    Spawn,
    /// Ends at once unless it needs a permission.
    Instant,
    /// Any other.
    #[default]
    Other,
}

/// A tool call began.
#[derive(Clone, Debug, Default)]
pub struct CallBegin<'a> {
    /// The harness's id; `None` if the source has none.
    pub id: Option<&'a str>,
    /// The tool.
    pub name: &'a str,
    /// Its class.
    pub class: ToolClass,
    /// Its arguments.
    pub input: Option<RawJson<'a>>,
    /// Hash of the arguments; comparable within one kind of source.
    pub digest: u64,
    /// Short description of its target.
    pub detail: Option<Cow<'a, str>>,
    /// The file it writes.
    pub writes: Option<Cow<'a, str>>,
    /// Timeout in seconds, if known.
    pub timeout_s: Option<u64>,
    /// Arguments of a spawn tool.
    pub spawn: Option<SpawnInput<'a>>,
    /// The published run that it starts, where its arguments name one: an agent called as a tool.
    pub starts_run: Option<Cow<'a, str>>,
    /// Whether the call is reported after the fact and may have begun long before.
    pub hindsight: bool,
    /// Whether the id is unique only inside its session (`call_1`): an equal id in another is another call.
    pub has_local_id: bool,
    /// Whether the source numbers the calls that it repeats by itself: such a call counts only where the session has no
    /// transcript.
    pub is_renumbered: bool,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Success.
    Ok,
    /// Error.
    Error,
    /// Interrupted.
    Interrupted,
    /// Denied by the user, a rule or a hook.
    Denied,
    /// Ended with an unknown outcome.
    #[default]
    Over,
}

/// Result of a spawn call.
#[derive(Clone, Debug, Default)]
pub struct SpawnResult<'a> {
    /// The agent's id.
    pub agent: Option<&'a str>,
    /// Whether the agent has ended (`true`), or was launched and is still at work (`false`); `None` if unknown.
    pub finished: Option<bool>,
    /// The harness's agent type.
    pub agent_type: Option<Cow<'a, str>>,
    /// Short description of its task.
    pub description: Option<Cow<'a, str>>,
    /// The model.
    pub model: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<RawJson<'a>>,
    /// Its report.
    pub report: Option<RawJson<'a>>,
    /// Whether the result proves that an agent ran.
    pub proves_agent: bool,
    /// Whether the call of another tool started an agent (a skill that runs as an agent).
    pub is_forked: bool,
}

/// A tool call ended.
#[derive(Clone, Debug, Default)]
pub struct CallEnd<'a> {
    /// The harness's id; `None` if the source has none.
    pub id: Option<&'a str>,
    /// The tool, if the source repeats it.
    pub name: Option<&'a str>,
    /// The digest of the begin, if the source repeats the arguments.
    pub digest: u64,
    /// Outcome.
    pub outcome: Outcome,
    /// Its result.
    pub result: Option<RawJson<'a>>,
    /// Duration reported by the harness.
    pub duration_ms: Option<i64>,
    /// Result of a spawn call.
    pub spawn: Option<SpawnResult<'a>>,
    /// Whether the harness refused to start an agent (unknown type, limit, depth).
    pub refused: bool,
    /// The agent that this call stopped.
    pub stopped: Option<&'a str>,
    /// The agent that this call resumed.
    pub resumed: Option<&'a str>,
    /// The run of several agents that it started.
    pub batch_run: Option<&'a str>,
    /// Whether the command that it started continues in the background.
    pub left_running: bool,
    /// Whether the model went on before the call was over: any other end says more.
    pub is_provisional: bool,
}

/// One line of an API response.
#[derive(Clone, Debug, Default)]
pub struct Response<'a> {
    /// The API's id of the message; empty where the source has only the id of the request.
    pub message_id: &'a str,
    /// The API's id of the request that it answers.
    pub request_id: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
    /// Its tokens as reported by this line.
    pub usage: Option<Usage>,
    /// Number of cache-write tokens with a one-hour lifetime.
    pub cache_write_1h: u64,
    /// Its cost in picodollars as reported by this line; `None`: by the price list.
    pub cost_pico_usd: Option<u64>,
    /// Whether the price list is not what its user pays, as with a subscription: its cost is unknown.
    pub is_unpriced: bool,
    /// Whether the line has a stop reason.
    pub has_stop_reason: bool,
    /// Whether the stop reason is the end of the turn.
    pub ends_turn: bool,
    /// Hash of the line's content, and its length in characters.
    pub content: (u64, u32),
    /// Whether the line has a tool call.
    pub has_call: bool,
    /// Whether the line has text.
    pub has_text: bool,
    /// Set where the harness gives no reason for the end of a response, so that text ends the turn if nothing follows soon:
    /// the longest time in milliseconds that a call behind a text took in this source so far.
    pub ends_if_last: Option<i64>,
    /// Whether the harness synthesized the line: its usage is not counted.
    pub synthetic: bool,
    /// Whether it reports an API error.
    pub api_error: bool,
    /// Whether it only accounts for the response: it does not tell whether the turn goes on.
    pub accounts_only: bool,
}

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

/// Evidence for an end, strongest first (design, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndEvidence {
    /// Our record that a hook's answer stopped it; the harness reports it as completed.
    HookAnswer,
    /// A notification of the harness that the task ended.
    Notification,
    /// The result of the call that stopped it.
    StopCall,
    /// The result of its spawn call.
    SpawnResult,
    /// Its own last line.
    LastLine,
    /// Marked as finished by the harness.
    Finished,
    /// A stop hook.
    StopHook,
    /// An OpenTelemetry record of its end.
    OtelRecord,
    /// No end was seen.
    #[default]
    Lost,
}

impl EndEvidence {
    /// All of them, the strongest first.
    const ALL: [Self; 8] = [
        Self::HookAnswer,
        Self::Notification,
        Self::StopCall,
        Self::SpawnResult,
        Self::LastLine,
        Self::Finished,
        Self::StopHook,
        Self::Lost,
    ];

    /// Returns the evidence of a description.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|evidence| evidence.as_str() == text)
    }

    /// Returns a description for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HookAnswer => "hook answer",
            Self::Notification => "task notification",
            Self::StopCall => "stop call",
            Self::SpawnResult => "spawn result",
            Self::LastLine => "last line",
            Self::Finished => "marked finished",
            Self::StopHook => "stop hook",
            Self::OtelRecord => "OpenTelemetry record",
            Self::Lost => "no ending",
        }
    }
}

/// End of an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentEnd<'a> {
    /// The agent's id; `None`: the agent of the claim.
    pub agent: Option<&'a str>,
    /// The call whose interval of activity ended.
    pub call: Option<&'a str>,
    /// An alias of `call`.
    pub run_id: Option<&'a str>,
    /// Outcome.
    pub status: AgentStatus,
    /// Evidence.
    pub evidence: EndEvidence,
    /// Time, reported by the harness.
    pub time: Option<Millis>,
    /// Its report.
    pub report: Option<RawJson<'a>>,
    /// The error.
    pub error: Option<RawJson<'a>>,
    /// The agent type in a stop hook; empty for ghosts.
    pub agent_type: Option<Cow<'a, str>>,
}

/// The session's own total over all its API responses, or over those of one of its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// Tokens.
    pub usage: Usage,
    /// Cost.
    pub cost_micro_usd: Option<MicroUsd>,
    /// The time of the total of one process, by which reports of the same one are known; `None`: of the whole session.
    pub part: Option<Millis>,
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
    /// The user is asked to allow a call.
    Permission {
        /// The tool.
        name: &'a str,
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
    /// The actor is a warm-up that the harness started by itself, unless a call started it.
    Warmup,
    /// The harness waits for the user's next prompt.
    AwaitsPrompt,
    /// The session's own total.
    Checksum(Checksum),
    /// The actor's own total, from a source that does not have its responses.
    Totals {
        /// Tokens.
        usage: Usage,
        /// Cost.
        cost_micro_usd: Option<MicroUsd>,
    },
    /// From here on, the actor of a line that names none is the root.
    WireHasIdentity,
    /// An event that is only shown in the feed.
    Note {
        /// Its kind.
        kind: EventKind,
        /// The details, an object.
        data: RawJson<'a>,
    },
}
