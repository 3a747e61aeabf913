//! `POST /subagent-events`: one event that a program posts about its own subagents (requirement 4.1).

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use serde::Serialize;
use subscope_hub::Ingest;

use crate::{
    api_error::ApiError,
    ask::ask,
    body::{self, EVENT_BYTES, Kind},
    state::App,
};

/// The answer to an event that was kept.
#[derive(Serialize)]
pub(super) struct Accepted {
    accepted: bool,
    /// Whether it was known before.
    repeat: bool,
    /// What of it was not understood.
    problems: Vec<subscope_model::Problem>,
}

/// Takes one event of a program about a subagent of its own.
#[utoipa::path(
    post, path = "/subagent-events",
    request_body(content_type = "application/json", description = "One event: subagentName, subagentRunId, timestamp, type; \
        optional toolName, toolCallId, payload, executionTimeoutSeconds, reasoningType, tokenUsage, parentRunId, depth, \
        sessionId, cwd, status (stopped), isError, eventId.", content = Object),
    responses(
        (status = 200, description = "Kept. An unknown type is kept as a problem.", body = Object),
        (status = 400, description = "Not JSON, or a required field is missing: `field` names it."),
        (status = 413, description = "More than 4 MiB."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not kept: post it again."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Accepted>, ApiError> {
    let held = body::read(&app, &headers, body, Kind::Json, EVENT_BYTES).await?;
    let (mut bytes, _share) = held.split();
    body::one_line(&mut bytes);
    let ingest = place(&app, bytes).await?;
    let taken = match &app.taker {
        Some(taker) => ask(|reply| taker(ingest, reply)).await??,
        None => ask(|reply| app.hub.ingest(ingest, reply)).await??,
    };
    Ok(Json(Accepted { accepted: true, repeat: taken.is_repeat, problems: taken.problems }))
}

/// Finds an event's session, with the store's help where a hub of before was told of its run.
async fn place(app: &App, event: Vec<u8>) -> Result<Ingest, ApiError> {
    let posted = app.hub.posted_ingest(event)?;
    let Some(run) = posted.unsettled else { return Ok(posted.ingest) };
    let sessions_of_agent = ask(|reply| app.hub.sessions_of_agent(run.clone(), reply)).await?;
    app.hub.resolve_posted(&run, &sessions_of_agent);
    Ok(app.hub.posted_ingest(posted.ingest.body)?.ingest)
}
