//! Arguments of the commands that set subscope up: `subscope hooks`, `config`, `doctor`, `completions`, `man`.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use clap_complete::Shell;
use subscope_harness::{DEFAULT_HOOKED, SettingsScope, hooked};

use super::value::{self, Choice};

/// Settings files of a harness.
pub(crate) const SCOPES: [Choice<SettingsScope>; 3] = [
    (
        "user",
        "all sessions of this user; Claude Code: settings.json in CLAUDE_CONFIG_DIR or ~/.claude",
        SettingsScope::User,
    ),
    (
        "project",
        "everybody who works on the project in this folder; Claude Code: .claude/settings.json",
        SettingsScope::Project,
    ),
    (
        "local",
        "this project, on this machine; Claude Code: .claude/settings.local.json",
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

/// Install, remove or show the hooks of Claude Code, Codex, Copilot CLI, Gemini CLI or Qwen Code that report to subscope.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "\
Examples:
  subscope hooks install                    for all sessions of this user
  subscope hooks install --scope local      for this project, on this machine only
  subscope hooks install --harness codex    the hooks of Codex instead of those of Claude Code
  subscope hooks install --harness all      of every harness that has a folder on this machine
  subscope hooks status
  subscope hooks remove

A running hub takes each event over its private socket; without one, events wait in the spool until a hub takes them. A hook answers within 0.75 s whatever happens, blocks nothing, and prints nothing but a decision of the hub.

Transcripts say most of what hooks say, so subscope works without them. Hooks add what no file has: an event at the moment it happens, and permission requests.",
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
    /// Add hooks to the settings of a harness; everything else in them is kept.
    ///
    /// Subscribes to the events that subscope uses; of Claude Code 18, as far as your version knows them. The other 15
    /// of 2.1.330 say nothing about agents, and a hook for WorktreeCreate would have to create the worktree itself.
    /// Installing again updates the hooks, or changes nothing.
    Install(InstallArgs),
    /// Remove the hooks; a file that was not changed since is restored byte for byte.
    Remove(ScopeArgs),
    /// Show which hooks are installed, whether a hub answers, and how many events wait in the spool.
    Status(StatusArgs),
}

/// Arguments of `subscope hooks install`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallArgs {
    /// Settings file to use.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Run `subscope hook` for each event (the default). Works without a hub: events wait in the spool.
    #[arg(long, conflicts_with = "http")]
    pub(crate) command: bool,
    /// Let Claude Code post events itself (SessionStart still runs the command: it is never sent over HTTP). Without a
    /// running hub an event is lost, and any program that listens at the URL can answer in its place.
    #[arg(long)]
    pub(crate) http: bool,
    /// URL of the hub.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7337", requires = "http")]
    pub(crate) url: String,
    /// Let the HTTP hooks send the token in SUBSCOPE_TOKEN, for a hub that asks for one (`serve --token-file`; on macOS
    /// every hub does, with the file `token` in the data folder). Claude Code reads it from its environment; it is not
    /// written to the settings.
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
    /// Harness whose settings are changed; `all` for each that has a folder on this machine.
    #[arg(long, value_name = "HARNESS", value_parser = hooked_names(true), default_value = DEFAULT_HOOKED)]
    pub(crate) harness: String,
    /// Settings file to use.
    #[arg(long, value_name = "SCOPE", value_parser = value::choice(SCOPES), default_value = "user")]
    pub(crate) scope: SettingsScope,
}

/// Arguments of `subscope hooks status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// Show only this harness; otherwise Claude Code and all that have a folder on this machine.
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
/// Always exits with code 0 within 0.75 s, and prints nothing but a decision of the hub.
#[derive(Args, Clone, Debug)]
#[command(hide = true)]
pub(crate) struct HookArgs {
    /// Harness whose hook it is.
    #[arg(long, value_name = "HARNESS")]
    pub(crate) harness: Option<String>,
    /// The event, where the payload does not name it.
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
}

/// Show or change settings, and where they come from.
#[derive(Args, Clone, Debug)]
#[command(after_help = concat!(
    "\
Examples:
  subscope config                        what every setting is, and which layer set it: as a file of settings
  subscope config init                   a file of settings with all of them, commented out
  subscope config set watch.stall 5m     change a setting in the user's file
  subscope config path                   where files of settings are looked for
  subscope config show --json
  subscope config schema                 for editors: names, types, defaults and meanings of all settings

The layers, the later wins: built in, the user's file, the project's .subscope/config.toml (nearest folder above), variables such as SUBSCOPE_WATCH_STALL, options.

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
    Show,
    /// Show the paths of settings files, and which exist.
    Path,
    /// Print the JSON Schema of a settings file.
    Schema,
    /// Create the user's settings file, with every setting commented out.
    Init,
    /// Change a setting in the user's file; everything else in it is kept.
    Set {
        /// The setting, as `watch.stall`.
        key: String,
        /// Its value; a list separated by commas.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
}

/// Check what subscope needs on this machine, and explain what is missing.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
Examples:
  subscope doctor
  subscope doctor --repair
  subscope doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit code 1 if something is broken (✗). What is marked ! works, but perhaps not as you expect.

--repair moves the files of a damaged store into a folder beside it, keeps what can be read of them (all input that programs have sent, and the rows of sessions whose transcripts are gone), and has a hub build the rest anew from transcripts and the archive.")]
pub(crate) struct DoctorArgs {
    /// Rebuild a damaged store and full text instead; what is intact stays as it is.
    #[arg(long, conflicts_with = "json")]
    pub(crate) repair: bool,
    /// Print JSON (subscope.doctor/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a topic of the documentation, or the help of a command.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
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
#[command(after_help = "\
Examples:
  subscope completions bash > ~/.local/share/bash-completion/completions/subscope
  subscope completions zsh > ~/.zfunc/_subscope
  subscope completions fish > ~/.config/fish/completions/subscope.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print the manual page.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope man | man -l -
  subscope man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder instead of printing the main one.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
