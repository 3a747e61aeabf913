//! Authentication: every request except those for health and the page's files needs a token, or a cookie issued for
//! one.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subscope_server::ApiError;

use crate::{
    routes::TeamApp,
    tokens::{Identity, Shown, TokenFile},
};

/// Name of the cookie.
pub(crate) const COOKIE: &str = "subscope-team";

/// Middleware: counts answers, and sets the security headers of all of them. Requests from pages of other sites are
/// refused, even with a valid token.
pub(crate) async fn guard(State(app): State<TeamApp>, request: Request, next: Next) -> Response {
    let is_foreign = request
        .headers()
        .get_all("sec-fetch-site")
        .iter()
        .any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"));
    let mut response = if is_foreign {
        ApiError::forbidden("another site is behind this request").into_response()
    } else {
        next.run(request).await
    };
    app.count_answer(response.status());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Extractor: the owner of the token or cookie of a request.
pub(crate) struct Caller {
    pub(crate) identity: Identity,
}

/// Extractor: as [`Caller`], for requests that change something. Only a token in the header counts, which no browser
/// sends by itself.
pub(crate) struct TokenCaller {
    pub(crate) identity: Identity,
    pub(crate) token: String,
}

impl FromRequestParts<TeamApp> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &TeamApp) -> Result<Self, ApiError> {
        if parts.headers.contains_key(header::AUTHORIZATION) {
            let caller = TokenCaller::from_request_parts(parts, app).await?;
            return Ok(Self { identity: caller.identity });
        }
        let value = cookie(&parts.headers).ok_or_else(unauthorized)?.to_owned();
        let identity = check_tokens(app, move |tokens| tokens.of_cookie(&value)).await?;
        identity.map(|identity| Self { identity }).ok_or_else(unauthorized)
    }
}

impl FromRequestParts<TeamApp> for TokenCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &TeamApp) -> Result<Self, ApiError> {
        let token = bearer(&parts.headers).ok_or_else(unauthorized)?.to_owned();
        let (shown, from) = (token.clone(), address(parts));
        match check_tokens(app, move |tokens| tokens.show(&shown, from)).await? {
            Shown::Known(identity) => Ok(Self { identity, token }),
            Shown::Unknown => Err(unauthorized()),
            Shown::TooMany => Err(ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too many wrong tokens came from this address",
            )),
        }
    }
}

/// Checks something with the token file, which may be read for it, on a thread that may block.
pub(crate) async fn check_tokens<T: Send + 'static>(
    app: &TeamApp,
    check: impl FnOnce(&TokenFile) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let app = app.clone();
    let checked = tokio::task::spawn_blocking(move || check(&app.tokens)).await;
    checked.map_err(|_| ApiError::unavailable("tokens cannot be checked"))
}

/// The message is the same for all causes.
fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "a valid token is needed, in the header Authorization: Bearer TOKEN",
    )
}

fn address(parts: &Parts) -> IpAddr {
    let connected = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    connected.map_or(IpAddr::from([0, 0, 0, 0]), |connected| connected.0.ip())
}

/// Returns the one bearer token of the headers.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lists = headers.get_all(header::COOKIE).iter().filter_map(|list| list.to_str().ok());
    let mut cookies = lists.flat_map(|list| list.split(';')).filter_map(|one| one.trim().split_once('='));
    cookies.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Requires a header that a page of another site cannot send without a CORS preflight.
pub(crate) fn require_csrf_header(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get("x-subscope").is_some_and(|value| value == "1") {
        return Ok(());
    }
    Err(ApiError::forbidden("the header X-Subscope: 1 is needed"))
}
