//! Routes of one session that only a hub has: spending, event log, complete event feed, and exports.

use std::io::{self, BufWriter, Write};

use axum::{
    Json,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subscope_export::{
    ExportPage, ExportSource, Format, Mask, NeededEvents, NeededFacts, Shape, write_export,
};
use subscope_model::{
    Actor, AgentId, Event, EventKind, EventRecord, SessionId, SessionText, Spending, ToolUseId, Tree,
};
use subscope_render::timeline::timeline;
use tokio::sync::mpsc;

use crate::{
    api_error::ApiError,
    ask::ask,
    routes::questions::QuestionServer as _,
    session_reader::{HistoryRequest, SessionHistory, read_session},
    state::App,
};

/// Default and maximum number of events per page.
const PAGE_EVENTS: usize = 1_000;
const MAX_PAGE_EVENTS: usize = 50_000;

/// Default and maximum number of events per page of the log.
const PAGE_LOGGED_EVENTS: usize = 1_000;
const MAX_PAGE_LOGGED_EVENTS: usize = 10_000;

/// Maximum length of texts in brief events.
const MAX_BRIEF_CHARACTERS: usize = 400;

#[derive(Deserialize)]
pub(super) struct EventsQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

/// A page of events.
#[derive(Serialize, JsonSchema)]
pub(super) struct EventPage {
    schema: &'static str,
    events: Vec<Event>,
    /// Place of the last event, to ask for the page after it; null if there are no more for now.
    next: Option<u64>,
}

/// Returns a session's events after a number in the event log.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/events",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("after" = Option<u64>, Query, description = "A `seq`. Default: the beginning of the log."),
        ("limit" = Option<usize>, Query, description = "The most entries of a page: 1000 by default, 10000 at most."),
    ),
    responses(
        (status = 200, description = "subscope.events/1; `next` is null if there are no more for now.", body = ref("#/components/schemas/EventPage")),
        (status = 404, description = "No such session."),
        (status = 410, description = "The log no longer has this place."),
    )
)]
pub(super) async fn events(
    State(app): State<App>,
    Path(session): Path<SessionId>,
    Query(query): Query<EventsQuery>,
) -> Result<Json<EventPage>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE_LOGGED_EVENTS).clamp(1, MAX_PAGE_LOGGED_EVENTS);
    let after = query.after.unwrap_or(0);
    app.find_tree(&(), session.clone()).await?;
    let events = ask(|reply| app.hub.events_after(after, Some(session), limit + 1, reply)).await?;
    let gone = || ApiError::new(StatusCode::GONE, "the log does not reach back there: begin with the tree");
    let mut events = events.ok_or_else(gone)?;
    let has_more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().filter(|_| has_more).map(|event| event.seq);
    Ok(Json(EventPage { schema: "subscope.events/1", events, next }))
}

/// Returns what the agents of a session spent over time, read from its sources.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/spending",
    params(("id" = String, Path, description = "The session's id.")),
    responses(
        (status = 200, description = "subscope.spending/1: tokens and cost of each agent by span of time.", body = ref("#/components/schemas/Spending")),
        (status = 404, description = "No such session, or only its rows are kept: its transcript was deleted."),
        (status = 503, description = "Its sources cannot be read now."),
    )
)]
pub(super) async fn spending(
    State(app): State<App>,
    Path(session): Path<SessionId>,
) -> Result<Json<Spending>, ApiError> {
    let request = HistoryRequest { has_detail: true, ..HistoryRequest::default() };
    let SessionHistory { tree, detail, .. } = read_session(&app, session, request).await?;
    Ok(Json(Spending::of(&tree, &detail.ok_or_else(|| texts_are_gone(&tree))?.responses)))
}

#[derive(Deserialize)]
pub(super) struct FeedQuery {
    agent: Option<AgentId>,
    call: Option<ToolUseId>,
    kind: Option<EventKind>,
    before: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    brief: bool,
}

/// A page of a session's complete feed.
#[derive(Serialize, JsonSchema)]
pub(super) struct FeedPage {
    schema: &'static str,
    /// In order of time.
    events: Vec<Event>,
    /// Place of the first event, to ask for the page before it; null if nothing comes before.
    before: Option<u64>,
}

