//! `subscope search`: searches the full text.

use subscope_model::{SearchQuery, Text};
use subscope_render::table::render_hits;
use subscope_store::{PassageKind, words};

use super::selected::SelectedSessions;
use crate::{prelude::*, team_server};

pub(crate) fn run(args: &SearchArgs, context: &Context) -> Result<(), CliError> {
    if args.query.iter().all(|word| words(word).is_empty()) {
        return Err(CliError::usage("the query has no word"));
    }
    let mut backend = Backend::open(Needs::Texts, context)?;
    let session = args.session.as_deref().map(|prefix| backend.session(prefix)).transpose()?;
    if let Some(kind) = args.kind.as_deref().filter(|kind| PassageKind::parse(kind).is_none()) {
        return Err(CliError::usage(format!("{kind:?} is not a kind of passage"))
            .hint("prompt, message, thought, tool input, tool result"));
    }
    let now = context.now_ms();
    let found = backend.queries().search(&SearchQuery {
        terms: args.query.clone(),
        session,
        kind: args.kind.as_deref().map(Text::from),
        tool: args.tool.as_deref().map(Text::from),
        project: args.project.as_deref().map(|folder| context.project_folder(folder)),
        since: args.since.map(|moment| moment.resolve(now, context.zone())),
        until: args.until.map(|moment| moment.resolve(now, context.zone())),
        only_failed: args.failed,
        limit: args.limit,
    })?;
    // A team's server has its machines' texts.
    let machines: Vec<&str> = match team_server::asked(context)? {
        Some(_) => Vec::new(),
        None => context.settings().remote.iter().map(|remote| remote.name.as_str()).collect(),
    };
    if !machines.is_empty() {
        let names = machines.join(", ");
        context.info(&format!("the full texts of {names} are on that machine: they are searched there"));
    }
    if found.is_indexing {
        context.info("the full text is still being read; this is what is there by now");
    }
    if found.hits.is_empty() {
        SelectedSessions { project: args.project.as_deref(), ..SelectedSessions::default() }
            .check(&mut backend, context)?;
    }
    if args.json {
        return output::print_json(&found);
    }
    if found.hits.is_empty() {
        return Err(CliError::failed("no matches"));
    }
    output::print(&render_hits(&found.hits, now, &context.style(None)))?;
    let more = if found.total_floor { "at least " } else { "" };
    if found.total > found.hits.len() as u64 {
        context.info(&format!("{} of {more}{} passages; more with -n", found.hits.len(), found.total));
    }
    Ok(())
}
