//! Question routes, which the servers of a hub and of a team share: each with its parameters, answer and description.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequestParts, Path, Query, State},
    handler::Handler,
    routing::get,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subscope_hub::clock;
use subscope_model::{
    Agent, AgentId, Hits, IdMatches, Millis, OneAgent, SessionId, SessionPage, Stats, StatsQuery, Status,
    Text, Tree,
};
use subscope_query::{Queries, QueryResult};
use subscope_render::timeline::{Lane, PathShares, Step, timeline};
use utoipa::openapi::path::Paths;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{
    api_error::ApiError,
    parameters::{NameParameters, SearchParameters, SessionListParameters, SessionParameter},
};

/// Who answers the questions of a server.
pub trait QuestionServer: Send + Sync + Sized + 'static {
    /// What a request may see, taken from its head.
    type Scope: FromRequestParts<Arc<Self>> + Send + Sync;

    /// Asks a question, which may be about one session.
    fn ask<T: Send + 'static>(
        &self,
        scope: &Self::Scope,
        session: Option<SessionId>,
        question: impl FnOnce(&mut dyn Queries) -> QueryResult<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Returns a session's tree. The error says why there is none.
    fn find_tree(
        &self,
        scope: &Self::Scope,
        session: SessionId,
    ) -> impl Future<Output = Result<Tree, ApiError>> + Send;

    /// Returns a session's tree at a past time.
    fn tree_at(
        &self,
        _: &Self::Scope,
        _: SessionId,
        _: Millis,
    ) -> impl Future<Output = Result<Tree, ApiError>> + Send {
        async { Err(ApiError::not_found("record of that moment")) }
    }

    /// Brings the full text up to date, if that takes no long. Returns whether some of it is missing.
    fn catch_up_texts(&self) -> impl Future<Output = bool> + Send {
        async { false }
    }

    /// Returns the names of other machines of which not all texts are here.
    fn unsearched(&self) -> Vec<Text> {
        Vec::new()
    }

    /// Returns the time until which agents at work are drawn; `None` for that of the session's last event.
    fn drawn_until(&self) -> Option<Millis> {
        None
    }

    /// Returns the OpenAPI document of the server.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    fn document() -> serde_json::Result<Value>;
}

/// Returns a route of a handler with its description.
fn described<P: utoipa::Path, S, T: 'static>(handler: impl Handler<T, Arc<S>>) -> UtoipaMethodRouter<Arc<S>>
where
    S: Send + Sync + 'static,
{
    let mut paths = Paths::new();
    paths.add_path_operation(P::path(), P::methods(), P::operation());
    (Vec::new(), paths, get(handler))
}

/// Returns the routes of questions about all sessions. Statistics are answered by [`stats`], or by a handler that has other
/// sums too.
pub fn list_routes<S: QuestionServer, T: 'static>(stats: impl Handler<T, Arc<S>>) -> OpenApiRouter<Arc<S>> {
    OpenApiRouter::new()
        .routes(described::<__path_sessions, _, _>(sessions::<S>))
        .routes(described::<__path_names, _, _>(names::<S>))
        .routes(described::<__path_search, _, _>(search::<S>))
        .routes(described::<__path_status, _, _>(status::<S>))
        .routes(described::<__path_stats, _, _>(stats))
}

/// Returns the routes of one session, of one agent, and of the description of all routes.
pub fn session_routes<S: QuestionServer>() -> OpenApiRouter<Arc<S>> {
    OpenApiRouter::new()
        .routes(described::<__path_tree, _, _>(tree::<S>))
        .routes(described::<__path_lanes, _, _>(lanes::<S>))
        .routes(described::<__path_agent, _, _>(agent::<S>))
        .routes(described::<__path_description, _, _>(description::<S>))
}

