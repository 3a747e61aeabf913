//! Arguments of `subscope watch`.

use std::path::PathBuf;

use clap::Args;
use subscope_decode::Dialect;

use super::{
    silence::SilenceArgs,
    value::{self, TargetArg},
};
use crate::config::{LoadedConfig, PRICES};

const EXAMPLES: &str = "\
Examples:
  subscope watch                              every live session, new ones too
  subscope watch last --verbose
  subscope watch session.jsonl --stall 2m
  subscope watch --json | jq 'select(.kind == \"subagent.stop\")'
  claude -p --output-format stream-json --verbose … | subscope watch -

Without a TARGET the events come from the hub, which applies one set of limits and prices for all clients: with --stall, --stall-subagents or --prices the files are followed without it.";

/// Follow sessions live and print what happens, block by block.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// What to follow: a path, a session's id or prefix, `last`, or - for stdin. None: every live session.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<TargetArg>,
    /// Print arguments and results in full instead of one line per event.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Do not cut results longer than 20 lines.
    #[arg(long)]
    pub(crate) full: bool,
    /// Print events as JSON, one per line (subscope.event/1).
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the targets as this dialect instead of recognising it.
    #[arg(long, value_name = "NAME", value_parser = value::dialect())]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// Ask a stalled subagent to stop, as `subscope stop` does.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Read prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

impl WatchArgs {
    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--verbose", self.verbose.then_some(true), "watch.verbose", |settings| {
            &mut settings.watch.verbose
        });
        self.silence.apply_to(config);
        config.set_option("--prices", self.prices.clone().map(Some), PRICES, |settings| &mut settings.prices);
    }
}
