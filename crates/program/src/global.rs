//! Options of every command.

use std::path::PathBuf;

use clap::{ArgAction, Args, ColorChoice};

/// How much a command says on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Also warnings.
    Normal,
    /// Also progress, and every problem.
    Verbose,
}

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Use colors: always, never, or auto (if stdout is a terminal and NO_COLOR is not set).
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    pub color: Option<ColorChoice>,
    /// Draw with ASCII characters only; automatic if TERM is dumb or the locale is not UTF-8.
    #[arg(long, global = true)]
    pub ascii: bool,
    /// Read your settings from this file (also SUBSCOPE_CONFIG).
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Use this data folder (also SUBSCOPE_DATA_DIR).
    #[arg(long, global = true, value_name = "PATH")]
    pub store: Option<PathBuf>,
    /// Ask the server of a team instead of this machine's hub (also SUBSCOPE_TEAM_URL): ls, tree, search, stats, status,
    /// mcp query and the terminal UI. `settings` is the server of `[team] url`.
    #[arg(long, global = true, value_name = "URL")]
    pub team: Option<String>,
    /// Read the token of the team's server from this file (also SUBSCOPE_TEAM_TOKEN, which is the token itself). For
    /// `team serve`: the file with the tokens that it accepts, a line for each.
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Exit with code 3 if the input has any problem.
    #[arg(long, global = true)]
    pub strict: bool,
    /// Print no warnings.
    #[arg(long, short, global = true, conflicts_with = "chatty")]
    pub quiet: bool,
    /// Print progress and every problem on stderr. (`--verbose` of watch and run is another option.)
    #[arg(short = 'v', id = "chatty", global = true, action = ArgAction::SetTrue)]
    pub chatty: bool,
}

impl Global {
    /// Returns the verbosity of messages on stderr.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.chatty) {
            (true, _) => Verbosity::Quiet,
            (false, false) => Verbosity::Normal,
            (false, true) => Verbosity::Verbose,
        }
    }
}
