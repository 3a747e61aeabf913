//! What is told of a session as a whole: against the wall clock, event by event, and in forms that leave this machine.

use std::io::Write;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subscope_export::{Mask, Redacted, Saved, Shape, trace, write_csv, write_feed, write_html, write_trace};
use subscope_hub::clock;
use subscope_model::{Actor, AgentId, CHECKPOINT_VERSION, Checkpoint, Event, Millis, SessionId, Tree};
use subscope_render::timeline::{Lane, Step, timeline};

use crate::{
    api_error::ApiError,
    ask::ask,
    session_reader::{SessionHistory, Wanted, read_session},
    state::App,
};

/// How many events a page has, and may be asked for.
const EVENTS: usize = 1_000;
const MOST_EVENTS: usize = 50_000;

/// How much of a text a brief event holds.
const BRIEF_CHARACTERS: usize = 400;

#[derive(Deserialize)]
pub(super) struct TimelineQuery {
    since: Option<u64>,
}

/// A session against the wall clock.
#[derive(Serialize)]
pub(super) struct Lanes {
    schema: &'static str,
    /// The highest rev of the rows that this is made of.
    rev: Option<u64>,
    start_ms: Millis,
    end_ms: Millis,
    lanes: Vec<Lane>,
    critical_path: Vec<Step>,
}

/// Returns a session against the wall clock: a lane for each agent, with what it did and waited for, and the critical path.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/timeline",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("since" = Option<u64>, Query, description = "The `rev` of a timeline of before: only lanes that may have changed since."),
    ),
    responses(
        (status = 200, description = "subscope.timeline/1: rev, start_ms, end_ms, lanes, critical_path.", body = Object),
        (status = 404, description = "No such session, or nothing in it has a time."),
    )
)]
pub(super) async fn lanes(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<TimelineQuery>,
) -> Result<Json<Lanes>, ApiError> {
    let tree = ask(|reply| app.hub.tree(SessionId::from(id.as_str()), reply)).await?;
    let tree = tree.ok_or(ApiError::unknown("session"))?;
    let drawn = timeline(&tree, Some(clock::now_ms())).ok_or(ApiError::unknown("time in that session"))?;
    let rev = tree.agents.iter().filter_map(|agent| agent.rev).max();
    let is_news = |row: &subscope_model::Agent| match (query.since, row.rev) {
        (Some(since), Some(rev)) => rev > since || row.status.is_live(),
        _ => true,
    };
    // One lane an agent, in the same order.
    let lanes = drawn.lanes.into_iter().zip(&tree.agents).filter(|(_, row)| is_news(row));
    Ok(Json(Lanes {
        schema: "subscope.timeline/1",
        rev,
        start_ms: drawn.start_ms,
        end_ms: drawn.end_ms,
        lanes: lanes.map(|(lane, _)| lane).collect(),
        critical_path: drawn.critical_path,
    }))
}

#[derive(Deserialize)]
pub(super) struct FeedQuery {
    agent: Option<String>,
    before: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    brief: bool,
}

/// A page of a session's whole feed.
#[derive(Serialize)]
pub(super) struct FeedPage {
    schema: &'static str,
    events: Vec<Event>,
    before: Option<u64>,
}

/// Returns everything that happened in a session, told anew from its sources: unlike the change log it knows of all of it.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/feed",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("agent" = Option<String>, Query, description = "Only what this agent did."),
        ("before" = Option<u64>, Query, description = "The `before` of a page: only what comes before it."),
        ("limit" = Option<usize>, Query, description = "The last so many; 1000 otherwise, 50000 at most."),
        ("brief" = Option<bool>, Query, description = "Long texts are cut."),
    ),
    responses(
        (status = 200, description = "subscope.feed/1: events in order of time; `seq` is a place in this feed and in no other; \
            `before` is null where nothing comes before.", body = Object),
        (status = 404, description = "No such session."),
        (status = 503, description = "Its sources cannot be read now."),
    )
)]
pub(super) async fn feed(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<FeedQuery>,
) -> Result<Json<FeedPage>, ApiError> {
    let SessionHistory { mut events, .. } =
        read_session(&app, SessionId::from(id.as_str()), Wanted::default()).await?;
    let actor = query.agent.map(|agent| Actor(AgentId::from(agent.as_str())));
    events.retain(|event| {
        query.before.is_none_or(|before| event.seq < before)
            && actor.as_ref().is_none_or(|actor| event.actor_id == *actor)
    });
    let limit = query.limit.unwrap_or(EVENTS).clamp(1, MOST_EVENTS);
    let mut last = events.split_off(events.len().saturating_sub(limit));
    let before = last.first().filter(|_| !events.is_empty()).map(|event| event.seq);
    if query.brief {
        last.iter_mut().for_each(|event| cut(&mut event.data));
    }
    Ok(Json(FeedPage { schema: "subscope.feed/1", events: last, before }))
}

/// Cuts the texts of an event's data. Arguments and results are as deep as JSON's reader lets them be.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(BRIEF_CHARACTERS) {
                text.truncate(at);
                text.push('…');
            }
        }
        Value::Array(all) => all.iter_mut().for_each(cut),
        Value::Object(all) => all.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[derive(Deserialize)]
pub(super) struct TreeQuery {
    at: Option<Millis>,
}

