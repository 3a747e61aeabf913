//! Statistics: sums by dimensions that only a team's store has, besides those of a hub.

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_export::csv_table;
use subscope_model::{GroupQuery, GroupRow, Groups, Stats, StatsQuery};
use subscope_server::{ApiError, QuestionServer as _};
use utoipa::IntoParams;

use super::{TeamApp, TeamScope};
use crate::rows::parse_day;

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

/// Parameters of sums by dimensions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GroupParameters {
    /// project, day, team, user, machine, harness, model, type or tool; separate several by commas.
    by: Option<String>,
    /// With `by`: first day, 2026-11-01.
    from: Option<String>,
    /// With `by`: last day.
    to: Option<String>,
    /// With `by`: the most rows, 10000 by default.
    limit: Option<usize>,
    /// With `by`: `csv` for a download in CSV (RFC 4180).
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
pub(super) async fn stats(
    State(app): State<TeamApp>,
    mut scope: TeamScope,
    Query(parameters): Query<GroupParameters>,
    Query(query): Query<StatsQuery>,
) -> Result<Response, ApiError> {
    let GroupParameters { by, from, to, limit, form } = parameters;
    require_days([&from, &to])?;
    if form.as_deref().is_some_and(|form| form != "csv") || (form.is_some() && by.is_none()) {
        return Err(ApiError::bad_request("as is csv, and needs by"));
    }
    if by.is_none() && from.is_none() && to.is_none() {
        // The query's own project may be a folder above it.
        scope.filter.project = None;
        let stats = app.ask(&scope, None, move |queries| queries.stats(&query)).await?;
        return Ok(Json(StatsAnswer::Stats(Box::new(stats))).into_response());
    }
    let by = GroupQuery::parse_by(by.as_deref().unwrap_or_default()).map_err(ApiError::bad_request)?;
    let default = if form.is_some() { MAX_GROUPS } else { DEFAULT_GROUPS };
    let limit = limit.unwrap_or(default).clamp(1, MAX_GROUPS);
    let harness = query.harness.as_deref().map(str::to_owned);
    let query = GroupQuery { by, from, to, harness, limit };
    let groups = app.read(&scope.identity, scope.filter, move |reader| reader.groups(&query)).await?;
    if form.is_some() {
        if groups.has_more {
            // CSV has no field for `has_more`.
            return Err(ApiError::bad_request(format!("more than {limit} rows: ask for fewer days")));
        }
        return csv_response(&groups);
    }
    Ok(Json(StatsAnswer::Groups(groups)).into_response())
}
