//! Arguments of `subscope run`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use subscope_render::Detail;

use super::{silence::SilenceArgs, value};
use crate::config::LoadedConfig;

const EXAMPLES: &str = "\
Examples:
  subscope run -- claude -p \"Review this branch\"
  subscope run -- claude                                    the terminal stays the program's: `subscope watch` elsewhere shows it
  subscope run --iterations 5 --until-success -- ./agent.sh records each below .subscope/iterations
  subscope run --render -- claude -p \"…\" > log.txt          the readable view in place of what the command prints

What the command prints passes through unchanged, and its exit code is returned (128 and the number of a signal that ended it). Blocks of what its agents do go to stderr. `claude -p` without --output-format gets the options that make it tell what it does (--verbose says which); what it prints stays what it would have printed.

The command finds an address in CPE_SUBAGENT_LOGGING_ADDRESS, to which whatever it starts can post events of subagents of its own.";

/// Run a command and show what its agents do, without changing what it prints.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
    /// Print what happens on stdout, in place of the command's own output.
    #[arg(long)]
    pub(crate) render: bool,
    /// Print arguments and results in full instead of one line per event, and print the options added to the command.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Do not cut results longer than 20 lines.
    #[arg(long)]
    pub(crate) full: bool,
    /// Print events as JSON in place of blocks, one per line (subscope.event/1): on stderr, with --render on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run the command this many times, one after another, and record each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Run the command until it exits with 0, at most --iterations times if given, and record each run.
    #[arg(long)]
    pub(crate) until_success: bool,
    /// Record below this folder. [default: .subscope/iterations]
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Name of the records; the command's name by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print the agent tree on stderr when the command has ended, in this detail.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// End the command when an agent is stalled.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Store nothing: no hub is used or started.
    #[arg(long)]
    pub(crate) no_store: bool,
}

impl RunArgs {
    /// Whether each run of the command is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.iterations.is_some() || self.until_success || self.log_dir.is_some()
    }

    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--verbose", self.verbose.then_some(true), "watch.verbose", |settings| {
            &mut settings.watch.verbose
        });
        self.silence.apply_to(config);
    }
}
