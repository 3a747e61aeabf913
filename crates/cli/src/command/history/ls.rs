//! `subscope ls`: lists sessions.

use std::{collections::BTreeSet, path::Path};

use subscope_collect::{Skipped, not_understood, unread_databases};
use subscope_model::{Problem, SessionId, SessionOrder, SessionRow};
use subscope_query::ListQuery;
use subscope_render::table::{SHORT_ID, render_sessions};

use super::{NO_SESSIONS, selected::SelectedSessions};
use crate::{args::value::Moment, command::target::roots, prelude::*};

pub(crate) fn run(args: &LsArgs, context: &Context) -> Result<(), CliError> {
    if args.iterations {
        return super::iterations::run(args, context);
    }
    let mut backend = Backend::open(Needs::Rows, context)?;
    let query = query(args, context);
    let page = backend.queries().sessions(&query)?;
    let mut problems: Vec<Problem> = page.sessions.iter().filter_map(problem_of).collect();
    problems.extend(not_read(args, &backend, context)?);
    let is_empty = page.sessions.is_empty() && args.limit > 0;
    if is_empty {
        let chosen = SelectedSessions { harness: args.harness.as_deref(), project: args.project.as_deref() };
        chosen.check(&mut backend, context)?;
    }
    if args.json {
        output::print_json(&page)?;
        return context.report(&problems);
    }
    if is_empty {
        let is_selected = query != ListQuery::of_words(args.limit, String::new());
        let nothing = match (args.live, is_selected) {
            (true, _) => "nothing is at work",
            (false, true) => "no session is like that",
            (false, false) => NO_SESSIONS,
        };
        context.info(nothing);
        return context.report(&problems);
    }
    let others = like_named(&page.sessions, &mut backend)?;
    // A list of what was denied says how much, in whatever order.
    let figure =
        if args.denied && args.sort == SessionOrder::Newest { SessionOrder::Denied } else { args.sort };
    let style = context.style(None);
    output::print(&render_sessions(&page.sessions, &others, figure, context.now_ms(), &style))?;
    let shown = page.sessions.len();
    if let Some(cursor) = page.next.as_deref().filter(|_| shown > 0) {
        context.info(&match rest(&query, cursor, &mut backend)? {
            (more, false) => format!("{shown} of {} sessions; -n {} lists all", shown + more, shown + more),
            (more, true) => {
                format!("{shown} of more than {} sessions; -n {} lists more", shown + more, shown * 2)
            }
        });
    }
    context.report(&problems)
}

/// Returns the query that the options ask.
fn query(args: &LsArgs, context: &Context) -> ListQuery {
    let harness = args.harness.as_ref().map(|name| format!("{}{name}", SessionRow::HARNESS));
    let words = [
        (args.all, SessionRow::WITH_OWN),
        (args.failed, SessionRow::FAILED),
        (args.denied, SessionRow::DENIED),
    ];
    let words = words.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| word.to_owned());
    let machine = args.machine.as_ref().map(|name| format!("{}{name}", SessionRow::MACHINE));
    let words: Vec<String> = harness.into_iter().chain(machine).chain(words).collect();
    let time = |moment: Option<Moment>| moment.map(|moment| moment.resolve(context.now_ms(), context.zone()));
    ListQuery {
        order: args.sort,
        only_live: args.live,
        project: args.project.as_deref().map(|folder| context.project_folder(folder)),
        since: time(args.since),
        until: time(args.until),
        ..ListQuery::of_words(args.limit, words.join(" "))
    }
}

/// Most sessions beyond those that are listed that are counted: each answer stays quick.
const MAX_COUNTED: usize = 1_000;

/// Returns how many sessions follow a page, at most [`MAX_COUNTED`], and whether there are more of them.
fn rest(query: &ListQuery, cursor: &str, backend: &mut Backend<'_>) -> Result<(usize, bool), CliError> {
    let rest = ListQuery { after: ListQuery::cursor(cursor), limit: MAX_COUNTED, ..query.clone() };
    let page = backend.queries().sessions(&rest)?;
    Ok((page.sessions.len(), page.next.is_some()))
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
