//! Query routes: sessions, agents, events, search and statistics.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_hub::clock;
use subscope_model::{
    AGENT_SCHEMA, AgentId, Event, Hits, IdMatches, OneAgent, SessionId, SessionPage, Stats, StatsQuery,
    Status,
};
use tokio::time::timeout;

use crate::{
    api_error::ApiError,
    ask::ask,
    parameters::{NameParameters, SearchParameters, SessionListParameters, SessionParameter, status_query},
    session_reader::find_tree,
    state::{App, IndexRequest},
};

/// Default and maximum number of events per page.
const PAGE_EVENTS: usize = 1_000;
const MAX_PAGE_EVENTS: usize = 10_000;
/// Time that a search waits for the full text of what is on disk.
const INDEX_TIMEOUT: Duration = Duration::from_secs(1);
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
        (status = 200, description = "subscope.sessions/1; `next` is null on the last page.", body = ref("#/components/schemas/SessionPage")),
        (status = 400, description = "`after` is not the `next` of a page."),
    )
)]
pub(super) async fn sessions(
    State(app): State<App>,
    Query(parameters): Query<SessionListParameters>,
) -> Result<Json<SessionPage>, ApiError> {
    let (limit, query) = parameters.into_query()?;
    let sessions = ask(|reply| app.hub.sessions(query, reply)).await?;
    Ok(Json(SessionPage::of(sessions, limit)))
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
        (status = 200, description = "subscope.events/1; `next` is null if there are no more for now.", body = ref("#/components/schemas/EventPage")),
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
        (status = 200, description = "subscope.hits/1, the newest first.", body = ref("#/components/schemas/Hits")),
        (status = 404, description = "There is no full-text index."),
    )
)]
pub(super) async fn search(
    State(app): State<App>,
    Query(parameters): Query<SearchParameters>,
) -> Result<Json<Hits>, ApiError> {
    let is_indexing = match &app.indexer {
        Some(index) => !matches!(
            timeout(INDEX_TIMEOUT, ask(|reply| index(IndexRequest::Texts(reply)))).await,
            Ok(Ok(()))
        ),
        None => false,
    };
    let hits = ask(|reply| app.hub.search(parameters.into_query(), reply)).await?;
    Ok(Json(Hits { is_indexing, ..hits.ok_or(ApiError::not_found("full text"))? }))
}

/// Returns statistics over stored sessions, filtered by time, project or harness.
#[utoipa::path(
    get, path = "/api/v1/stats",
    params(
        ("since" = Option<i64>, Query, description = "Count from the day of this time on, in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Count up to the day of this time, including that day."),
        ("time_zone" = Option<String>, Query, description = "The zone whose days are counted, such as Europe/Berlin; without it, the hub's."),
        ("project" = Option<String>, Query, description = "Only sessions whose root's working directory is this one or lies below it."),
        ("harness" = Option<String>, Query, description = "Only sessions of this harness."),
    ),
    responses((status = 200, description = "subscope.stats/1.", body = ref("#/components/schemas/Stats")))
)]
pub(super) async fn stats(
    State(app): State<App>,
    Query(query): Query<StatsQuery>,
) -> Result<Json<Stats>, ApiError> {
    let stats = ask(|reply| app.hub.stats(query, reply)).await?;
    stats.map(Json).ok_or(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the store cannot be read"))
}

/// Returns one agent.
#[utoipa::path(
    get, path = "/api/v1/agents/{id}",
    params(
        ("id" = String, Path, description = "The agent's id; `root` also needs `session`."),
        ("session" = Option<String>, Query, description = "The session's id."),
    ),
    responses(
        (status = 200, description = "subscope.agent/1: `session` and `agent` as in the tree.", body = ref("#/components/schemas/OneAgent")),
        (status = 404, description = "No such agent."),
        (status = 409, description = "Several sessions have an agent with that id: add `session`."),
    )
)]
pub(super) async fn agent(
    State(app): State<App>,
    Path(agent): Path<AgentId>,
    Query(query): Query<SessionParameter>,
) -> Result<Json<OneAgent>, ApiError> {
    let mut found = ask(|reply| app.hub.agents(query.session, agent, reply)).await?;
    match (found.pop(), found.len()) {
        (Some((session, agent)), 0) => Ok(Json(OneAgent { schema: AGENT_SCHEMA.into(), session, agent })),
        (Some(_), others) => {
            let message = format!("{} sessions have an agent of that id: name one by ?session=", others + 1);
            Err(ApiError::new(StatusCode::CONFLICT, message))
        }
        (None, _) => Err(ApiError::not_found("agent")),
    }
}

/// Returns ids by prefix.
#[utoipa::path(
    get, path = "/api/v1/names",
    params(
        ("prefix" = String, Query, description = "The beginning of the ids."),
        ("limit" = Option<usize>, Query, description = "The most ids of each kind: 50 by default, 1000 at most."),
    ),
    responses((status = 200, description = "subscope.names/1: `sessions` and `agents`, the newest first.", body = ref("#/components/schemas/IdMatches")))
)]
pub(super) async fn names(
    State(app): State<App>,
    Query(parameters): Query<NameParameters>,
) -> Result<Json<IdMatches>, ApiError> {
    let limit = parameters.limit();
    ask(|reply| app.hub.names(parameters.prefix, limit, reply)).await.map(Json)
}

/// Returns a summary of all running sessions, or of one session.
#[utoipa::path(
    get, path = "/api/v1/status",
    params(("session" = Option<String>, Query, description = "Only this session. An unknown session counts as empty.")),
    responses((status = 200, description = "subscope.status/1.", body = ref("#/components/schemas/Status")))
)]
pub(super) async fn status(
    State(app): State<App>,
    Query(query): Query<SessionParameter>,
) -> Result<Json<Status>, ApiError> {
    let sessions = match query.session {
        Some(session) => vec![session],
        None => {
            let live = ask(|reply| app.hub.sessions(status_query(), reply)).await?;
            live.into_iter().map(|row| row.id).collect()
        }
    };
    let mut trees = Vec::new();
    for session in sessions {
        trees.extend(ask(|reply| app.hub.tree(session, reply)).await?);
    }
    Ok(Json(Status::of(&trees, clock::now_ms())))
}
