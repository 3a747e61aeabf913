//! `POST /hooks/{harness}`: a hook payload, sent by the harness or by `subscope hook`.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::de::IgnoredAny;
use subscope_hub::{Asks, Ingest, clock, hook_dialect, hook_ingest};
use subscope_model::Millis;

use super::{ingest::delivery_key, permissions};
use crate::{
    api_error::ApiError,
    ask::ask,
    body::{HOOK_BYTES, JsonBody, join_lines},
    state::App,
};

/// How far a time of receipt may be in the future.
const MAX_AHEAD_MS: Millis = 60_000;

/// Ingests one payload of a hook. The response is empty unless a user asked the agent to stop, or can answer its permission
/// request.
#[utoipa::path(
    post, path = "/hooks/{harness}",
    params(
        ("harness" = String, Path, description = "claude, codex, copilot, gemini, opencode or qwen."),
        ("X-Subscope-Delivery" = Option<String>, Header, description = "A delivery key: input with the same key counts once."),
        ("X-Subscope-Waits" = Option<String>, Header, description = "`1`: the hook can wait for the answer to a permission request."),
        ("X-Subscope-Received-Ms" = Option<i64>, Header, description = "When the payload arrived, in milliseconds since 1970. Default: now."),
    ),
    request_body(content_type = "application/json", description = "The payload.", content = Object),
    responses(
        (status = 200, description = "Stored. The answer is empty, or the JSON with which the harness stops the subagent; for a hook that can wait also `held_permission`, the id of a request that is held for an answer.", body = Object),
        (status = 400, description = "Not JSON."),
        (status = 404, description = "No harness with hooks has this name."),
        (status = 413, description = "More than 16 MiB."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not stored: send it again."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    JsonBody((mut body, _share)): JsonBody<HOOK_BYTES>,
) -> Result<Response, ApiError> {
    let dialect = hook_dialect(uri.path()).ok_or(ApiError::not_found("harness with hooks"))?;
    serde_json::from_slice::<IgnoredAny>(&body).map_err(|error| {
        ApiError::bad_request(format!("not JSON (line {}, column {})", error.line(), error.column()))
    })?;
    join_lines(&mut body);
    let is_attended = permissions::is_attended(&app, &headers);
    let asked = is_attended.then(|| dialect.asked_permission(&body)).flatten();
    let ingest = Ingest {
        key: delivery_key(&headers),
        received_ms: received_ms(&headers),
        begins: None,
        asks: Asks::WhetherToContinue,
        ..hook_ingest(dialect, "", None, body)
    };
    let taken = ask(|reply| app.hub.ingest(ingest, reply)).await??;
    // A payload that changes nothing and is understood repeats one that another hook has delivered.
    let is_repeated = taken.sessions.is_empty() && taken.problem_count == 0;
    Ok(match taken.answer {
        Some(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        None => asked
            .and_then(|asked| permissions::hold(&app, asked, is_repeated))
            .unwrap_or_else(|| StatusCode::OK.into_response()),
    })
}

/// Returns the time of receipt named by the sender, if plausible.
pub(super) fn received_ms(headers: &HeaderMap) -> Option<Millis> {
    let named: Millis = headers.get("x-subscope-received-ms")?.to_str().ok()?.parse().ok()?;
    (1..=clock::now_ms() + MAX_AHEAD_MS).contains(&named).then_some(named)
}
