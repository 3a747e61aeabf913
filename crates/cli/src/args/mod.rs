//! Command line definition for clap: global options and the list of commands here, one file per group of commands.

mod complete;
mod history;
mod live;
mod mcp;
mod publish;
mod reading;
mod remote;
mod setup;
mod team;
pub(crate) mod value;

use clap::{Parser, Subcommand};
use subscope_program::Global;

pub(crate) use self::{
    history::*, live::*, mcp::*, publish::*, reading::*, remote::*, setup::*, team::*, value::TargetArg,
};
use crate::config::{AsciiChoice, KEEP_DAYS, LoadedConfig, PRICES};

/// The help of the program: the commands in groups.
const TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Look at sessions:
  ls           List sessions, the newest first
  tree         Print the agent tree of a session
  show         Print one agent in full: prompt, calls, result
  search       Search prompts, messages, thoughts, tool arguments and results
  stats        Print statistics over all sessions
  files        Print the files that the agents of a session changed
  diff         Compare two sessions or two agents
  verify       Compare what subscope says with what the harnesses themselves wrote
  replay       Replay a past session in the terminal UI
  demo         Play a recorded session with eight subagents

Follow agents:
  watch        Follow live sessions and print what happens
  run          Run a command and show what its agents do
  stop         Ask one running subagent to stop; all other agents continue
  jump         Go to the terminal in which a session runs
  answer       Answer permission requests of agents
  serve        Serve the page and the HTTP API on this machine
  status       Print one line for a prompt or status bar

Exchange data:
  export       Export sessions for other programs and people
  import       Import a checkpoint, a trajectory (ATIF), a feed or a recorded stream into the store
  publish      Publish what the subagents of your own agent do
  mcp          Serve MCP: an agent command as a tool, or questions about sessions

Share with a team:
  forward      Forward this machine's sessions to the server of a team
  team         Run and manage the store of a team

Your other machines:
  remote       Add, list or test your other machines, whose sessions appear among those of this one

Set up:
  doctor       Check what subscope needs, and explain what is missing
  hooks        Install, remove or show the hooks that report to subscope
  statusline   Show agents at work in Claude Code's status line
  init         Print shell code for completion and a prompt segment
  config       Show or change settings
  index        Read new and changed transcripts into the store
  forget       Remove sessions from the store
  backup       Copy the store with its archive and your settings to a folder
  restore      Put a copy made by `backup` in place of the store
  bug-report   Print a report for a bug, without text of agents
  uninstall    List what subscope wrote on this machine, and undo it
  completions  Print the completion script for a shell
  man          Print the manual page, or write all manual pages
  help         Print a topic of the documentation, or the help of a command

Options:
{options}{after-help}";

/// Show what every subagent of a coding agent does, live and afterwards.
#[derive(Debug, Parser)]
#[command(
    name = "subscope",
    version,
    about,
    help_template = TEMPLATE,
    after_help = "\
Examples:
  subscope                           open the terminal UI over all sessions of this machine
  subscope demo                      play a recorded session with eight subagents
  subscope watch                     follow every live session
  subscope run -- claude -p \"…\"      run an agent and see what its subagents do
  subscope tree last                 print the latest session as a tree
  subscope ls                        list all sessions, the newest first
  subscope search rounding cents     find these words in all sessions

`subscope help` lists topics, `subscope COMMAND --help` explains a command.",
    after_long_help = "\
Examples:
  subscope                           open the terminal UI over all sessions of this machine
  subscope demo                      play a recorded session with eight subagents
  subscope watch                     follow every live session
  subscope run -- claude -p \"…\"      run an agent and see what its subagents do
  subscope tree last                 print the latest session as a tree
  subscope ls                        list all sessions, the newest first
  subscope search rounding cents     find these words in all sessions

TARGET:
  last                the latest session
  aa151f21            a session id, or its shortest unique prefix
  session.jsonl       a transcript, a session's folder, a recorded stream or hook log
  -                   stdin

Exit codes:
  0  done; damaged parts of the input were skipped
  1  what you asked for does not exist, is empty, or failed
  2  wrong usage or settings
  3  nothing in the input could be read; with --strict: the input has a problem
  `run` returns the exit code of its command.

