//! `GET /` and the other files of the embedded web page. All view URLs return the same document; the page itself routes
//! them.

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use subscope_page::{PageFile, file, team_document};

use crate::{api_error::ApiError, public_names::PublicNames, state::App};

/// Content security policy: own scripts and styles, requests to this server; then who may embed it.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors";

/// Path of the demo: it leads to a recorded session that is part of the program.
const DEMO: &str = "/demo";

/// Cache-Control of files named by their content.
const CACHE_FOREVER: &str = "private, max-age=31536000, immutable";
/// Cache-Control of the other files: revalidated by `ETag`.
const CACHE_REVALIDATE: &str = "private, no-cache";

/// Paths of the views, but for those of a session.
const VIEWS: [&str; 8] =
    ["/", "/search", "/stats", "/compare", "/iterations", "/sending", "/people", "/cost"];

/// Returns the routes of the page's files, and of the demo. They are not in the OpenAPI document.
pub(super) fn routes(app: &App) -> Router<App> {
    file_routes(|| file("index.html"), content_policy(&app.public)).route(DEMO, get(demo))
}

/// Returns the routes of the page's files for a team's server.
pub fn team_routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    file_routes(team_document, content_policy(&PublicNames::default()))
}

fn file_routes<S: Clone + Send + Sync + 'static>(
    document: fn() -> Option<PageFile>,
    policy: HeaderValue,
) -> Router<S> {
    let of_asset = policy.clone();
    let view =
        async move |uri: Uri, headers: HeaderMap| answer(document_at(&uri, document), &policy, &headers);
    let asset = async move |Path(name): Path<String>, headers: HeaderMap| {
        answer(file(&format!("assets/{name}")), &of_asset, &headers)
    };
    let views = VIEWS.into_iter().fold(Router::new(), |router, path| router.route(path, get(view.clone())));
    views.route("/s/{*view}", get(view)).route("/assets/{name}", get(asset))
}

/// Returns the document for an address: it names its files from there, so that a proxy may put a path before all of them.
fn document_at(uri: &Uri, document: fn() -> Option<PageFile>) -> Option<PageFile> {
    let folders = uri.path().matches('/').count().saturating_sub(1);
    document().map(|document| document.below(folders))
}

fn content_policy(public: &PublicNames) -> HeaderValue {
    let policy = format!("{CONTENT_POLICY} {}", public.frame_ancestors());
    // Checked names are visible ASCII.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Whether a path belongs to the page, whose files contain no data.
pub(crate) fn is_page_path(path: &str) -> bool {
    VIEWS.contains(&path) || path == DEMO || path.starts_with("/s/") || path.starts_with("/assets/")
}

/// Answers a request without a route: a browser gets the page, which shows an error, other clients an error response.
pub(super) async fn not_found(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    missing(&method, &headers, &content_policy(&app.public), document_at(&uri, || file("index.html")))
}

/// As [`not_found`], of a team's server.
pub async fn team_not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    missing(&method, &headers, &content_policy(&PublicNames::default()), document_at(&uri, team_document))
}

fn missing(
    method: &Method,
    headers: &HeaderMap,
    policy: &HeaderValue,
    document: Option<PageFile>,
) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_document = *method == Method::GET && accepted.flat_map(|value| value.split(',')).any(is_html);
    if !is_document {
        return ApiError::not_found("route").into_response();
    }
    let mut response = answer(document, policy, &HeaderMap::new());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn is_html(media_type: &str) -> bool {
    media_type.split(';').next().is_some_and(|name| name.trim() == "text/html")
}

/// Redirects to the demo's session, which the page plays.
async fn demo(State(app): State<App>) -> Response {
    let Some(demo) = &app.demo else { return ApiError::not_found("demo").into_response() };
    Redirect::temporary(&format!("s/{}?play=1", demo.session)).into_response()
}

fn answer(found: Option<PageFile>, policy: &HeaderValue, request_headers: &HeaderMap) -> Response {
    let Some(found) = found else { return ApiError::not_found("route").into_response() };
    let tag = format!("\"{}\"", found.digest);
    let is_known =
        request_headers.get_all(header::IF_NONE_MATCH).iter().any(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { found.bytes.into_response() };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, found.media_type),
        (header::CACHE_CONTROL, if found.is_immutable { CACHE_FOREVER } else { CACHE_REVALIDATE }),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    // Quoted hexadecimal digits are a valid header value.
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    response
}
