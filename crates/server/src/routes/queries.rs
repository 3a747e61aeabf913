//! Query routes: sessions, agents, events, search and statistics.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_hub::{ListQuery, clock};
use subscope_model::{
    AGENT_SCHEMA, AgentId, Event, Hits, IdMatches, Millis, OneAgent, SearchQuery, SessionId, SessionPage,
    Stats, StatsQuery, Status, Text,
};
use tokio::time::timeout;

use crate::{
    api_error::ApiError,
    ask::ask,
    session_reader::find_tree,
    state::{App, IndexRequest},
};

/// Default and maximum number of sessions per page.
const PAGE_SESSIONS: usize = 100;
const MAX_PAGE_SESSIONS: usize = 1_000;
/// Default and maximum number of events per page.
const PAGE_EVENTS: usize = 1_000;
const MAX_PAGE_EVENTS: usize = 10_000;
/// Default and maximum number of hits.
const DEFAULT_HITS: usize = 50;
const MAX_HITS: usize = 1_000;
/// Time that a search waits for the full text of what is on disk.
const INDEX_TIMEOUT: Duration = Duration::from_secs(1);
/// Age up to which a changed row is recent.
const RECENT_MS: Millis = 30 * 60 * 1000;
/// Maximum number of running sessions in a status.
const MAX_STATUS_SESSIONS: usize = 200;

#[derive(Deserialize)]
pub(super) struct PageQuery {
    q: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    recent: bool,
}

/// Lists sessions, newest first.
#[utoipa::path(
    get, path = "/api/v1/sessions",
    params(
        ("q" = Option<String>, Query, description = "Only sessions with all of these words in title, directory, id or harness."),
        ("limit" = Option<usize>, Query, description = "The most entries of a page: 100 by default, 1000 at most."),
        ("after" = Option<String>, Query, description = "The `next` of the previous page."),
        ("live" = Option<bool>, Query, description = "Only sessions in which something has not ended."),
        ("recent" = Option<bool>, Query, description = "Only sessions that were stored or changed in the last 30 minutes, whatever their own times are."),
    ),
    responses(
        (status = 200, description = "subscope.sessions/1; `next` is null on the last page.", body = Object),
        (status = 400, description = "`after` is not the `next` of a page."),
    )
)]
pub(super) async fn sessions(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
) -> Result<Json<SessionPage>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE_SESSIONS).clamp(1, MAX_PAGE_SESSIONS);
    let after = match query.after.as_deref() {
        Some(cursor) => {
            Some(parse_cursor(cursor).ok_or(ApiError::bad_request("after is not a place in the list"))?)
        }
        None => None,
    };
    let kept_since = query.recent.then(|| clock::now_ms() - RECENT_MS);
    let words = query.q.unwrap_or_default();
    let query = ListQuery { limit: limit + 1, after, only_live: query.live, kept_since, words };
    let sessions = ask(|reply| app.hub.sessions(query, reply)).await?;
    Ok(Json(SessionPage::of(sessions, limit)))
}

fn parse_cursor(cursor: &str) -> Option<(Millis, SessionId)> {
    let (at, id) = cursor.split_once('~')?;
    Some((at.parse().ok()?, SessionId::from(id)))
}

#[derive(Deserialize)]
pub(super) struct EventsQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

/// A page of events.
#[derive(Serialize, JsonSchema)]
pub(super) struct EventPage {
    schema: &'static str,
    events: Vec<Event>,
    /// Place of the last event, to ask for the page after it; null if there are no more for now.
    next: Option<u64>,
}

