//! The query tools, a function each: from arguments to a bounded answer.

use std::cmp::Reverse;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use subscope_model::{
    AGENT_SCHEMA, Agent, Event, HITS_SCHEMA, Millis, SESSIONS_SCHEMA, SessionId, SessionRow, Tree,
};
use subscope_query::ListQuery;

use super::{
    QueryError, QuestionSender, arguments, ask, bound, find_by_id,
    scope::{OWN, Scope, VisibleSessions},
    tools,
};

/// Most characters of a title, of a text in a tree, of a text of one agent, of a text in an event.
const TITLE_CHARS: usize = 300;
const SUMMARY_CHARS: usize = 400;
const DETAIL_CHARS: usize = 8_000;
const EVENT_CHARS: usize = 1_000;
/// Text fields of an agent's row.
const AGENT_TEXTS: &[&str] = &["prompt", "result", "error", "description"];
/// Most passages fetched to find those of the project.
const MAX_HITS: usize = 1_000;
/// Most sessions of the project searched one by one.
const MAX_SEARCHED_SESSIONS: usize = 50;

const DAY_MS: Millis = 24 * 60 * 60 * 1000;

/// Answers a call; `None` for an unknown tool.
pub(super) async fn answer(
    tool: &str,
    arguments: &JsonObject,
    to: &QuestionSender,
    scope: &Scope,
) -> Option<Result<Value, QueryError>> {
    Some(match tool {
        tools::LIST_SESSIONS => list_sessions(arguments, to, scope).await,
        tools::GET_TREE => get_tree(arguments, to, scope).await,
        tools::GET_AGENT => get_agent(arguments, to, scope).await,
        tools::SEARCH => search(arguments, to, scope).await,
        tools::GET_EVENTS => get_events(arguments, to, scope).await,
        _ => return None,
    })
}

async fn list_sessions(
    arguments: &JsonObject,
    to: &QuestionSender,
    scope: &Scope,
) -> Result<Value, QueryError> {
    let limit = arguments::limit(arguments, tools::SESSIONS)?;
    let after = arguments::text(arguments, "after")?;
    let words = [("failed", SessionRow::FAILED), ("denied", SessionRow::DENIED)].into_iter();
    let words: Vec<Option<&str>> = words
        .map(|(name, word)| Ok(arguments::flag(arguments, name)?.then_some(word)))
        .collect::<Result<_, _>>()?;
    let words: Vec<&str> = words.into_iter().flatten().collect();
    let days = arguments::days(arguments)?;
    let since = match days {
        Some(days) => Some(ask(to, |host| Ok(host.now_ms())).await? - days.saturating_mul(DAY_MS)),
        None => None,
    };
    let query = ListQuery {
        order: arguments::order(arguments)?,
        only_live: arguments::flag(arguments, "live")?,
        since,
        ..ListQuery::of_words(0, words.join(" "))
    };
    let order = query.order;
    let sessions = VisibleSessions::list(to, scope, query).await?;
    let mut rows = sessions.rows.as_slice();
    if let Some(after) = after {
        let (figure, id) = ListQuery::cursor(after).ok_or(QueryError::NoPage)?;
        let last = (Reverse(figure), id);
        let behind = rows.iter().position(|row| order.place(row) > last);
        rows = behind.and_then(|offset| rows.get(offset..)).unwrap_or_default();
    }
    let mut left_out = 0;
    let (entries, has_more) = bound::page(rows, limit, |_, row| {
        bound::truncate_fields(row, &["title"], TITLE_CHARS, &mut left_out);
    });
    let last = entries.len().checked_sub(1).and_then(|last| rows.get(last)).filter(|_| has_more);
    let next = last.map(|row| format!("{}~{}", order.figure(row), row.id));
    let mut answer = json!({ "schema": SESSIONS_SCHEMA, "sessions": entries, "next": next });
    if let Some(why) = sessions.why_empty(scope) {
        answer["why_empty"] = why.into();
    }
    let older = u64::from(sessions.is_cut);
    bound::note(&mut answer, &[("characters", left_out), ("older_sessions_not_looked_at", older)]);
    Ok(answer)
}

