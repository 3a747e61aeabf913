//! `POST /subagent-events`: one event of a program about its own subagents (requirement 4.1).

use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use subscope_hub::{ConnectionId, Ingest};
use subscope_model::AgentId;

use crate::{
    api_error::ApiError,
    ask::ask,
    body::{EVENT_BYTES, JsonBody, join_lines},
    state::App,
};

/// Response to a stored event.
#[derive(Serialize, JsonSchema)]
pub(super) struct AcceptedEvent {
    /// Always true.
    accepted: bool,
    /// Whether it was stored before.
    repeat: bool,
    /// Problems in the event.
    problems: Vec<subscope_model::Problem>,
    /// Whether a user asked that the run stop; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stop: bool,
}

/// Ingests one event of a program about its own subagent.
#[utoipa::path(
    post, path = "/subagent-events",
    request_body(content_type = "application/json", description = "One event: subagentName, subagentRunId, timestamp, type; \
        optional toolName, toolCallId, payload, executionTimeoutSeconds, reasoningType, tokenUsage, parentRunId, depth, \
        sessionId, cwd, status (stopped), result, parentToolCallId, isError, eventId.", content = ref("#/components/schemas/PublishedEvent")),
    responses(
        (status = 200, description = "Stored. An event of an unknown type is stored as a problem. `stop` is true if a user asked that the run \
            stop: end it, and say so with a subagent_end of the status `stopped`.", body = ref("#/components/schemas/AcceptedEvent")),
        (status = 400, description = "Not JSON, or a required field is missing or not valid: `field` names it."),
        (status = 413, description = "More than 4 MiB."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not stored: send it again."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    Extension(connection): Extension<ConnectionId>,
    JsonBody((mut bytes, _share)): JsonBody<EVENT_BYTES>,
) -> Result<Json<AcceptedEvent>, ApiError> {
    join_lines(&mut bytes);
    let (ingest, run) = resolve_session(&app, bytes, connection).await?;
    let taken = ask(|reply| app.ingest(ingest, reply)).await??;
    let stop = taken.to_stop.contains(&run);
    Ok(Json(AcceptedEvent { accepted: true, repeat: taken.is_repeat, problems: taken.problems, stop }))
}

/// Resolves an event's session; asks the store if its run was posted to an earlier hub process. Returns also its run.
async fn resolve_session(
    app: &App,
    event: Vec<u8>,
    connection: ConnectionId,
) -> Result<(Ingest, AgentId), ApiError> {
    let posted = app.hub.posted_ingest(event, Some(connection))?;
    let Some(root) = posted.unsettled else { return Ok((posted.ingest, posted.run)) };
    let sessions_of_agent = ask(|reply| app.hub.sessions_of_agent(root.clone(), reply)).await?;
    app.hub.resolve_posted(&root, &sessions_of_agent);
    Ok((app.hub.posted_ingest(posted.ingest.body, Some(connection))?.ingest, posted.run))
}
