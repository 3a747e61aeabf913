//! `POST /team/v1/sessions`: takes the snapshots of a machine. Answers once ClickHouse has them.

use std::io::Read;

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use flate2::read::MultiGzDecoder;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Serialize;
use subscope_hub::clock;
use subscope_model::{SessionId, Snapshot};
use subscope_program::TokenRole;
use subscope_server::ApiError;
use tokio::time::timeout;

use crate::{
    auth::TokenCaller,
    gather::{GatherError, Room},
    read::TeamFilter,
    routes::TeamApp,
    rows::{Snapshots, day_name},
    tokens::Identity,
};

/// Most bytes of a request's body.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Most bytes of it decompressed: a body that expands without end is refused before it does.
const MAX_TEXT_BYTES: usize = 32 << 20;
/// Most sessions of a request.
const MAX_SESSIONS: usize = 500;
/// How far the rev of a snapshot, in microseconds since 1970, may be ahead of this server's clock. One that is further
/// ahead would outrank all that its machine sends until that day, its removal too.
const MAX_REV_AHEAD_US: u64 = 24 * 60 * 60 * 1_000_000;
/// Bytes that are decompressed at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Time for a body, and between two parts of it.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
const IDLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

/// A line that was not stored.
#[derive(Debug, Serialize, JsonSchema)]
struct RefusedLine {
    /// Its session, if it names one.
    id: Option<String>,
    /// Its line, from 1.
    line: usize,
    why: String,
}

/// Result of an ingest request.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StoredLines {
    /// Number of sessions that were stored.
    accepted: usize,
    refused: Vec<RefusedLine>,
}

/// Returns the latest rev that is accepted now.
pub(crate) fn latest_rev() -> u64 {
    let now_us = u64::try_from(clock::now_ms()).unwrap_or(0).saturating_mul(1_000);
    now_us.saturating_add(MAX_REV_AHEAD_US)
}

/// Stores snapshots of sessions. Tenant and user are those of the token.
#[utoipa::path(
    post, path = "/team/v1/sessions",
    request_body(content_type = "application/x-ndjson", description = "subscope.team/1, one session a line; at most 8 MiB \
        and 500 sessions, gzip or not.", content = ref("#/components/schemas/Snapshot")),
    responses(
        (status = 200, description = "accepted, and refused with id, line and why. ClickHouse has what was accepted.", body = ref("#/components/schemas/StoredLines")),
        (status = 400, description = "As 200: a line is no snapshot; the others were stored.", body = ref("#/components/schemas/StoredLines")),
        (status = 401, description = "No token, or an unknown one."),
        (status = 403, description = "The token is a reader's."),
        (status = 413, description = "Too many bytes or sessions."),
        (status = 429, description = "Too much waits: see Retry-After."),
        (status = 503, description = "ClickHouse does not answer: see Retry-After."),
    )
)]
pub(crate) async fn post(
    State(app): State<TeamApp>,
    caller: TokenCaller,
    request: Request,
) -> Result<Response, ApiError> {
    if !caller.identity.role.writes() {
        return Err(ApiError::forbidden("a reader's token sends no sessions"));
    }
    let (head, body) = request.into_parts();
    let is_gzip = check_headers(&head.headers)?;
    let mut room = app.gather.room();
    let body =
        timeout(BODY_TIMEOUT, read(&head.headers, body, &mut room)).await.map_err(|_| too_slow())??;
    let identity = caller.identity;
    // Decompressing and parsing take milliseconds a session.
    let by = identity.clone();
    let latest = latest_rev();
    let decoded = tokio::task::spawn_blocking(move || decode(&body, is_gzip, room, &by, latest)).await;
    let DecodedBody { mut rows, mut refused, removals, room } =
        decoded.map_err(|error| ApiError::unavailable(error.to_string()))??;
    if !removals.is_empty() {
        for line in remove(&app, &identity, removals).await? {
            rows.drop_session(&line.session);
            let why = "it is another user's session: an admin's token removes it".to_owned();
            refused.push(RefusedLine { id: Some(shown(&line.session)), line: line.number, why });
        }
    }
    let accepted = rows.sessions.len();
    if accepted > 0 {
        app.gather.store(rows, room).await.map_err(refusal)?;
    }
    let is_bad = refused.iter().any(|line| line.id.is_none());
    let status = if is_bad { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok((status, Json(StoredLines { accepted, refused })).into_response())
}

fn too_slow() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly")
}

fn too_large(what: &str) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, what)
}

fn refusal(error: GatherError) -> ApiError {
    let status = match error {
        GatherError::Full => StatusCode::TOO_MANY_REQUESTS,
        GatherError::Refused | GatherError::Ended => StatusCode::SERVICE_UNAVAILABLE,
    };
    ApiError::new(status, error.to_string())
}

