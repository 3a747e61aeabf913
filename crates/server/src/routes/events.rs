//! `POST /subagent-events`: one event that a program posts about its own subagents (requirement 4.1).

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use subscope_decode::Dialect;
use subscope_hub::{Asks, Ingest};
use subscope_model::event_id;

use crate::{
    ask::ask,
    body::{self, EVENT_BYTES, Kind},
    refusal::Refusal,
    state::App,
};

/// What of an event decides where it goes. Everything else is the decoder's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default)]
    subagent_name: Value,
    #[serde(default, alias = "subagentRunID")]
    subagent_run_id: Value,
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(rename = "type", default)]
    kind: Value,
    #[serde(default, alias = "toolCallID")]
    tool_call_id: Value,
    #[serde(default)]
    parent_run_id: Value,
    #[serde(default)]
    session_id: Value,
    #[serde(default)]
    event_id: Value,
}

/// The answer to an event that was kept.
#[derive(Serialize)]
pub(super) struct Accepted {
    accepted: bool,
    /// Whether it was known before.
    repeat: bool,
    /// What of it was not understood.
    problems: Vec<subscope_model::Problem>,
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Takes one event of a program about a subagent of its own.
#[utoipa::path(
    post, path = "/subagent-events",
    request_body(content_type = "application/json", description = "One event: subagentName, subagentRunId, timestamp, type; \
        optional toolName, toolCallId, payload, executionTimeoutSeconds, reasoningType, tokenUsage, parentRunId, sessionId, \
        isError, eventId.", content = Object),
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
) -> Result<Json<Accepted>, Refusal> {
    let held = body::read(&app, &headers, body, Kind::Json, EVENT_BYTES).await?;
    let (mut bytes, _share) = held.split();
    body::one_line(&mut bytes);
    let ingest = place(&app, bytes)?;
    let taken = match &app.taker {
        Some(taker) => ask(|reply| taker(ingest, reply)).await??,
        None => ask(|reply| app.hub.ingest(ingest, reply)).await??,
    };
    Ok(Json(Accepted { accepted: true, repeat: taken.is_repeat, problems: taken.problems }))
}

/// Finds an event's session and key.
fn place(app: &App, body: Vec<u8>) -> Result<Ingest, Refusal> {
    let not_json =
        |error: serde_json::Error| Refusal::bad(format!("not a JSON object (column {})", error.column()));
    let event: Envelope<'_> = serde_json::from_slice(&body).map_err(not_json)?;
    let Envelope { timestamp, .. } = event;
    event.subagent_name.as_str().ok_or(Refusal::missing("subagentName"))?;
    let run = text(&event.subagent_run_id).ok_or(Refusal::missing("subagentRunId"))?;
    let stamp = timestamp
        .map(RawValue::get)
        .filter(|raw| raw.starts_with(['"', '-']) || raw.starts_with(|first: char| first.is_ascii_digit()));
    let stamp = stamp.filter(|raw| *raw != "\"\"").ok_or(Refusal::missing("timestamp"))?;
    let kind = text(&event.kind).ok_or(Refusal::missing("type"))?;
    let session = match text(&event.session_id) {
        Some(session) => session.to_owned(),
        None => format!("events:{}", app.chains.root(run, text(&event.parent_run_id))),
    };
    // Design, "Keys": its own id, else the call's, else what it says.
    let key = match (text(&event.event_id), text(&event.tool_call_id)) {
        (Some(id), _) => format!("id/{id}"),
        (None, Some(call)) => format!("call/{run}/{call}/{kind}"),
        (None, None) => format!("hash/{run}/{stamp}/{}", event_id(&session, &String::from_utf8_lossy(&body))),
    };
    Ok(Ingest {
        source: format!("posted/{session}"),
        session: Some(session),
        asks: Asks::Nothing,
        dialect: Some(Dialect::SubagentEvents),
        key,
        received_ms: None,
        body,
    })
}
