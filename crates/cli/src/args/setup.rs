//! Arguments of the commands that set subscope up: `subscope hooks`, `config`, `doctor`, `completions`, `man`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, builder::PossibleValuesParser};
use clap_complete::Shell;
use subscope_harness::{DEFAULT_HOOKED, SettingsScope, hooked};

use super::value::{self, Choice};

/// Settings files of a harness.
pub(crate) const SCOPES: [Choice<SettingsScope>; 3] = [
    (
        "user",
        "All your sessions; Claude Code: settings.json in CLAUDE_CONFIG_DIR or ~/.claude",
        SettingsScope::User,
    ),
    (
        "project",
        "Everybody who works on the project in this folder; Claude Code: .claude/settings.json",
        SettingsScope::Project,
    ),
    (
        "local",
        "This project, on this machine; Claude Code: .claude/settings.local.json",
        SettingsScope::Local,
    ),
];
/// Value of `--harness` for every harness that has a folder on this machine.
pub(crate) const ALL: &str = "all";

fn hooked_names(takes_all: bool) -> PossibleValuesParser {
    let all = takes_all.then_some(ALL);
    PossibleValuesParser::new(hooked().map(|(harness, _)| harness.name()).chain(all))
}

/// Option of `hooks install` that names the version of the harness.
pub(crate) const VERSION_OPTION: &str = "--claude-version";

/// Install, remove or show the hooks that report to subscope.
///
/// Claude Code, Codex, Copilot CLI, Gemini CLI and Qwen Code have hooks; OpenCode gets a plugin.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "\
Examples:
  subscope hooks install                    for all your sessions of Claude Code
  subscope hooks install --scope local      for this project, on this machine only
  subscope hooks install --harness codex    for Codex
  subscope hooks install --harness all      for every harness that has a folder on this machine
  subscope hooks install --otel             let Claude Code send OpenTelemetry, too
  subscope hooks status
  subscope hooks remove

subscope works without hooks. Hooks add events at the moment they happen, permission requests, and a way to stop one agent.

A hook sends its event to the hub over a private socket. If no hub runs, the event waits in the spool. A hook ends within 0.75 s, never blocks an agent, and prints nothing except an order of the hub to stop.",
    arg_required_else_help = true,
    subcommand_required = true
)]
pub(crate) struct HooksArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: HooksAction,
}

/// Actions of `subscope hooks`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HooksAction {
    /// Add hooks to the settings of a harness, and keep everything else in them.
    ///
    /// Subscribes to the events that subscope uses: 18 of Claude Code, as far as your version knows them. Other events
    /// say nothing about agents, and a hook for WorktreeCreate would have to create the worktree itself. Installing
    /// again updates the hooks.
    Install(InstallArgs),
    /// Remove the hooks. A settings file that nobody else changed is restored byte for byte.
    #[command(after_long_help = "\
Examples:
  subscope hooks remove                     from your settings of Claude Code
  subscope hooks remove --harness all       from those of every harness that has a folder on this machine
  subscope hooks remove --scope local       from those of this project, on this machine only

`subscope hooks status` shows where hooks are; `subscope uninstall` removes them everywhere.")]
    Remove(ScopeArgs),
    /// Show the installed hooks, whether a hub answers, and how many events wait in the spool.
    Status(StatusArgs),
}

/// Arguments of `subscope hooks install`.
#[derive(Args, Clone, Debug)]
#[command(
    group(ArgGroup::new("receiver").args(["http", "otel"]).multiple(true)),
    after_long_help = "\
Examples:
  subscope hooks install                    for all your sessions of Claude Code
  subscope hooks install --harness all      for every harness that has a folder on this machine
  subscope hooks install --scope local      for this project, on this machine only
  subscope hooks install --otel             let Claude Code send OpenTelemetry, too"
)]
pub(crate) struct InstallArgs {
    /// Settings file to use.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Run `subscope hook` for each event (the default). Without a hub, events wait in the spool.
    #[arg(long, conflicts_with = "http")]
    pub(crate) command: bool,
    /// Let Claude Code post events itself (SessionStart still runs the command: it is never sent over HTTP). Without a
    /// running hub an event is lost, and any program that listens at the URL can answer in its place.
    #[arg(long)]
    pub(crate) http: bool,
    /// Also let Claude Code send OpenTelemetry to the hub: sets variables in `env` of the settings. Refused where a
    /// variable has another value.
    #[arg(long)]
    pub(crate) otel: bool,
    /// Set the URL of the hub, for --http and --otel.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7337", requires = "receiver")]
    pub(crate) url: String,
    /// Let HTTP hooks send the token in SUBSCOPE_TOKEN, for a hub that asks for one (`serve --token-file`; on macOS
    /// every hub does, with the file `token` in the data folder). Claude Code reads the variable from its environment;
    /// the token is not written to the settings.
    #[arg(long, requires = "http")]
    pub(crate) with_token: bool,
    /// Assume this version of Claude Code instead of running `claude --version`. Versions before 2.1.101 ignore a whole
    /// settings file that names an event they do not know.
    #[arg(long = "claude-version", value_name = "VERSION")]
    pub(crate) harness_version: Option<String>,
}

