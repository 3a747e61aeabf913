//! `subscope hooks` and `subscope hook`.

use clap::{Args, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  subscope hooks install                    for all sessions of this user
  subscope hooks install --scope local      for this project, on this machine only
  subscope hooks status
  subscope hooks remove

A running hub takes each event over its private socket; without one, events wait in the spool until a hub takes them. A hook answers within 0.75 s whatever happens, blocks nothing, and prints nothing but a decision of the hub.

Transcripts tell most of what hooks tell, so subscope works without them. Hooks add what no file has: an event at the moment it happens, and permission requests.";

/// The option of `hooks install` that names the harness's version.
pub(crate) const VERSION_OPTION: &str = "--claude-version";

/// Installs, removes or shows Claude Code's hooks that report to subscope.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct HooksArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: HooksAction,
}

/// What to do with hooks.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HooksAction {
    /// Adds hooks to Claude Code's settings, beside everything that stands there.
    ///
    /// Subscribes to the 18 events that subscope makes something of, as far as your version of Claude Code knows them.
    /// The other 15 that 2.1.330 has tell nothing about agents, and a hook for WorktreeCreate would have to make the
    /// worktree itself. Installing again brings the hooks up to date, or changes nothing.
    Install(InstallArgs),
    /// Takes the hooks out again; a file that nobody changed since becomes what it was, byte for byte.
    Remove(ScopeArgs),
    /// Shows what is installed where, whether a hub answers, and how many events wait.
    Status(StatusArgs),
}

/// How to install.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallArgs {
    /// Whose settings.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Runs `subscope hook` for each event; the default. Works without a hub: events wait.
    #[arg(long, conflicts_with = "http")]
    pub(crate) command: bool,
    /// Lets Claude Code post events itself (SessionStart still runs the command: it is never sent over HTTP). An event without a running hub is lost, and whoever listens at the URL can answer for it.
    #[arg(long)]
    pub(crate) http: bool,
    /// Where a hub listens.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7337", requires = "http")]
    pub(crate) url: String,
    /// Takes this for the version of Claude Code instead of asking `claude --version`. Versions before 2.1.101 ignore a whole settings file that names an event they do not know.
    #[arg(long = "claude-version", value_name = "VERSION")]
    pub(crate) harness_version: Option<String>,
}

/// Whose settings are meant.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ScopeArgs {
    /// Whose settings.
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = ScopeChoice::User)]
    pub(crate) scope: ScopeChoice,
}

/// What of the hooks is shown.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct StatusArgs {
    /// Shows only these settings.
    #[arg(long, value_name = "SCOPE", value_enum)]
    pub(crate) scope: Option<ScopeChoice>,
    /// Prints JSON (subscope.hooks/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One of Claude Code's settings files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeChoice {
    /// settings.json in CLAUDE_CONFIG_DIR or ~/.claude: all sessions of this user.
    User,
    /// .claude/settings.json in this folder: everybody who works on this project.
    Project,
    /// .claude/settings.local.json in this folder: this project, on this machine.
    Local,
}

/// Hands one event from stdin to the hub, or spools it: what installed hooks run.
///
/// Always ends with exit code 0 within 0.75 s, and prints nothing but a decision of the hub.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct HookArgs {}
