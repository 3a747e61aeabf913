//! `subscope stop`: hands a person's order to the hub, which keeps it until the agent is told or has ended.

use std::{io, os::unix::net::UnixStream, path::Path, time::Duration};

use serde_json::Value;
use subscope_render::safe;

use super::hook::{self, Answer};
use crate::{
    args::StopArgs,
    context::Context,
    error::{CliError, Kind},
    output,
};

/// How long the hub may take: far longer than it does, so that only one that hangs is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the command.
pub(crate) fn run(args: &StopArgs, context: &Context) -> Result<(), CliError> {
    let (session, agent) = match args.agent.split_once('/') {
        Some((session, agent)) => (Some(session), agent),
        None => (None, args.agent.as_str()),
    };
    if agent.is_empty() || session.is_some_and(str::is_empty) {
        let error = CliError::new(Kind::Usage, "the agent's id is empty");
        return Err(error.hint("give the beginning of its id, or SESSION/AGENT"));
    }
    let data = context.data_folder()?;
    let answer = ask(&data, session, agent).map_err(|error| {
        let what = format!("no hub answers at {}", data.join(hook::SOCKET).display());
        let error = CliError::caused(Kind::Failed, anyhow::Error::new(error).context(what));
        error.hint("an order needs a hub that tells the agent: start `subscope serve`")
    })?;
    let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |key: &str| told.get(key).and_then(Value::as_str).unwrap_or_default();
    if answer.status != 202 {
        let why = match text("error") {
            "" => format!("the hub answers {}", answer.status),
            why => why.to_owned(),
        };
        return Err(CliError::new(Kind::Failed, why).hint("`subscope tree last` shows who is at work"));
    }
    if told.get("reached") == Some(&Value::Bool(false)) {
        context.warn("no hook of its session has named an agent yet: before Claude Code 2.1.64 they never do, and it cannot be told");
    }
    if args.json {
        return output::print_json(&told);
    }
    let was = if told.get("repeat") == Some(&Value::Bool(true)) { "was already asked" } else { "is asked" };
    let line = format!(
        "{} ({}) {was} to stop, and ends after its running tool call or before its next",
        text("agent_id"),
        text("title")
    );
    output::print(&format!("{}\n", safe::line(&line, context.style(None).charset())))
}

/// Posts the order to the hub.
fn ask(data: &Path, session: Option<&str>, agent: &str) -> io::Result<Answer> {
    let stream = UnixStream::connect(hook::trusted_socket(data)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let session = session.map(|session| format!("?session={}", escaped(session))).unwrap_or_default();
    let path = format!("/api/v1/agents/{}/stop{session}", escaped(agent));
    hook::exchange(stream, &path, "X-Subscope: 1\r\n", &[b"{}".as_slice().into()])
}

/// Escapes a part of a path or a query (RFC 3986, 2.3).
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_one_part_of_the_path() {
        assert_eq!(escaped("a1-b.c_~"), "a1-b.c_~");
        assert_eq!(escaped("../x?y#z é"), "..%2Fx%3Fy%23z%20%C3%A9");
    }
}