async fn get_tree(arguments: &JsonObject, to: &QuestionSender, scope: &Scope) -> Result<Value, QueryError> {
    let limit = arguments::limit(arguments, tools::AGENTS)?;
    let offset = arguments::offset(arguments)?;
    let mut tree = find_tree(arguments::text(arguments, "session")?.unwrap_or(OWN), to, scope).await?;
    if let Some(word) = arguments::text(arguments, "agent")? {
        keep_subtree(&mut tree, word)?;
    }
    let (mut left_out, mut calls) = (0, 0);
    let total = tree.agents.len();
    let (agents, has_more) = bound::page(tree.agents.iter().skip(offset), limit, |agent, row| {
        bound::truncate_fields(row, AGENT_TEXTS, SUMMARY_CHARS, &mut left_out);
        calls += agent.tools.len() as u64;
        row["tools"] = json!([]);
    });
    let next = has_more.then(|| (offset + agents.len()).to_string());
    let rest = total.saturating_sub(offset + agents.len()) as u64;
    let problems = tree.problems.len() as u64;
    let mut session = json!(tree.session);
    bound::truncate_fields(&mut session, &["title"], TITLE_CHARS, &mut left_out);
    let mut answer = json!({
        "schema": &*tree.schema, "session": session, "agents": agents, "summary": tree.summary, "problems": [], "next": next,
    });
    let counts =
        [("characters", left_out), ("tool_calls", calls), ("agents_behind", rest), ("problems", problems)];
    bound::note(&mut answer, &counts);
    Ok(answer)
}

async fn get_agent(arguments: &JsonObject, to: &QuestionSender, scope: &Scope) -> Result<Value, QueryError> {
    let limit = arguments::limit(arguments, tools::CALLS)?;
    let offset = arguments::offset(arguments)?;
    let word = arguments::required(arguments, "agent")?;
    let tree = match arguments::text(arguments, "session")? {
        Some(session) => find_tree(session, to, scope).await?,
        None if word == "root" => find_tree(OWN, to, scope).await?,
        None => find_tree_of(word, to, scope).await?,
    };
    let agent = find_agent(&tree, word)?;
    let mut left_out = 0;
    let (calls, has_more) = bound::page(agent.tools.iter().skip(offset), limit, |_, call| {
        bound::truncate_texts(call, SUMMARY_CHARS, &mut left_out);
    });
    let next = has_more.then(|| (offset + calls.len()).to_string());
    let rest = agent.tools.len().saturating_sub(offset + calls.len()) as u64;
    let mut row = json!(agent);
    bound::truncate_fields(&mut row, AGENT_TEXTS, DETAIL_CHARS, &mut left_out);
    row["tools"] = Value::Array(calls);
    let mut session = json!(tree.session);
    bound::truncate_fields(&mut session, &["title"], TITLE_CHARS, &mut left_out);
    let mut answer = json!({ "schema": AGENT_SCHEMA, "session": session, "agent": row, "next": next });
    bound::note(&mut answer, &[("characters", left_out), ("tool_calls_behind", rest)]);
    Ok(answer)
}

async fn search(arguments: &JsonObject, to: &QuestionSender, scope: &Scope) -> Result<Value, QueryError> {
    let limit = arguments::limit(arguments, tools::HITS)?;
    let terms = arguments::terms(arguments::required(arguments, "query")?);
    if terms.is_empty() {
        return Err(QueryError::NoWord);
    }
    let sessions = VisibleSessions::newest(to, scope).await?;
    let only = match arguments::text(arguments, "session")? {
        Some(word) => Some(sessions.find(word, to).await?),
        None => None,
    };
    let search_in = async |session: Option<SessionId>, limit| {
        let terms = terms.clone();
        ask(to, move |host| host.search(&terms, session, limit)).await.map(|hits| hits.hits)
    };
    let wanted = limit + 1;
    let mut why_empty = "no passage of this session has all these words".to_owned();
    let mut hits = match &only {
        Some(session) => search_in(Some(session.clone()), wanted).await?,
        None => {
            let count = sessions.rows.len();
            why_empty = sessions.why_empty(scope).unwrap_or_else(|| {
                format!("no passage of the {count} sessions of {scope} has all these words")
            });
            let mut all = search_in(None, MAX_HITS).await?;
            let is_full = all.len() == MAX_HITS;
            all.retain(|hit| sessions.has(&hit.session_id));
            if is_full && all.len() < wanted {
                // Hits of other projects filled the page: search the project's sessions one by one.
                all.clear();
                for row in sessions.rows.iter().take(MAX_SEARCHED_SESSIONS) {
                    all.extend(search_in(Some(row.id.clone()), wanted).await?);
                    if all.len() >= wanted {
                        break;
                    }
                }
            }
            all
        }
    };
    let has_more = hits.len() > limit;
    hits.truncate(limit);
    let mut left_out = 0;
    let (found, is_cut) = bound::page(&hits, limit, |_, hit| {
        // It repeats the snippet.
        hit.as_object_mut().map(|hit| hit.remove("excerpt"));
        bound::truncate_texts(hit, SUMMARY_CHARS, &mut left_out);
    });
    let mut answer = json!({ "schema": HITS_SCHEMA, "hits": found, "has_more": has_more || is_cut });
    if hits.is_empty() {
        answer["why_empty"] = why_empty.into();
    }
    bound::note(&mut answer, &[("characters", left_out)]);
    Ok(answer)
}

