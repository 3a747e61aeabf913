//! `POST /hooks/claude`: a payload of a hook, as the harness or `subscope hook` hands it over.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::de::IgnoredAny;
use subscope_hub::{Asks, Ingest, clock, hook_ingest};
use subscope_model::Millis;

use super::ingest::delivery;
use crate::{
    api_error::ApiError,
    ask::ask,
    body::{self, HOOK_BYTES, Kind},
    state::App,
};

/// How far a time of receipt may lie ahead of our clock.
const AHEAD_MS: Millis = 60_000;

/// Takes one hook payload. The answer is empty, but where a person has ordered that the agent stop.
#[utoipa::path(
    post, path = "/hooks/claude",
    params(
        ("X-Subscope-Delivery" = Option<String>, Header, description = "What comes again with the same one is taken once."),
        ("X-Subscope-Received-Ms" = Option<i64>, Header, description = "When the harness handed it over, if not just now."),
    ),
    request_body(content_type = "application/json", description = "The payload.", content = Object),
    responses(
        (status = 200, description = "Kept; empty, or the harness's JSON that makes a subagent stop.", body = Object),
        (status = 400, description = "Not JSON."),
        (status = 413, description = "More than 16 MiB."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not kept: hand it over again."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let held = body::read(&app, &headers, body, Kind::Json, HOOK_BYTES).await?;
    let (mut body, _share) = held.split();
    serde_json::from_slice::<IgnoredAny>(&body).map_err(|error| {
        ApiError::bad(format!("not JSON (line {}, column {})", error.line(), error.column()))
    })?;
    body::one_line(&mut body);
    let ingest = Ingest {
        key: delivery(&headers),
        received_ms: received(&headers),
        begins: None,
        asks: Asks::WhetherToGoOn,
        ..hook_ingest("", None, body)
    };
    let taken = ask(|reply| app.hub.ingest(ingest, reply)).await??;
    Ok(match taken.answer {
        Some(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        None => StatusCode::OK.into_response(),
    })
}

/// Returns the time of receipt that the sender names, where it can be one.
pub(super) fn received(headers: &HeaderMap) -> Option<Millis> {
    let named: Millis = headers.get("x-subscope-received-ms")?.to_str().ok()?.parse().ok()?;
    (1..=clock::now_ms() + AHEAD_MS).contains(&named).then_some(named)
}
