//! The server of a team that a command asks or forwards to: its URL and token.

use std::{
    fs,
    path::{Path, PathBuf},
};

use subscope_client::{Client, ClientError, Remote};
use subscope_model::SessionId;
use subscope_platform::is_private;

use crate::{config::read_text, prelude::*};

/// Environment variable with the URL of the server to ask.
const URL: &str = "SUBSCOPE_TEAM_URL";
/// Environment variable with the token.
const TOKEN: &str = "SUBSCOPE_TEAM_TOKEN";
/// Value of `--team` that means the server of the settings.
const OF_SETTINGS: &str = "settings";
/// Most bytes of a token file.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Returns the server that a command asks instead of the hub; `None` if neither option nor variable names one. The
/// settings do not: a machine that forwards still queries its own hub.
///
/// # Errors
/// If it has no token, or its URL is none.
pub(crate) fn asked(context: &Context) -> Result<Option<Remote>, CliError> {
    if !context.may_ask_team {
        return match context.team_option {
            Some(_) => Err(CliError::usage("this command looks at this machine only: it takes no --team")
                .hint(
                    "--team goes with ls, tree, search, stats, status, mcp query, team, and the terminal UI",
                )),
            None => Ok(None),
        };
    }
    let named = context.team_option.clone().or_else(|| context.environment.text(URL));
    let Some(named) = named else { return Ok(None) };
    let url = if named == OF_SETTINGS { url_of_settings(context)? } else { named };
    server(&url, context).map(Some)
}

/// Returns why a session's events are not here: they are on its machine only, which the server names.
pub(crate) fn only_there(session: &SessionId, server: Remote) -> CliError {
    match Client::of_team(server).has_events(session) {
        Err(ClientError::Refused { message, .. }) if !message.is_empty() => CliError::failed(message),
        Err(error) => error.into(),
        Ok(()) => CliError::failed("the session's events are on its machine only"),
    }
}

/// Returns the server that a command needs: the one that is asked, else that of the settings.
///
/// # Errors
/// If there is none, or as [`asked`].
pub(crate) fn required(context: &Context) -> Result<Remote, CliError> {
    match asked(context)? {
        Some(server) => Ok(server),
        None => server(&url_of_settings(context)?, context),
    }
}

fn url_of_settings(context: &Context) -> Result<String, CliError> {
    context.settings().team.url.clone().ok_or_else(|| {
        CliError::usage("nothing says which server is the team's")
            .hint("--team URL, or `[team] url` in the settings")
    })
}

/// Returns a server with the token of this user.
///
/// # Errors
/// If there is no token, or the URL is none.
pub(crate) fn server(url: &str, context: &Context) -> Result<Remote, CliError> {
    TokenSource::of(url, context)?.server(url)
}

/// Where the token of this user is.
pub(crate) enum TokenSource {
    /// It was given.
    Given(String),
    /// In a file, which is read again for each server that is made.
    File(PathBuf),
}

impl TokenSource {
    /// Returns the token for a server: that of the file which an option names, of the variable, or of the file which the
    /// settings name. The token of the settings is for the server of the settings: no other gets it.
    ///
    /// # Errors
    /// If nothing names one.
    pub(crate) fn of(url: &str, context: &Context) -> Result<Self, CliError> {
        if let Some(file) = &context.token_file {
            return Ok(Self::File(file.clone()));
        }
        if let Some(token) = context.environment.text(TOKEN) {
            return Ok(Self::Given(token));
        }
        let settings = &context.settings().team;
        let Some(file) = &settings.token_file else {
            return Err(CliError::usage("the team's server needs a token")
                .hint("--token-file FILE, SUBSCOPE_TEAM_TOKEN, or `[team] token_file` in the settings"));
        };
        let own = settings.url.as_deref().unwrap_or(url);
        if own.trim_end_matches('/') != url.trim_end_matches('/') {
            return Err(CliError::usage(format!("the token of the settings is for {own} only"))
                .hint("--token-file FILE, or SUBSCOPE_TEAM_TOKEN, is for another server"));
        }
        Ok(Self::File(expanded(file, context)))
    }

    /// Returns a server with the token as it is now.
    ///
    /// # Errors
    /// If the token cannot be read, or the URL is none.
    pub(crate) fn server(&self, url: &str) -> Result<Remote, CliError> {
        let token = match self {
            Self::Given(token) => token.clone(),
            Self::File(file) => token_in(file)?,
        };
        Remote::new(url, &token).map_err(|error| CliError::caused(ErrorKind::Usage, error))
    }
}

fn token_in(file: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::because(format!("cannot read the token in {}", file.display()), error);
    let found = fs::metadata(file).map_err(failed)?;
    if !is_private(&found) {
        let message = format!("{} is not this user's alone: make it so with chmod 600", file.display());
        return Err(CliError::usage(message));
    }
    let text = read_text(file, MAX_TOKEN_BYTES, ErrorKind::Usage)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns a path with `~/` replaced by the home folder.
pub(crate) fn expanded(path: &Path, context: &Context) -> PathBuf {
    match (path.strip_prefix("~"), context.environment.path("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
