//! Arguments of the server of a team, and their values.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use clap::{Arg, Args, Parser, Subcommand, ValueEnum};

use crate::Global;

/// Name of the server's program.
pub const TEAM_PROGRAM: &str = "subscope-team";

/// Run the store of a team. `subscope team` does the same, and manages it.
#[derive(Clone, Debug, Parser)]
#[command(
    name = TEAM_PROGRAM,
    version,
    max_term_width = 110,
    disable_help_subcommand = true,
    mut_args(|option| if is_of_tool(&option) { option.hide(true) } else { option }),
)]
pub struct TeamProgram {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: TeamServerCommand,
}

/// Whether an option means nothing to the server. It is accepted all the same, since the tool passes on what it was given.
fn is_of_tool(option: &Arg) -> bool {
    ["color", "config", "store", "team", "strict"].contains(&option.get_id().as_str())
}

/// Commands of the server's program, which are commands of `subscope team`, too.
#[expect(missing_docs, reason = "the help would print it instead of what the arguments say")]
#[derive(Clone, Debug, Subcommand)]
pub enum TeamServerCommand {
    Serve(TeamServeArgs),
    Token(TeamTokenArgs),
}

/// Serve a team: receive sessions from machines, store them in ClickHouse, answer queries, serve the page.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope team serve --clickhouse http://subscope@clickhouse:8123/subscope --listen 0.0.0.0:7338 --token-file tokens
  subscope team serve --clickhouse http://localhost:8123 --listen 127.0.0.1:0 --token-file tokens --retain sessions=400d,trees=90d,texts=30d

The server keeps nothing itself: run any number behind a balancer, and end them at any time. It makes its tables when it starts. --token-file is needed: it has the lines that `subscope team token new` prints. SUBSCOPE_CLICKHOUSE_PASSWORD is the password if the URL has none. Without --tls-cert use a proxy with TLS in front.")]
pub struct TeamServeArgs {
    /// ClickHouse: http(s)://USER:PASSWORD@HOST:8123/DATABASE; the database is `subscope` by default.
    #[arg(long, value_name = "URL")]
    pub clickhouse: String,
    /// Listen on this address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    pub listen: SocketAddr,
    /// Keep rows for this many days; defaults: sessions=400d,trees=90d,texts=30d.
    #[arg(long, value_name = "DAYS")]
    pub retain: Option<Retention>,
    /// Create replicated tables on this cluster of ClickHouse.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Serve HTTPS with this certificate (PEM, followed by its intermediate certificates).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Read the private key of the certificate from this file (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// Create tokens.
#[derive(Args, Clone, Debug)]
pub struct TeamTokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// Commands of `subscope team token`.
#[expect(missing_docs, reason = "the help would print it instead of what the arguments say")]
#[derive(Clone, Debug, Subcommand)]
pub enum TokenCommand {
    New(NewTokenArgs),
}

/// Print a new token, and the line for the server's token file. The token is shown only now.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope team token new --tenant acme --user ana --in-team web
  subscope team token new --tenant acme --user board --role reader

The first line is the token, for its user. The second has its hash and belongs into the file of `team serve --token-file`.")]
pub struct NewTokenArgs {
    /// Set the user whose sessions are sent with the token.
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// Set the tenant: a tenant never sees another one's sessions.
    #[arg(long, value_name = "NAME")]
    pub tenant: String,
    /// Set what the token may do.
    #[arg(long, value_name = "ROLE", value_enum, default_value_t = TokenRole::Writer)]
    pub role: TokenRole,
    /// Set the user's team; cost is summed by team.
    #[arg(long, value_name = "NAME")]
    pub in_team: Option<String>,
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TokenRole {
    /// Sends sessions as its user, and reads its tenant.
    Writer,
    /// Reads its tenant.
    Reader,
    /// Does what a writer does, and may remove sessions of other users.
    Admin,
}

impl TokenRole {
    /// Returns the word of the command line and of the token file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
            Self::Admin => "admin",
        }
    }

    /// Whether it may send sessions.
    pub fn writes(self) -> bool {
        self != Self::Reader
    }
}

/// Days for which rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Rows of sessions: lists and figures.
    pub sessions: u16,
    /// Trees.
    pub trees: u16,
    /// Searchable passages.
    pub texts: u16,
}

impl Default for Retention {
    /// Figures of a year; trees of a quarter; texts of a month, which are most of the bytes.
    fn default() -> Self {
        Self { sessions: 400, trees: 90, texts: 30 }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sessions={}d,trees={}d,texts={}d", self.sessions, self.trees, self.texts)
    }
}

impl FromStr for Retention {
    type Err = String;

    /// Parses `sessions=400d,trees=90d,texts=30d`; what is left out has its default.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut retention = Self::default();
        for part in text.split(',') {
            let (name, days) = part.split_once('=').ok_or_else(|| format!("{part:?} is not NAME=DAYSd"))?;
            let days =
                days.strip_suffix('d').and_then(|days| days.parse::<u16>().ok()).filter(|days| *days > 0);
            let days = days.ok_or_else(|| format!("{part:?}: days are a number and d, as in 90d"))?;
            match name {
                "sessions" => retention.sessions = days,
                "trees" => retention.trees = days,
                "texts" => retention.texts = days,
                _ => return Err(format!("there is no table {name:?}: sessions, trees or texts")),
            }
        }
        Ok(retention)
    }
}

/// Parses an address; `:PORT` alone means 127.0.0.1.
///
/// # Errors
/// A sentence for the user.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let address = match port {
        Some(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => text.parse(),
    };
    address.map_err(|_| format!("{text:?} is not an address: write 127.0.0.1:7337 or [::1]:7337"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_sound() {
        TeamProgram::command().debug_assert();
    }

    #[test]
    fn retention_is_parsed_and_printed() {
        let parsed: Retention = "sessions=30d,texts=7d".parse().unwrap();
        assert_eq!(parsed.to_string(), "sessions=30d,trees=90d,texts=7d");
        for wrong in ["", "30d", "sessions=0d", "sessions=30", "sessions=-1d", "rows=3d", "trees=99999d"] {
            assert!(wrong.parse::<Retention>().is_err(), "{wrong}");
        }
    }
}
