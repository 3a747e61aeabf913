//! Arguments of `subscope team` and `subscope forward`.

use clap::{Args, Subcommand, ValueEnum};
use subscope_model::ContentLevel;
use subscope_program::TeamServerCommand;

/// Run and manage the store of a team.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope team token new --user ana --tenant acme     make a token for a user
  subscope team serve --clickhouse http://localhost:8123 --listen 127.0.0.1:7338 --token-file tokens
  subscope --team https://subscope.example.com team page --open

The server is a program of its own, subscope-team, which packages have beside subscope: `subscope team serve` and `subscope team token` start it. On a machine that only serves, subscope-team alone is enough.")]
pub(crate) struct TeamArgs {
    #[command(subcommand)]
    pub(crate) command: TeamCommand,
}

/// Commands of `subscope team`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TeamCommand {
    /// Commands of the server's program.
    #[command(flatten)]
    Server(TeamServerCommand),
    Forget(TeamForgetArgs),
    Page(TeamPageArgs),
}

/// Remove all sessions of a user from the team's store at once, through the server of --team.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope --team https://subscope.example.com --token-file admin-token team forget --user ana

It needs the token of an admin. Delete the user's own token first: a machine that still forwards sends its sessions again.")]
pub(crate) struct TeamForgetArgs {
    /// The user whose sessions are removed.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
}

/// Print a URL that signs one browser in to the page of the server of --team; it is valid for five minutes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope --team https://subscope.example.com --token-file ~/.config/subscope/team-token team page --open
  subscope --team settings team page")]
pub(crate) struct TeamPageArgs {
    /// Open the URL in a browser.
    #[arg(long)]
    pub(crate) open: bool,
}

/// Forward this machine's sessions to the server of a team.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope forward --dry-run                     prints what would leave this machine, and sends nothing
  subscope forward --to https://subscope.example.com --token-file ~/.config/subscope/team-token
  subscope forward --once                        sends all that is due, then exits: 1 if something could not be sent

A hub does the same by itself where the settings have `[team] url`. What leaves: figures (ids, types, models, tools, times, tokens, cost, the project's name); titles (also titles, descriptions and short details); text (also prompts, messages, arguments and results). Secrets are masked at every level.")]
pub(crate) struct ForwardArgs {
    /// The server's URL. [default: `[team] url`]
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// Send all that is due, then exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Send every session, also those that the server has: to raise the level of what was sent before.
    #[arg(long)]
    pub(crate) all: bool,
    /// What leaves this machine. [default: `[team] content`, else figures]
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(crate) content: Option<ContentArg>,
    /// Name of this machine for the team. [default: `[team] name`, else the host's]
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    /// Print what would leave this machine, one session a line, and send nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Level of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContentArg {
    /// Ids, types, models, tools, times, statuses, counts, tokens, cost, the project's name.
    Figures,
    /// Also titles, descriptions, short details of calls.
    Titles,
    /// Also prompts, messages, arguments and results.
    Text,
}

impl From<ContentArg> for ContentLevel {
    fn from(content: ContentArg) -> Self {
        match content {
            ContentArg::Figures => Self::Figures,
            ContentArg::Titles => Self::Titles,
            ContentArg::Text => Self::Text,
        }
    }
}
