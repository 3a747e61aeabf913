//! Protection against requests of foreign web pages (CSRF, DNS rebinding), and the token check.
//!
//! * `Host` must name this listener, or be one of its [public names](PublicNames): a page with a name rebound to 127.0.0.1
//!   sends that name.
//! * `Origin`, if present, must be one of these: browsers send the page's origin with posts and WebSockets.
//! * `Sec-Fetch-Site`, if present, must be `none` or `same-origin` (Fetch Metadata Request Headers, W3C); `same-site` is another port
//!   of this machine. A page that may show ours in a frame gets the document, which contains no data.
//!
//! [`crate::body`] additionally refuses content types that a form can send.

use std::net::SocketAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};

use crate::{
    api_error::ApiError, peer::Transport, public_names::PublicNames, routes, state::App, token::Token,
};

/// Middleware that refuses unauthorized requests and sets security headers on all responses.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let transport = request.extensions().get::<Transport>().copied();
    let checked = match transport {
        Some(transport) => check_headers(transport, &app.public, &request)
            .and_then(|()| check_token(transport, app.token.as_ref(), &request)),
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

fn check_headers(transport: Transport, public: &PublicNames, request: &Request) -> Result<(), ApiError> {
    let Transport::Tcp(ours) = transport else { return Ok(()) };
    let (headers, authority) = (request.headers(), request.uri().authority().map(|it| it.as_str()));
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
    let is_known = |name: &[u8]| is_ours(name) || public.has_host(name);
    if !is_known(host) {
        return Err(ApiError::forbidden("the Host header names another place"));
    }
    if !is_remote && authority.is_some_and(|authority| !is_known(authority.as_bytes())) {
        return Err(ApiError::forbidden("the address names another place"));
    }
    let is_own_origin = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        origin.strip_prefix(b"http://").is_some_and(is_ours) || public.has_origin(origin)
    };
    if !headers.get_all(header::ORIGIN).iter().all(is_own_origin) {
        return Err(ApiError::forbidden("the Origin header names another place"));
    }
    let is_own_site = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    let is_framed = public.has_frames()
        && headers.get("sec-fetch-dest").is_some_and(|what| what == "iframe")
        && *request.method() == Method::GET
        && routes::is_page_path(request.uri().path());
    if !is_framed && !headers.get_all("sec-fetch-site").iter().all(is_own_site) {
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
        check_as(&PublicNames::default(), "/", pairs)
    }

    fn check_as(
        public: &PublicNames,
        path: &'static str,
        pairs: &[(&'static str, &'static str)],
    ) -> Result<(), StatusCode> {
        let ours = SocketAddr::from(([127, 0, 0, 1], 7337));
        let mut request = Request::new(axum::body::Body::empty());
        *request.uri_mut() = axum::http::Uri::from_static(path);
        for (name, value) in pairs {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        check_headers(Transport::Tcp(ours), public, &request).map_err(|error| error.status)
    }

    #[test]
    fn public_names_are_accepted_and_no_others() {
        let public = PublicNames::new(Some("https://x.app.github.dev/"), &["localhost:8000".to_owned()], &[]);
        let public = public.unwrap();
        for host in ["x.app.github.dev", "localhost:8000", "127.0.0.1:7337"] {
            for origin in ["https://x.app.github.dev", "http://localhost:8000", "http://127.0.0.1:7337"] {
                assert_eq!(check_as(&public, "/", &[("host", host), ("origin", origin)]), Ok(()), "{host}");
            }
            for origin in ["https://y.app.github.dev", "http://localhost:8001", "null"] {
                let headers = [("host", host), ("origin", origin)];
                assert_eq!(check_as(&public, "/", &headers), Err(StatusCode::FORBIDDEN), "{host} {origin}");
            }
        }
        for host in ["y.app.github.dev", "localhost:8001", "x.app.github.dev:443", ""] {
            assert_eq!(check_as(&public, "/", &[("host", host)]), Err(StatusCode::FORBIDDEN), "{host}");
        }
    }

    #[test]
    fn frame_of_another_page_gets_the_document_and_nothing_else() {
        let frames = PublicNames::new(None, &[], &["vscode-webview:".to_owned()]).unwrap();
        let frame =
            [("host", "localhost:7337"), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "iframe")];
        assert_eq!(check_as(&frames, "/s/x", &frame), Ok(()));
        let forbidden = Err(StatusCode::FORBIDDEN);
        assert_eq!(check_as(&PublicNames::default(), "/s/x", &frame), forbidden);
        assert_eq!(check_as(&frames, "/api/v1/sessions", &frame), forbidden);
        let script =
            [("host", "localhost:7337"), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "script")];
        assert_eq!(check_as(&frames, "/s/x", &script), forbidden);
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
        let request = Request::new(axum::body::Body::empty());
        assert_eq!(check_headers(Transport::Socket, &PublicNames::default(), &request), Ok(()));
    }
}
