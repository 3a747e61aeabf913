//! `GET /` and what belongs to it: the page, embedded. Addresses of views are the page's own affair: each is answered with
//! the same document.

use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use subscope_page::{PageFile, file};

use crate::{api_error::ApiError, state::App};

/// What the page may do: run its own script, wear its own style, ask this server. It may not be shown within another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Files whose names change with their bytes are never asked for again.
const FOREVER: &str = "private, max-age=31536000, immutable";
/// The others are asked for each time, and not sent again if they are the same.
const EACH_TIME: &str = "private, no-cache";

/// Returns the routes of the page. They are no part of the API's description.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(document))
        .route("/search", get(document))
        .route("/s/{*view}", get(document))
        .route("/assets/{name}", get(asset))
}

/// Whether a path is one of the page's, which holds nothing that anybody wrote.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/" || path == "/search" || path.starts_with("/s/") || path.starts_with("/assets/")
}

async fn document(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&format!("assets/{name}"), &headers)
}

fn answer(path: &str, asked: &HeaderMap) -> Response {
    let Some(found) = file(path) else { return ApiError::unknown("route").into_response() };
    let tag = format!("\"{}\"", found.digest);
    let is_known =
        asked.get_all(header::IF_NONE_MATCH).iter().any(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { found.bytes.clone().into_response() };
    let headers = response.headers_mut();
    for (name, value) in said(&found) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Hexadecimal digits in quotes are a header's value.
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

fn said(found: &PageFile) -> [(HeaderName, &'static str); 4] {
    [
        (header::CONTENT_TYPE, found.media_type),
        (header::CACHE_CONTROL, if found.is_immutable { FOREVER } else { EACH_TIME }),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ]
}
