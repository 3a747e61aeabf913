//! The server of a team that a command asks or forwards to: its URL and token.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use subscope_client::{Client, ClientError, Remote};
use subscope_model::SessionId;

use crate::prelude::*;

/// Environment variable with the URL of the server to ask.
const URL: &str = "SUBSCOPE_TEAM_URL";
/// Environment variable with the token.
const TOKEN: &str = "SUBSCOPE_TEAM_TOKEN";
/// Value of `--team` that stands for the server of the settings.
const OF_SETTINGS: &str = "settings";
/// Most bytes of a token file.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Returns the server that a command asks instead of the hub; `None` if neither option nor variable names one. The
/// settings do not: who forwards still looks at their own machine.
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
    let token = token(context)?;
    Remote::new(url, &token).map_err(|error| CliError::caused(ErrorKind::Usage, error))
}

/// Returns the token: of the file that an option names, of the variable, or of the file that the settings name.
fn token(context: &Context) -> Result<String, CliError> {
    let file = match &context.token_file {
        Some(file) => file.clone(),
        None => match (context.environment.text(TOKEN), &context.settings().team.token_file) {
            (Some(token), _) => return Ok(token),
            (None, Some(file)) => expanded(file, context),
            (None, None) => {
                return Err(CliError::usage("the team's server needs a token")
                    .hint("--token-file FILE, SUBSCOPE_TEAM_TOKEN, or `[team] token_file` in the settings"));
            }
        },
    };
    let failed = |error| CliError::because(format!("cannot read the token in {}", file.display()), error);
    let found = fs::metadata(&file).map_err(failed)?;
    if found.permissions().mode() & 0o077 != 0 {
        let message = format!("{} is not this user's alone: make it so with chmod 600", file.display());
        return Err(CliError::usage(message));
    }
    if found.len() > MAX_TOKEN_BYTES {
        return Err(CliError::usage(format!("{} is too large for a token", file.display())));
    }
    let text = fs::read_to_string(&file).map_err(failed)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns a path with `~/` replaced by the home folder.
pub(crate) fn expanded(path: &std::path::Path, context: &Context) -> PathBuf {
    match (path.strip_prefix("~"), context.environment.path("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