/// Returns a session's tree.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/tree",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("at" = Option<i64>, Query, description = "As it was at this moment, in milliseconds since 1970."),
    ),
    responses(
        (status = 200, description = "subscope.tree/1, as `subscope tree --json` prints it.", body = Object),
        (status = 404, description = "No such session, or nothing of it was there then."),
    )
)]
pub(super) async fn tree(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<TreeQuery>,
) -> Result<Json<Tree>, ApiError> {
    let session = SessionId::from(id.as_str());
    if query.at.is_some() {
        return Ok(Json(read_session(&app, session, Wanted { at: query.at, traces: false }).await?.tree));
    }
    let tree = ask(|reply| app.hub.tree(session, reply)).await?;
    tree.map(Json).ok_or(ApiError::unknown("session"))
}

/// A form that a session is saved in.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    Trace,
    Execution,
    Checkpoint,
    Feed,
    Html,
    Csv,
}

impl Form {
    /// The ending of the file's name, and its media type.
    fn file(self) -> (&'static str, &'static str) {
        match self {
            Self::Trace | Self::Execution | Self::Checkpoint => ("json", "application/json"),
            Self::Feed => ("jsonl", "application/x-ndjson"),
            Self::Html => ("html", "application/octet-stream"),
            Self::Csv => ("csv", "text/csv; charset=utf-8"),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ExportQuery {
    #[serde(rename = "as")]
    form: Form,
    redact: Option<bool>,
}

/// Returns a session in a form that is saved as a file, as `subscope export` writes it.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/export",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("as" = String, Query, description = "`trace`; `execution`; `checkpoint`, its checkpoint.json, which `subscope import` reads; `feed`, its events; \
            `html`, a page in one file; `csv`, its agents."),
        ("redact" = Option<bool>, Query, description = "Whether what looks like a secret is masked. Without it only `html` is masked."),
    ),
    responses(
        (status = 200, description = "The file.", body = String, content_type = "application/octet-stream"),
        (status = 400, description = "No such form."),
        (status = 404, description = "No such session."),
        (status = 503, description = "Its sources cannot be read now."),
    )
)]
pub(super) async fn export(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    let wanted = Wanted { at: None, traces: matches!(query.form, Form::Execution | Form::Checkpoint) };
    let retold = read_session(&app, SessionId::from(id.as_str()), wanted).await?;
    if matches!(query.form, Form::Feed) && retold.events.is_empty() {
        let gone = "the session's transcript was deleted and is not in the archive: its texts are gone, only its rows are kept";
        return Err(ApiError::new(StatusCode::NOT_FOUND, gone));
    }
    // A big session takes a while to write, in which others are to be answered.
    let is_masked = query.redact.unwrap_or(matches!(query.form, Form::Html));
    let mask = if is_masked { Mask::Secrets } else { Mask::Nothing };
    let written = tokio::task::spawn_blocking(move || write(query.form, mask, retold)).await;
    let Ok(Ok(written)) = written else { return Err(ApiError::busy("it cannot be written")) };
    let (ending, media_type) = query.form.file();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    // A file's name is made of what no system reads anything into.
    let name: String = id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let disposition = format!("attachment; filename=\"subscope-{name}.{ending}\"");
    headers.extend(HeaderValue::from_str(&disposition).ok().map(|it| (header::CONTENT_DISPOSITION, it)));
    Ok((StatusCode::OK, headers, written).into_response())
}

fn write(
    form: Form,
    mask: Mask,
    SessionHistory { tree, events, traces }: SessionHistory,
) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match form {
        Form::Trace => json(&mut out, mask, &mut |out| write_trace(&trace(&tree, &events), out))?,
        Form::Execution => json(&mut out, mask, &mut |out| Ok(serde_json::to_writer(out, &traces)?))?,
        Form::Checkpoint => {
            let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces: traces };
            json(&mut out, mask, &mut |out| Ok(serde_json::to_writer(out, &checkpoint)?))?;
        }
        Form::Feed => json(&mut out, mask, &mut |out| write_feed(&events, Shape::Event, out))?,
        Form::Csv => write_csv(&tree, mask, &mut out)?,
        Form::Html => {
            let page = subscope_page::saved().ok_or(std::io::ErrorKind::NotFound)?;
            let saved = Saved { tree: &tree, timeline: timeline(&tree, None), events: &events };
            write_html((&page.0, &page.1), &saved, mask, &mut out)?;
        }
    }
    Ok(out)
}

/// Writes JSON, with secrets masked where that is asked for.
fn json(
    out: &mut Vec<u8>,
    mask: Mask,
    work: &mut dyn FnMut(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    match mask {
        Mask::Nothing => work(out),
        Mask::Secrets => {
            let mut masked = Redacted::new(out);
            work(&mut masked)?;
            masked.finish().map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_wherever_they_stand() {
        let long = "ü".repeat(BRIEF_CHARACTERS + 5);
        let mut value = serde_json::json!({ "a": [{ "b": long }], "c": "short", "d": 7 });
        cut(&mut value);
        assert_eq!(value["a"][0]["b"].as_str().unwrap().chars().count(), BRIEF_CHARACTERS + 1);
        assert_eq!((&value["c"], &value["d"]), (&"short".into(), &7.into()));
    }
}
