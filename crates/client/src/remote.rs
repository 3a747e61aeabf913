//! Requests to the server of a team, over HTTP or HTTPS, with a bearer token.

use std::{fmt, io, time::Duration};

use ureq::{Agent, http::Response};

use crate::{
    connection::Address,
    error::ClientError,
    http::error_field,
    outgoing::{agent, is_address},
};

/// Limit of one request, from connecting to the end of the answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest answer that is read: many times the tree of the largest real session.
const MAX_ANSWER_BYTES: u64 = 512 << 20;

/// A team's server.
#[derive(Clone)]
pub struct Remote {
    agent: Agent,
    url: String,
    token: String,
}

/// Without the token.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.url)
    }
}

/// Status, wait that is asked for in seconds, target of a redirect, and body of an answer.
pub(crate) struct RemoteAnswer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    location: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl RemoteAnswer {
    /// Returns the error of an answer without success. A redirect is not followed: the token would go with it.
    pub(crate) fn refused(&self) -> ClientError {
        let redirect = || self.location.as_ref().map(|url| format!("it redirects to {url}"));
        let message = error_field(&self.body).or_else(redirect).unwrap_or_default();
        ClientError::Refused { status: self.status, message }
    }
}

impl Remote {
    /// Returns the server at a URL; does not connect. The token is a secret that is sent with each request.
    ///
    /// # Errors
    /// If the URL does not begin with `http://` or `https://`, or the token is no header value.
    pub fn new(url: &str, token: &str) -> Result<Self, ClientError> {
        let url = url.trim_end_matches('/');
        if !is_address(url) {
            let message =
                format!("{url} is no address of a team's server: it must begin with http:// or https://");
            return Err(ClientError::Other(message));
        }
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Other("the token is not one word of ASCII characters".to_owned()));
        }
        Ok(Self { agent: agent(url, TIMEOUT), url: url.to_owned(), token: token.to_owned() })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request and returns the answer, whatever its status.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<RemoteAnswer, ClientError> {
        let url = format!("{}{path}", self.url);
        let authorization = format!("Bearer {}", self.token);
        let sent = match body {
            Some(body) => {
                let mut request = self.agent.post(&url).header("authorization", &authorization);
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.send(body)
            }
            None if method == "GET" => {
                let mut request = self.agent.get(&url).header("authorization", &authorization);
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.call()
            }
            None => return Err(ClientError::Other(format!("{method} without a body is not sent"))),
        };
        let mut answer = sent.map_err(|error| self.unreachable(error))?;
        let retry_after = retry_after(&answer);
        let location =
            answer.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let body = body.map_err(|error| self.unreachable(error))?;
        Ok(RemoteAnswer { status: answer.status().as_u16(), retry_after, location, body })
    }

    /// Sends a request and returns the body of an answer that is no error.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        let answer = self.send(method, path, headers, body)?;
        if matches!(answer.status, 200..300) {
            return Ok(answer.body);
        }
        Err(answer.refused())
    }

    fn unreachable(&self, error: ureq::Error) -> ClientError {
        let source = if let ureq::Error::Io(error) = error { error } else { io::Error::other(error) };
        ClientError::Unreachable { address: Address::Url(self.url.clone()), source }
    }
}

/// Returns the wait that a server asks for in seconds; it sends no dates.
fn retry_after<B>(answer: &Response<B>) -> Option<u64> {
    answer.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_tokens_are_checked_and_no_token_is_shown() {
        let remote = Remote::new("https://host/team/", "sst_secret\n").unwrap();
        assert_eq!(remote.url(), "https://host/team");
        assert!(!format!("{remote:?}").contains("secret"));
        for url in ["host", "ftp://host", "http://", "https:host", "/x"] {
            assert!(Remote::new(url, "t").is_err(), "{url}");
        }
        for token in ["", " ", "a b", "ü", "a\nb"] {
            assert!(Remote::new("http://host", token).is_err(), "{token:?}");
        }
    }
}
