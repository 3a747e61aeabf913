//! `subscope status`: prints a status line.

use std::io::{self, IsTerminal, Read};

use serde::{Deserialize, Serialize};
use subscope_model::{Health, SessionId, Status};
use subscope_render::{safe, table::render_status};

use crate::prelude::*;

/// Limit of standard input: a status line's JSON has a few kilobytes.
const STDIN_BYTES: u64 = 1 << 20;

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
    if args.json {
        return output::print_json(&StatusOutput { status, hub: backend.health() });
    }
    let is_quiet = status.running == 0 && status.waiting() == 0;
    if args.live && is_quiet && (session.is_some() || status.sessions == 0) {
        return Ok(());
    }
    let style = context.style(None);
    let line = render_status(&status, &style);
    output::print(&format!("{}\n", safe::line(&line, style.charset())))
}

/// Returns the session that a harness names on stdin; `None` if stdin is a terminal or has no such JSON.
fn session_on_stdin() -> Option<SessionId> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    let mut text = String::new();
    stdin.lock().take(STDIN_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str::<StatusLineInput>(&text)
        .ok()
        .map(|named| SessionId(named.session_id.as_str().into()))
}