/// Returns all events of a session, read from its sources; unlike the event log it is complete.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/feed",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("agent" = Option<String>, Query, description = "Only what this agent did."),
        ("call" = Option<String>, Query, description = "Only the events of the tool call with this id, such as its begin and its end."),
        ("kind" = Option<String>, Query, description = "Only events of this kind, such as `permission.request`."),
        ("before" = Option<u64>, Query, description = "The `before` of a page: returns the events before it."),
        ("limit" = Option<usize>, Query, description = "The most events of a page: 1000 by default, 50000 at most."),
        ("brief" = Option<bool>, Query, description = "Cut long texts."),
    ),
    responses(
        (status = 200, description = "subscope.feed/1: events in order of time; `seq` is a place in this feed and in no other; \
            `before` is null where nothing comes before.", body = ref("#/components/schemas/FeedPage")),
        (status = 404, description = "No such session, or only its rows are kept: its transcript was deleted."),
        (status = 503, description = "Its sources cannot be read now."),
    )
)]
pub(super) async fn feed(
    State(app): State<App>,
    Path(session): Path<SessionId>,
    Query(query): Query<FeedQuery>,
) -> Result<Json<FeedPage>, ApiError> {
    let request = HistoryRequest { has_events: true, ..HistoryRequest::default() };
    let SessionHistory { mut events, resolve, .. } =
        with_events(read_session(&app, session, request).await?)?;
    // Blocking: it parses data of events, and reads files.
    let read = move || {
        let actor = query.agent.map(Actor);
        events.retain(|event| {
            query.before.is_none_or(|before| event.seq < before)
                && actor.as_ref().is_none_or(|actor| event.actor_id == *actor)
                && query.kind.is_none_or(|kind| event.kind == kind)
                && query.call.as_ref().is_none_or(|call| is_of_call(event, call))
        });
        let limit = query.limit.unwrap_or(PAGE_EVENTS).clamp(1, MAX_PAGE_EVENTS);
        let last = events.split_off(events.len().saturating_sub(limit));
        let before = last.first().filter(|_| !events.is_empty()).map(|event| event.seq);
        let mut events: Vec<Event> = last.iter().map(|event| event.read(&resolve)).collect();
        if query.brief {
            events.iter_mut().for_each(|event| truncate_texts(&mut event.data));
        }
        FeedPage { schema: "subscope.feed/1", events, before }
    };
    let page = tokio::task::spawn_blocking(read).await;
    page.map(Json).map_err(|_| ApiError::unavailable("its texts cannot be read"))
}

/// Whether an event is one of a tool call.
fn is_of_call(event: &EventRecord, call: &ToolUseId) -> bool {
    event.data.known().get("tool_use_id").and_then(Value::as_str) == Some(call.as_str())
}

/// Returns the history unless it has no events: then its sources are gone, and only its rows are left.
fn with_events(history: SessionHistory) -> Result<SessionHistory, ApiError> {
    if history.events.is_empty() { Err(texts_are_gone(&history.tree)) } else { Ok(history) }
}

fn texts_are_gone(tree: &Tree) -> ApiError {
    if let Some(machine) = &tree.session.machine {
        let there = format!("the session is on {machine}: its rows are here, its texts are there");
        return ApiError::new(StatusCode::NOT_FOUND, there);
    }
    let gone = "the session's transcript is gone or cannot be read, and is not in the archive: its rows are kept, its texts are not there";
    ApiError::new(StatusCode::NOT_FOUND, gone)
}

