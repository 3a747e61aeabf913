//! `POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OpenTelemetry over HTTP (OTLP/HTTP), in JSON and protobuf.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use subscope_hub::{Encoding, OtlpError, Signal, otlp_answer};

use crate::{api_error::ApiError, ask::ask, otlp_body::OtlpBody, state::App};

/// Counters of records since the server started.
#[derive(Debug, Default)]
pub(crate) struct OtlpCount {
    /// Requests that were accepted.
    pub(crate) requests: AtomicU64,
    /// Records that were stored.
    pub(crate) records: AtomicU64,
    /// Records of other programs or of no session, which were ignored.
    pub(crate) foreign: AtomicU64,
    /// Records that could not be read.
    pub(crate) broken: AtomicU64,
}

/// Ingests spans of agent programs.
#[utoipa::path(
    post, path = "/v1/traces",
    request_body(content_type = "application/x-protobuf", description = "ExportTraceServiceRequest, also as \
        application/json; identity or gzip.", content = Vec<u8>),
    responses(
        (status = 200, description = "Stored; records of other programs are ignored. An empty message in the request's encoding, \
            with partial_success where records cannot be read.", body = Vec<u8>),
        (status = 400, description = "The body is not such a request."),
        (status = 413, description = "More than 64 MiB, decompressed."),
        (status = 415, description = "Another content type or encoding."),
        (status = 429, description = "Too much input is waiting: send it again after the time in Retry-After."),
        (status = 503, description = "Not stored: send it again."),
    )
)]
pub(super) async fn traces(request: OtlpRequest) -> Result<Response, ApiError> {
    request.ingest(Signal::Traces).await
}

/// Ingests log events of agent programs.
#[utoipa::path(
    post, path = "/v1/logs",
    request_body(content_type = "application/x-protobuf", description = "ExportLogsServiceRequest; see /v1/traces.",
        content = Vec<u8>),
    responses((status = 200, description = "As for /v1/traces, with the same errors.", body = Vec<u8>))
)]
pub(super) async fn logs(request: OtlpRequest) -> Result<Response, ApiError> {
    request.ingest(Signal::Logs).await
}

/// Ingests metrics of agent programs: totals of sessions.
#[utoipa::path(
    post, path = "/v1/metrics",
    request_body(content_type = "application/x-protobuf", description = "ExportMetricsServiceRequest; see /v1/traces.",
        content = Vec<u8>),
    responses((status = 200, description = "As for /v1/traces, with the same errors.", body = Vec<u8>))
)]
pub(super) async fn metrics(request: OtlpRequest) -> Result<Response, ApiError> {
    request.ingest(Signal::Metrics).await
}

/// A request of any signal, whose body is not read yet.
pub(super) struct OtlpRequest {
    app: App,
    headers: HeaderMap,
    body: Body,
}

impl FromRequest<App> for OtlpRequest {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        let (head, body) = request.into_parts();
        Ok(Self { app: app.clone(), headers: head.headers, body })
    }
}

impl OtlpRequest {
    /// Ingests its records; returns after they are stored.
    async fn ingest(self, signal: Signal) -> Result<Response, ApiError> {
        let Self { app, headers, body } = self;
        // A sender of OpenTelemetry comes again after 429, not after a time-out.
        let body = OtlpBody::read(&app, &headers, body).await.map_err(ApiError::or_too_many_requests)?;
        let content_type = match body.encoding {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/x-protobuf",
        };
        let answer = ingest(&app, signal, body).await?;
        Ok(([(header::CONTENT_TYPE, content_type)], answer).into_response())
    }
}

/// Ingests the records of a body. Returns the answer, in the encoding of the body, after they are stored.
///
/// # Errors
///
/// 400 if it is not such a request, 429 if there is no room now, 503 if the store failed.
pub(super) async fn ingest(app: &App, signal: Signal, body: OtlpBody) -> Result<Vec<u8>, ApiError> {
    let OtlpBody { encoding, bytes, permit } = body;
    // Reading takes up to a second for the largest body.
    let hub = app.hub.clone();
    let divider = hub.clone();
    let dividing = tokio::task::spawn_blocking(move || divider.otlp_ingests(signal, encoding, &bytes));
    let divided = dividing.await.map_err(|error| ApiError::unavailable(error.to_string()))?;
    let divided = divided.map_err(|error| match error {
        OtlpError::Malformed(why) => ApiError::bad_request(why),
        OtlpError::Store(error) => ApiError::unavailable(error.to_string()),
    })?;
    for ingest in divided.ingests {
        ask(|reply| app.ingest(ingest, reply)).await.map_err(ApiError::or_too_many_requests)??;
    }
    if !divided.released.is_empty() {
        let releasing = tokio::task::spawn_blocking(move || hub.release_spans(&divided.released));
        if let Ok(Err(error)) = releasing.await {
            tracing::warn!(%error, "spans that waited are kept twice, and count once");
        }
    }
    drop(permit);
    let count = &app.otlp;
    count.requests.fetch_add(1, Ordering::Relaxed);
    count.records.fetch_add(divided.records, Ordering::Relaxed);
    count.foreign.fetch_add(divided.foreign, Ordering::Relaxed);
    count.broken.fetch_add(divided.broken.len() as u64, Ordering::Relaxed);
    Ok(otlp_answer(signal, encoding, &divided.broken))
}
