//! `POST /api/v1/agents/{id}/stop`: stop order for a subagent.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use serde_json::{Map, Value};
use subscope_hub::StopError;
use subscope_model::{ORDERED_SCHEMA, Ordered};

use crate::{api_error::ApiError, ask::ask, body::ProtectedBody, parameters::SessionParameter, state::App};

/// Orders a running subagent to stop. The order is delivered in the response to the hook of its current tool call, or
/// of its next one, or to the next event that its program publishes; other agents are not affected.
#[utoipa::path(
    post, path = "/api/v1/agents/{id}/stop",
    params(
        ("id" = String, Path, description = "The agent's id, or a prefix that no other agent at work has."),
        ("session" = Option<String>, Query, description = "The session's id, or a prefix of it."),
        ("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header."),
    ),
    request_body(content_type = "application/json", description = "An empty object.", content = Object),
    responses(
        (status = 202, description = "subscope.stop-asked/1: the order is stored. The agent has the flag `stopping` until it ends.", body = ref("#/components/schemas/Ordered")),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 404, description = "No such agent."),
        (status = 409, description = "The agent is the main agent, has ended, is not unique, or cannot be reached: no hook has named it, and no program publishes it."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not stored."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<SessionParameter>,
    ProtectedBody((body, _share)): ProtectedBody,
) -> Result<(StatusCode, Json<Ordered>), ApiError> {
    serde_json::from_slice::<Map<String, Value>>(&body)
        .map_err(|_| ApiError::bad_request("the body must be a JSON object"))?;
    let session = query.session.as_deref().map(str::to_owned);
    let stopping = ask(|reply| app.hub.stop(session, id, reply)).await??;
    let ordered = Ordered {
        schema: ORDERED_SCHEMA.into(),
        session_id: stopping.session,
        agent_id: stopping.agent,
        title: stopping.title.into(),
        repeat: stopping.is_repeat,
        reached: stopping.is_reached,
        told_by: stopping.told_by,
    };
    Ok((StatusCode::ACCEPTED, Json(ordered)))
}

impl From<StopError> for ApiError {
    fn from(error: StopError) -> Self {
        let status = match error {
            StopError::Unknown => StatusCode::NOT_FOUND,
            StopError::Root
            | StopError::Ambiguous(_)
            | StopError::Ended(_)
            | StopError::NoChannel
            | StopError::Remote(_)
            | StopError::Harness(_) => StatusCode::CONFLICT,
            StopError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}
