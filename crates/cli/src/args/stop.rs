//! Arguments of `subscope stop`.

use clap::Args;

/// Ask one running subagent to stop; all others go on.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope stop a24cf25
  subscope stop 59d3cea2/a24

The agent is told by the answer to a hook: when its running tool call is over, or before its next one. So its session needs hooks (`subscope hooks install`) and a hub (`subscope serve`). Until then it is shown as stopping; one that calls no tool any more ends by itself. Those it has started in the background go on.")]
pub(crate) struct StopArgs {
    /// The agent: a prefix of its id, or SESSION/AGENT.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// Print the hub's answer as JSON (subscope.stop-asked/1).
    #[arg(long)]
    pub(crate) json: bool,
}