async fn get_events(arguments: &JsonObject, to: &QuestionSender, scope: &Scope) -> Result<Value, QueryError> {
    let limit = arguments::limit(arguments, tools::EVENTS)?;
    let offset = arguments::offset(arguments)? as u64;
    let kinds = arguments::texts(arguments, "kinds")?;
    let agent = arguments::text(arguments, "agent")?;
    let sessions = VisibleSessions::newest(to, scope).await?;
    let session = sessions.find(arguments::text(arguments, "session")?.unwrap_or(OWN), to).await?;
    let events = ask(to, move |host| host.events(&session)).await?;
    let is_agents = |event: &Event, word: &str| {
        let id = &event.actor_id.0;
        if word == "root" { id.is_root() } else { id.starts_with(word) }
    };
    let is_wanted = |event: &&Event| {
        kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind.as_str()))
            && agent.is_none_or(|word| is_agents(event, word))
    };
    if let Some(word) = agent
        && !events.iter().any(|event| is_agents(event, word))
    {
        return Err(QueryError::NoAgent(word.to_owned()));
    }
    let mut left_out = 0;
    let wanted = events.iter().filter(is_wanted);
    let total = wanted.clone().count();
    let behind = wanted.filter(|event| event.seq > offset);
    let (shown, has_more) = bound::page(behind, limit, |_, event| {
        if let Some(data) = event.get_mut("data") {
            bound::truncate_texts(data, EVENT_CHARS, &mut left_out);
        }
    });
    let next = shown.last().and_then(|event| event.get("seq")).filter(|_| has_more).cloned();
    let mut answer = json!({ "schema": "subscope.events/1", "events": shown, "next": next, "total": total });
    if total == 0 {
        answer["why_empty"] =
            format!("none of the {} events of this session is of these kinds", events.len()).into();
    }
    bound::note(&mut answer, &[("characters", left_out)]);
    Ok(answer)
}

/// Returns the tree of a session in scope.
async fn find_tree(word: &str, to: &QuestionSender, scope: &Scope) -> Result<Tree, QueryError> {
    let sessions = VisibleSessions::newest(to, scope).await?;
    let session = sessions.find(word, to).await?;
    tree(session, to).await?.ok_or_else(|| QueryError::NoSession(word.to_owned()))
}

/// Returns the tree of the newest session in scope that has an agent with this id or id prefix.
async fn find_tree_of(agent: &str, to: &QuestionSender, scope: &Scope) -> Result<Tree, QueryError> {
    let sessions = VisibleSessions::newest(to, scope).await?;
    for row in sessions.rows.iter().filter(|row| row.agents > 0).take(MAX_SEARCHED_SESSIONS) {
        if let Some(tree) = tree(row.id.clone(), to).await?
            && tree.agents.iter().any(|row| !row.id.is_root() && row.id.starts_with(agent))
        {
            return Ok(tree);
        }
    }
    Err(QueryError::NoAgentAnywhere(agent.to_owned()))
}

async fn tree(session: SessionId, to: &QuestionSender) -> Result<Option<Tree>, QueryError> {
    ask(to, move |host| host.tree(&session)).await
}

/// Finds an agent by id or unambiguous id prefix.
fn find_agent<'t>(tree: &'t Tree, word: &str) -> Result<&'t Agent, QueryError> {
    let found = find_by_id(&tree.agents, |agent| agent.id.as_str(), word, "agents'")?;
    found.ok_or_else(|| QueryError::NoAgent(word.to_owned()))
}

/// Keeps only the subtree of an agent, which is contiguous in pre-order.
fn keep_subtree(tree: &mut Tree, word: &str) -> Result<(), QueryError> {
    let id = find_agent(tree, word)?.id.clone();
    let Some(start) = tree.agents.iter().position(|row| row.id == id) else { return Ok(()) };
    let depth = tree.agents.get(start).map_or(0, |row| row.depth);
    let is_below = |row: &&Agent| row.depth > depth && row.parent_id.is_some();
    let below = tree.agents.iter().skip(start + 1).take_while(is_below).count();
    tree.agents = tree.agents.drain(start..=start + below).collect();
    Ok(())
}
