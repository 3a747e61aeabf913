//! What keeps web pages out: a browser speaks for any page it shows, so that a page may not speak to us.
//!
//! * `Host` must name this listener (a page whose name was rebound to 127.0.0.1 says its own name there).
//! * `Origin`, where there is one, must be this listener's (a page that posts, or opens a WebSocket, sends its own).
//! * `Sec-Fetch-Site`, where there is one, must say that no other site is behind it (Fetch Metadata Request Headers,
//!   W3C); `same-site` is another port of this machine, and no friend.
//!
//! Bodies have doors of their own: the content type that no form can send, in [`crate::body`].

use std::net::SocketAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{api_error::ApiError, peer::Via, routes, state::App, token::Token};

/// Lets a request in or refuses it, and says in every answer that no browser is to make anything of it.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let via = request.extensions().get::<Via>().copied();
    let judged = match via {
        Some(via) => judge(via, request.headers(), request.uri().authority().map(|it| it.as_str()))
            .and_then(|()| show(via, app.token.as_ref(), &request)),
        None => Err(ApiError::new(StatusCode::FORBIDDEN, "nobody knows where this comes from")),
    };
    let mut response = match judged {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    app.counters.answered(response.status());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn judge(via: Via, headers: &HeaderMap, authority: Option<&str>) -> Result<(), ApiError> {
    let refuse = |why: &str| Err(ApiError::new(StatusCode::FORBIDDEN, why));
    let Via::Tcp(ours) = via else { return Ok(()) };
    if !ours.ip().is_loopback() {
        return judge_abroad(headers);
    }
    let hosts: Vec<&HeaderValue> = headers.get_all(header::HOST).iter().collect();
    let is_ours = |host: &str| is_own_host(host, ours);
    match hosts.as_slice() {
        [host] if host.to_str().is_ok_and(is_ours) => {}
        [_] => return refuse("the Host header names another place"),
        [] | [_, ..] => return Err(ApiError::bad("one Host header is needed")),
    }
    if authority.is_some_and(|authority| !is_ours(authority)) {
        return refuse("the address names another place");
    }
    for origin in headers.get_all(header::ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")).is_some_and(is_ours);
        if !own {
            return refuse("the Origin header names another place");
        }
    }
    check_site(headers)
}

/// Refuses who does not show the token, where there is one. The page itself holds nothing that anybody wrote, and is where
/// a code for it is given.
fn show(via: Via, token: Option<&Token>, request: &Request) -> Result<(), ApiError> {
    let (Via::Tcp(ours), Some(token)) = (via, token) else { return Ok(()) };
    let path = request.uri().path();
    let is_open = match *request.method() {
        Method::GET | Method::HEAD => routes::is_page(path),
        Method::POST => path == routes::SIGN_IN,
        _ => false,
    };
    if is_open || token.is_shown(request.headers(), ours.port()) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::UNAUTHORIZED, "the header Authorization: Bearer TOKEN is needed"))
}

/// The same where nobody knows by what names the listener is reached: the token keeps pages of rebound names out, since no
/// page of another origin can show it. What a browser says of its page must fit all the same.
fn judge_abroad(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |why: &str| Err(ApiError::new(StatusCode::FORBIDDEN, why));
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(ApiError::bad("one Host header is needed"));
    };
    let own = [b"http://".as_slice(), host.as_bytes()].concat();
    if headers.get_all(header::ORIGIN).iter().any(|origin| origin.as_bytes() != own) {
        return refuse("the Origin header names another place");
    }
    check_site(headers)
}

/// Refuses what a form of another page could have sent unasked, where more than reading is asked for.
pub(crate) fn check_meant(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get("x-subscope").is_some_and(|value| value == "1") {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::FORBIDDEN, "the header X-Subscope: 1 is needed"))
}

fn check_site(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if headers.get_all("sec-fetch-site").iter().all(is_own) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::FORBIDDEN, "another site is behind this request"))
}

/// Whether a `Host` is one of the names that this listener is reached by.
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

    fn told(pairs: &[(&'static str, &'static str)]) -> Result<(), StatusCode> {
        let ours = SocketAddr::from(([127, 0, 0, 1], 7337));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        judge(Via::Tcp(ours), &headers, None).map_err(|refusal| refusal.status)
    }

    #[test]
    fn own_names_are_let_in() {
        for host in ["127.0.0.1:7337", "localhost:7337", "LOCALHOST:7337"] {
            assert_eq!(told(&[("host", host)]), Ok(()), "{host}");
        }
        let own =
            [("host", "127.0.0.1:7337"), ("origin", "http://localhost:7337"), ("sec-fetch-site", "none")];
        assert_eq!(told(&own), Ok(()));
    }

    #[test]
    fn other_names_stay_out() {
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
            assert_eq!(told(&[("host", host)]), forbidden, "{host}");
        }
        assert_eq!(told(&[]), Err(StatusCode::BAD_REQUEST));
        let twice = [("host", "127.0.0.1:7337"), ("host", "evil.example")];
        assert_eq!(told(&twice), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn other_origins_and_sites_stay_out() {
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:7337", "http://localhost:3000", "file://"]
        {
            let headers = [("host", "localhost:7337"), ("origin", origin)];
            assert_eq!(told(&headers), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        for site in ["cross-site", "same-site", "", "None"] {
            let headers = [("host", "localhost:7337"), ("sec-fetch-site", site)];
            assert_eq!(told(&headers), Err(StatusCode::FORBIDDEN), "{site}");
        }
    }

    #[test]
    fn unix_socket_needs_no_name() {
        assert_eq!(judge(Via::Socket, &HeaderMap::new(), None), Ok(()));
    }
}
