//! Query routes: lists, names, search, statistics.

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_export::csv_table;
use subscope_hub::clock;
use subscope_model::{
    AgentName, GroupQuery, GroupRow, Groups, Hits, IdMatches, NAMES_SCHEMA, SearchQuery, SessionPage, Stats,
    StatsQuery, Status,
};
use subscope_server::{
    ApiError, NameParameters, SearchParameters, SessionListParameters, SessionParameter, status_query,
};
use subscope_store::SessionQueries;

use super::TeamApp;
use crate::{auth::Caller, read::TeamFilter, rows::parse_day};

/// Default and maximum number of groups.
const DEFAULT_GROUPS: usize = 10_000;
const MAX_GROUPS: usize = 100_000;

/// Figures: sums by dimensions, or those that a hub has.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum StatsAnswer {
    Groups(Groups),
    Stats(Box<Stats>),
}

/// Lists sessions of all machines, newest first.
#[utoipa::path(
    get, path = "/api/v1/sessions",
    params(
        ("q" = Option<String>, Query, description = "Only sessions with all of these words in title, project, user, id or harness."),
        ("limit" = Option<usize>, Query, description = "The most entries of a page: 100 by default, 1000 at most."),
        ("after" = Option<String>, Query, description = "The `next` of the previous page."),
        ("live" = Option<bool>, Query, description = "Only sessions in which something has not ended."),
        ("recent" = Option<bool>, Query, description = "Only sessions that a machine saved in the last 30 minutes."),
        ("project" = Option<String>, Query, description = "Only sessions of this project."),
        ("user" = Option<String>, Query, description = "Only sessions of this user."),
        ("team" = Option<String>, Query, description = "Only sessions of this team's users."),
        ("machine" = Option<String>, Query, description = "Only sessions of this machine."),
        ("session" = Option<String>, Query, description = "Only this session."),
        ("status" = Option<String>, Query, description = "Only sessions that are `live` or `ended`."),
        ("day" = Option<String>, Query, description = "Only sessions that began on this day (UTC), such as 2026-11-21."),
    ),
    responses(
        (status = 200, description = "subscope.sessions/1, with machine, user, team and project of each; `next` is null on the last page.", body = ref("#/components/schemas/SessionPage")),
        (status = 400, description = "`after` is not the `next` of a page."),
        (status = 401, description = "No token."),
    )
)]
pub(super) async fn sessions(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(parameters): Query<SessionListParameters>,
    Query(filter): Query<TeamFilter>,
) -> Result<Json<SessionPage>, ApiError> {
    let (limit, query) = parameters.into_query()?;
    let sessions = app.ask(&caller.identity, filter, move |reader| reader.list(&query)).await?;
    Ok(Json(SessionPage::of(sessions, limit)))
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
    State(app): State<TeamApp>,
    caller: Caller,
    Query(parameters): Query<NameParameters>,
) -> Result<Json<IdMatches>, ApiError> {
    let limit = parameters.limit();
    let prefix = parameters.prefix;
    let found = app.ask(&caller.identity, TeamFilter::default(), move |reader| {
        let agents = reader.agents_with_prefix(&prefix, limit)?.into_iter();
        Ok(IdMatches {
            schema: NAMES_SCHEMA.into(),
            sessions: reader.sessions_with_prefix(&prefix, limit)?,
            agents: agents.map(|(session_id, agent_id)| AgentName { session_id, agent_id }).collect(),
        })
    });
    found.await.map(Json)
}

