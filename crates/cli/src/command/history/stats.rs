//! `subscope stats`: prints statistics over all sessions.

use subscope_model::{StatsQuery, Text};
use subscope_render::table::render_stats;

use crate::prelude::*;

pub(crate) fn run(args: &StatsArgs, context: &Context) -> Result<(), CliError> {
    let now = context.now_ms();
    let query = StatsQuery {
        since: args.since.map(|moment| moment.resolve(now, context.zone())),
        until: args.until.map(|moment| moment.resolve(now, context.zone())),
        project: args.project.as_deref().map(|folder| context.project_folder(folder)),
        harness: args.harness.as_deref().map(Text::from),
        time_zone: Some(context.zone().clone()),
    };
    let stats = Backend::open(Needs::Rows, context)?.queries().stats(&query)?;
    if args.json {
        output::print_json(&stats)?;
        return context.report(&stats.problems);
    }
    if stats.total.sessions == 0 {
        context.info("no sessions yet");
        return context.report(&stats.problems);
    }
    output::print(&render_stats(&stats, &context.style(None)))?;
    context.report(&stats.problems)
}
