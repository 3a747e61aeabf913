//! Command line definition for clap: global options here, one file per command.

mod config;
mod demo;
mod diff;
mod doctor;
mod export;
mod history;
mod hooks;
mod import;
mod mcp;
mod publish;
mod replay;
mod run;
mod serve;
mod shell;
mod silence;
mod stop;
mod tree;
pub(crate) mod value;
mod watch;

use std::path::PathBuf;

use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand};

pub(crate) use self::{
    config::{ConfigArgs, ConfigPart},
    demo::DemoArgs,
    diff::DiffArgs,
    doctor::DoctorArgs,
    export::{ExportArgs, Format, ShapeChoice},
    history::{ForgetArgs, IndexArgs, LsArgs, SearchArgs, ShowArgs, StatsArgs, StatusLineArgs},
    hooks::{HookArgs, HooksAction, HooksArgs, InstallArgs, ScopeChoice, StatusArgs, VERSION_OPTION},
    import::ImportArgs,
    mcp::{AgentArgs, FinalAnswerChoice, McpArgs, McpServer, QueryArgs},
    publish::{FailureChoice, PublishArgs},
    replay::ReplayArgs,
    run::RunArgs,
    serve::ServeArgs,
    shell::{CompletionsArgs, ManArgs},
    stop::StopArgs,
    tree::TreeArgs,
    watch::WatchArgs,
};
use crate::{
    config::{AsciiChoice, LoadedConfig},
    context::Verbosity,
};

const EXAMPLES: &str = "\
Examples:
  subscope                           the terminal UI over everything live on this machine
  subscope demo                      watch a real recording unfold
  subscope watch                     follow every live session on this machine
  subscope run -- claude -p \"…\"      run an agent and see what its subagents do
  subscope tree last                 the latest session as a tree
  subscope ls                        all sessions, the newest first
  subscope search rounding cents     who said that, and where
  subscope tree session.jsonl --json the same for programs

TARGET is a path (a transcript, a session's folder, a recorded stream or hook log; - is stdin), a session's id or its shortest unique prefix, or `last`.

Exit codes: 0 done, also when damaged parts were skipped; 1 the thing asked for is not there, is empty or failed; 2 wrong usage or settings; 3 input from which nothing could be kept, or any problem under --strict. `run` returns the command's.";

/// Show what every subagent of a coding agent is doing: live, and afterwards.
#[derive(Debug, Parser)]
#[command(
    name = "subscope",
    version,
    about,
    after_help = EXAMPLES,
    max_term_width = 110,
    propagate_version = false
)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// Without a command: print changes as lines instead of the terminal UI, for screen readers and logs.
    #[arg(long)]
    pub(crate) plain: bool,
    /// What to do; without one, the terminal UI over everything live on this machine.
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Use colours always, never, or if stdout is a terminal and NO_COLOR is not set.
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    pub(crate) color: Option<ColorChoice>,
    /// Draw with ASCII only; automatic if TERM is dumb or the locale is not UTF-8.
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
    /// Read the user's settings from this file (also SUBSCOPE_CONFIG).
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// Use this data folder (also SUBSCOPE_DATA_DIR).
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) store: Option<PathBuf>,
    /// Fail on any problem in the input: exit code 3.
    #[arg(long, global = true)]
    pub(crate) strict: bool,
    /// Print no warnings.
    #[arg(long, short, global = true, conflicts_with = "chatty")]
    pub(crate) quiet: bool,
    /// Print progress and every problem on stderr.
    #[arg(short = 'v', id = "chatty", global = true, action = ArgAction::SetTrue)]
    pub(crate) chatty: bool,
}

impl Global {
    /// Sets the settings given by these options.
    pub(crate) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--color", self.color, "color", |settings| &mut settings.color);
        config.set_option("--ascii", self.ascii.then_some(AsciiChoice::Always), "ascii", |settings| {
            &mut settings.ascii
        });
    }

    /// Returns the verbosity of messages on stderr.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.chatty) {
            (true, _) => Verbosity::Quiet,
            (false, false) => Verbosity::Normal,
            (false, true) => Verbosity::Verbose,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Tree(TreeArgs),
    Diff(DiffArgs),
    Watch(WatchArgs),
    Run(RunArgs),
    Ls(LsArgs),
    Search(SearchArgs),
    Show(ShowArgs),
    Stats(StatsArgs),
    Status(StatusLineArgs),
    Stop(StopArgs),
    Index(IndexArgs),
    Forget(ForgetArgs),
    Serve(ServeArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Demo(DemoArgs),
    Replay(ReplayArgs),
    Publish(PublishArgs),
    Hooks(HooksArgs),
    Hook(HookArgs),
    Mcp(McpArgs),
    Config(ConfigArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl CliCommand {
    /// Whether output goes to stderr, since stdout belongs to the command that is run.
    pub(crate) fn prints_on_stderr(&self) -> bool {
        matches!(self, Self::Run(args) if !args.render)
    }

    /// Sets the settings given by the command's options.
    pub(crate) fn apply_to(&self, config: &mut LoadedConfig) {
        match self {
            Self::Tree(args) => args.apply_to(config),
            Self::Diff(args) => args.apply_to(config),
            Self::Watch(args) => args.apply_to(config),
            Self::Run(args) => args.apply_to(config),
            Self::Serve(args) => args.apply_to(config),
            Self::Index(args) => args.apply_to(config),
            Self::Export(args) => args.apply_to(config),
            Self::Import(args) => args.apply_to(config),
            Self::Show(args) => args.apply_to(config),
            // The options of a replay apply to it only.
            Self::Demo(_) | Self::Replay(_) => {}
            Self::Status(_)
            | Self::Stop(_)
            | Self::Ls(_)
            | Self::Search(_)
            | Self::Stats(_)
            | Self::Forget(_)
            | Self::Publish(_)
            | Self::Hooks(_)
            | Self::Hook(_)
            | Self::Mcp(_)
            | Self::Config(_)
            | Self::Doctor(_)
            | Self::Completions(_)
            | Self::Man(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
