//! `subscope ls`: lists sessions.

use std::{collections::BTreeSet, path::Path};

use subscope_collect::{Skipped, not_understood, unread_databases};
use subscope_model::{Problem, SessionId, SessionRow};
use subscope_render::{
    safe,
    table::{SHORT_ID, render_sessions},
};

use crate::{command::target::roots, prelude::*};

pub(crate) fn run(args: &LsArgs, context: &Context) -> Result<(), CliError> {
    if args.iterations {
        return super::iterations::run(args, context);
    }
    let mut backend = Backend::open(Needs::Rows, context)?;
    let harness = args.harness.as_ref().map(|name| format!("{}{name}", SessionRow::HARNESS));
    let own = args.all.then(|| SessionRow::WITH_OWN.to_owned());
    let words: Vec<String> = harness.into_iter().chain(own).collect();
    let page = backend.sessions(args.limit, args.live, &words.join(" "))?;
    let mut problems: Vec<Problem> = page.sessions.iter().filter_map(problem_of).collect();
    problems.extend(not_read(args, &backend, context)?);
    if args.json {
        output::print_json(&page)?;
        return context.report(&problems);
    }
    if page.sessions.is_empty() && args.limit > 0 {
        let nothing = if args.live { "nothing is at work" } else { "no sessions yet" };
        let of = args.harness.as_ref().map_or_else(String::new, |name| format!(" of {name}"));
        context.info(&safe::line(&format!("{nothing}{of}"), context.style(None).charset()));
        return context.report(&problems);
    }
    let others = like_named(&page.sessions, &mut backend)?;
    output::print(&render_sessions(&page.sessions, &others, context.now_ms(), &context.style(None)))?;
    if page.next.is_some() {
        context.info("more with -n");
    }
    context.report(&problems)
}

/// Returns what is wrong with what is stored of a session, if anything.
fn problem_of(row: &SessionRow) -> Option<Problem> {
    row.problem.as_ref().map(|what| Problem { at: row.id.to_string(), what: what.to_string() })
}

/// Most files of a folder that are looked into because no row is known to be derived from them. `doctor` looks into all.
const MAX_UNKNOWN_FILES: usize = 250;

/// Returns what is in the harnesses' folders and is no row because it is not read: databases, and files, which are one
/// problem together.
fn not_read(args: &LsArgs, backend: &Backend<'_>, context: &Context) -> Result<Vec<Problem>, CliError> {
    let mut roots = roots(context);
    if let Some(name) = &args.harness {
        roots.retain(|root| root.harness.name() == name);
    }
    let problem = |it: Skipped| Problem { at: it.path.display().to_string(), what: it.why };
    let mut problems: Vec<Problem> = roots.iter().flat_map(unread_databases).map(problem).collect();
    let Some(known) = backend.files_with_rows(context)?.filter(|_| !args.live) else { return Ok(problems) };
    let is_known = |path: &Path| known.contains(path);
    let of = |root| not_understood(root, MAX_UNKNOWN_FILES, &is_known);
    let mut files = roots.iter().flat_map(of).map(problem).collect::<Vec<_>>();
    let count = files.len();
    files.truncate(1);
    for first in files.iter_mut().filter(|_| count > 1) {
        first.at = format!("{count} files in known places are not understood, among them {}", first.at);
        first.what.push_str("; `subscope doctor` names them");
    }
    problems.extend(files);
    Ok(problems)
}

/// Most sessions looked up that have the same first characters in their ids.
const MAX_LIKE_NAMED: usize = 1_000;

/// Returns the sessions whose ids begin like one of these, other than random ids do: those are unique after a few
/// characters.
fn like_named(rows: &[SessionRow], backend: &mut Backend<'_>) -> Result<Vec<SessionId>, CliError> {
    let head = |row: &SessionRow| row.id.chars().take(SHORT_ID).collect::<String>();
    let is_random = |head: &String| head.chars().all(|letter| letter.is_ascii_hexdigit());
    let heads: BTreeSet<String> = rows.iter().map(head).filter(|head| !is_random(head)).collect();
    let mut found = Vec::new();
    for head in heads {
        found.extend(backend.queries().names(&head, MAX_LIKE_NAMED)?.sessions);
    }
    Ok(found)
}
