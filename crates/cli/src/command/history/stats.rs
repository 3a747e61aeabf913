//! `subscope stats`: prints statistics over all sessions.

use subscope_render::table::render_stats;

use crate::prelude::*;

pub(crate) fn run(args: &StatsArgs, context: &Context) -> Result<(), CliError> {
    let stats = Backend::open(Needs::Rows, context)?.stats()?;
    if args.json {
        return output::print_json(&stats);
    }
    if stats.total.sessions == 0 {
        context.info("no sessions yet");
        return Ok(());
    }
    output::print(&render_stats(&stats, &context.style(None)))
}
