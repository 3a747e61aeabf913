//! Error responses.

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Serialize;
use subscope_hub::{AskError, IngestError, PostedError};
use subscope_query::QueryError;

use crate::body::is_grpc;

/// Content type of gRPC.
pub(crate) const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Header or trailer with the status of a gRPC call.
pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Characters that a message of gRPC must not have as they are, besides those that are not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Error response: status and message. The message never repeats what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub(crate) status: StatusCode,
    message: String,
    /// Name of the invalid field of the body.
    field: Option<&'static str>,
    /// Whether there is no room for the request now.
    is_busy: bool,
}

/// Body of an [`ApiError`].
#[derive(Serialize, JsonSchema)]
pub struct ErrorBody {
    /// What failed, and what to do.
    error: String,
    /// Name of the invalid field of the request's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
}

impl ApiError {
    /// Returns an error response.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), field: None, is_busy: false }
    }

    /// Returns a response of status 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Returns a response of status 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// Returns a response of status 404.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("no such {what}"))
    }

    /// There is no room for the request now.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self { is_busy: true, ..Self::unavailable(message) }
    }

    /// The same with 429 for a request for which there is no room now.
    pub(crate) fn or_too_many_requests(self) -> Self {
        let status = if self.is_busy { StatusCode::TOO_MANY_REQUESTS } else { self.status };
        Self { status, ..self }
    }

    /// Returns the response to a request with these headers: a status of gRPC without a message for a gRPC client, as
    /// not every client reads the one of HTTP.
    pub(crate) fn answer(self, request: &HeaderMap) -> Response {
        if !is_grpc(request) {
            return self.into_response();
        }
        let message = utf8_percent_encode(&self.message, ESCAPED).to_string();
        let headers = [
            (header::CONTENT_TYPE, GRPC),
            (HeaderName::from_static("grpc-accept-encoding"), HeaderValue::from_static("gzip")),
            (GRPC_STATUS, HeaderValue::from(self.grpc_status())),
            (
                HeaderName::from_static("grpc-message"),
                HeaderValue::from_str(&message).unwrap_or(HeaderValue::from_static("")),
            ),
        ];
        headers.into_response()
    }

    /// Status code of gRPC, by which a sender of OpenTelemetry decides whether it sends again (OTLP specification,
    /// "OTLP/gRPC Response").
    fn grpc_status(&self) -> u16 {
        match self.status {
            // INVALID_ARGUMENT
            StatusCode::BAD_REQUEST => 3,
            // DEADLINE_EXCEEDED
            StatusCode::REQUEST_TIMEOUT => 4,
            // PERMISSION_DENIED
            StatusCode::FORBIDDEN => 7,
            // RESOURCE_EXHAUSTED
            StatusCode::PAYLOAD_TOO_LARGE => 8,
            // UNIMPLEMENTED
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNSUPPORTED_MEDIA_TYPE => 12,
            // UNAVAILABLE
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => 14,
            // UNAUTHENTICATED
            StatusCode::UNAUTHORIZED => 16,
            // UNKNOWN
            _ => 2,
        }
    }

    /// Returns a response of status 503, which asks to try again in a second.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Busy => Self::busy(error.to_string()),
            AskError::Ended => Self::unavailable(error.to_string()),
        }
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::NoFullText => Self::not_found("full text"),
            QueryError::SeveralSessions(_) => Self::new(StatusCode::CONFLICT, error.to_string()),
            QueryError::Unsupported(what) => Self::bad_request(what),
            QueryError::Failed(error) => Self::unavailable(error.to_string()),
        }
    }
}

impl From<PostedError> for ApiError {
    fn from(error: PostedError) -> Self {
        let field = match error {
            PostedError::Missing(field) => Some(field),
            PostedError::NotJson(_) | PostedError::Twice(_) => None,
        };
        Self { field, ..Self::bad_request(error.to_string()) }
    }
}

impl From<IngestError> for ApiError {
    fn from(error: IngestError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, message: error, field, .. } = self;
        let mut response = (status, Json(ErrorBody { error, field })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
