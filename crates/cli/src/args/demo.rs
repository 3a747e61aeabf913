//! Arguments of `subscope demo`.

use clap::Args;

use super::value::Speed;

const EXAMPLES: &str = "\
Examples:
  subscope demo
  subscope demo --speed 10
  subscope demo --plain | less";

/// Replay a real recording that is built into the program.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Replay this many times as fast: 0.01 to 10000.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) speed: Speed,
    /// Print blocks one after the other instead of redrawing a tree; automatic if stdout is no terminal.
    #[arg(long)]
    pub(crate) plain: bool,
}
