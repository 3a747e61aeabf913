//! Arguments of `subscope replay`.

use clap::Args;

use super::value::{Speed, TargetArg};

const EXAMPLES: &str = "\
Examples:
  subscope replay last
  subscope replay 59d3cea2 --speed 4
  subscope replay session.jsonl --step
  subscope replay last --plain --speed 100 | less

In the terminal UI, space halts and goes on, [ and ] go event by event, { and } a tenth of the session, < and > change the speed; ? shows all keys.";

/// Replay a past session in the terminal UI.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// What to replay: a path, a session's id or prefix, or `last`. Several of one session are merged.
    #[arg(value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<TargetArg>,
    /// Replay this many times as fast: 0.01 to 10000.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) speed: Speed,
    /// Start paused, to step event by event.
    #[arg(long)]
    pub(crate) step: bool,
    /// Print changes as lines instead; automatic if stdout is no terminal.
    #[arg(long)]
    pub(crate) plain: bool,
}
