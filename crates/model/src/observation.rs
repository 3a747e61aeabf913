//! What one source says at one position: the words between decoders and tracker.
//!
//! An observation borrows from the bytes it was decoded from; whoever wants to keep a part of it copies that
//! part. The words are the field's, not a vendor's: a decoder translates its dialect into them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AgentStatus, Basis, EventKind, MicroUsd, Millis, SourceId, StopStep, Text, Usage};

/// The kind of a source, the most telling first. Where two kinds tell the same fact, the lesser kind's
/// telling is taken (design, section 3 "Times").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// A conversation kept on disk by the harness.
    Transcript,
    /// What a run of the harness prints.
    Stream,
    /// Events posted by a program about its own subagents.
    Posted,
    /// Payloads of the harness's hooks.
    Hook,
}

/// Whose clock a time comes from, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// The line of a transcript.
    Transcript,
    /// A timestamp in a stream, or an `end_time`.
    Stream,
    /// When we received it.
    Receiver,
}

/// Where something stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The source.
    pub source: SourceId,
    /// The byte at which its line begins.
    pub offset: u64,
    /// Its line, from 1.
    pub line: u64,
}

/// A JSON value as it stands in a source: raw text, valid JSON.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// The JSON text.
    pub json: &'a str,
    /// The byte of the source at which it begins.
    pub offset: u64,
}

impl<'a> Raw<'a> {
    /// Returns the value's text: a string unescaped, the texts of an array of content blocks joined by
    /// newlines (`{"type":"text","text":…}` or plain strings), anything else as its JSON.
    pub fn text(&self) -> Cow<'a, str> {
        match self.json.as_bytes().first() {
            Some(b'"') => unescape(self.json),
            Some(b'[') => {
                let texts = self.block_texts();
                if texts.is_empty() { Cow::Borrowed(self.json) } else { Cow::Owned(texts.join("\n")) }
            }
            _ => Cow::Borrowed(self.json),
        }
    }

    /// Returns the text of the last content block that has one; of a string, the string.
    pub fn last_text(&self) -> Option<Cow<'a, str>> {
        match self.json.as_bytes().first() {
            Some(b'[') => self.block_texts().pop(),
            _ => Some(self.text()),
        }
    }
}

/// A content block of which only the text matters here.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

impl<'a> Raw<'a> {
    /// The texts of an array of content blocks, of plain strings too.
    fn block_texts(&self) -> Vec<Cow<'a, str>> {
        // An untagged enum cannot borrow raw values: each element is looked at by itself.
        let elements: Vec<&'a RawValue> = serde_json::from_str(self.json).unwrap_or_default();
        let text = |element: &'a RawValue| {
            let json = element.get();
            if json.starts_with('"') {
                return Some(unescape(json));
            }
            let text = serde_json::from_str::<Block<'a>>(json).ok()?.text?.get();
            text.starts_with('"').then(|| unescape(text))
        };
        elements.into_iter().filter_map(text).collect()
    }
}

fn unescape(json: &str) -> Cow<'_, str> {
    let inner = json.get(1..json.len().saturating_sub(1)).unwrap_or("");
    if inner.contains('\\') {
        serde_json::from_str::<String>(json).map_or(Cow::Borrowed(inner), Cow::Owned)
    } else {
        Cow::Borrowed(inner)
    }
}

/// Big foreign data: kept, or referred to where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// The JSON text itself, where its source cannot be read again.
    Inline(Text),
    /// Where the JSON text stands in a source that stays.
    At {
        /// The source, within one fold.
        #[serde(skip)]
        source: SourceId,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        len: u32,
    },
}

/// Whom the wire names as the one who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim<'a> {
    /// The root, known by this basis.
    Root(Basis),
    /// A subagent by its id, known by this basis.
    Agent(&'a str, Basis),
    /// The agent that this spawn call started.
    SpawnedBy(&'a str),
    /// The agent whose lines hang together with this one, by line id and the id of the line before it.
    Chain {
        /// This line.
        line: &'a str,
        /// The line before it; `None` for an agent's first.
        parent: Option<&'a str>,
    },
    /// Nobody: the root if the session's wire has identity, else a matter of `sole`, `stack` or `unknown`.
    Silent,
}

/// One thing that a source says at one position. Immutable.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// Where it stands.
    pub place: Place,
    /// The kind of its source.
    pub kind: SourceKind,
    /// When it happened, where the source tells.
    pub time: Option<Millis>,
    /// Whose clock `time` is from.
    pub clock: Clock,
    /// The harness's session.
    pub session: Option<&'a str>,
    /// The id of its line, equal in every source that has the line.
    pub line_id: Option<&'a str>,
    /// Who did it.
    pub claim: Claim<'a>,
    /// What was said.
    pub fact: Fact<'a>,
}

