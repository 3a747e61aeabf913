//! OpenTelemetry over gRPC (OTLP/gRPC): the same ingest as over HTTP, as three unary calls.
//!
//! A call is a `POST` with one length-prefixed message; its status follows in trailers (gRPC over HTTP/2, "PROTOCOL-HTTP2").

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
    routing::post,
};
use http_body_util::{BodyExt, Full};
use subscope_hub::Signal;

use super::otlp::ingest;
use crate::{
    api_error::{ApiError, GRPC, GRPC_STATUS},
    otlp_body::{GRPC_PREFIX_BYTES, OtlpBody},
    state::App,
};

/// Returns the routes of the three services.
pub(super) fn routes() -> Router<App> {
    let service = |signal: Signal| {
        post(async move |State(app): State<App>, request: Request| {
            let (head, body) = request.into_parts();
            match call(&app, signal, &head.headers, body).await {
                Ok(answer) => answered(&answer),
                Err(error) => error.answer(&head.headers),
            }
        })
    };
    Router::new()
        .route("/opentelemetry.proto.collector.trace.v1.TraceService/Export", service(Signal::Traces))
        .route("/opentelemetry.proto.collector.logs.v1.LogsService/Export", service(Signal::Logs))
        .route("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", service(Signal::Metrics))
}

async fn call(app: &App, signal: Signal, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let body = OtlpBody::read_grpc(app, headers, body).await?;
    ingest(app, signal, body).await
}

/// Returns a message with the status OK.
fn answered(message: &[u8]) -> Response {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(GRPC_PREFIX_BYTES + message.len());
    frame.push(0);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(message);
    let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(Bytes::from(frame)).with_trailers(std::future::ready(Some(Ok(trailers))));
    ([(header::CONTENT_TYPE, GRPC)], Body::new(body)).into_response()
}
