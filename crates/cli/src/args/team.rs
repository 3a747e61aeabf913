//! Arguments of `subscope team` and `subscope forward`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::value;

/// Run and manage the store of a team.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope team token new --user ana --tenant acme     make a token for a user
  subscope team serve --clickhouse http://localhost:8123 --listen 127.0.0.1:7338 --token-file tokens
  subscope --team https://subscope.example.com team page --open")]
pub(crate) struct TeamArgs {
    #[command(subcommand)]
    pub(crate) command: TeamCommand,
}

/// Commands of `subscope team`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TeamCommand {
    Serve(TeamServeArgs),
    Token(TeamTokenArgs),
    Forget(TeamForgetArgs),
    Page(TeamPageArgs),
}

/// Serve a team: receive sessions from machines, store them in ClickHouse, answer queries, serve the page.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope team serve --clickhouse http://subscope@clickhouse:8123/subscope --listen 0.0.0.0:7338 --token-file tokens
  subscope team serve --clickhouse http://localhost:8123 --listen 127.0.0.1:0 --token-file tokens --retain sessions=400d,trees=90d,texts=30d

The server keeps nothing itself: run any number behind a balancer, and end them at any time. It makes its tables when it starts. SUBSCOPE_CLICKHOUSE_PASSWORD is the password if the URL has none. Without --tls-cert use a proxy with TLS in front.")]
pub(crate) struct TeamServeArgs {
    /// ClickHouse: http(s)://USER:PASSWORD@HOST:8123/DATABASE; the database is `subscope` by default.
    #[arg(long, value_name = "URL")]
    pub(crate) clickhouse: String,
    /// Listen on this address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", value_parser = value::parse_listen)]
    pub(crate) listen: SocketAddr,
    /// Keep rows for this many days; defaults: sessions=400d,trees=90d,texts=30d.
    #[arg(long, value_name = "DAYS")]
    pub(crate) retain: Option<subscope_team::Retention>,
    /// Create replicated tables on this cluster of ClickHouse.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Serve HTTPS with this certificate (PEM, followed by its intermediate certificates).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Read the private key of the certificate from this file (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// Create tokens.
#[derive(Args, Clone, Debug)]
pub(crate) struct TeamTokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// Commands of `subscope team token`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    New(NewTokenArgs),
}

/// Print a new token, and the line for the server's token file. The token is shown only now.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewTokenArgs {
    /// Set the user whose sessions are sent with the token.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// Set the tenant: a tenant never sees another one's sessions.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: String,
    /// Set what the token may do.
    #[arg(long, value_name = "ROLE", value_enum, default_value_t = RoleArg::Writer)]
    pub(crate) role: RoleArg,
    /// Set the user's team; cost is summed by team.
    #[arg(long, value_name = "NAME")]
    pub(crate) in_team: Option<String>,
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Sends sessions as its user, and reads its tenant.
    Writer,
    /// Reads its tenant.
    Reader,
    /// Does what a writer does, and may remove sessions of other users.
    Admin,
}

/// Remove all sessions of a user from the team's store at once, through the server of --team.
#[derive(Args, Clone, Debug)]
pub(crate) struct TeamForgetArgs {
    /// The user whose sessions are removed.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
}

/// Print a URL that signs one browser in to the page of the server of --team; it is valid for five minutes.
#[derive(Args, Clone, Debug)]
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
