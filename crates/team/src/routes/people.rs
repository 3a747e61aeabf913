//! Routes about users, their machines, and sessions at work.

use axum::{
    Json,
    extract::{Query, State},
};
use serde::Deserialize;
use subscope_hub::clock;
use subscope_model::{Millis, People, WorkingSessions};
use subscope_server::ApiError;

use super::{TeamApp, stats::require_days};
use crate::{auth::Caller, read::TeamFilter};

/// A session at work whose machine has saved nothing of it for so long is not counted as one: the machine may be off.
const SILENT_MS: Millis = 3_600_000;
/// After so long it is not listed either.
const GONE_MS: Millis = 24 * 3_600_000;

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PeopleParameters {
    /// First day of the sums, 2026-11-01.
    from: Option<String>,
    /// Last day of the sums.
    to: Option<String>,
}

/// Lists users with their machines.
#[utoipa::path(
    get, path = "/api/v1/people",
    params(PeopleParameters, TeamFilter),
    responses(
        (status = 200, description = "subscope.people/1, the latest event first: sums over the days, the rest over all sessions.", body = ref("#/components/schemas/People")),
        (status = 400, description = "An invalid day."),
        (status = 401, description = "No token."),
    )
)]
pub(super) async fn people(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(days): Query<PeopleParameters>,
    Query(filter): Query<TeamFilter>,
) -> Result<Json<People>, ApiError> {
    require_days([&days.from, &days.to])?;
    let since = clock::now_ms() - SILENT_MS;
    let people = app.read(&caller.identity, filter, move |reader| reader.people(days.from, days.to, since));
    people.await.map(Json)
}

/// Lists the sessions at work with their agents at work.
#[utoipa::path(
    get, path = "/api/v1/working",
    params(TeamFilter),
    responses(
        (status = 200, description = "subscope.working/1, the newest event first, at most 1000: sessions that their machine has \
            saved in the last 24 hours.", body = ref("#/components/schemas/WorkingSessions")),
        (status = 401, description = "No token."),
    )
)]
pub(super) async fn working(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(filter): Query<TeamFilter>,
) -> Result<Json<WorkingSessions>, ApiError> {
    let since = clock::now_ms() - GONE_MS;
    app.read(&caller.identity, filter, move |reader| reader.working(since)).await.map(Json)
}
