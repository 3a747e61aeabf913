//! `subscope search`: searches the full text.

use subscope_model::{Hits, SearchQuery, Text};
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
    let unsearched = unsearched(&found, &mut backend, context)?;
    if !unsearched.is_empty() {
        let names = unsearched.join(", ");
        context.info(&format!("not all texts of {names} are here: `subscope remote list` says more, and a search there finds them"));
    }
    if found.is_indexing {
        context.info("the full text is still being read; this is what is there by now");
    }
    if found.hits.is_empty() {
        SelectedSessions { project: args.project.as_deref(), ..SelectedSessions::default() }
            .check(&mut backend, context)?;
    }
    if args.json {
        let unsearched = unsearched.into_iter().map(Text::from).collect();
        return output::print_json(&Hits { unsearched, ..found });
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

/// Returns the other machines of which not all texts are here: as the hub says; without one nothing new comes of any of them.
fn unsearched(found: &Hits, backend: &mut Backend<'_>, context: &Context) -> Result<Vec<String>, CliError> {
    if backend.health().is_some() || team_server::asked(context)?.is_some() {
        return Ok(found.unsearched.iter().map(ToString::to_string).collect());
    }
    Ok(context.settings().remote.iter().map(|remote| remote.name.clone()).collect())
}