/// Returns a session's events after a number in the event log.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/events",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("after" = Option<u64>, Query, description = "A `seq`. Default: the beginning of the log."),
        ("limit" = Option<usize>, Query, description = "The most entries of a page: 1000 by default, 10000 at most."),
    ),
    responses(
        (status = 200, description = "subscope.events/1; `next` is null if there are no more for now.", body = Object),
        (status = 404, description = "No such session."),
        (status = 410, description = "The log no longer has this place."),
    )
)]
pub(super) async fn events(
    State(app): State<App>,
    Path(session): Path<SessionId>,
    Query(query): Query<EventsQuery>,
) -> Result<Json<EventPage>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE_EVENTS).clamp(1, MAX_PAGE_EVENTS);
    let after = query.after.unwrap_or(0);
    find_tree(&app, session.clone()).await?;
    let events = ask(|reply| app.hub.events_after(after, Some(session), limit + 1, reply)).await?;
    let gone = || ApiError::new(StatusCode::GONE, "the log does not reach back there: begin with the tree");
    let mut events = events.ok_or_else(gone)?;
    let has_more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().filter(|_| has_more).map(|event| event.seq);
    Ok(Json(EventPage { schema: "subscope.events/1", events, next }))
}

#[derive(Deserialize)]
pub(super) struct SearchParameters {
    q: String,
    session: Option<SessionId>,
    kind: Option<Text>,
    tool: Option<Text>,
    project: Option<Text>,
    since: Option<Millis>,
    until: Option<Millis>,
    #[serde(default)]
    failed: bool,
    limit: Option<usize>,
}

/// Finds words in prompts, messages, thoughts, tool arguments and results.
#[utoipa::path(
    get, path = "/api/v1/search",
    params(
        ("q" = String, Query, description = "Words that must all occur in one passage; \"a phrase\" in quotes; word* matches all words that begin so."),
        ("session" = Option<String>, Query, description = "Only in this session."),
        ("kind" = Option<String>, Query, description = "Only `prompt`, `message`, `thought`, `tool input` or `tool result`."),
        ("tool" = Option<String>, Query, description = "Only arguments and results of this tool."),
        ("project" = Option<String>, Query, description = "Only in sessions whose root's working directory is this one or lies below it."),
        ("since" = Option<i64>, Query, description = "Only from this time on, in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Only before this time."),
        ("failed" = Option<bool>, Query, description = "Only results of failed and denied calls."),
        ("limit" = Option<usize>, Query, description = "The most hits: 50 by default, 1000 at most."),
    ),
    responses(
        (status = 200, description = "subscope.hits/1, the newest first.", body = Object),
        (status = 404, description = "There is no full-text index."),
    )
)]
pub(super) async fn search(
    State(app): State<App>,
    Query(query): Query<SearchParameters>,
) -> Result<Json<Hits>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
    let is_indexing = match &app.indexer {
        Some(index) => !matches!(
            timeout(INDEX_TIMEOUT, ask(|reply| index(IndexRequest::Texts(reply)))).await,
            Ok(Ok(()))
        ),
        None => false,
    };
    let query = SearchQuery {
        terms: split_terms(&query.q),
        session: query.session,
        kind: query.kind,
        tool: query.tool,
        project: query.project,
        since: query.since,
        until: query.until,
        only_failed: query.failed,
        limit,
    };
    let hits = ask(|reply| app.hub.search(query, reply)).await?;
    Ok(Json(Hits { is_indexing, ..hits.ok_or(ApiError::not_found("full text"))? }))
}

/// Splits a query into words and quoted phrases.
pub fn split_terms(query: &str) -> Vec<String> {
    let pieces = query.split('"').enumerate();
    let terms = pieces.flat_map(|(number, piece)| match number % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect(),
        _ => vec![piece.to_owned()],
    });
    terms.filter(|term| !term.trim().is_empty()).collect()
}

