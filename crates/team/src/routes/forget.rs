//! `POST /team/v1/forget`: removes the sessions of a user.

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_model::SessionId;
use subscope_program::TokenRole;
use subscope_server::ApiError;

use super::TeamApp;
use crate::{auth::TokenCaller, ingest::latest_rev, read::TeamFilter, rows::Snapshots, tokens::Identity};

/// Whose sessions are removed.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ForgetRequest {
    user: String,
}

/// What was removed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Forgotten {
    /// Number of sessions.
    forgotten: usize,
}

/// Removes all sessions of a user: their rows are replaced by tombstones, their trees and texts deleted at once.
#[utoipa::path(
    post, path = "/team/v1/forget",
    request_body(content_type = "application/json", description = "user.", content = ref("#/components/schemas/ForgetRequest")),
    responses(
        (status = 200, description = "forgotten: the number of sessions.", body = ref("#/components/schemas/Forgotten")),
        (status = 401, description = "No token."),
        (status = 403, description = "The token is not an admin's, and the user is another one."),
    )
)]
pub(super) async fn post(
    State(app): State<TeamApp>,
    caller: TokenCaller,
    Json(request): Json<ForgetRequest>,
) -> Result<Json<Forgotten>, ApiError> {
    let identity = caller.identity;
    let is_own = identity.user == request.user && identity.role.writes();
    if identity.role != TokenRole::Admin && !is_own {
        return Err(ApiError::forbidden("an admin's token removes others' sessions"));
    }
    let user = request.user.clone();
    let sessions =
        app.read(&identity, TeamFilter::default(), move |reader| reader.sessions_of(&user)).await?;
    let owner = Identity { user: request.user, ..identity.clone() };
    let mut rows = Snapshots::default();
    let latest = latest_rev();
    // No tombstone outranks a rev that is too late: such rows are deleted, and what the machine sends later counts.
    let mut pinned = Vec::new();
    for (session, day, rev) in &sessions {
        if *rev < latest {
            rows.add_tombstone(&owner, session, *day, rev + 1);
        } else {
            pinned.push(session.clone());
        }
    }
    if !pinned.is_empty() {
        app.read(&identity, TeamFilter::default(), move |reader| reader.delete_rows(&pinned)).await?;
    }
    if !sessions.is_empty() {
        let stored = app.gather.put(rows).await;
        stored.map_err(|error| ApiError::unavailable(error.to_string()))?;
        let ids: Vec<SessionId> = sessions.iter().map(|(session, ..)| session.clone()).collect();
        app.read(&identity, TeamFilter::default(), move |reader| reader.delete_bodies(&ids)).await?;
    }
    Ok(Json(Forgotten { forgotten: sessions.len() }))
}
