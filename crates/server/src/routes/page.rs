//! `GET /` and the other files of the embedded web page. All view URLs return the same document; the page itself routes
//! them.

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use subscope_page::file;

use crate::{api_error::ApiError, state::App};

/// Content security policy: own scripts and styles, requests to this server, no embedding in other pages.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path of the demo: it leads to a recorded session that is part of the program.
const DEMO: &str = "/demo";

/// Cache-Control of files named by their content.
const CACHE_FOREVER: &str = "private, max-age=31536000, immutable";
/// Cache-Control of the other files: revalidated by `ETag`.
const CACHE_REVALIDATE: &str = "private, no-cache";

/// Paths of the views, but for those of a session.
const VIEWS: [&str; 5] = ["/", "/search", "/stats", "/compare", "/iterations"];

/// Returns the routes of the page's files, which are not in the OpenAPI document.
pub fn file_routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let views = VIEWS.into_iter().fold(Router::new(), |router, path| router.route(path, get(document)));
    views.route("/s/{*view}", get(document)).route("/assets/{name}", get(asset))
}

/// Returns the routes of the page's files, and of the demo.
pub(super) fn routes() -> Router<App> {
    file_routes().route(DEMO, get(demo))
}

/// Whether a path belongs to the page, whose files contain no data.
pub(crate) fn is_page_path(path: &str) -> bool {
    VIEWS.contains(&path) || path == DEMO || path.starts_with("/s/") || path.starts_with("/assets/")
}

/// Answers a request without a route: a browser gets the page, which says so, other clients an error.
pub async fn not_found(method: Method, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_document = method == Method::GET && accepted.flat_map(|value| value.split(',')).any(is_html);
    if !is_document {
        return ApiError::not_found("route").into_response();
    }
    let mut response = document(HeaderMap::new()).await;
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn is_html(media_type: &str) -> bool {
    media_type.split(';').next().is_some_and(|name| name.trim() == "text/html")
}

async fn document(headers: HeaderMap) -> Response {
    serve_file("index.html", &headers)
}

/// Redirects to the demo's session, which the page plays.
async fn demo(State(app): State<App>) -> Response {
    let Some(demo) = &app.demo else { return ApiError::not_found("demo").into_response() };
    Redirect::temporary(&format!("/s/{}?play=1", demo.session)).into_response()
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    serve_file(&format!("assets/{name}"), &headers)
}

fn serve_file(path: &str, request_headers: &HeaderMap) -> Response {
    let Some(found) = file(path) else { return ApiError::not_found("route").into_response() };
    let tag = format!("\"{}\"", found.digest);
    let is_known =
        request_headers.get_all(header::IF_NONE_MATCH).iter().any(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { found.bytes.clone().into_response() };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, found.media_type),
        (header::CACHE_CONTROL, if found.is_immutable { CACHE_FOREVER } else { CACHE_REVALIDATE }),
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Quoted hexadecimal digits are a valid header value.
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    response
}
