//! Arguments of `subscope export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use subscope_decode::Dialect;
use subscope_export::{Mask, Shape};

use super::value::{self, TargetArg};
use crate::config::{LoadedConfig, PRICES};

const EXAMPLES: &str = "\
Examples:
  subscope export last --as trace
  subscope export last --as execution -o traces.json
  subscope export 59d3cea2 --as checkpoint -o checkpoints/1
  subscope export last --as html -o session.html
  subscope export session.jsonl --as feed --shape uap --redact";

/// Export a session in a format that other programs read.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// What to export: a path, a session's id or prefix, `last`, or - for stdin. Several of one session are merged.
    #[arg(value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<TargetArg>,
    /// Output format.
    #[arg(long = "as", value_name = "FORMAT", value_enum)]
    pub(crate) format: Format,
    /// Write to this file (a folder for a checkpoint) instead of stdout.
    #[arg(long, short, value_name = "PATH", required_if_eq("format", "checkpoint"))]
    pub(crate) output: Option<PathBuf>,
    /// The shape of a feed's lines. [default: event]
    #[arg(long, value_enum)]
    pub(crate) shape: Option<ShapeChoice>,
    /// Mask what looks like a secret; html does it by default.
    #[arg(long)]
    pub(crate) redact: bool,
    /// Mask nothing.
    #[arg(long, conflicts_with = "redact")]
    pub(crate) no_redact: bool,
    /// Read the targets as this dialect instead of recognising it.
    #[arg(long, value_name = "NAME", value_parser = value::dialect())]
    pub(crate) dialect: Option<Dialect>,
    /// Read prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

impl ExportArgs {
    /// Returns whether secrets are masked: by default only in HTML, which is made to be shared.
    pub(crate) fn mask(&self) -> Mask {
        let is_asked = !self.no_redact && (self.redact || self.format == Format::Html);
        if is_asked { Mask::Secrets } else { Mask::Nothing }
    }

    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--prices", self.prices.clone().map(Some), PRICES, |settings| &mut settings.prices);
    }
}

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object: the lifecycle of all subagents, their hierarchy and figures.
    Trace,
    /// A JSON array: one execution trace for each ended subagent.
    Execution,
    /// A folder with checkpoint.json and metadata.json; needs --output.
    Checkpoint,
    /// Events as JSON, one per line.
    Feed,
    /// A page in one file that shows the session in any browser.
    Html,
    /// A table with one line per agent, for spreadsheets.
    Csv,
}

/// The shape of a feed's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShapeChoice {
    /// Each event as it is (subscope.event/1).
    Event,
    /// `subagent_start`, `subagent_event` and `subagent_end`, without the root's events.
    Uap,
}

impl From<ShapeChoice> for Shape {
    fn from(choice: ShapeChoice) -> Self {
        match choice {
            ShapeChoice::Event => Self::Event,
            ShapeChoice::Uap => Self::Uap,
        }
    }
}
