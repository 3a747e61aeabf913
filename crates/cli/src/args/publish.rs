//! Arguments of `subscope publish`.

use clap::{Args, ValueEnum};
use subscope_client::publish::EventKind;
use subscope_model::{Millis, parse_rfc3339};

use super::value::{self, Choice, ValueError};

/// Types of events.
const KINDS: [Choice<EventKind>; 5] = [
    ("subagent_start", "It begins; the payload is its prompt", EventKind::SubagentStart),
    ("subagent_end", "It has ended; a payload says by which error", EventKind::SubagentEnd),
    ("tool_call", "It calls a tool; the payload is the arguments", EventKind::ToolCall),
    ("tool_result", "A tool has answered; the payload is the result", EventKind::ToolResult),
    ("thought_trace", "It thinks; the payload is the text", EventKind::ThoughtTrace),
];

/// Publish events of an agent's own subagents: JSON lines from stdin, or one event from options.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  my-agent --events-to-stdout | subscope publish
  subscope publish --type subagent_start --name scout --run-id r1 --payload 'Find the bug.'
  subscope publish --type tool_call --name scout --run-id r1 --tool Read --call-id c1 --payload '{\"path\":\"a.rs\"}'
  subscope publish --type tool_result --name scout --run-id r1 --tool Read --call-id c1 --payload 'fn main() {}'
  subscope publish --type subagent_end --name scout --run-id r1

A line has the keys subagentName, subagentRunId, timestamp and type, and what else is known: toolName, toolCallId, payload, executionTimeoutSeconds, reasoningType, tokenUsage, parentRunId, depth, sessionId, isError, eventId. It is posted when it has come, and the next is read when it is kept.

Where no address is set, nothing is posted, and that is no error. Where one is set and an event cannot be delivered within 5 s, its run is aborted: nothing more of it is posted, stderr names the event and the cause, and the exit code is 1. A line that is no event aborts its run, too; the exit code is then 2. Other runs on stdin continue; when none is left, the command ends. An ending (subagent_end) that cannot be delivered is a warning.

A subagent that starts without a parent is a child of the run that SUBSCOPE_PARENT_RUN_ID names, where that is set.")]
pub(crate) struct PublishArgs {
    /// Publish one event of this type, made of the options below, without reading stdin.
    #[arg(long = "type", value_name = "TYPE", value_parser = value::choice(KINDS), requires_all = ["name", "run_id"])]
    pub(crate) kind: Option<EventKind>,
    /// Name of the subagent.
    #[arg(long, value_name = "NAME", requires = "kind")]
    pub(crate) name: Option<String>,
    /// Id of the subagent's run, from start to end.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) run_id: Option<String>,
    /// Name of the tool that is called or has answered.
    #[arg(long, value_name = "NAME", requires = "kind")]
    pub(crate) tool: Option<String>,
    /// Id that joins a call and its result.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) call_id: Option<String>,
    /// Prompt, arguments, result, thought or error: text or JSON.
    #[arg(long, value_name = "TEXT", requires = "kind", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Result of the subagent, in its end: text or JSON.
    #[arg(long, value_name = "TEXT", requires = "kind", allow_hyphen_values = true)]
    pub(crate) result: Option<String>,
    /// Id of the run that started this one.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) parent_run_id: Option<String>,
    /// Id of the tool call that started this run, among the calls of its parent.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) parent_call_id: Option<String>,
    /// Session of the subagent.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) session_id: Option<String>,
    /// Depth of the subagent: 1 below the root.
    #[arg(long, value_name = "N", requires = "kind")]
    pub(crate) depth: Option<u32>,
    /// Time of the event: RFC 3339 or milliseconds since 1970; now by default.
    #[arg(long, value_name = "TIME", requires = "kind", value_parser = parse_time)]
    pub(crate) timestamp: Option<Millis>,
    /// Mark the result as a failure of the tool.
    #[arg(long, requires = "kind")]
    pub(crate) is_error: bool,
    /// Mark the end as caused by a stop request.
    #[arg(long, requires = "kind")]
    pub(crate) stopped: bool,
    /// Id of the event: events published again under the same id count once.
    #[arg(long, value_name = "ID", requires = "kind", value_parser = parse_id)]
    pub(crate) event_id: Option<String>,
    /// Address to publish to, on this machine; CPE_SUBAGENT_LOGGING_ADDRESS by default.
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
    /// What to do if an event of a run cannot be delivered: abort the run, or spool its events for the next hub.
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