/// Truncates all texts of an event's data. The recursion is as deep as the JSON parser allows.
fn truncate_texts(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(MAX_BRIEF_CHARACTERS) {
                text.truncate(at);
                text.push('…');
            }
        }
        Value::Array(all) => all.iter_mut().for_each(truncate_texts),
        Value::Object(all) => all.values_mut().for_each(truncate_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[derive(Deserialize)]
pub(super) struct ExportQuery {
    #[serde(rename = "as")]
    format: Format,
    redact: Option<bool>,
}

/// Exports a session as a file, as `subscope export` writes it.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/export",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("as" = String, Query, description = "`trace`; `execution`; `checkpoint`, its checkpoint.json, which `subscope import` reads; `feed`, its events; \
            `html`, a page in one file; `csv`, its agents; `perfetto`, a timeline for the Perfetto UI; `otlp`, OpenTelemetry spans \
             without prompts and answers, a request in JSON per line; `atif`, a trajectory document."),
        ("redact" = Option<bool>, Query, description = "Mask what looks like a secret. Default: true for `html`, else false."),
    ),
    responses(
        (status = 200, description = "The file.", body = String, content_type = "application/octet-stream"),
        (status = 400, description = "No such format."),
        (status = 404, description = "No such session."),
        (status = 503, description = "Its sources cannot be read now."),
    )
)]
pub(super) async fn export(
    State(app): State<App>,
    Path(session): Path<SessionId>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    // A page is made to be shared.
    let is_masked = query.redact.unwrap_or(query.format == Format::Html);
    let mask = if is_masked { Mask::Secrets } else { Mask::Nothing };
    let needs = query.format.needs();
    let request = HistoryRequest {
        at: None,
        has_events: needs.events != NeededEvents::Nothing,
        has_detail: needs.facts != NeededFacts::Rows,
    };
    let mut history = read_session(&app, session.clone(), request).await?;
    if query.format == Format::Feed {
        history = with_events(history)?;
    }
    if query.format == Format::Otlp && history.detail.is_none() {
        return Err(texts_are_gone(&history.tree));
    }
    if query.format == Format::Html && subscope_page::saved().is_none() {
        return Err(ApiError::unavailable("this program was built without its page"));
    }
    let (extension, media_type) = (query.format.extension(), query.format.media_type());
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    // Only characters that are safe in file names.
    let name: String = session.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let disposition = format!("attachment; filename=\"subscope-{name}.{extension}\"");
    headers.extend(HeaderValue::from_str(&disposition).ok().map(|it| (header::CONTENT_DISPOSITION, it)));
    let body = streamed(move |out| write_history(query.format, mask, history, out));
    Ok((StatusCode::OK, headers, body).into_response())
}

/// Bytes of a chunk of a body, and most chunks that wait for the client.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS: usize = 4;

/// Returns a body that is written while it is sent, on a thread of its own: a session may be larger than memory. If
/// writing fails, the connection is closed before the body's end.
fn streamed(write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, ChunkWriter(sender.clone()));
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            // Without effect if the client has disconnected.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let next = |mut receiver: mpsc::Receiver<io::Result<Vec<u8>>>| async {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    };
    Body::from_stream(futures_util::stream::unfold(receiver, next))
}

/// Sends what is written, each write as a chunk.
struct ChunkWriter(mpsc::Sender<io::Result<Vec<u8>>>);

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.blocking_send(Ok(bytes.to_vec())).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_history(format: Format, mask: Mask, history: SessionHistory, out: &mut dyn Write) -> io::Result<()> {
    let SessionHistory { tree, events, detail, resolve, provider } = history;
    let parts = if format == Format::Html { subscope_page::saved() } else { None };
    let parts = parts.as_ref().map(|(before, behind)| (before.as_str(), behind.as_str()));
    let texts: Vec<SessionText> = match format.needs().events {
        NeededEvents::Texts => events.iter().filter_map(SessionText::of_record).collect(),
        NeededEvents::Nothing | NeededEvents::Waits | NeededEvents::All => Vec::new(),
    };
    let harness = tree.session.harness.as_deref();
    let source = ExportSource {
        tree: &tree,
        detail: detail.as_ref(),
        events: &events,
        texts: &texts,
        resolve: &resolve,
        provider: &|model| provider(harness, model),
        shape: Shape::Event,
        page: parts.map(|parts| ExportPage { parts, timeline: timeline(&tree, None) }),
    };
    write_export(format, &source, mask, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_texts_are_truncated_between_characters() {
        let long = "ü".repeat(MAX_BRIEF_CHARACTERS + 5);
        let mut value = serde_json::json!({ "a": [{ "b": long }], "c": "short", "d": 7 });
        truncate_texts(&mut value);
        assert_eq!(value["a"][0]["b"].as_str().unwrap().chars().count(), MAX_BRIEF_CHARACTERS + 1);
        assert_eq!((&value["c"], &value["d"]), (&"short".into(), &7.into()));
    }
}