/// Lists sessions, newest first.
#[utoipa::path(
    get, path = "/api/v1/sessions",
    params(
        ("q" = Option<String>, Query, description = "Only sessions with all of these words in title, directory, id or harness. `harness:NAME` asks for a harness, `failed:` for sessions with a failed agent, `denied:` for those with a denied call, `own:` also for those that a harness started by itself."),
        ("limit" = Option<usize>, Query, description = "The most entries of a page: 100 by default, 1000 at most."),
        ("after" = Option<String>, Query, description = "The `next` of the previous page."),
        ("live" = Option<bool>, Query, description = "Only sessions in which something has not ended."),
        ("recent" = Option<bool>, Query, description = "Only sessions that were stored or changed in the last 30 minutes, whatever their own times are."),
        ("project" = Option<String>, Query, description = "Only sessions of this project: its folder, or one above it."),
        ("since" = Option<i64>, Query, description = "Only sessions with an event from this time on, in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Only sessions that began before this time."),
        ("sort" = Option<String>, Query, description = "The order, the greatest first: `newest` (by the last event; the default), `cost`, `tokens`, `duration`, `agents`, `calls`, `errors` or `denied`."),
    ),
    responses(
        (status = 200, description = "subscope.sessions/1; `next` is null on the last page.", body = ref("#/components/schemas/SessionPage")),
        (status = 400, description = "`after` is not the `next` of a page, or `sort` is no order."),
    )
)]
async fn sessions<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Query(parameters): Query<SessionListParameters>,
) -> Result<Json<SessionPage>, ApiError> {
    let query = parameters.into_query()?;
    server.ask(&scope, None, move |queries| queries.sessions(&query)).await.map(Json)
}

/// Returns ids by prefix, or subagents by words.
#[utoipa::path(
    get, path = "/api/v1/names",
    params(
        ("prefix" = Option<String>, Query, description = "The beginning of the ids."),
        ("q" = Option<String>, Query, description = "Instead of `prefix`: words that id, type and description of a subagent must have; `sessions` is empty."),
        ("limit" = Option<usize>, Query, description = "The most ids of each kind: 50 by default, 1000 at most."),
    ),
    responses((status = 200, description = "subscope.names/1: `sessions` and `agents`, the newest first.", body = ref("#/components/schemas/IdMatches")))
)]
async fn names<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Query(parameters): Query<NameParameters>,
) -> Result<Json<IdMatches>, ApiError> {
    let limit = parameters.limit();
    let ask = move |queries: &mut dyn Queries| match (parameters.q, parameters.prefix) {
        (Some(words), _) => queries.agents_with_words(&words, limit),
        (None, prefix) => queries.names(&prefix.unwrap_or_default(), limit),
    };
    server.ask(&scope, None, ask).await.map(Json)
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
async fn search<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Query(parameters): Query<SearchParameters>,
) -> Result<Json<Hits>, ApiError> {
    let query = parameters.into_query();
    let is_indexing = server.catch_up_texts().await;
    let hits = server.ask(&scope, None, move |queries| queries.search(&query)).await?;
    Ok(Json(Hits { is_indexing, unsearched: server.unsearched(), ..hits }))
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
pub(super) async fn stats<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Query(query): Query<StatsQuery>,
) -> Result<Json<Stats>, ApiError> {
    server.ask(&scope, None, move |queries| queries.stats(&query)).await.map(Json)
}

/// Returns a summary of all running sessions, or of one session.
#[utoipa::path(
    get, path = "/api/v1/status",
    params(("session" = Option<String>, Query, description = "Only this session. An unknown session counts as empty.")),
    responses((status = 200, description = "subscope.status/1.", body = ref("#/components/schemas/Status")))
)]
async fn status<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Query(SessionParameter { session }): Query<SessionParameter>,
) -> Result<Json<Status>, ApiError> {
    let now = clock::now_ms();
    let about = session.clone();
    server.ask(&scope, about, move |queries| queries.status(session.as_ref(), now)).await.map(Json)
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
async fn agent<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Path(agent): Path<AgentId>,
    Query(SessionParameter { session }): Query<SessionParameter>,
) -> Result<Json<OneAgent>, ApiError> {
    let about = session.clone();
    let found = server.ask(&scope, about, move |queries| queries.agent(session.as_ref(), &agent)).await?;
    found.map(Json).ok_or(ApiError::not_found("agent"))
}

