//! `subscope run`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use subscope_render::Detail;

use super::{silence::SilenceArgs, value};
use crate::config::{Raw, Sourced};

const EXAMPLES: &str = "\
Examples:
  subscope run -- claude -p \"Review this branch\"
  subscope run -- claude                                    the terminal stays the program's: `subscope watch` elsewhere shows it
  subscope run --iterations 5 --until-success -- ./agent.sh records each below .subscope/iterations
  subscope run --render -- claude -p \"…\" > log.txt          the readable view in place of what the command prints

What the command prints passes through unchanged, and its exit code is returned (128 and the number of a signal that ended it). Blocks of what its agents do go to stderr. `claude -p` without --output-format gets the options that make it tell what it does (--verbose says which); what it prints stays what it would have printed.

The command finds an address in CPE_SUBAGENT_LOGGING_ADDRESS, to which whatever it starts can post events of subagents of its own.";

/// Runs a command and shows what its agents do, without changing what it prints.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
    /// Prints what happens on stdout, in place of what the command prints there.
    #[arg(long)]
    pub(crate) render: bool,
    /// Prints arguments and results whole instead of one line an event, and says which options the command was given.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Does not cut results longer than 20 lines.
    #[arg(long)]
    pub(crate) full: bool,
    /// Prints events as JSON in place of blocks, one a line (subscope.event/1): on stderr, with --render on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs the command so often, one after another, and records each time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Runs the command until it ends with 0, at most --iterations times where that is given, and records each time.
    #[arg(long)]
    pub(crate) until_success: bool,
    /// Records below this folder. [default: .subscope/iterations]
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Names the records; the command's name otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Prints the tree of agents on stderr when the command has ended, in this detail.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// Ends the command when an agent is stalled.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Keeps nothing: no hub is asked or started.
    #[arg(long)]
    pub(crate) no_store: bool,
}

impl RunArgs {
    /// Whether each run of the command is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.iterations.is_some() || self.until_success || self.log_dir.is_some()
    }

    /// Returns the settings that these options set.
    pub(super) fn settings(&self) -> Raw {
        let mut raw = Raw::default();
        raw.watch.verbose = Sourced::flag("--verbose", self.verbose.then_some(true));
        self.silence.set(&mut raw);
        raw
    }
}