/// Returns whether the body is compressed.
fn check_headers(headers: &HeaderMap) -> Result<bool, ApiError> {
    let of_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let of_type = of_type.split(';').next().unwrap_or_default().trim();
    if !of_type.eq_ignore_ascii_case("application/x-ndjson") {
        let why = "the content type must be application/x-ndjson";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => {
            let why = "the content encoding must be gzip, or none";
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
    }
}

/// Reads a body. Its bytes count as waiting from the first one on.
async fn read(headers: &HeaderMap, body: Body, room: &mut Room) -> Result<Vec<u8>, ApiError> {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(too_large("more than 8 MiB"));
    }
    let mut bytes = Vec::new();
    let mut frames = body.into_data_stream();
    while let Some(frame) = timeout(IDLE_TIMEOUT, frames.next()).await.map_err(|_| too_slow())? {
        let frame = frame.map_err(|_| ApiError::bad_request("the body broke off"))?;
        if bytes.len() + frame.len() > MAX_BODY_BYTES {
            return Err(too_large("more than 8 MiB"));
        }
        room.grow(bytes.len() + frame.len()).map_err(refusal)?;
        bytes.extend_from_slice(&frame);
    }
    Ok(bytes)
}

/// Rows of a body, and its lines that give none.
struct DecodedBody {
    rows: Snapshots,
    refused: Vec<RefusedLine>,
    removals: Vec<Removal>,
    room: Room,
}

/// A line that removes a session.
struct Removal {
    number: usize,
    session: SessionId,
    rev: u64,
    day: String,
    /// Number of passages that it removes by name.
    texts: u64,
}

/// Deletes the rows that removals name but their tombstones would not replace. Returns the removals that are refused:
/// of sessions of other users, unless an admin sends them.
async fn remove(app: &TeamApp, by: &Identity, removals: Vec<Removal>) -> Result<Vec<Removal>, ApiError> {
    let sessions: Vec<SessionId> = removals.iter().map(|removal| removal.session.clone()).collect();
    let stored = app.read(by, TeamFilter::default(), move |reader| reader.stored(&sessions)).await?;
    let is_others = |removal: &Removal| {
        let rows = stored.get(&removal.session).map(Vec::as_slice).unwrap_or_default();
        by.role != TokenRole::Admin && rows.iter().any(|row| row.user != by.user)
    };
    let (refused, removals): (Vec<_>, Vec<_>) = removals.into_iter().partition(is_others);
    let outlives = |removal: &&Removal| {
        let rows = stored.get(&removal.session).map(Vec::as_slice).unwrap_or_default();
        rows.iter().any(|row| {
            row.rev >= removal.rev || day_name(row.day) != removal.day || row.texts > removal.texts
        })
    };
    let outliving: Vec<SessionId> =
        removals.iter().filter(outlives).map(|removal| removal.session.clone()).collect();
    if !outliving.is_empty() {
        app.read(by, TeamFilter::default(), move |reader| reader.delete_rows(&outliving)).await?;
    }
    Ok(refused)
}

fn decode(
    body: &[u8],
    is_gzip: bool,
    mut room: Room,
    by: &Identity,
    latest: u64,
) -> Result<DecodedBody, ApiError> {
    let text = if is_gzip { decompress(body, &mut room)? } else { body.to_vec() };
    let (mut rows, mut refused, mut removals) = (Snapshots::default(), Vec::new(), Vec::new());
    let lines = (1..).zip(text.split(|byte| *byte == b'\n'));
    let lines = lines.filter(|(_, line)| line.iter().any(|byte| !byte.is_ascii_whitespace()));
    for (count, (line, json)) in lines.enumerate() {
        if count == MAX_SESSIONS {
            return Err(too_large("more than 500 sessions"));
        }
        match serde_json::from_slice::<Snapshot>(json) {
            Ok(snapshot) => {
                let id = snapshot.row.id.clone();
                let removal = snapshot.deleted.then(|| Removal {
                    number: line,
                    session: id.clone(),
                    rev: snapshot.rev,
                    day: snapshot.day.to_string(),
                    texts: snapshot.texts.len() as u64,
                });
                match rows.add(snapshot, by, latest) {
                    Ok(()) => removals.extend(removal),
                    Err(why) => {
                        refused.push(RefusedLine { id: Some(shown(&id)), line, why: why.to_owned() });
                    }
                }
            }
            // The parser's message may repeat what was sent.
            Err(error) => refused.push(RefusedLine {
                id: None,
                line,
                why: format!("it is no snapshot: {:?} at column {}", error.classify(), error.column()),
            }),
        }
    }
    Ok(DecodedBody { rows, refused, removals, room })
}

fn shown(id: &SessionId) -> String {
    id.chars().take(100).collect()
}

fn decompress(body: &[u8], room: &mut Room) -> Result<Vec<u8>, ApiError> {
    let mut decoder = MultiGzDecoder::new(body);
    let mut text = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = decoder
            .read(&mut chunk)
            .map_err(|_| ApiError::bad_request("the body is not what gzip writes"))?;
        if count == 0 {
            return Ok(text);
        }
        if text.len() + count > MAX_TEXT_BYTES {
            return Err(too_large("more than 32 MiB when decompressed"));
        }
        room.grow(body.len() + text.len() + count).map_err(refusal)?;
        text.extend_from_slice(chunk.get(..count).unwrap_or_default());
    }
}