/// Choice of a settings file.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScopeArgs {
    /// Choose the harness; `all` is every harness that has a folder on this machine.
    #[arg(long, value_name = "HARNESS", value_parser = hooked_names(true), default_value = DEFAULT_HOOKED)]
    pub(crate) harness: String,
    /// Set the settings file.
    #[arg(long, value_name = "SCOPE", value_parser = value::choice(SCOPES), default_value = "user")]
    pub(crate) scope: SettingsScope,
}

/// Arguments of `subscope hooks status`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope hooks status
  subscope hooks status --harness codex
  subscope hooks status --json | jq '.scopes[] | select(.installed) | .path'")]
pub(crate) struct StatusArgs {
    /// Show only this harness. Default: Claude Code, and every harness that has a folder on this machine.
    #[arg(long, value_name = "HARNESS", value_parser = hooked_names(false))]
    pub(crate) harness: Option<String>,
    /// Show only this settings file.
    #[arg(long, value_name = "SCOPE", value_parser = value::choice(SCOPES))]
    pub(crate) scope: Option<SettingsScope>,
    /// Print JSON (subscope.hooks/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send one event from stdin to the hub, or spool it: the command of installed hooks.
///
/// Always exits with code 0 within 0.75 s, and prints nothing except an order of the hub to stop.
#[derive(Args, Clone, Debug)]
#[command(hide = true)]
pub(crate) struct HookArgs {
    /// The harness that runs the hook.
    #[arg(long, value_name = "HARNESS")]
    pub(crate) harness: Option<String>,
    /// The event, for payloads that do not name it.
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
    /// A plugin runs the hook: it does nothing where the user's settings have one for the event.
    #[arg(long = "plugin")]
    pub(crate) is_of_plugin: bool,
}

/// Show or change settings.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
Examples:
  subscope config                        show every setting, its value, and the layer that set it
  subscope config init                   create your settings file, with every setting commented out
  subscope config set watch.stall 5m     change a setting in your file
  subscope config path                   show the settings files
  subscope config show watch.stall       show one setting; `watch` is all of a section
  subscope config show --json
  subscope config schema                 print the JSON Schema, for editors

Each layer overrides the ones before it: defaults, /etc/subscope/config.toml (of your organization), your file, the project's .subscope/config.toml (in the nearest folder above), variables such as SUBSCOPE_WATCH_STALL, options. Nothing overrides the settings that your organization's file locks.

All settings with an example or their default:

",
    include_str!("../../data/config.toml")
))]
pub(crate) struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: Option<ConfigAction>,
    /// Print JSON (subscope.config/1) instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Actions of `subscope config`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Show every setting with its value and the layer that set it (the default).
    #[command(visible_alias = "get")]
    Show {
        /// Show only this setting, or those of a section: `watch.stall`, `watch`.
        key: Option<String>,
    },
    /// Show the paths of the settings files, and which exist.
    Path,
    /// Print the JSON Schema of a settings file.
    Schema,
    /// Create your settings file, with every setting commented out.
    Init,
    /// Change one setting in your file, and keep everything else in it.
    #[command(after_long_help = "\
Examples:
  subscope config set watch.stall 5m
  subscope config set ui.theme contrast
  subscope config set team.exclude '~/private,~/customers/*'

`subscope config` shows all settings and their values, `subscope config --help` what each means.")]
    Set {
        /// The setting, for example `watch.stall`.
        key: String,
        /// The new value; commas separate the entries of a list.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
}

/// Check what subscope needs, and explain what is missing.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "\
Examples:
  subscope doctor
  subscope doctor --repair
  subscope doctor --json | jq '.checks[] | select(.state != \"ok\")'

✗ marks what is broken (exit code 1), ! what works but perhaps not as you expect.

