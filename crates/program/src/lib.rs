//! What the programs share: `subscope`, which everybody installs, and `subscope-team`, the server of a team.
//!
//! The arguments of the server are defined here once. The tool takes them as `subscope team serve`, lists them in its help,
//! manual and completions, and executes the server's program, which parses them again by the same definition.

mod error;
mod global;
mod logging;
mod team;

use std::io::{self, Write as _};

pub use error::{CliError, ErrorKind};
pub use global::{Global, Verbosity};
pub use logging::start_logging;
pub use team::{
    NewTokenArgs, Retention, TEAM_PROGRAM, TeamProgram, TeamServeArgs, TeamServerCommand, TeamTokenArgs,
    TokenCommand, TokenRole, parse_listen,
};

/// Writes a text to stderr while holding its lock. Errors are ignored.
pub fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
