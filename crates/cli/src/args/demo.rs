//! `subscope demo`.

use clap::Args;

use super::value::Speed;
use crate::config::Raw;

const EXAMPLES: &str = "\
Examples:
  subscope demo
  subscope demo --speed 10
  subscope demo --plain | less";

/// Replays a real recording that is part of the program, at its own pace.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Replays this many times as fast: 0.01 to 10000.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) speed: Speed,
    /// Prints blocks one after the other instead of redrawing a tree; automatic where stdout is no terminal.
    #[arg(long)]
    pub(crate) plain: bool,
}

impl DemoArgs {
    /// Returns the settings that these options set: none yet, since plain output and speed are of this replay only.
    pub(super) fn settings(self) -> Raw {
        Raw::default()
    }
}
