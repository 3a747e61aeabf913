//! `subscope status`: prints a status line.

use std::{
    io::{self, IsTerminal, Read},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use subscope_model::{Health, Inbox, SessionId, Status};
use subscope_render::{safe, table::render_status};

use crate::{
    command::hook::{DeadlineIo, PollDeadline, unbuffered_stdin},
    prelude::*,
    team_server,
};

/// Limit of standard input: a status line's JSON has a few kilobytes.
const STDIN_BYTES: usize = 1 << 20;
/// How long standard input may be silent, and how long it may take as a whole: a program that starts this one with an
/// open pipe may write nothing into it, ever. Harnesses write their JSON at once.
const SILENCE: Duration = Duration::from_millis(300);
const STDIN_TIME: Duration = Duration::from_secs(3);

/// JSON that a harness sends to a status line on stdin (documentation, "Status line configuration").
#[derive(Deserialize)]
struct StatusLineInput {
    session_id: String,
}

/// Output of `--json` (subscope.status/1).
#[derive(Serialize)]
struct StatusOutput {
    #[serde(flatten)]
    status: Status,
    /// What needs the user, and what ended since the user looked; `None` from a team's server.
    inbox: Option<Inbox>,
    /// The hub's health; `None` if none runs.
    hub: Option<Health>,
}

pub(crate) fn run(args: &StatusLineArgs, context: &Context) -> Result<(), CliError> {
    let named = session_on_stdin();
    let mut backend = Backend::open(Needs::RowsNoStart, context)?;
    let session = match (&args.session, named) {
        (Some(prefix), _) => Some(backend.session(prefix)?),
        (None, named) => named,
    };
    let status = backend.queries().status(session.as_ref(), context.now_ms())?;
    let inbox = match backend.queries().inbox(context.now_ms()) {
        // A team's server keeps nothing for its readers.
        Err(_) if team_server::asked(context)?.is_some() => None,
        inbox => Some(inbox?),
    };
    let inbox = inbox.map(|inbox| match &session {
        Some(session) => inbox.of_session(session),
        None => inbox,
    });
    if args.json {
        return output::print_json(&StatusOutput { status, inbox, hub: backend.health() });
    }
    let certain = inbox.as_ref().map_or(0, Inbox::certain);
    let is_quiet = status.running == 0 && certain == 0;
    if args.live && is_quiet && (session.is_some() || status.sessions == 0) {
        return Ok(());
    }
    let style = context.style(None);
    let line = render_status(&status, inbox.as_ref(), context.offset_minutes(), &style);
    output::print(&format!("{}\n", safe::line(&line, style.charset())))
}

/// Returns the session that a harness names on stdin; `None` if stdin is a terminal or has no such JSON. Does not wait
/// for the end of a pipe: whole JSON is enough, and silence ends it.
fn session_on_stdin() -> Option<SessionId> {
    if io::stdin().is_terminal() {
        return None;
    }
    let stdin = unbuffered_stdin().ok()?;
    let (mut text, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    let end = PollDeadline::after(STDIN_TIME);
    while text.len() < STDIN_BYTES && end.left().is_ok() {
        match DeadlineIo::new(&stdin, PollDeadline::after(SILENCE)).read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => text.extend_from_slice(chunk.get(..count)?),
        }
        if let Ok(named) = serde_json::from_slice::<StatusLineInput>(&text) {
            return Some(SessionId(named.session_id.as_str().into()));
        }
    }
    None
}
