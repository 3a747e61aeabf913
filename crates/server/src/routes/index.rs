//! `POST /api/v1/index`: folders to index.

use std::path::PathBuf;

use axum::{Extension, Json, extract::State, http::StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Announcement;
use crate::{
    api_error::ApiError,
    body::ProtectedBody,
    peer::Transport,
    state::{App, IndexRequest},
};

/// Folders to index.
#[derive(Deserialize, JsonSchema)]
pub(super) struct IndexBody {
    roots: Vec<PathBuf>,
}

/// Makes the hub index folders with transcripts; `is_reading` of `/healthz` is true until it has finished.
///
/// Only over the Unix socket: other holders of the token must not choose what the hub reads on this machine.
#[utoipa::path(
    post, path = "/api/v1/index",
    params(("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header.")),
    request_body(content_type = "application/json", description = "roots: absolute paths of folders.", content = ref("#/components/schemas/IndexBody")),
    responses(
        (status = 202, description = "The hub will read them.", body = ref("#/components/schemas/Announcement")),
        (status = 400, description = "The body is not a list of absolute paths."),
        (status = 403, description = "Without X-Subscope: 1, or not over the Unix socket."),
        (status = 404, description = "This hub has no index."),
        (status = 415, description = "Not application/json."),
        (status = 503, description = "Too many requests are waiting."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    ProtectedBody((body, _share)): ProtectedBody,
) -> Result<(StatusCode, Json<Announcement>), ApiError> {
    if !matches!(transport, Transport::Socket) {
        return Err(ApiError::forbidden("folders are named over the Unix socket only"));
    }
    let wrong = || ApiError::bad_request("the body must be {\"roots\": [absolute paths]}");
    let IndexBody { roots } = serde_json::from_slice(&body).map_err(|_| wrong())?;
    if !roots.iter().all(|root| root.is_absolute()) {
        return Err(wrong());
    }
    let index = app.indexer.as_ref().ok_or(ApiError::not_found("index"))?;
    index(IndexRequest::Folders(roots))?;
    Ok((StatusCode::ACCEPTED, Json(Announcement { status: "reading" })))
}