`subscope help` lists topics, `subscope help status` prints one.",
    max_term_width = 110,
    disable_help_subcommand = true,
    propagate_version = false
)]
pub(crate) struct Cli {
    /// Print changes as lines instead of opening the terminal UI, for screen readers and logs (without a command only).
    #[arg(long)]
    pub(crate) plain: bool,
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command; without one, the terminal UI opens.
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

/// Sets the settings given by the options of every command.
pub(crate) fn apply_global(global: &Global, config: &mut LoadedConfig) {
    config.set_option("--color", global.color, "color", |settings| &mut settings.color);
    config.set_option("--ascii", global.ascii.then_some(AsciiChoice::Always), "ascii", |settings| {
        &mut settings.ascii
    });
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Tree(TreeArgs),
    Files(FilesArgs),
    Diff(DiffArgs),
    Verify(VerifyArgs),
    Watch(WatchArgs),
    Run(RunArgs),
    Ls(LsArgs),
    Search(SearchArgs),
    Show(ShowArgs),
    Stats(StatsArgs),
    Status(StatusLineArgs),
    Stop(StopArgs),
    Jump(JumpArgs),
    Answer(AnswerArgs),
    Index(IndexArgs),
    Forget(ForgetArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Serve(ServeArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Demo(DemoArgs),
    Replay(ReplayArgs),
    Publish(PublishArgs),
    Hooks(HooksArgs),
    Hook(HookArgs),
    Mcp(McpArgs),
    Team(TeamArgs),
    Forward(ForwardArgs),
    Remote(RemoteArgs),
    Config(ConfigArgs),
    Doctor(DoctorArgs),
    Init(InitArgs),
    Statusline(StatusLineSetup),
    BugReport(BugReportArgs),
    Uninstall(UninstallArgs),
    Help(HelpArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl CliCommand {
    /// Whether output goes to stderr, since stdout belongs to the command that is run.
    pub(crate) fn prints_on_stderr(&self) -> bool {
        matches!(self, Self::Run(args) if !args.render)
    }

    /// Whether a team's server can answer the command instead of this machine's hub.
    pub(crate) fn may_ask_team(&self) -> bool {
        matches!(
            self,
            Self::Ls(_)
                | Self::Tree(_)
                | Self::Search(_)
                | Self::Stats(_)
                | Self::Status(_)
                | Self::Team(_)
                | Self::Mcp(McpArgs { server: McpServer::Query(_) })
        )
    }

    /// Sets the settings given by the command's options. The options of a replay apply to it only.
    pub(crate) fn apply_to(&self, config: &mut LoadedConfig) {
        if let Self::Tree(TreeArgs { detail, .. })
        | Self::Import(ImportArgs { detail, .. })
        | Self::Show(ShowArgs { detail, .. }) = self
        {
            config.set_option("--detail", *detail, "subagent_tracing_detail", |settings| {
                &mut settings.subagent_tracing_detail
            });
        }
        if let Self::Tree(TreeArgs { prices, .. })
        | Self::Diff(DiffArgs { prices, .. })
        | Self::Verify(VerifyArgs { prices, .. })
        | Self::Watch(WatchArgs { prices, .. })
        | Self::Export(ExportArgs { prices, .. })
        | Self::Serve(ServeArgs { prices, .. }) = self
        {
            config.set_option("--prices", prices.clone().map(Some), PRICES, |settings| &mut settings.prices);
        }
        if let Self::Watch(WatchArgs { verbose: true, .. }) | Self::Run(RunArgs { verbose: true, .. }) = self
        {
            config
                .set_option("--verbose", Some(true), "watch.verbose", |settings| &mut settings.watch.verbose);
        }
        if let Self::Watch(WatchArgs { silence, .. })
        | Self::Run(RunArgs { silence, .. })
        | Self::Serve(ServeArgs { silence, .. }) = self
        {
            silence.apply_to(config);
        }
        if let Self::Index(IndexArgs { archive, keep_days, .. })
        | Self::Serve(ServeArgs { archive, keep_days, .. }) = self
        {
            config.set_option("--archive", archive.then_some(true), "store.archive", |settings| {
                &mut settings.store.archive
            });
            config.set_option("--keep-days", keep_days.map(Some), KEEP_DAYS, |settings| {
                &mut settings.store.keep_days
            });
        }
        if let Self::Serve(ServeArgs { listen, public_url, .. }) = self {
            config.set_option("--listen", *listen, "hub.listen", |settings| &mut settings.hub.listen);
            let url = public_url.clone().map(Some);
            config.set_option("--public-url", url, "hub.public_url", |settings| &mut settings.hub.public_url);
        }
    }
}

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;