/// Finds words in the passages that machines have sent.
#[utoipa::path(
    get, path = "/api/v1/search",
    params(
        ("q" = String, Query, description = "Words that must all occur in one passage; \"a phrase\" in quotes; word* matches all words that begin so."),
        ("session" = Option<String>, Query, description = "Only in this session."),
        ("kind" = Option<String>, Query, description = "Only `prompt`, `message`, `thought`, `tool input` or `tool result`."),
        ("project" = Option<String>, Query, description = "Only in sessions of this project."),
        ("user" = Option<String>, Query, description = "Only in sessions of this user."),
        ("team" = Option<String>, Query, description = "Only in sessions of this team's users."),
        ("since" = Option<i64>, Query, description = "Only from this time on, in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Only before this time."),
        ("limit" = Option<usize>, Query, description = "The most hits: 50 by default, 1000 at most."),
    ),
    responses(
        (status = 200, description = "subscope.hits/1, the newest first.", body = ref("#/components/schemas/Hits")),
        (status = 400, description = "`tool` and `failed` are not supported: a team's server does not store them."),
    )
)]
pub(super) async fn search(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(parameters): Query<SearchParameters>,
    Query(filter): Query<TeamFilter>,
) -> Result<Json<Hits>, ApiError> {
    // The filter has the project.
    let query = SearchQuery { project: None, ..parameters.into_query() };
    if query.tool.is_some() || query.only_failed {
        return Err(ApiError::bad_request("tool and failed are known on the machine of a session only"));
    }
    app.ask(&caller.identity, filter, move |reader| reader.search(&query)).await.map(Json)
}

#[derive(Deserialize)]
pub(super) struct StatsParameters {
    by: Option<String>,
    from: Option<String>,
    to: Option<String>,
    limit: Option<usize>,
    #[serde(rename = "as")]
    form: Option<String>,
}

/// Refuses days that are none.
pub(super) fn require_days(days: [&Option<String>; 2]) -> Result<(), ApiError> {
    if days.into_iter().flatten().any(|day| parse_day(day).is_none()) {
        return Err(ApiError::bad_request("from and to are days, as 2026-11-21"));
    }
    Ok(())
}

/// Names of the columns of sums in CSV, behind the dimensions.
const CSV_FIGURES: [&str; 13] = [
    "sessions",
    "agents",
    "tool_calls",
    "tool_errors",
    "tools_denied",
    "busy_ms",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "tokens_are_floor",
    "cost_usd",
    "cost_is_floor",
];

/// Returns sums as a download.
fn csv_response(groups: &Groups) -> Result<Response, ApiError> {
    let by: Vec<&str> = groups.by.iter().map(|by| by.as_str()).collect();
    let head = by.iter().chain(&CSV_FIGURES).map(|name| (*name).to_owned()).collect();
    let record = |row: &GroupRow| {
        let names = by.iter().map(|by| row.names.get(*by).cloned().unwrap_or_default());
        let [input, output, cache_read, cache_write] = row.usage.kinds();
        let figures =
            [row.sessions, row.agents, row.tool_calls, row.tool_errors, row.tools_denied, row.busy_ms];
        let figures = figures.into_iter().chain([input, output, cache_read, cache_write]);
        let cost =
            format!("{}.{:06}", row.cost_micro_usd / 1_000_000, row.cost_micro_usd.rem_euclid(1_000_000));
        let last = [row.usage.floor.to_string(), cost, row.cost_floor.to_string()];
        names.chain(figures.map(|figure| figure.to_string())).chain(last).collect::<Vec<_>>()
    };
    let bytes = csv_table(std::iter::once(head).chain(groups.rows.iter().map(record)));
    let bytes = bytes.map_err(|error| ApiError::unavailable(error.to_string()))?;
    let name = format!("attachment; filename=\"subscope-{}.csv\"", by.join("-"));
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    // Names of dimensions are letters.
    headers.extend(HeaderValue::from_str(&name).ok().map(|name| (header::CONTENT_DISPOSITION, name)));
    Ok(response)
}

