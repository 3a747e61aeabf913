//! `subscope search`.

use std::collections::HashMap;

use serde::Serialize;
use subscope_collect::read;
use subscope_model::{Millis, Raw, SessionId, Tree};
use subscope_render::table::{Found, render_hits};
use subscope_store::{History, Hit, Sqlite, TextQuery, words};

use super::{Needs, failed, find_session, up_to_date};
use crate::{
    args::SearchArgs,
    context::Context,
    error::{CliError, Kind},
    output,
};

/// How many characters of a passage are shown in front of the first hit, and in all.
const BEFORE: usize = 40;
const SHOWN: usize = 240;
/// How many more hits are looked at for a phrase than are asked for: the index knows words, not their order.
const PHRASE_FACTOR: usize = 20;

/// A hit as `--json` prints it.
#[derive(Serialize)]
struct Row {
    session_id: SessionId,
    agent_id: String,
    agent: String,
    kind: &'static str,
    at_ms: Option<Millis>,
    snippet: String,
    path: String,
    offset: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Hits<'a> {
    schema: &'static str,
    hits: &'a [Row],
}

/// Runs the command.
pub(crate) fn run(args: &SearchArgs, context: &Context) -> Result<(), CliError> {
    if args.query.iter().all(|word| words(word).is_empty()) {
        return Err(CliError::new(Kind::Usage, "there is no word in the query"));
    }
    let (store, texts) = up_to_date(Needs::Texts, context)?;
    let texts = texts.ok_or_else(|| CliError::new(Kind::Failed, "there is no full text"))?;
    let session = args.session.as_deref().map(|prefix| find_session(&store, prefix)).transpose()?;
    let phrases: Vec<String> =
        args.query.iter().filter(|word| words(word).len() > 1).map(|word| word.to_lowercase()).collect();
    let factor = if phrases.is_empty() { 1 } else { PHRASE_FACTOR };
    let query = TextQuery { words: args.query.clone(), session, limit: args.limit.saturating_mul(factor) };
    let mut names = Names { store: &store, trees: HashMap::new() };
    let mut rows = Vec::new();
    for hit in texts.find(&query).map_err(failed)? {
        let text = text_of(&hit);
        let lower = text.as_deref().map(str::to_lowercase);
        if !phrases.iter().all(|phrase| lower.as_deref().is_none_or(|text| text.contains(phrase.as_str()))) {
            continue;
        }
        rows.push(row(&hit, text.as_deref(), &args.query, &mut names));
        if rows.len() == args.limit {
            break;
        }
    }
    if args.json {
        return output::print_json(&Hits { schema: "subscope.hits/1", hits: &rows });
    }
    if rows.is_empty() {
        return Err(CliError::new(Kind::Failed, "nothing has all these words"));
    }
    let now = context.now_ms();
    let found: Vec<Found<'_>> = rows
        .iter()
        .map(|row| Found {
            session: &row.session_id,
            agent: &row.agent,
            kind: row.kind,
            age_ms: row.at_ms.map(|at| now - at),
            snippet: &row.snippet,
        })
        .collect();
    output::print(&render_hits(&found, &context.style(None)))
}

/// The passage, read again where it stands; `None` where its file is gone or was replaced.
fn text_of(hit: &Hit) -> Option<String> {
    let bytes = read::read_span(&hit.path, hit.span.start, usize::try_from(hit.span.bytes).ok()?).ok()?;
    let json = String::from_utf8(bytes).ok()?;
    Some(Raw { json: &json, offset: 0 }.text().into_owned())
}

fn row(hit: &Hit, text: Option<&str>, query: &[String], names: &mut Names<'_>) -> Row {
    let (agent_id, agent) = names.of(&hit.session, &hit.agent);
    Row {
        session_id: hit.session.clone(),
        agent_id,
        agent,
        kind: hit.kind.as_str(),
        at_ms: (hit.at_ms > 0).then_some(hit.at_ms),
        snippet: text.map_or_else(|| "(its file is gone)".to_owned(), |text| snippet(text, query)),
        path: hit.path.display().to_string(),
        offset: hit.span.start,
        bytes: hit.span.bytes,
    }
}

/// Some words around the first hit, in one line.
fn snippet(text: &str, query: &[String]) -> String {
    let lower = text.to_lowercase();
    let first = query.iter().flat_map(|word| words(word)).filter_map(|word| lower.find(&word)).min();
    // Lower case may be longer or shorter in bytes: the place is counted in characters.
    let at = first.map_or(0, |byte| lower.get(..byte).map_or(0, |before| before.chars().count()));
    let from = at.saturating_sub(BEFORE);
    let shown: String = text.chars().skip(from).take(SHOWN).collect();
    let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    if from > 0 { format!("…{line}") } else { line }
}

/// Agents' names, by the trees that they stand in.
struct Names<'s> {
    store: &'s Sqlite,
    trees: HashMap<SessionId, Option<Tree>>,
}

impl Names<'_> {
    /// The id of the agent that a passage names, and what people call it.
    fn of(&mut self, session: &SessionId, agent: &str) -> (String, String) {
        let store = self.store;
        let tree = self.trees.entry(session.clone()).or_insert_with(|| store.tree(session).ok().flatten());
        let agents = tree.iter().flat_map(|tree| &tree.agents);
        let row = agents.into_iter().find(|row| {
            row.id.as_str() == agent || row.spawned_by.as_ref().is_some_and(|call| call.as_str() == agent)
        });
        match row {
            Some(row) if row.id.is_root() => (row.id.to_string(), "main".to_owned()),
            Some(row) => {
                let kind = row.agent_type.as_deref().unwrap_or("agent");
                let name = match row.description.as_deref() {
                    Some(words) => format!("{kind}: {words}"),
                    None => format!("{kind} {}", row.id),
                };
                (row.id.to_string(), name)
            }
            None => {
                (agent.to_owned(), if agent.is_empty() { "a subagent".to_owned() } else { agent.to_owned() })
            }
        }
    }
}