/// What a decoder hands over.
#[derive(Debug)]
pub enum Decoded<'o, 'a> {
    /// Something that a source says.
    Observation(&'o Observation<'a>),
    /// A line that could not be understood; kept as text.
    Problem {
        /// Where it stands.
        place: Place,
        /// What was wrong.
        what: Cow<'o, str>,
        /// The line, cut to 4 KiB; empty where it was too long to hold.
        text: &'o str,
    },
}

/// Takes what a decoder hands over, in order.
pub type Sink<'s> = dyn for<'o, 'a> FnMut(Decoded<'o, 'a>) + 's;

/// How a spawn call is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpawnMode {
    /// Its caller waits for it.
    Foreground,
    /// Its caller goes on.
    Background,
}

/// Who started an agent, where the wire names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent<'a> {
    /// The root.
    Root,
    /// This subagent.
    Agent(&'a str),
}

/// What a source says of an agent's origin. Every field may be unknown.
#[derive(Clone, Debug, Default)]
pub struct Spawn<'a> {
    /// The agent's id, if the claim does not name it.
    pub agent: Option<&'a str>,
    /// The call that started it or, where `resumes`, that woke it.
    pub call: Option<&'a str>,
    /// An alias of `call` on later lines.
    pub run_id: Option<&'a str>,
    /// Who started it.
    pub parent: Option<Parent<'a>>,
    /// The harness's type.
    pub agent_type: Option<Cow<'a, str>>,
    /// A few words.
    pub description: Option<Cow<'a, str>>,
    /// The name given to it.
    pub name: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<Raw<'a>>,
    /// The model.
    pub model: Option<Cow<'a, str>>,
    /// How it is run.
    pub mode: Option<SpawnMode>,
    /// Whether this says that the agent began to work now, and not only what it is.
    pub starts: bool,
    /// Whether `call` is known to be its spawn call even if others name the agent too.
    pub is_origin: bool,
    /// Whether no call of its own started it, as a workflow's agents.
    pub detached: bool,
    /// Whether this only describes the agent and does not prove that it exists: a note may be a copy from another session.
    pub is_note: bool,
    /// What started it together with others.
    pub batch: Option<Batch<'a>>,
}

/// What starts several agents at once, as a workflow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch<'a> {
    /// The call.
    Call(&'a str),
    /// A run that the call's result names.
    Run(&'a str),
}

/// What a spawn call's input says.
#[derive(Clone, Debug, Default)]
pub struct SpawnInput<'a> {
    /// The harness's type.
    pub agent_type: Option<Cow<'a, str>>,
    /// A few words.
    pub description: Option<Cow<'a, str>>,
    /// The name given to it.
    pub name: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<Raw<'a>>,
    /// The model asked for.
    pub model: Option<Cow<'a, str>>,
    /// Whether the caller waits; `None` where that is left to a harness whose default is not known.
    pub mode: Option<SpawnMode>,
}

/// A class of tools that the tracker treats alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolClass {
    /// Starts a subagent.
    Spawn,
    /// Ends at once unless somebody must allow it.
    Instant,
    /// Any other.
    Other,
}

/// A tool call began.
#[derive(Clone, Debug)]
pub struct CallBegin<'a> {
    /// The harness's id; `None` on wires without one.
    pub id: Option<&'a str>,
    /// The tool.
    pub name: &'a str,
    /// Its class.
    pub class: ToolClass,
    /// Its arguments.
    pub input: Option<Raw<'a>>,
    /// Equal for calls with equal arguments, within a kind of source.
    pub digest: u64,
    /// What it works on, short.
    pub detail: Option<Cow<'a, str>>,
    /// The file it writes.
    pub writes: Option<Cow<'a, str>>,
    /// How long it may take, where its wire says so.
    pub timeout_s: Option<u64>,
    /// What it says of the agent to be started, for a spawn tool.
    pub spawn: Option<SpawnInput<'a>>,
    /// Whether the harness lists the call in hindsight only, and it may have begun long before.
    pub hindsight: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Without error.
    Ok,
    /// In an error.
    Error,
    /// By an interrupt.
    Interrupted,
    /// Refused by a person, a rule or a hook.
    Denied,
    /// It is over, but the source does not tell how.
    Over,
}

