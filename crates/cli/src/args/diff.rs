//! Arguments of `subscope diff`.

use std::path::PathBuf;

use clap::Args;

use super::value::TargetArg;
use crate::config::{LoadedConfig, PRICES};

const EXAMPLES: &str = "\
Examples:
  subscope diff 59d3cea2 last
  subscope diff before.jsonl after.jsonl --json
  subscope diff .subscope/iterations/a1b2c3d4_2024-01-15_10-30-45_fix .subscope/iterations/c0ffee12_2024-01-15_10-41-02_fix

Agents stand side by side whose task is the same (type and description, below agents that stand side by side), else those of one type in their order, marked ~.";

/// Compare two sessions: agents and how they ended, tools, time, tokens, cost.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The first session: a path, a session's id or prefix, `last`, the record of an iteration, or - for stdin.
    #[arg(value_name = "A")]
    pub(crate) a: TargetArg,
    /// The second session.
    #[arg(value_name = "B")]
    pub(crate) b: TargetArg,
    /// Print JSON (subscope.diff/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Draw in this many columns instead of the terminal's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=10_000))]
    pub(crate) width: Option<u16>,
}

impl DiffArgs {
    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--prices", self.prices.clone().map(Some), PRICES, |settings| &mut settings.prices);
    }
}
