//! `subscope stats`: prints statistics over all sessions.

use subscope_model::{StatsQuery, Text};
use subscope_render::table::render_stats;

use super::{NO_SESSIONS, selected::SelectedSessions};
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
    let mut backend = Backend::open(Needs::Rows, context)?;
    let stats = backend.queries().stats(&query)?;
    if stats.total.sessions == 0 {
        let chosen = SelectedSessions { harness: args.harness.as_deref(), project: args.project.as_deref() };
        chosen.check(&mut backend, context)?;
    }
    if args.json {
        output::print_json(&stats)?;
        return context.report(&stats.problems);
    }
    if stats.total.sessions == 0 {
        let is_selected = query != StatsQuery { time_zone: query.time_zone.clone(), ..StatsQuery::default() };
        context.info(if is_selected { "no session is like that" } else { NO_SESSIONS });
        return context.report(&stats.problems);
    }
    output::print(&render_stats(&stats, &context.style(None)))?;
    context.report(&stats.problems)
}
