//! `POST /api/v1/ingest/{dialect}`: lines of one dialect.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{
    Json,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_hub::{IngestReceipt, LineBatch, clock, delivered_dialect, line_ingests};
use subscope_model::{AgentId, Problem, SessionId};

use super::hooks::received_ms;
use crate::{
    api_error::ApiError,
    ask::ask,
    body::{self, BodyType, INGEST_BYTES},
    state::App,
};

/// Maximum number of problems in a response.
const MAX_PROBLEMS: usize = 100;
/// Maximum length of a source name and a delivery key.
const MAX_NAME_BYTES: usize = 512;

#[derive(Deserialize)]
pub(super) struct IngestQuery {
    source: Option<String>,
}

/// Result of an ingest request.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct IngestReport {
    schema: &'static str,
    /// Whether the delivery is a duplicate of an earlier one; it was not stored again.
    repeat: bool,
    lines: u64,
    sessions: Vec<SessionId>,
    #[serde(skip)]
    seen: HashSet<SessionId>,
    /// Problems with the content; the first hundred.
    problems: Vec<Problem>,
    problem_count: u64,
    /// Agents that a user asked to stop, of published events; absent if none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop: Vec<AgentId>,
}

impl IngestReport {
    fn add(&mut self, part: IngestReceipt) {
        self.repeat &= part.is_repeat;
        self.lines += part.lines;
        let fresh = part.sessions.into_iter().filter(|session| self.seen.insert(session.clone()));
        self.sessions.extend(fresh);
        self.problems.extend(part.problems);
        self.problems.truncate(MAX_PROBLEMS);
        self.problem_count += part.problem_count;
        // Each part has the pending orders of its own moment.
        self.stop = part.to_stop;
    }
}

/// Ingests lines of one dialect, in order within their source.
///
/// Long bodies are stored in parts; the response covers all of them. After no response, or 503, send the whole body
/// again with the same delivery key: no part is stored twice.
#[utoipa::path(
    post, path = "/api/v1/ingest/{dialect}",
    params(
        ("dialect" = String, Path, description = "claude.transcript, claude.stream, claude.hook, subagent-events, feed or executions."),
        ("source" = Option<String>, Query, description = "The name of the stream that the lines belong to. Default: `default`."),
        ("X-Subscope-Delivery" = Option<String>, Header, description = "A delivery key: input with the same key counts once."),
        ("X-Subscope-Received-Ms" = Option<i64>, Header, description = "When the lines arrived, in milliseconds since 1970. Default: now."),
    ),
    request_body(content_type = "application/x-ndjson", description = "Whole lines.", content = String),
    responses(
        (status = 200, description = "Stored. The answer has counts and problems.", body = ref("#/components/schemas/IngestReport")),
        (status = 404, description = "No such dialect."),
        (status = 413, description = "More than 256 MiB."),
        (status = 415, description = "The content type is neither application/x-ndjson nor application/json."),
        (status = 503, description = "Not stored: send it again."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    Path(dialect): Path<String>,
    Query(query): Query<IngestQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<IngestReport>, ApiError> {
    let dialect = delivered_dialect(&dialect).ok_or(ApiError::not_found("dialect"))?;
    let source = query.source.unwrap_or_else(|| "default".to_owned());
    if source.len() > MAX_NAME_BYTES {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "the source's name is too long"));
    }
    let (body, _share) = body::read(&app, &headers, body, BodyType::Lines, INGEST_BYTES).await?;
    let key = delivery_key(&headers);
    let mut report = IngestReport { schema: "subscope.ingest/1", repeat: true, ..IngestReport::default() };
    let of = LineBatch { dialect, source: &source, key: &key, received_ms: received_ms(&headers) };
    for ingest in line_ingests(of, &body) {
        report.add(ask(|reply| app.hub.ingest(ingest, reply)).await??);
    }
    Ok(Json(report))
}

/// Returns the delivery key named by the sender, else a unique one: two equal payloads can be two events, and repeats
/// of events with ids are recognized by these.
pub(super) fn delivery_key(headers: &HeaderMap) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let named = headers.get("x-subscope-delivery").and_then(|value| value.to_str().ok());
    match named.filter(|named| !named.is_empty() && named.len() <= MAX_NAME_BYTES) {
        Some(named) => subscope_hub::delivery_key(named),
        None => {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            format!("own/{}/{}/{number}", clock::now_ms(), std::process::id())
        }
    }
}
