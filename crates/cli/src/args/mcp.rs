//! Arguments of `subscope mcp`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, Subcommand, builder::TypedValueParser};
use subscope_decode::Dialect;
use subscope_harness::{self as harness, dialects};
use subscope_mcp::FinalAnswer;

use super::{
    publish::FailureChoice,
    value::{self, Choice, ValueError},
};

/// Whether an agent has to call `final_answer`.
const FINAL_ANSWER: [Choice<FinalAnswer>; 2] = [
    ("required", "A run without it has failed", FinalAnswer::Required),
    ("optional", "Without it, the agent's last message is the answer", FinalAnswer::Optional),
];

/// Serve MCP on stdin and stdout: an agent command as a tool, or queries over sessions.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true, subcommand_required = true)]
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

/// Serve an agent command as a tool, and publish what it does.
///
/// One tool, NAME, with `prompt`, `inputs` and `runId`. A call runs CMD, publishes what it does as events of that run
/// id to CPE_SUBAGENT_LOGGING_ADDRESS (set by `subscope run`; `serve` takes them, too), and returns its final answer.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  claude mcp add researcher -- subscope mcp agent --name researcher -- claude -p --output-format stream-json --verbose
  subscope mcp agent --name grep -- my-agent --task {prompt} --files {inputs}

CMD gets the prompt where one of its words has {prompt}, else on its stdin. A word that is {inputs} becomes one word for each input; without it they follow the prompt as lines. Inside of a shell's script neither is quoted: give them as words behind it (sh -c '… \"$1\"' sh {prompt}). A prompt or input that would begin a word with - is refused, unless -- stands before it.

Its inside is seen where it prints a stream that subscope knows (for Claude Code: --output-format stream-json --verbose); whatever else it prints is its answer. It finds SUBSCOPE_PARENT_RUN_ID, SUBSCOPE_DEPTH and the address in its environment, so that what it starts reports below it.

A call that is canceled or takes too long, and a client that leaves, end all processes of the run.")]
pub(crate) struct AgentArgs {
    /// The tool's name, and the subagent's: letters, digits, `_`, `-` and `.`.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: String,
    /// Description of the tool for the model.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Format of CMD's stdout; recognized by default.
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = dialect())]
    pub(crate) dialect: DialectChoice,
    /// Time limit of a run.
    #[arg(long, value_name = "SPAN", default_value = "30m", value_parser = value::parse_duration)]
    pub(crate) timeout: Duration,
    /// Whether a run that never calls the tool `final_answer` has failed.
    #[arg(long, value_name = "WHETHER", value_parser = value::choice(FINAL_ANSWER), default_value = "optional")]
    pub(crate) final_answer: FinalAnswer,
    /// What to do if an event of a run cannot be delivered: abort the run, or spool its events for the next hub.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = FailureChoice::Abort)]
    pub(crate) on_publish_failure: FailureChoice,
    /// The agent's command.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Serve queries of agents over sessions: trees, agents, events, full text. Read-only.
///
/// Only sessions of the project are visible: those started in the working folder or below it.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
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
    let names = std::iter::once("auto").chain(dialects().map(Dialect::as_str));
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
