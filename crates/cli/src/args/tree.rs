//! Arguments of `subscope tree`.

use std::path::PathBuf;

use clap::Args;
use subscope_decode::Dialect;
use subscope_render::Detail;

use super::value::{self, Moment, TargetArg};
use crate::config::{LoadedConfig, PRICES};

const EXAMPLES: &str = "\
Examples:
  subscope tree last
  subscope tree 59d3cea2 --detail full --agent a70
  subscope tree ~/.claude/projects/my-project/59d3cea2.jsonl --at -5m
  subscope tree stream.jsonl hooks.jsonl --json
  claude -p --output-format stream-json --verbose … | subscope tree -

Guesses are marked ~, lower bounds ≥, unknown values —.";

/// Print the agent tree of a session.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TreeArgs {
    /// What to show: a path, a session's id or prefix, `last`, or - for stdin. Several of one session are merged.
    #[arg(value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<TargetArg>,
    /// Show nothing, one line per agent, also one line per call and result, or everything.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    /// Show this agent and those below it: a unique prefix of its id.
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Show the tree at a past time: RFC 3339, milliseconds since 1970, or a time ago as -5m.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<Moment>,
    /// Print JSON (subscope.tree/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the targets as this dialect instead of recognising it.
    #[arg(long, value_name = "NAME", value_parser = value::dialect())]
    pub(crate) dialect: Option<Dialect>,
    /// Read prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Draw in this many columns instead of the terminal's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=10_000))]
    pub(crate) width: Option<u16>,
    /// Print one agent per line without guides, for grep and cut.
    #[arg(long)]
    pub(crate) flat: bool,
}

impl TreeArgs {
    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--detail", self.detail, "subagent_tracing_detail", |settings| {
            &mut settings.subagent_tracing_detail
        });
        config.set_option("--prices", self.prices.clone().map(Some), PRICES, |settings| &mut settings.prices);
    }
}
