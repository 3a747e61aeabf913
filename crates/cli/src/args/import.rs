//! Arguments of `subscope import`.

use clap::Args;
use subscope_render::Detail;

use super::value::{self, TargetArg};
use crate::config::LoadedConfig;

const EXAMPLES: &str = "\
Examples:
  subscope import checkpoints/1
  subscope import checkpoint.json --detail full
  subscope import feed.jsonl --json";

/// Print the agent tree of a checkpoint, a feed or a recorded stream.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// A checkpoint's folder or file, a feed, a recorded stream, or - for a feed or stream on stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: TargetArg,
    /// Print JSON (subscope.tree/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show nothing, one line per agent, also one line per call and result, or everything.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
}

impl ImportArgs {
    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--detail", self.detail, "subagent_tracing_detail", |settings| {
            &mut settings.subagent_tracing_detail
        });
    }
}
