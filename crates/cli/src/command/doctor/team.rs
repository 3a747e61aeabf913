//! Checks of forwarding to a team's server: whether it works, how many sessions it lags, and what leaves this machine.

use subscope_client::{Client, ClientError};
use subscope_render::text::plural;

use super::Check;
use crate::{command::history, forward, prelude::*, team_server};

/// Reports forwarding; nothing where the settings name no server.
pub(super) fn forwarding(context: &Context) -> Vec<Check> {
    let name = "team";
    let settings = &context.settings().team;
    let Some(url) = &settings.url else { return Vec::new() };
    let url = url.trim_end_matches('/');
    let level = settings.content.as_str();
    let mut checks = vec![match settings.forward {
        true => Check::ok(name, format!("{level} of this machine's sessions go to {url}"))
            .hint("`subscope forward --dry-run` prints what leaves"),
        false => Check::warning(name, format!("nothing goes to {url}: team.forward is false")),
    }];
    checks.push(match reach(url, context) {
        Ok(user) => Check::ok(name, format!("the server knows this machine's user as {user}")),
        Err(error) => Check::failure(name, error.to_string()).hint("sessions wait here until it answers"),
    });
    checks.extend(behind(url, context));
    checks
}

/// Asks the server for the owner of the token.
fn reach(url: &str, context: &Context) -> Result<String, CliError> {
    let server = team_server::server(url, context)?;
    let mut client = Client::of_team(server);
    let who = client.get::<serde_json::Value>("/api/v1/me").map_err(|error| {
        if matches!(error, ClientError::Refused { status: 401, .. }) {
            return CliError::because("the server does not know the token", error);
        }
        error.into()
    })?;
    client.get::<serde_json::Value>("/healthz").map_err(|error| {
        if matches!(error, ClientError::Refused { status: 503, .. }) {
            return CliError::failed("the server answers, its ClickHouse does not");
        }
        error.into()
    })?;
    let word = |key: &str| who[key].as_str().unwrap_or("nobody").to_owned();
    Ok(format!("{} of {}, {}", word("user"), word("tenant"), word("role")))
}

fn behind(url: &str, context: &Context) -> Option<Check> {
    let name = "team";
    let (data, rules) = (context.data_folder().ok()?, history::rows_fingerprint(context).ok()?);
    if !data.exists() {
        return None;
    }
    let status = match forward::status(&data, &rules, url, context.settings().team.content) {
        Ok(status) => status,
        Err(error) => return Some(Check::warning(name, error.to_string())),
    };
    let count = |number| plural(number, "session");
    let by = if status.is_forwarding { "a process forwards" } else { "no process forwards now" };
    let mut says = format!("the server has {}, {} newer here; {by}", count(status.sent), status.behind);
    if status.above_level > 0 {
        says += &format!("; {} with more content than now allowed are replaced", status.above_level);
    }
    let is_idle = !status.is_forwarding && status.behind > 0;
    Some(match is_idle {
        true => Check::warning(name, says)
            .hint("a hub forwards while it runs: `subscope serve`, or `subscope forward --once`"),
        false => Check::ok(name, says),
    })
}
