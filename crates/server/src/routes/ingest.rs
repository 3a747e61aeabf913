//! `POST /api/v1/ingest/{dialect}`: lines of one dialect.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{
    Json,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use subscope_decode::Dialect;
use subscope_hub::{Asks, Ingest, Taken, clock};
use subscope_model::{Problem, SessionId};

use super::hooks::received;
use crate::{
    ask::ask,
    body::{self, INGEST_BYTES, Kind},
    refusal::Refusal,
    state::App,
};

/// Longer bodies are handed on in parts of about this size: others' deliveries are kept in between.
const PART_BYTES: usize = 2 << 20;
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
    /// The first hundred.
    problems: Vec<Problem>,
    problem_count: u64,
}

impl Told {
    fn add(&mut self, part: Taken) {
        self.repeat &= part.is_repeat;
        self.lines += part.lines;
        let known: Vec<_> = part.sessions.into_iter().filter(|id| !self.sessions.contains(id)).collect();
        self.sessions.extend(known);
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
) -> Result<Json<Told>, Refusal> {
    let dialect = takes(&dialect).ok_or(Refusal::unknown("dialect"))?;
    let source = named.source.unwrap_or_else(|| "default".to_owned());
    if source.len() > NAME_BYTES {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "the source's name is too long"));
    }
    let held = body::read(&app, &headers, body, Kind::Lines, INGEST_BYTES).await?;
    let (body, _share) = held.split();
    let key = delivery(&headers);
    let mut told = Told {
        schema: "subscope.ingest/1",
        repeat: true,
        lines: 0,
        sessions: Vec::new(),
        problems: Vec::new(),
        problem_count: 0,
    };
    for (number, part) in parts(&body).enumerate() {
        let ingest = Ingest {
            source: format!("ingest/{}/{source}", dialect.as_str()),
            session: None,
            dialect: Some(dialect),
            key: if number == 0 { key.clone() } else { format!("{key}/part/{number}") },
            received_ms: received(&headers),
            body: part.to_vec(),
            asks: Asks::Nothing,
        };
        told.add(ask(|reply| app.hub.ingest(ingest, reply)).await??);
    }
    Ok(Json(told))
}

/// Cuts a body behind line ends. There is one part at least, and the same body is always cut alike.
fn parts(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(body);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let behind = all.get(PART_BYTES..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', behind) else { return Some(all) };
        let (part, more) = all.split_at(PART_BYTES + end + 1);
        rest = Some(more).filter(|more| !more.is_empty());
        Some(part)
    })
}

/// The dialects that make sense without a path: the others say nothing of their session.
fn takes(word: &str) -> Option<Dialect> {
    Dialect::parse(word).filter(|dialect| match dialect {
        Dialect::ClaudeTranscript
        | Dialect::ClaudeStream
        | Dialect::ClaudeHook
        | Dialect::SubagentEvents
        | Dialect::Feed => true,
        // An order has a door of its own.
        Dialect::ClaudeMeta | Dialect::ClaudeJournal | Dialect::StopOrders => false,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_with_lines_and_lose_nothing() {
        let line = [b"x".repeat(1 << 19), b"\n".to_vec()].concat();
        for (body, count) in [
            (Vec::new(), 1),
            (line.repeat(4), 1),
            (line.repeat(5), 2),
            (line.repeat(9), 3),
            (b"x".repeat(5 * PART_BYTES), 1),
            ([b"x".repeat(5 * PART_BYTES), b"\nend".to_vec()].concat(), 2),
        ] {
            let cut: Vec<&[u8]> = parts(&body).collect();
            assert_eq!(cut.len(), count, "{} bytes", body.len());
            assert!(cut.iter().rev().skip(1).all(|part| part.ends_with(b"\n")));
            assert_eq!(cut.concat(), body);
        }
    }
}
