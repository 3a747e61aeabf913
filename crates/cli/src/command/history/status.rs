//! `subscope status`.

use std::io::{self, IsTerminal, Read};

use serde::{Deserialize, Serialize};
use subscope_model::{Millis, SessionId, Tree};
use subscope_render::{safe, table::render_status};
use subscope_store::{History, ListQuery};

use super::{Needs, failed, find_session, up_to_date};
use crate::{args::StatusLineArgs, context::Context, error::CliError, output};

/// How much of standard input is read: a status line's JSON has some kilobytes.
const STDIN_BYTES: u64 = 1 << 20;
/// How many sessions at work are looked at.
const MOST_LIVE: usize = 200;

/// What Claude Code tells a status line (documentation, "Status line configuration").
#[derive(Deserialize)]
struct Told {
    session_id: String,
}

#[derive(Serialize)]
struct Status {
    schema: &'static str,
    sessions: usize,
    running: usize,
    waiting_for_permission: usize,
    stalled: usize,
    stopping: usize,
    cost_micro_usd: Option<i64>,
    at_ms: Millis,
}

/// Runs the command.
pub(crate) fn run(args: &StatusLineArgs, context: &Context) -> Result<(), CliError> {
    let told = told_session();
    let (store, _) = up_to_date(Needs::Rows, context)?;
    let session = match (&args.session, told) {
        (Some(prefix), _) => Some(find_session(&store, prefix)?),
        (None, told) => told,
    };
    let ids: Vec<SessionId> = match session {
        Some(session) => vec![session],
        None => {
            let query = ListQuery { limit: MOST_LIVE, after: None, only_live: true };
            store.list(&query).map_err(failed)?.into_iter().map(|row| row.id).collect()
        }
    };
    let mut trees: Vec<Tree> = Vec::new();
    for id in &ids {
        trees.extend(store.tree(id).map_err(failed)?);
    }
    let now = context.now_ms();
    if args.json {
        return output::print_json(&status(&trees, now));
    }
    let style = context.style(None);
    let line = render_status(&trees, now, &style);
    output::print(&format!("{}\n", safe::line(&line, style.charset())))
}

fn status(trees: &[Tree], at_ms: Millis) -> Status {
    use subscope_model::{Flag, LivenessKind};
    let live = || trees.iter().flat_map(|tree| &tree.agents).filter(|agent| agent.status.is_live());
    let costs = || trees.iter().filter_map(|tree| tree.summary.cost_micro_usd);
    let asks = |kind: LivenessKind| {
        live().filter(|agent| agent.liveness.as_ref().is_some_and(|it| it.kind == kind)).count()
    };
    Status {
        schema: "subscope.status/1",
        sessions: trees.len(),
        running: live().filter(|agent| !agent.id.is_root()).count(),
        waiting_for_permission: asks(LivenessKind::Permission),
        stalled: live().filter(|agent| agent.has(Flag::Stalled)).count(),
        stopping: live().filter(|agent| agent.has(Flag::Stopping)).count(),
        cost_micro_usd: costs().next().map(|_| costs().sum()),
        at_ms,
    }
}

/// The session that a harness names on standard input; `None` where a person sits there, or nothing of that kind comes.
fn told_session() -> Option<SessionId> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    let mut text = String::new();
    stdin.lock().take(STDIN_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str::<Told>(&text).ok().map(|told| SessionId(told.session_id.as_str().into()))
}
