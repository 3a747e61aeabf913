//! Protection against requests of foreign web pages (CSRF, DNS rebinding), and the token check.
//!
//! * `Host` must name this listener: a page with a name rebound to 127.0.0.1 sends that name.
//! * `Origin`, if present, must be this listener's: browsers send the page's origin with posts and WebSockets.
//! * `Sec-Fetch-Site`, if present, must be `none` or `same-origin` (Fetch Metadata Request Headers, W3C); `same-site` is another port
//!   of this machine.
//!
//! [`crate::body`] additionally refuses content types that a form can send.

use std::net::SocketAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};

use crate::{api_error::ApiError, peer::Transport, routes, state::App, token::Token};

/// Middleware that refuses unauthorized requests and sets security headers on all responses.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let transport = request.extensions().get::<Transport>().copied();
    let checked = match transport {
        Some(transport) => {
            check_headers(transport, request.headers(), request.uri().authority().map(|it| it.as_str()))
                .and_then(|()| check_token(transport, app.token.as_ref(), &request))
        }
        None => Err(ApiError::forbidden("nobody knows where this comes from")),
    };
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(error) => error.answer(request.headers()),
    };
    app.connections.answered(response.status());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check_headers(transport: Transport, headers: &HeaderMap, authority: Option<&str>) -> Result<(), ApiError> {
    let Transport::Tcp(ours) = transport else { return Ok(()) };
    let mut hosts = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let host = match (hosts.next(), hosts.next(), authority) {
        (Some(host), None, _) => host,
        // HTTP/2 names the host in `:authority` (RFC 9113, section 8.3.1).
        (None, None, Some(authority)) => authority.as_bytes(),
        _ => return Err(ApiError::bad_request("one Host header is needed")),
    };
    // Outside the loopback the host's names are unknown: the token stops rebound names, since pages of other origins do
    // not have it.
    let is_remote = !ours.ip().is_loopback();
    let is_ours = |name: &[u8]| {
        if is_remote { name == host } else { str::from_utf8(name).is_ok_and(|name| is_own_host(name, ours)) }
    };
    if !is_ours(host) {
        return Err(ApiError::forbidden("the Host header names another place"));
    }
    if !is_remote && authority.is_some_and(|authority| !is_ours(authority.as_bytes())) {
        return Err(ApiError::forbidden("the address names another place"));
    }
    let is_own_origin =
        |origin: &HeaderValue| origin.as_bytes().strip_prefix(b"http://").is_some_and(is_ours);
    if !headers.get_all(header::ORIGIN).iter().all(is_own_origin) {
        return Err(ApiError::forbidden("the Origin header names another place"));
    }
    let is_own_site = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if !headers.get_all("sec-fetch-site").iter().all(is_own_site) {
        return Err(ApiError::forbidden("another site is behind this request"));
    }
    Ok(())
}

/// Refuses requests without the token, if one is required. The web page's files contain no data and are needed to sign
/// in.
fn check_token(transport: Transport, token: Option<&Token>, request: &Request) -> Result<(), ApiError> {
    let (Transport::Tcp(ours), Some(token)) = (transport, token) else { return Ok(()) };
    let path = request.uri().path();
    let is_open = match *request.method() {
        Method::GET | Method::HEAD => routes::is_page_path(path),
        Method::POST => path == routes::SIGN_IN,
        _ => false,
    };
    if is_open || token.is_in(request.headers(), ours.port()) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::UNAUTHORIZED, "the header Authorization: Bearer TOKEN is needed"))
}

/// Requires a header that a foreign page cannot send without a CORS preflight; for requests that change something.
pub(crate) fn require_csrf_header(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get("x-subscope").is_some_and(|value| value == "1") {
        return Ok(());
    }
    Err(ApiError::forbidden("the header X-Subscope: 1 is needed"))
}

/// Whether a `Host` value names this loopback listener.
fn is_own_host(host: &str, ours: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    let is_name = name.eq_ignore_ascii_case("localhost")
        || match ours {
            SocketAddr::V4(ours) => name == ours.ip().to_string(),
            SocketAddr::V6(ours) => name == format!("[{}]", ours.ip()),
        };
    is_name && port == Some(ours.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&'static str, &'static str)]) -> Result<(), StatusCode> {
        let ours = SocketAddr::from(([127, 0, 0, 1], 7337));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        check_headers(Transport::Tcp(ours), &headers, None).map_err(|error| error.status)
    }

    #[test]
    fn own_names_are_accepted() {
        for host in ["127.0.0.1:7337", "localhost:7337", "LOCALHOST:7337"] {
            assert_eq!(check(&[("host", host)]), Ok(()), "{host}");
        }
        let own =
            [("host", "127.0.0.1:7337"), ("origin", "http://localhost:7337"), ("sec-fetch-site", "none")];
        assert_eq!(check(&own), Ok(()));
    }

    #[test]
    fn other_names_are_refused() {
        let forbidden = Err(StatusCode::FORBIDDEN);
        for host in [
            "evil.example:7337",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:73370",
            "127.0.0.1:7337.evil.example",
            "localhost.evil.example:7337",
            "evil.example#@127.0.0.1:7337",
            "[::1]:7337",
            "0.0.0.0:7337",
            "127.0.0.2:7337",
            "",
            ":7337",
            "2130706433:7337",
            "127.1:7337",
        ] {
            assert_eq!(check(&[("host", host)]), forbidden, "{host}");
        }
        assert_eq!(check(&[]), Err(StatusCode::BAD_REQUEST));
        let twice = [("host", "127.0.0.1:7337"), ("host", "evil.example")];
        assert_eq!(check(&twice), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn other_origins_and_sites_are_refused() {
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:7337", "http://localhost:3000", "file://"]
        {
            let headers = [("host", "localhost:7337"), ("origin", origin)];
            assert_eq!(check(&headers), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        for site in ["cross-site", "same-site", "", "None"] {
            let headers = [("host", "localhost:7337"), ("sec-fetch-site", site)];
            assert_eq!(check(&headers), Err(StatusCode::FORBIDDEN), "{site}");
        }
    }

    #[test]
    fn unix_socket_needs_no_name() {
        assert_eq!(check_headers(Transport::Socket, &HeaderMap::new(), None), Ok(()));
    }
}