--repair moves the files of a damaged store to a folder beside it. It keeps everything in them that can be read: input that programs sent, and rows of sessions whose transcripts are gone. A hub rebuilds the rest from transcripts and the archive.")]
pub(crate) struct DoctorArgs {
    /// Rebuild a damaged store and full-text index; intact files stay as they are.
    #[arg(long, conflicts_with = "json")]
    pub(crate) repair: bool,
    /// Print JSON (subscope.doctor/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print shell code for completion and a prompt segment.
///
/// The shell then completes options, commands, and ids of sessions and agents, and its prompt shows agents at work.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "\
Examples:
  eval \"$(subscope init bash)\"          in ~/.bashrc
  eval \"$(subscope init zsh)\"           in ~/.zshrc, after compinit
  subscope init fish | source            in ~/.config/fish/config.fish
  subscope init bash --no-prompt         completion only")]
pub(crate) struct InitArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: InitShell,
    /// Leave the prompt as it is.
    #[arg(long)]
    pub(crate) no_prompt: bool,
}

/// A shell that `subscope init` supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitShell {
    /// Bash 4 or later.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
}

/// Show agents at work in Claude Code's status line.
///
/// Claude Code then runs `subscope status` for its status line.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "\
Examples:
  subscope statusline install
  subscope statusline install --replace    replace another status line, and keep it for `remove`
  subscope statusline status
  subscope statusline remove               restore the settings file byte for byte, if nobody else changed it",
    arg_required_else_help = true,
    subcommand_required = true
)]
pub(crate) struct StatusLineSetup {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: StatusLineAction,
}

/// Actions of `subscope statusline`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum StatusLineAction {
    /// Set the status line in the settings, and keep everything else in them.
    #[command(after_long_help = "\
Examples:
  subscope statusline install
  subscope statusline install --scope local    for this project, on this machine only
  subscope statusline install --replace        replace another status line, and keep it for `remove`")]
    Install {
        /// Set the settings file.
        #[arg(long, value_name = "SCOPE", value_parser = value::choice(SCOPES), default_value = "user")]
        scope: SettingsScope,
        /// Replace a status line of another program.
        #[arg(long)]
        replace: bool,
    },
    /// Remove the status line, and restore the one before it.
    Remove {
        /// Set the settings file.
        #[arg(long, value_name = "SCOPE", value_parser = value::choice(SCOPES), default_value = "user")]
        scope: SettingsScope,
    },
    /// Show which status line is installed.
    Status {
        /// Set the settings file.
        #[arg(long, value_name = "SCOPE", value_parser = value::choice(SCOPES), default_value = "user")]
        scope: SettingsScope,
    },
}

/// Print a report for a bug, without text of agents.
///
/// The report has versions, the checks of `doctor`, settings that differ from their defaults, and the end of the hub's
/// log. Secrets are masked, and your home folder is shortened. Nothing is sent.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope bug-report
  subscope bug-report -o report.txt")]
pub(crate) struct BugReportArgs {
    /// Also write the report to this new file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// List what subscope wrote on this machine, and undo it.
///
/// Ends the hub, removes hooks and status lines from the settings of all harnesses (those of this project and of other
/// projects, too; files that nobody else has changed are restored byte for byte), and deletes logs, records of
/// changed settings, manual pages and completions. Sessions, settings and the records of runs in known projects are deleted only if you
/// agree. Plugins, lines in your shell's files and the programs are listed: these are yours to remove.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "\
Examples:
  subscope uninstall --dry-run     list everything, and change nothing
  subscope uninstall               undo it, and ask before data are deleted
  subscope uninstall --data        delete data without a question")]
pub(crate) struct UninstallArgs {
    /// Change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete sessions, records of runs and settings without a question.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) data: bool,
}

/// Print a topic of the documentation, or the help of a command.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope help                  list all topics
  subscope help status           the command `status`, and what each status means
  subscope help hooks install    an action of a command
  subscope help troubleshooting | less")]
pub(crate) struct HelpArgs {
    /// A topic, or a command with its action. None: list all topics.
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
}

/// Print the completion script for a shell.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "\
Examples:
  subscope completions bash > ~/.local/share/bash-completion/completions/subscope
  subscope completions zsh > ~/.zfunc/_subscope
  subscope completions fish > ~/.config/fish/completions/subscope.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print the manual page, or write all manual pages.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope man | man -l -
  subscope man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the manual pages of all commands to this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
