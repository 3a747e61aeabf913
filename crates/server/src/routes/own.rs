//! Routes about the server itself: health, metrics, OpenAPI document, drain.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{
    Json,
    extract::{Path, Query, State},
    http::header,
    response::IntoResponse,
};
use serde::Deserialize;
use subscope_model::{ContentLevel, Health, Jumped, OLDEST_PROTOCOL, PROTOCOL, Sending, SessionId, Setup};

use crate::{api_error::ApiError, ask::ask, body::ProtectedBody, state::App};

use super::{Announcement, QuestionServer as _};

/// Reports that the hub is up, with its version, mode and URL.
#[utoipa::path(
    get, path = "/healthz",
    responses(
        (status = 200, description = "The hub is up: status, seq, sessions, is_reading, `reading` (sessions read and in all) while it is true, version, protocol, oldest_protocol, pid, mode \
            (foreground, background, command), url; with `serve --otlp-to` also `forwarding`; with `[[remote]]` also `remotes`; `problems` of input that no session could be read from.", body = ref("#/components/schemas/Health")),
        (status = 503, description = "The hub does not answer."),
    )
)]
pub(super) async fn health(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    let figures = ask(|reply| app.hub.figures(reply)).await?;
    Ok(Json(Health {
        status: "ok".into(),
        seq: figures.seq,
        sessions: figures.sessions,
        is_reading: figures.reading.is_some(),
        reading: figures.reading,
        version: app.identity.version.into(),
        protocol: PROTOCOL,
        oldest_protocol: OLDEST_PROTOCOL,
        pid: std::process::id(),
        mode: app.identity.mode,
        url: app.url().into(),
        forwarding: app.forwarding.as_ref().map(|read| read()),
        remotes: app.remotes.as_ref().map(|read| read()).unwrap_or_default(),
        problems: figures.unowned_problems,
    }))
}

/// Returns the watched folders, whether hooks are installed, and the budgets.
#[utoipa::path(
    get, path = "/api/v1/setup",
    responses(
        (status = 200, description = "subscope.setup/1.", body = ref("#/components/schemas/Setup")),
        (status = 404, description = "The server has no configuration."),
    )
)]
pub(super) async fn setup(State(app): State<App>) -> Result<Json<Setup>, ApiError> {
    let read = app.setup.clone().ok_or(ApiError::not_found("configuration"))?;
    let setup = tokio::task::spawn_blocking(move || read()).await;
    setup.map(Json).map_err(|error| ApiError::unavailable(error.to_string()))
}

/// Goes to the terminal in which a session runs, on the server's machine. Nothing is typed there.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/jump",
    params(
        ("id" = String, Path, description = "The session's id."),
        ("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header."),
    ),
    responses(
        (status = 200, description = "subscope.jumped/1: what came of it, in `outcome` and in words.", body = ref("#/components/schemas/Jumped")),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 404, description = "No such session, or the server goes to no terminal."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn jump(
    State(app): State<App>,
    Path(session): Path<SessionId>,
    ProtectedBody(_body): ProtectedBody,
) -> Result<Json<Jumped>, ApiError> {
    let go = app.jumper.clone().ok_or(ApiError::not_found("terminal"))?;
    let session = app.find_tree(&(), session).await?.session;
    let jumped = tokio::task::spawn_blocking(move || go(&session)).await;
    jumped.map(Json).map_err(|error| ApiError::unavailable(error.to_string()))
}

/// Parameters of [`sending`].
#[derive(Deserialize)]
pub(super) struct SendingParameters {
    level: Option<ContentLevel>,
}

/// Returns what this machine sends to its team's server, with a session as it leaves.
#[utoipa::path(
    get, path = "/api/v1/sending",
    params(("level" = Option<String>, Query, description = "Level of the example: figures, titles or text; that of the settings otherwise.")),
    responses(
        (status = 200, description = "subscope.sending/1.", body = ref("#/components/schemas/Sending")),
        (status = 400, description = "No such level."),
        (status = 404, description = "The server has no configuration."),
        (status = 503, description = "The store cannot be read now."),
    )
)]
pub(super) async fn sending(
    State(app): State<App>,
    Query(parameters): Query<SendingParameters>,
) -> Result<Json<Sending>, ApiError> {
    let read = app.sending.clone().ok_or(ApiError::not_found("configuration"))?;
    let sending = tokio::task::spawn_blocking(move || read(parameters.level)).await;
    let sending = sending.map_err(|error| ApiError::unavailable(error.to_string()))?;
    sending.map(Json).map_err(ApiError::unavailable)
}