#[derive(Deserialize)]
struct TreeQuery {
    at: Option<Millis>,
}

/// Returns a session's tree.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/tree",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("at" = Option<i64>, Query, description = "The time for which to return the tree, in milliseconds since 1970."),
    ),
    responses(
        (status = 200, description = "subscope.tree/1, as `subscope tree --json` prints it.", body = ref("#/components/schemas/Tree")),
        (status = 404, description = "No such session, or it had not begun at that time."),
    )
)]
async fn tree<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Path(session): Path<SessionId>,
    Query(query): Query<TreeQuery>,
) -> Result<Json<Tree>, ApiError> {
    match query.at {
        None => server.find_tree(&scope, session).await.map(Json),
        Some(at) => server.tree_at(&scope, session, at).await.map(Json),
    }
}

#[derive(Deserialize)]
struct TimelineQuery {
    since: Option<u64>,
}

/// Timeline of a session.
#[derive(Serialize, JsonSchema)]
pub struct TimelinePage {
    schema: &'static str,
    /// Highest rev of its rows.
    rev: Option<u64>,
    start_ms: Millis,
    end_ms: Millis,
    lanes: Vec<Lane>,
    critical_path: Vec<Step>,
    path: PathShares,
}

impl TimelinePage {
    /// Returns the timeline of a tree at `now`, with only the lanes that may have changed after the rev `since`; `None`
    /// if nothing in it has a time.
    fn of(tree: &Tree, now: Option<Millis>, since: Option<u64>) -> Option<Self> {
        let timeline = timeline(tree, now)?;
        let is_changed = |row: &Agent| match (since, row.rev) {
            (Some(since), Some(rev)) => rev > since || row.status.is_live(),
            _ => true,
        };
        // One lane per agent, in the same order.
        let lanes = timeline.lanes.into_iter().zip(&tree.agents).filter(|(_, row)| is_changed(row));
        Some(Self {
            schema: "subscope.timeline/1",
            rev: tree.agents.iter().filter_map(|agent| agent.rev).max(),
            start_ms: timeline.start_ms,
            end_ms: timeline.end_ms,
            lanes: lanes.map(|(lane, _)| lane).collect(),
            critical_path: timeline.critical_path,
            path: timeline.path,
        })
    }
}

/// Returns the timeline of a session: a lane per agent with its activity and waits, and the critical path.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/timeline",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("since" = Option<u64>, Query, description = "The `rev` of an earlier timeline: returns only lanes that may have changed since."),
    ),
    responses(
        (status = 200, description = "subscope.timeline/1: rev, start_ms, end_ms, lanes, critical_path, path.", body = ref("#/components/schemas/TimelinePage")),
        (status = 404, description = "No such session, or nothing in it has a time."),
    )
)]
async fn lanes<S: QuestionServer>(
    State(server): State<Arc<S>>,
    scope: S::Scope,
    Path(session): Path<SessionId>,
    Query(query): Query<TimelineQuery>,
) -> Result<Json<TimelinePage>, ApiError> {
    let tree = server.find_tree(&scope, session).await?;
    let page = TimelinePage::of(&tree, server.drawn_until(), query.since);
    page.map(Json).ok_or(ApiError::not_found("time in that session"))
}

/// Describes the routes.
#[utoipa::path(
    get, path = "/openapi.json",
    responses((status = 200, description = "This document (OpenAPI 3.1).", body = Object))
)]
async fn description<S: QuestionServer>(_: S::Scope) -> Result<Json<Value>, ApiError> {
    S::document().map(Json).map_err(|error| ApiError::unavailable(error.to_string()))
}
