//! `subscope status`.

use std::io::{self, IsTerminal, Read};

use serde::{Deserialize, Serialize};
use subscope_model::{Health, SessionId, Status};
use subscope_render::{safe, table::render_status};

use crate::{
    args::StatusLineArgs,
    context::Context,
    error::CliError,
    hub_connection::{Backend, Needs},
    output,
};

/// How much of standard input is read: a status line's JSON has some kilobytes.
const STDIN_BYTES: u64 = 1 << 20;

/// What a harness tells a status line (its documentation, "Status line configuration").
#[derive(Deserialize)]
struct Named {
    session_id: String,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    status: Status,
    /// The hub; `None` where none runs.
    hub: Option<Health>,
}

/// Runs the command.
pub(crate) fn run(args: &StatusLineArgs, context: &Context) -> Result<(), CliError> {
    let named = named_session();
    let mut backend = Backend::open(Needs::Glance, context)?;
    let session = match (&args.session, named) {
        (Some(prefix), _) => Some(backend.session(prefix)?),
        (None, named) => named,
    };
    let status = backend.status(session.as_ref(), context)?;
    if args.json {
        return output::print_json(&Told { status, hub: backend.health() });
    }
    let style = context.style(None);
    let line = render_status(&status, &style);
    output::print(&format!("{}\n", safe::line(&line, style.charset())))
}

/// The session that a harness names on standard input; `None` where a person sits there, or nothing of that kind comes.
fn named_session() -> Option<SessionId> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    let mut text = String::new();
    stdin.lock().take(STDIN_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str::<Named>(&text).ok().map(|named| SessionId(named.session_id.as_str().into()))
}