/// Drains the hub: it finishes open requests, accepts nothing more and exits.
#[utoipa::path(
    post, path = "/api/v1/drain",
    params(("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header.")),
    request_body(content_type = "application/json", description = "An empty object.", content = Object),
    responses(
        (status = 200, description = "The hub will exit.", body = ref("#/components/schemas/Announcement")),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn drain(State(app): State<App>, _: ProtectedBody) -> Json<Announcement> {
    // Connections shut down gracefully, so this response is still sent.
    app.drain.notify_one();
    Json(Announcement { status: "leaving" })
}

/// Returns metrics in the format of Prometheus.
#[utoipa::path(
    get, path = "/metrics",
    responses((status = 200, description = "Text of the Prometheus exposition format 0.0.4.", body = String))
)]
pub(super) async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, ApiError> {
    let hub = ask(|reply| app.hub.figures(reply)).await?;
    let [connections, refused, feeds] = app.connections.totals();
    let otlp = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let rows = [
        ("commits_total", "counter", "Commits.", hub.commits),
        ("commits_failed_total", "counter", "Commits that failed, retries included.", hub.failed_commits),
        ("ingests_total", "counter", "Ingests that were kept.", hub.ingests),
        ("ingest_bytes_total", "counter", "Bytes of them.", hub.ingest_bytes),
        ("ingest_repeats_total", "counter", "Ingests whose key was known.", hub.repeats),
        ("ingests_refused_total", "counter", "Ingests that could not be kept.", hub.refused),
        ("ingest_problems_total", "counter", "Problems in what was ingested.", hub.problems),
        (
            "otlp_requests_total",
            "counter",
            "Requests of OpenTelemetry that were taken.",
            otlp(&app.otlp.requests),
        ),
        ("otlp_records_total", "counter", "Records of them that were kept.", otlp(&app.otlp.records)),
        (
            "otlp_records_foreign_total",
            "counter",
            "Records of other programs or of no session, not kept.",
            otlp(&app.otlp.foreign),
        ),
        ("otlp_records_broken_total", "counter", "Records that could not be read.", otlp(&app.otlp.broken)),
        ("events_total", "counter", "Events.", hub.events),
        ("events_missed_total", "counter", "Events that readers were too slow for.", hub.missed),
        ("connections_total", "counter", "Connections that were let in.", connections),
        ("connections_refused_total", "counter", "Connections of other users that were refused.", refused),
        ("live_feeds_total", "counter", "Live feeds that were opened.", feeds),
        ("readers", "gauge", "Live feeds now.", hub.subscribers),
        ("sessions", "gauge", "Sessions.", hub.sessions),
        ("sessions_held", "gauge", "Sessions whose facts are in memory.", hub.held),
        ("subagents_running", "gauge", "Subagents at work.", hub.running),
    ];
    let forwarding = app.forwarding.as_ref().map(|read| read());
    let forwarded = forwarding.into_iter().flat_map(|it| {
        [
            ("forwarded_spans_total", "counter", "Spans that the receiver accepted.", it.spans),
            ("forwarded_spans_refused_total", "counter", "Spans that the receiver refused.", it.refused),
            ("forwarding_requests_waiting", "gauge", "Requests that wait for the receiver.", it.waiting),
            ("forwarding_bytes_waiting", "gauge", "Size of these requests.", it.waiting_bytes),
            (
                "forwarding_failing",
                "gauge",
                "1 if the last attempt to reach the receiver failed.",
                it.error.is_some().into(),
            ),
        ]
    });
    let mut text = String::new();
    for (name, kind, help, value) in rows.into_iter().chain(forwarded) {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# HELP subscope_{name} {help}\n# TYPE subscope_{name} {kind}\nsubscope_{name} {value}\n"
        );
    }
    text +=
        "# HELP subscope_answers_total Answers by class of status.\n# TYPE subscope_answers_total counter\n";
    for (class, count) in (1..).zip(app.connections.answers()) {
        let _ = writeln!(text, "subscope_answers_total{{status=\"{class}xx\"}} {count}");
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
