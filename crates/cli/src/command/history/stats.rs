//! `subscope stats`.

use subscope_render::table::render_stats;
use subscope_store::History;

use super::{Needs, failed, up_to_date};
use crate::{args::StatsArgs, context::Context, error::CliError, output};

/// Runs the command.
pub(crate) fn run(args: &StatsArgs, context: &Context) -> Result<(), CliError> {
    let (store, _) = up_to_date(Needs::Rows, context)?;
    let stats = store.stats().map_err(failed)?;
    if args.json {
        return output::print_json(&stats);
    }
    if stats.total.sessions == 0 {
        context.say("no sessions yet");
        return Ok(());
    }
    output::print(&render_stats(&stats, &context.style(None)))
}