/// What a spawn call's result says of the agent.
#[derive(Clone, Debug, Default)]
pub struct SpawnResult<'a> {
    /// The agent's id.
    pub agent: Option<&'a str>,
    /// Whether the agent is over (`true`), launched and still at work (`false`), or not told.
    pub finished: Option<bool>,
    /// The harness's type.
    pub agent_type: Option<Cow<'a, str>>,
    /// A few words.
    pub description: Option<Cow<'a, str>>,
    /// The model.
    pub model: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<Raw<'a>>,
    /// Its report.
    pub report: Option<Raw<'a>>,
    /// Whether the result proves that an agent was at work.
    pub proves_agent: bool,
    /// Whether the call started an agent though its tool is not one for that (a skill that runs as an agent).
    pub is_forked: bool,
}

/// A tool call ended.
#[derive(Clone, Debug)]
pub struct CallEnd<'a> {
    /// The harness's id; `None` on wires without one.
    pub id: Option<&'a str>,
    /// The tool, where the source repeats it.
    pub name: Option<&'a str>,
    /// Equal to that of the begin, where the source repeats the arguments.
    pub digest: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Its result.
    pub result: Option<Raw<'a>>,
    /// How long the harness says it took.
    pub duration_ms: Option<i64>,
    /// What it says of the agent that it started.
    pub spawn: Option<SpawnResult<'a>>,
    /// Whether the harness refused to start an agent (unknown type, limit, depth).
    pub refused: bool,
    /// The agent that this call stopped.
    pub stopped: Option<&'a str>,
    /// The agent that this call woke.
    pub resumed: Option<&'a str>,
    /// The run that it started, of which several agents are.
    pub batch_run: Option<&'a str>,
    /// Whether the command that it started goes on behind it.
    pub left_running: bool,
}

/// One line of an API response.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The API's id of the message.
    pub message_id: &'a str,
    /// The model.
    pub model: Option<&'a str>,
    /// Its tokens as this line tells them.
    pub usage: Option<Usage>,
    /// How many of the cache-write tokens are for an hour.
    pub cache_write_1h: u64,
    /// Whether the line has a reason for the response's end.
    pub has_stop_reason: bool,
    /// Whether the reason is the end of the turn.
    pub ends_turn: bool,
    /// A hash of the line's content and its length in characters.
    pub content: (u64, u32),
    /// Whether the line has a tool call.
    pub has_call: bool,
    /// Whether the line has text.
    pub has_text: bool,
    /// Whether the harness made the line up: its usage counts nowhere.
    pub synthetic: bool,
    /// Whether it reports a failure of the API.
    pub api_error: bool,
}

/// What a text of the user's role is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// Somebody asked the actor to do something: the user the root, or an agent its subagent.
    Asked,
    /// The harness or another agent put a word in.
    Meta,
    /// A command that the user gave to the harness itself, or its output: no model answers it.
    Local,
    /// The harness tells that the request was interrupted.
    Interrupted,
}

/// What an ending rests on, strongest first (design, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndEvidence {
    /// A hook's answer told it to stop, by our own record: the harness goes on to report it as completed.
    HookAnswer,
    /// The harness told that the task ended.
    Notification,
    /// The result of the call that stopped it.
    StopCall,
    /// The result of its spawn call.
    SpawnResult,
    /// Its own last line.
    LastLine,
    /// The harness marked it as finished.
    Finished,
    /// A hook that fires when it stops.
    StopHook,
    /// No ending.
    Lost,
}

impl EndEvidence {
    /// A few words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HookAnswer => "hook answer",
            Self::Notification => "task notification",
            Self::StopCall => "stop call",
            Self::SpawnResult => "spawn result",
            Self::LastLine => "last line",
            Self::Finished => "marked finished",
            Self::StopHook => "stop hook",
            Self::Lost => "no ending",
        }
    }
}

/// A source tells that an agent ended.
#[derive(Clone, Debug)]
pub struct AgentEnd<'a> {
    /// The agent's id; `None` for the one of the claim.
    pub agent: Option<&'a str>,
    /// The call whose stretch of activity ended.
    pub call: Option<&'a str>,
    /// An alias of `call`.
    pub run_id: Option<&'a str>,
    /// How it ended.
    pub status: AgentStatus,
    /// What this rests on.
    pub evidence: EndEvidence,
    /// When, by the harness.
    pub time: Option<Millis>,
    /// Its report.
    pub report: Option<Raw<'a>>,
    /// What went wrong.
    pub error: Option<Raw<'a>>,
    /// The type that a stop hook names; empty for ghosts.
    pub agent_type: Option<Cow<'a, str>>,
}

/// The session's own sum over all its API responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Tokens.
    pub usage: Usage,
    /// Cost.
    pub cost_micro_usd: Option<MicroUsd>,
}

