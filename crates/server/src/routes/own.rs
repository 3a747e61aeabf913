//! Whether the server is well, its own figures, and the description of its routes.

use std::fmt::Write as _;

use axum::{Extension, Json, extract::State, http::header, response::IntoResponse};
use serde_json::{Value, json};

use super::Described;
use crate::{ask::ask, refusal::Refusal, state::App};

/// Says that the hub answers.
#[utoipa::path(
    get, path = "/healthz",
    responses((status = 200, description = "It answers.", body = Object), (status = 503, description = "It does not."))
)]
pub(super) async fn health(State(app): State<App>) -> Result<Json<Value>, Refusal> {
    let figures = ask(|reply| app.hub.figures(reply)).await?;
    Ok(Json(json!({ "status": "ok", "seq": figures.seq, "sessions": figures.sessions })))
}

/// Gives its own figures, as Prometheus reads them.
#[utoipa::path(
    get, path = "/metrics",
    responses((status = 200, description = "Text of the Prometheus exposition format 0.0.4.", body = String))
)]
pub(super) async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, Refusal> {
    let hub = ask(|reply| app.hub.figures(reply)).await?;
    let [connections, strangers, feeds] = app.counters.totals();
    let rows = [
        ("commits_total", "counter", "Commits.", hub.commits),
        ("commits_failed_total", "counter", "Commits that failed, retries included.", hub.failed_commits),
        ("ingests_total", "counter", "Ingests that were kept.", hub.ingests),
        ("ingest_bytes_total", "counter", "Bytes of them.", hub.ingest_bytes),
        ("ingest_repeats_total", "counter", "Ingests whose key was known.", hub.repeats),
        ("ingests_refused_total", "counter", "Ingests that could not be kept.", hub.refused),
        ("ingest_problems_total", "counter", "Problems in what was ingested.", hub.problems),
        ("events_total", "counter", "Events.", hub.events),
        ("events_missed_total", "counter", "Events that readers were too slow for.", hub.missed),
        ("connections_total", "counter", "Connections that were let in.", connections),
        ("connections_refused_total", "counter", "Connections of strangers.", strangers),
        ("live_feeds_total", "counter", "Live feeds that were opened.", feeds),
        ("readers", "gauge", "Live feeds now.", hub.subscribers),
        ("sessions", "gauge", "Sessions.", hub.sessions),
        ("subagents_running", "gauge", "Subagents at work.", hub.running),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        // Writing into a String has no way to fail.
        let _ = write!(
            text,
            "# HELP subscope_{name} {help}\n# TYPE subscope_{name} {kind}\nsubscope_{name} {value}\n"
        );
    }
    text +=
        "# HELP subscope_answers_total Answers by class of status.\n# TYPE subscope_answers_total counter\n";
    for (class, count) in app.counters.answers() {
        let _ = writeln!(text, "subscope_answers_total{{status=\"{class}\"}} {count}");
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

/// Describes the routes.
#[utoipa::path(
    get, path = "/openapi.json",
    responses((status = 200, description = "This document (OpenAPI 3.1).", body = Object))
)]
pub(super) async fn description(Extension(described): Extension<Described>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], described.0.to_string())
}