/// Returns statistics over stored sessions, filtered by time, project or harness.
#[utoipa::path(
    get, path = "/api/v1/stats",
    params(
        ("since" = Option<i64>, Query, description = "Count from the day (UTC) of this time on, in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Count up to the day (UTC) of this time, including that day."),
        ("project" = Option<String>, Query, description = "Only sessions whose root's working directory is this one or lies below it."),
        ("harness" = Option<String>, Query, description = "Only sessions of this harness."),
    ),
    responses((status = 200, description = "subscope.stats/1.", body = Object))
)]
pub(super) async fn stats(
    State(app): State<App>,
    Query(query): Query<StatsQuery>,
) -> Result<Json<Stats>, ApiError> {
    let stats = ask(|reply| app.hub.stats(query, reply)).await?;
    stats.map(Json).ok_or(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the store cannot be read"))
}

/// Optional session of a query.
#[derive(Deserialize)]
pub(super) struct SessionFilter {
    pub(super) session: Option<String>,
}

/// Returns one agent.
#[utoipa::path(
    get, path = "/api/v1/agents/{id}",
    params(
        ("id" = String, Path, description = "The agent's id; `root` also needs `session`."),
        ("session" = Option<String>, Query, description = "The session's id."),
    ),
    responses(
        (status = 200, description = "subscope.agent/1: `session` and `agent` as in the tree.", body = Object),
        (status = 404, description = "No such agent."),
        (status = 409, description = "Several sessions have an agent with that id: add `session`."),
    )
)]
pub(super) async fn agent(
    State(app): State<App>,
    Path(agent): Path<AgentId>,
    Query(query): Query<SessionFilter>,
) -> Result<Json<OneAgent>, ApiError> {
    let session = query.session.as_deref().map(SessionId::from);
    let mut found = ask(|reply| app.hub.agents(session, agent, reply)).await?;
    match (found.pop(), found.len()) {
        (Some((session, agent)), 0) => Ok(Json(OneAgent { schema: AGENT_SCHEMA.into(), session, agent })),
        (Some(_), others) => {
            let message = format!("{} sessions have an agent of that id: name one by ?session=", others + 1);
            Err(ApiError::new(StatusCode::CONFLICT, message))
        }
        (None, _) => Err(ApiError::not_found("agent")),
    }
}

#[derive(Deserialize)]
pub(super) struct NamesQuery {
    prefix: String,
    limit: Option<usize>,
}

/// Returns ids by prefix.
#[utoipa::path(
    get, path = "/api/v1/names",
    params(
        ("prefix" = String, Query, description = "The beginning of the ids."),
        ("limit" = Option<usize>, Query, description = "The most ids of each kind: 50 by default, 1000 at most."),
    ),
    responses((status = 200, description = "subscope.names/1: `sessions` and `agents`, the newest first.", body = Object))
)]
pub(super) async fn names(
    State(app): State<App>,
    Query(query): Query<NamesQuery>,
) -> Result<Json<IdMatches>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
    ask(|reply| app.hub.names(query.prefix, limit, reply)).await.map(Json)
}

/// Returns a summary of all running sessions, or of one session.
#[utoipa::path(
    get, path = "/api/v1/status",
    params(("session" = Option<String>, Query, description = "Only this session. An unknown session counts as empty.")),
    responses((status = 200, description = "subscope.status/1.", body = Object))
)]
pub(super) async fn status(
    State(app): State<App>,
    Query(query): Query<SessionFilter>,
) -> Result<Json<Status>, ApiError> {
    let sessions = match query.session {
        Some(session) => vec![SessionId::from(session.as_str())],
        None => {
            let query = ListQuery::live(MAX_STATUS_SESSIONS);
            let live = ask(|reply| app.hub.sessions(query, reply)).await?;
            live.into_iter().map(|row| row.id).collect()
        }
    };
    let mut trees = Vec::new();
    for session in sessions {
        trees.extend(ask(|reply| app.hub.tree(session, reply)).await?);
    }
    Ok(Json(Status::of(&trees, clock::now_ms())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_words_and_phrases() {
        assert_eq!(split_terms("half  cents"), ["half", "cents"]);
        assert_eq!(split_terms("round \"half cents\" up*"), ["round", "half cents", "up*"]);
        assert_eq!(split_terms("\"open end"), ["open end"]);
        assert!(split_terms(" \"\" ").is_empty());
    }
}
