//! `subscope ls`.

use serde::Serialize;
use subscope_model::{SESSIONS_SCHEMA, SessionRow};
use subscope_render::table::render_sessions;
use subscope_store::{History, ListQuery};

use super::{Needs, failed, up_to_date};
use crate::{args::LsArgs, context::Context, error::CliError, output};

#[derive(Serialize)]
struct List<'a> {
    schema: &'static str,
    sessions: &'a [SessionRow],
    /// Where the next page begins; `None` on the last one.
    next: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &LsArgs, context: &Context) -> Result<(), CliError> {
    let (store, _) = up_to_date(Needs::Rows, context)?;
    let query = ListQuery { limit: args.limit.saturating_add(1), after: None, only_live: args.live };
    let mut rows = store.list(&query).map_err(failed)?;
    let has_more = rows.len() > args.limit;
    rows.truncate(args.limit);
    if args.json {
        let next = rows.last().filter(|_| has_more);
        let next = next.map(|row| format!("{}~{}", row.last_event_at_ms.unwrap_or(0), row.id));
        return output::print_json(&List { schema: SESSIONS_SCHEMA, sessions: &rows, next });
    }
    if rows.is_empty() {
        context.say(if args.live { "nothing is at work" } else { "no sessions yet" });
        return Ok(());
    }
    output::print(&render_sessions(&rows, context.now_ms(), &context.style(None)))?;
    if has_more {
        context.say("more with -n");
    }
    Ok(())
}
