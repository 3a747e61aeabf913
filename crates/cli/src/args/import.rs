//! `subscope import`.

use clap::Args;
use subscope_render::Detail;

use super::value::{self, Target};
use crate::config::{Raw, Sourced};

const EXAMPLES: &str = "\
Examples:
  subscope import checkpoints/1
  subscope import checkpoint.json --detail full
  subscope import feed.jsonl --json";

/// Reads a checkpoint, a feed or a recorded stream and shows its tree.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// A checkpoint's folder or file, a feed, a recorded stream, or - for a feed or stream on stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: Target,
    /// Prints JSON (subscope.tree/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows nothing, one line an agent, also its calls and results in a line, or everything.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
}

impl ImportArgs {
    /// Returns the settings that these options set.
    pub(super) fn settings(&self) -> Raw {
        let mut raw = Raw::default();
        raw.tracing.detail = Sourced::flag("--detail", self.detail);
        raw
    }
}
