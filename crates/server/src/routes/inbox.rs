//! What needs the user, what ended since the user looked, and what the user has seen.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use subscope_hub::clock;
use subscope_model::{Inbox, Looks, Millis, SessionId, Text};

use super::QuestionServer as _;
use crate::{api_error::ApiError, ask::ask, body::ProtectedBody, state::App};

/// Most facts of one dismissal: those of all agents that an entry lists, and one for the others.
const MAX_FACTS: usize = 200;

/// Body of a dismissal.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Dismissal {
    /// The `facts` of the entry, or `ended` and the time of the session's last event.
    facts: Vec<Text>,
}

/// Body of `POST /api/v1/seen`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Seen {
    /// Until when everything that ended was seen, in milliseconds since 1970.
    until_ms: Millis,
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Returns the sessions that need the user, and what ended since the user looked.
#[utoipa::path(
    get, path = "/api/v1/inbox",
    responses((status = 200, description = "subscope.inbox/1: `entries`, the most urgent first; counts; `ended`, the newest first.", body = ref("#/components/schemas/Inbox")))
)]
pub(super) async fn get(State(app): State<App>) -> Result<Json<Inbox>, ApiError> {
    let now = clock::now_ms();
    app.ask(&(), None, move |queries| queries.inbox(now)).await.map(Json)
}

/// Returns what the user has seen: dismissed facts by session, and until when everything that ended was seen.
#[utoipa::path(
    get, path = "/api/v1/looks",
    responses((status = 200, description = "`seen_until_ms` and `dismissed`.", body = ref("#/components/schemas/Looks")))
)]
pub(super) async fn looks(State(app): State<App>) -> Result<Json<Looks>, ApiError> {
    app.ask(&(), None, |queries| queries.looks()).await.map(Json)
}

/// Dismisses what a session needs, until there is a new fact.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/dismiss",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header."),
    ),
    request_body(content_type = "application/json", description = "The facts to dismiss.", content = ref("#/components/schemas/Dismissal")),
    responses(
        (status = 204, description = "Stored."),
        (status = 400, description = "The body has no list of facts, or too many."),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 404, description = "No such session."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not stored."),
    )
)]
pub(super) async fn dismiss(
    State(app): State<App>,
    Path(session): Path<SessionId>,
    ProtectedBody((body, _share)): ProtectedBody,
) -> Result<StatusCode, ApiError> {
    let Dismissal { facts } = parse(&body)?;
    if facts.len() > MAX_FACTS {
        return Err(ApiError::bad_request(format!("more than {MAX_FACTS} facts")));
    }
    // Only what is known can be dismissed: an id is kept for each session.
    app.find_tree(&(), session.clone()).await?;
    ask(|reply| app.hub.dismiss(session, facts, reply)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Marks everything that ended up to a time as seen.
#[utoipa::path(
    post, path = "/api/v1/seen",
    params(("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header.")),
    request_body(content_type = "application/json", description = "Until when.", content = ref("#/components/schemas/Seen")),
    responses(
        (status = 204, description = "Stored. A time before the stored one changes nothing, one in the future counts as now."),
        (status = 400, description = "The body has no time."),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Not stored."),
    )
)]
pub(super) async fn seen(
    State(app): State<App>,
    ProtectedBody((body, _share)): ProtectedBody,
) -> Result<StatusCode, ApiError> {
    let Seen { until_ms } = parse(&body)?;
    ask(|reply| app.hub.mark_seen(until_ms, reply)).await??;
    Ok(StatusCode::NO_CONTENT)
}
