//! Arguments of `subscope mcp`.

use std::{ffi::OsString, time::Duration};

use clap::{
    Args, Subcommand,
    builder::{PossibleValue, TypedValueParser},
};
use subscope_decode::Dialect;
use subscope_harness as harness;
use subscope_mcp::FinalAnswer;

use super::{
    publish::FailureChoice,
    value::{self, Choice, ValueError},
};

/// Whether an agent has to call `final_answer`.
const FINAL_ANSWER: [Choice<FinalAnswer>; 2] = [
    ("required", "A run without this call has failed", FinalAnswer::Required),
    ("optional", "Without this call, the last message of the agent is the answer", FinalAnswer::Optional),
];

/// Serve MCP: an agent command as a tool, or questions about sessions.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "\
Examples:
  subscope mcp agent --name researcher -- claude -p --output-format stream-json --verbose
  subscope mcp query",
    arg_required_else_help = true,
    subcommand_required = true
)]
pub(crate) struct McpArgs {
    /// The server to run.
    #[command(subcommand)]
    pub(crate) server: McpServer,
}

/// The server to run.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum McpServer {
    Agent(AgentArgs),
    Query(QueryArgs),
}

/// Serve an agent command as an MCP tool, and publish what it does.
///
/// The tool is NAME, with the arguments `prompt`, `inputs` and `runId`. A call runs CMD, publishes what it does as
/// events of that run to CPE_SUBAGENT_LOGGING_ADDRESS (set by `subscope run`, or the address of `subscope serve`), and
/// returns its final answer.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  claude mcp add researcher -- subscope mcp agent --name researcher -- claude -p --output-format stream-json --verbose
  subscope mcp agent --name grep -- my-agent --task {prompt} --files {inputs}

CMD gets the prompt in the word that contains {prompt}, otherwise on stdin. A word {inputs} becomes one word per input; without it the inputs follow the prompt as lines. In a shell script neither is quoted: pass them as words after it (sh -c '… \"$1\"' sh {prompt}). Prompts and inputs that start with - are refused, because CMD could read them as options; put -- before {prompt} to allow them.

Tool calls of the command are visible if it prints a stream that subscope knows (Claude Code: --output-format stream-json --verbose); other output is its answer. CMD finds SUBSCOPE_PARENT_RUN_ID, SUBSCOPE_DEPTH and the address in its environment, so that everything it starts reports below it.

A call that is canceled or exceeds --timeout, and a client that leaves, end all processes of the run.")]
pub(crate) struct AgentArgs {
    /// Name the tool and the subagent: letters, digits, `_`, `-` and `.`.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: String,
    /// Describe the tool to the model.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Read CMD's stdout in this dialect; recognized by default.
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = dialect())]
    pub(crate) dialect: DialectChoice,
    /// Limit the time of a run.
    #[arg(long, value_name = "SPAN", default_value = "30m", value_parser = value::parse_duration)]
    pub(crate) timeout: Duration,
    /// Set whether a run must call the tool `final_answer`.
    #[arg(long, value_name = "WHETHER", value_parser = value::choice(FINAL_ANSWER), default_value = "optional")]
    pub(crate) final_answer: FinalAnswer,
    /// If an event of a run cannot be delivered, abort the run, or spool its events for the next hub.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = FailureChoice::Abort)]
    pub(crate) on_publish_failure: FailureChoice,
    /// The command of the agent, and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Answer questions of agents about sessions: lists, trees, agents, events, search. Read-only.
///
/// Only sessions of the project are visible: those that were started in its folder or below it. The client names the
/// folder (MCP roots, variables such as CLAUDE_PROJECT_DIR, its own session); else it is the working folder.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "\
Examples:
  claude mcp add subscope -- subscope mcp query
  claude mcp add --scope user subscope -- subscope mcp query")]
pub(crate) struct QueryArgs {
    /// Show the sessions of all projects.
    #[arg(long)]
    pub(crate) all_projects: bool,
}

/// A dialect; `None`: recognized by content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialectChoice(pub(crate) Option<Dialect>);

fn dialect() -> impl TypedValueParser<Value = DialectChoice> {
    let names = std::iter::once(PossibleValue::new("auto")).chain(value::dialect_names());
    clap::builder::PossibleValuesParser::new(names).map(|name| DialectChoice(harness::dialect(&name)))
}

/// Parses a tool name: length and characters that all MCP clients accept.
fn parse_name(name: &str) -> Result<String, ValueError> {
    let is_allowed =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
        return Err(ValueError::ToolName);
    }
    Ok(name.to_owned())
}
