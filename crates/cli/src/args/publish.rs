//! Arguments of `subscope publish`.

use clap::{Args, ValueEnum};
use subscope_client::publish::EventKind;
use subscope_model::{Millis, parse_rfc3339};

use super::value::{self, Choice, ValueError};

/// Types of events.
const KINDS: [Choice<EventKind>; 5] = [
    ("subagent_start", "It starts; the payload is its prompt", EventKind::SubagentStart),
    ("subagent_end", "It has ended; the payload is an error, no payload is success", EventKind::SubagentEnd),
    ("tool_call", "It calls a tool; the payload is the arguments", EventKind::ToolCall),
    ("tool_result", "A tool has returned; the payload is the result", EventKind::ToolResult),
    ("thought_trace", "It thinks; the payload is the text", EventKind::ThoughtTrace),
];

/// Publish what the subagents of your own agent do.
///
/// Reads events as JSON lines from stdin, or makes one event from options.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  my-agent --events-to-stdout | subscope publish
  subscope publish --type subagent_start --name scout --run-id r1 --payload 'Find the bug.'
  subscope publish --type tool_call --name scout --run-id r1 --tool Read --call-id c1 --payload '{\"path\":\"a.rs\"}'
  subscope publish --type tool_result --name scout --run-id r1 --tool Read --call-id c1 --payload 'fn main() {}'
  subscope publish --type subagent_end --name scout --run-id r1

A line has the keys subagentName, subagentRunId, timestamp and type. Further keys: toolName, toolCallId, payload, result, executionTimeoutSeconds, reasoningType, tokenUsage, parentRunId, depth, sessionId, cwd, isError, status, eventId. Each line is posted as it comes; the next one is read when the hub has stored it.

Without an address nothing is posted, and that is not an error. If an event cannot be delivered within 5 s, its run is aborted: no more of its events are posted, stderr names the event and the cause, and the exit code is 1. An invalid line also aborts its run, with exit code 2. Other runs on stdin continue; the command ends when none is left. For an end (subagent_end) it is a warning.

A subagent without a parent is a child of the run in SUBSCOPE_PARENT_RUN_ID, if that is set. `subscope help publish` describes events and libraries.")]
pub(crate) struct PublishArgs {
    /// Publish one event of this type from the options below, without reading stdin.
    #[arg(long = "type", value_name = "TYPE", value_parser = value::choice(KINDS), requires_all = ["name", "run_id"])]
    pub(crate) kind: Option<EventKind>,
    /// Set the name of the subagent.
    #[arg(long, value_name = "NAME", requires = "kind")]
    pub(crate) name: Option<String>,
    /// Set the id of the subagent's run; the same from start to end.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) run_id: Option<String>,
    /// Set the name of the tool.
    #[arg(long, value_name = "NAME", requires = "kind")]
    pub(crate) tool: Option<String>,
    /// Set the id that joins a call and its result.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) call_id: Option<String>,
    /// Set the prompt, arguments, result, thought or error: text or JSON.
    #[arg(long, value_name = "TEXT", requires = "kind", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Set the result of the subagent, in its end: text or JSON.
    #[arg(long, value_name = "TEXT", requires = "kind", allow_hyphen_values = true)]
    pub(crate) result: Option<String>,
    /// Set the id of the run that started this one.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) parent_run_id: Option<String>,
    /// Set the id of the parent's tool call that started this run.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) parent_call_id: Option<String>,
    /// Set the session of the subagent.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) session_id: Option<String>,
    /// Set the depth of the subagent: 1 is directly below the main agent.
    #[arg(long, value_name = "N", requires = "kind")]
    pub(crate) depth: Option<u32>,
    /// Set the time of the event: RFC 3339 or milliseconds since 1970. Default: now.
    #[arg(long, value_name = "TIME", requires = "kind", value_parser = parse_time)]
    pub(crate) timestamp: Option<Millis>,
    /// Mark the result as an error of the tool.
    #[arg(long, requires = "kind")]
    pub(crate) is_error: bool,
    /// Mark the end as caused by a stop request.
    #[arg(long, requires = "kind")]
    pub(crate) stopped: bool,
    /// Set the id of the event: events with the same id count once.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) event_id: Option<String>,
    /// Publish to this address of this machine. Default: CPE_SUBAGENT_LOGGING_ADDRESS.
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
    /// If an event of a run cannot be delivered, abort the run, or spool its events for the next hub.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = FailureChoice::Abort)]
    pub(crate) on_publish_failure: FailureChoice,
}

/// What to do with a run if one of its events cannot be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailureChoice {
    /// Publish no more of its events, and fail.
    #[default]
    Abort,
    /// Leave its events in the spool for the next hub.
    Spool,
}

fn parse_id(text: &str) -> Result<String, ValueError> {
    if text.trim().is_empty() { Err(ValueError::BlankId) } else { Ok(text.to_owned()) }
}

fn parse_time(text: &str) -> Result<Millis, ValueError> {
    let millis = text.parse().ok().filter(|millis| *millis >= 0);
    millis.or_else(|| parse_rfc3339(text)).ok_or(ValueError::Timestamp)
}
