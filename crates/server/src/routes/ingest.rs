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
use serde::{Deserialize, Serialize};
use subscope_hub::{LinesOf, Taken, clock, handed_over_dialect, line_ingests};
use subscope_model::{Problem, SessionId};

use super::hooks::received;
use crate::{
    api_error::ApiError,
    ask::ask,
    body::{self, INGEST_BYTES, Kind},
    state::App,
};

/// How many problems are told one by one.
const PROBLEMS: usize = 100;
/// The longest name of a source and key of a delivery that is taken.
const NAME_BYTES: usize = 512;

#[derive(Deserialize)]
pub(super) struct Named {
    source: Option<String>,
}

/// What became of the lines.
#[derive(Serialize)]
pub(super) struct Told {
    schema: &'static str,
    /// Whether this delivery was known: then nothing of it was taken again.
    repeat: bool,
    lines: u64,
    sessions: Vec<SessionId>,
    #[serde(skip)]
    known: HashSet<SessionId>,
    /// The first hundred.
    problems: Vec<Problem>,
    problem_count: u64,
}

impl Told {
    fn add(&mut self, part: Taken) {
        self.repeat &= part.is_repeat;
        self.lines += part.lines;
        let fresh = part.sessions.into_iter().filter(|session| self.known.insert(session.clone()));
        self.sessions.extend(fresh);
        self.problems.extend(part.problems);
        self.problems.truncate(PROBLEMS);
        self.problem_count += part.problem_count;
    }
}

/// Takes lines of one dialect, in order within their source.
///
/// Long bodies are kept part by part, the answer tells of all of them. Whoever gets none, or 503, hands the whole over again:
/// with the same delivery no part is taken twice.
#[utoipa::path(
    post, path = "/api/v1/ingest/{dialect}",
    params(
        ("dialect" = String, Path, description = "claude.transcript, claude.stream, claude.hook, subagent-events or feed."),
        ("source" = Option<String>, Query, description = "Names the stream that the lines belong to; `default` otherwise."),
        ("X-Subscope-Delivery" = Option<String>, Header, description = "What comes again with the same one is taken once."),
        ("X-Subscope-Received-Ms" = Option<i64>, Header, description = "When they came, if not just now."),
    ),
    request_body(content_type = "application/x-ndjson", description = "Whole lines.", content = String),
    responses(
        (status = 200, description = "Kept, with counts and problems.", body = Object),
        (status = 404, description = "No such dialect."),
        (status = 413, description = "More than 256 MiB."),
        (status = 415, description = "Neither application/x-ndjson nor application/json."),
        (status = 503, description = "Not kept: hand it over again."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    Path(dialect): Path<String>,
    Query(named): Query<Named>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Told>, ApiError> {
    let dialect = handed_over_dialect(&dialect).ok_or(ApiError::unknown("dialect"))?;
    let source = named.source.unwrap_or_else(|| "default".to_owned());
    if source.len() > NAME_BYTES {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "the source's name is too long"));
    }
    let held = body::read(&app, &headers, body, Kind::Lines, INGEST_BYTES).await?;
    let (body, _share) = held.split();
    let key = delivery(&headers);
    let mut told = Told {
        schema: "subscope.ingest/1",
        repeat: true,
        lines: 0,
        sessions: Vec::new(),
        known: HashSet::new(),
        problems: Vec::new(),
        problem_count: 0,
    };
    let of = LinesOf { dialect, source: &source, key: &key, received_ms: received(&headers) };
    for ingest in line_ingests(of, &body) {
        told.add(ask(|reply| app.hub.ingest(ingest, reply)).await??);
    }
    Ok(Json(told))
}

/// Returns the id of a delivery. Without one every delivery is a new one: two equal payloads can be two events, and what
/// has ids of its own is known by these.
pub(super) fn delivery(headers: &HeaderMap) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let named = headers.get("x-subscope-delivery").and_then(|value| value.to_str().ok());
    match named.filter(|named| !named.is_empty() && named.len() <= NAME_BYTES) {
        Some(named) => subscope_hub::delivery_key(named),
        None => {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            format!("own/{}/{}/{number}", clock::now_ms(), std::process::id())
        }
    }
}