/// What was said.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// About the session itself.
    Session {
        /// The harness's version.
        version: Option<&'a str>,
        /// The working directory.
        cwd: Option<Cow<'a, str>>,
        /// The root's model.
        model: Option<&'a str>,
        /// Whether this wire tells at once when an agent starts: then an open spawn call proves none.
        tells_starts: bool,
    },
    /// The actor was active; nothing else of interest.
    Activity,
    /// A text of the user's role.
    Prompt {
        /// The harness's id of the prompt.
        prompt_id: Option<&'a str>,
        /// What was said.
        text: Raw<'a>,
        /// What it is.
        what: PromptKind,
    },
    /// A text of the model's.
    Message {
        /// The API's id of the message.
        message_id: Option<&'a str>,
        /// What was said.
        text: Raw<'a>,
    },
    /// A thought of the model's.
    Thought {
        /// The API's id of the message.
        message_id: Option<&'a str>,
        /// What was thought; `None` where it is encrypted.
        text: Option<Raw<'a>>,
    },
    /// A line of an API response.
    Response(Response<'a>),
    /// A tool call began.
    CallBegin(CallBegin<'a>),
    /// A tool call ended.
    CallEnd(CallEnd<'a>),
    /// What an agent is and where it comes from.
    Spawn(Spawn<'a>),
    /// An agent ended.
    AgentEnd(AgentEnd<'a>),
    /// A person's order that the claimed agent stop.
    Stop {
        /// How far it is.
        step: StopStep,
        /// The call that the agent was about to make, or had made, when it was told.
        call: Option<&'a str>,
        /// Whether that call was refused with it.
        is_refused: bool,
    },
    /// The root ended its turn, as told by the harness about the turn.
    TurnEnd {
        /// How.
        status: AgentStatus,
        /// What this rests on.
        evidence: EndEvidence,
        /// Whether the turn was the answer to a prompt of the user.
        counts_run: bool,
        /// What went wrong, or the final text.
        text: Option<Raw<'a>>,
    },
    /// The harness told how far an agent is.
    Progress {
        /// The agent's id.
        agent: Option<&'a str>,
        /// What it does.
        message: Option<Cow<'a, str>>,
        /// Calls so far.
        tool_calls: Option<u64>,
        /// The harness's token figure.
        total_tokens: Option<u64>,
    },
    /// The API is asked again, or no more (`attempt` 0).
    Retry {
        /// The agent's id.
        agent: Option<&'a str>,
        /// Which attempt, from 1.
        attempt: u32,
        /// How many there will be.
        limit: u32,
        /// How long it waits before it.
        delay_ms: Option<u64>,
        /// Why.
        error: Cow<'a, str>,
    },
    /// The harness said that it lives.
    Heartbeat,
    /// A person is asked to allow a call.
    Permission {
        /// The tool.
        name: &'a str,
        /// Equal to that of the call's begin.
        digest: u64,
        /// The arguments.
        input: Option<Raw<'a>>,
    },
    /// A process of the harness opened the session.
    SessionStart {
        /// Why (`startup`, `resume`).
        source: Option<Cow<'a, str>>,
    },
    /// A process of the harness left the session.
    SessionEnd {
        /// Why.
        reason: Option<Cow<'a, str>>,
    },
    /// The actor is a warm-up that the harness started by itself, unless a call started it.
    Warmup,
    /// The harness waits for the user's next prompt.
    AwaitsPrompt,
    /// The session's own sum.
    Checksum(Checksum),
    /// From this source on, whom a line does not name is the root.
    WireHasIdentity,
    /// Something only shown in the feed.
    Note {
        /// As what.
        kind: EventKind,
        /// The details, an object.
        data: Raw<'a>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Raw<'_> {
        Raw { json, offset: 0 }
    }

    #[test]
    fn text_of_strings_blocks_and_other_values() {
        for (json, text, last) in [
            (r#""a\nb""#, "a\nb", Some("a\nb")),
            (
                r#"[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b\u00e9"}]"#,
                "a\nbé",
                Some("bé"),
            ),
            (r#"["x","y"]"#, "x\ny", Some("y")),
            (
                r#"[{"type":"tool_reference","tool_name":"T"}]"#,
                r#"[{"type":"tool_reference","tool_name":"T"}]"#,
                None,
            ),
            (r#"{"a":1}"#, r#"{"a":1}"#, Some(r#"{"a":1}"#)),
        ] {
            assert_eq!((raw(json).text().as_ref(), raw(json).last_text().as_deref()), (text, last), "{json}");
        }
    }
}