/// Returns statistics: with `by`, sums of its dimensions; without, those of a hub's store.
#[utoipa::path(
    get, path = "/api/v1/stats",
    params(
        ("by" = Option<String>, Query, description = "project, day, team, user, machine, harness, model, type or tool; separate several by commas."),
        ("from" = Option<String>, Query, description = "With `by`: first day, 2026-11-01."),
        ("to" = Option<String>, Query, description = "With `by`: last day."),
        ("limit" = Option<usize>, Query, description = "With `by`: the most rows, 10000 by default."),
        ("as" = Option<String>, Query, description = "With `by`: `csv` for a download in CSV (RFC 4180)."),
        ("since" = Option<i64>, Query, description = "Without `by`: from the day of this time in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Without `by`: up to the day of this time, that day included."),
        ("time_zone" = Option<String>, Query, description = "Without `by`: the zone of the days of `since` and `until`; UTC without it."),
        ("project" = Option<String>, Query, description = "Only sessions of this project."),
        ("user" = Option<String>, Query, description = "Only sessions of this user."),
        ("team" = Option<String>, Query, description = "Only sessions of this team's users."),
        ("machine" = Option<String>, Query, description = "Only sessions of this machine."),
        ("harness" = Option<String>, Query, description = "Only sessions of this harness."),
    ),
    responses(
        (status = 200, description = "With `by` subscope.groups/1: rows with a name for each dimension, the greatest cost \
            first. Without it subscope.stats/1; `without` names what needs the machines.", body = ref("#/components/schemas/StatsAnswer")),
        (status = 400, description = "An unknown dimension, or an invalid day."),
    )
)]
pub(super) async fn stats(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(parameters): Query<StatsParameters>,
    Query(query): Query<StatsQuery>,
    Query(mut filter): Query<TeamFilter>,
) -> Result<Response, ApiError> {
    let StatsParameters { by, from, to, limit, form } = parameters;
    require_days([&from, &to])?;
    if form.as_deref().is_some_and(|form| form != "csv") || (form.is_some() && by.is_none()) {
        return Err(ApiError::bad_request("as is csv, and needs by"));
    }
    if by.is_none() && from.is_none() && to.is_none() {
        // The query's own project may be a folder above it.
        filter.project = None;
        let stats = app.ask(&caller.identity, filter, move |reader| reader.stats(&query)).await?;
        return Ok(Json(StatsAnswer::Stats(Box::new(stats))).into_response());
    }
    let by = GroupQuery::parse_by(by.as_deref().unwrap_or_default()).map_err(ApiError::bad_request)?;
    let default = if form.is_some() { MAX_GROUPS } else { DEFAULT_GROUPS };
    let limit = limit.unwrap_or(default).clamp(1, MAX_GROUPS);
    let harness = query.harness.as_deref().map(str::to_owned);
    let query = GroupQuery { by, from, to, harness, limit };
    let groups = app.ask(&caller.identity, filter, move |reader| reader.groups(&query)).await?;
    if form.is_some() {
        if groups.has_more {
            // CSV has no field for `has_more`.
            return Err(ApiError::bad_request(format!("more than {limit} rows: ask for fewer days")));
        }
        return csv_response(&groups);
    }
    Ok(Json(StatsAnswer::Groups(groups)).into_response())
}

/// Returns a summary of all running sessions, or of one session.
#[utoipa::path(
    get, path = "/api/v1/status",
    params(("session" = Option<String>, Query, description = "Only this session. An unknown session counts as empty.")),
    responses((status = 200, description = "subscope.status/1.", body = ref("#/components/schemas/Status")))
)]
pub(super) async fn status(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(query): Query<SessionParameter>,
    Query(filter): Query<TeamFilter>,
) -> Result<Json<Status>, ApiError> {
    let trees = app.ask(&caller.identity, filter, move |reader| {
        let sessions = match query.session {
            Some(session) => vec![session],
            None => reader.list(&status_query())?.into_iter().map(|row| row.id).collect(),
        };
        let trees = sessions.iter().filter_map(|session| reader.tree(session).transpose());
        trees.collect::<Result<Vec<_>, _>>()
    });
    Ok(Json(Status::of(&trees.await?, clock::now_ms())))
}
