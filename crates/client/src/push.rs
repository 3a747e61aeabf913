//! Pushes OTLP/HTTP requests to a receiver that a person names.
//!
//! Specification: OTLP 1.7, "OTLP/HTTP". Bodies are protobuf in gzip. A request is repeated while the receiver asks for
//! it or cannot be reached; ids of spans are stable, so a repeated request adds nothing.

use std::{
    io::{self, Write as _},
    thread,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use subscope_model::parse_rfc3339;
use ureq::{
    Agent,
    http::{Response, StatusCode},
};

use crate::{
    clock::now_ns,
    outgoing::{agent, is_address, proxy_address},
};

/// Path of the receiver's traces.
const PATH: &str = "/v1/traces";
/// Limit of one attempt, from connecting to the end of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Waits between attempts where the receiver names none.
const WAITS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// Longest wait that is accepted from a receiver; a longer one is left to the user.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Error of a push.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The address is none.
    #[error("{url} is not the address of a receiver: it must begin with http:// or https://")]
    Address {
        /// The address.
        url: String,
    },
    /// The receiver refused a request.
    #[error("{url} answered {status}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Refused {
        /// The address.
        url: String,
        /// Status of the answer.
        status: u16,
        /// First line of the answer; may be empty. Text of the receiver.
        reason: String,
    },
    /// The receiver could not be reached, or did not answer in time.
    #[error("{url} cannot be reached{}", through(proxy.as_deref()))]
    Unreachable {
        /// The address.
        url: String,
        /// The proxy that the environment names for it.
        proxy: Option<String>,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The request could not be compressed.
    #[error("a request cannot be compressed")]
    Compress(#[from] io::Error),
}

/// Names a proxy in an error.
fn through(proxy: Option<&str>) -> String {
    proxy.map_or_else(String::new, |proxy| {
        format!(
            " through the proxy {proxy} of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY (NO_PROXY leaves hosts out)"
        )
    })
}

impl PushError {
    /// Whether the receiver refuses the request for its size: it may take the spans in smaller ones.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused { status: 413, .. })
    }
}

/// A receiver of OTLP/HTTP.
#[derive(Debug)]
pub struct Receiver {
    agent: Agent,
    url: String,
    headers: Vec<(String, String)>,
}

/// Failure of one attempt.
#[derive(Debug)]
pub struct PushFailure {
    /// The error.
    pub error: PushError,
    /// Whether the receiver may accept the same request later (OTLP, "Retryable Response Codes").
    pub may_repeat: bool,
    /// Wait that the receiver asks for, at most two minutes.
    pub retry_after: Option<Duration>,
}

impl PushFailure {
    fn last(error: PushError) -> Self {
        Self { error, may_repeat: false, retry_after: None }
    }
}

impl Receiver {
    /// Returns the receiver at an address, to which `/v1/traces` is added unless it ends so. `headers` are sent with each
    /// request. Nothing is connected yet.
    ///
    /// # Errors
    /// If the address is none.
    pub fn new(url: &str, headers: Vec<(String, String)>) -> Result<Self, PushError> {
        let base = url.trim_end_matches('/');
        let full = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
        if !is_address(&full) {
            return Err(PushError::Address { url: url.to_owned() });
        }
        Ok(Self { agent: agent(&full, TIMEOUT), url: full, headers })
    }

    /// Returns the address to which requests are posted.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Posts a request in protobuf and returns the answer's body. Repeats it up to four times while it is answered 429,
    /// 502, 503 or 504, or the connection fails: after the time that the receiver asks for (at most two minutes), else
    /// after 1, 2, 4 and 8 seconds.
    ///
    /// # Errors
    /// If the receiver refuses it, or the last attempt fails.
    pub fn push(&self, request: &[u8]) -> Result<Vec<u8>, PushError> {
        let body = compress(request)?;
        let mut waits = WAITS.into_iter();
        loop {
            match self.attempt(&body) {
                Ok(answer) => return Ok(answer),
                Err(PushFailure { error, may_repeat, retry_after }) => {
                    let Some(wait) = waits.next().filter(|_| may_repeat) else { return Err(error) };
                    thread::sleep(retry_after.unwrap_or(wait));
                }
            }
        }
    }

    /// Posts a request in protobuf once and returns the answer's body. Takes ten seconds at most.
    ///
    /// # Errors
    /// If the receiver does not accept it.
    pub fn push_once(&self, request: &[u8]) -> Result<Vec<u8>, PushFailure> {
        let body = compress(request).map_err(|error| PushFailure::last(error.into()))?;
        self.attempt(&body)
    }

    fn attempt(&self, body: &[u8]) -> Result<Vec<u8>, PushFailure> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "gzip");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let unreachable = |source| PushError::Unreachable {
            url: self.url.clone(),
            proxy: proxy_address(&self.url),
            source: Box::new(source),
        };
        let mut response = match request.send(body) {
            Ok(response) => response,
            Err(error) => {
                let may_repeat = may_repeat(&error);
                return Err(PushFailure { may_repeat, ..PushFailure::last(unreachable(error)) });
            }
        };
        let (status, asked) = (response.status(), retry_after(&response));
        // An answer that is cut off has its status nevertheless.
        let answer =
            response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let reason = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().trim().to_owned();
        let error = PushError::Refused { url: self.url.clone(), status: status.as_u16(), reason };
        let is_passing = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ]
        .contains(&status);
        let retry_after = asked.map(|wait| wait.min(MAX_WAIT));
        Err(PushFailure { error, may_repeat: is_passing, retry_after })
    }
}

/// Returns a body in gzip.
fn compress(request: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = GzEncoder::new(Vec::new(), Compression::default());
    body.write_all(request)?;
    body.finish()
}

/// Whether an error is of the connection, not of the request, nor of a certificate, which comes as invalid data.
fn may_repeat(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData)
        || matches!(
            error,
            ureq::Error::Timeout(_)
                | ureq::Error::ConnectionFailed
                | ureq::Error::HostNotFound
                | ureq::Error::Protocol(_)
        )
}

/// Returns the wait that a receiver asks for (RFC 9110, 10.2.3): seconds, or a date.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let value = response.headers().get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = u64::try_from(http_date(value)?).ok()?;
    Some(Duration::from_millis(date.saturating_sub(now_ns() / 1_000_000)))
}

/// Parses a date (RFC 9110, 5.6.7, `IMF-fixdate`) to milliseconds since 1970.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|known| known == month)? + 1;
    parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_added_unless_it_is_there() {
        let url = |url| Receiver::new(url, Vec::new()).map(|receiver| receiver.url).ok();
        let full = Some("http://localhost:4318/v1/traces".to_owned());
        for given in ["http://localhost:4318", "http://localhost:4318/", "http://localhost:4318/v1/traces"] {
            assert_eq!(url(given), full, "{given}");
        }
        assert_eq!(url("https://host/otlp").as_deref(), Some("https://host/otlp/v1/traces"));
        for wrong in ["localhost:4318", "ftp://localhost", "http://", "/v1/traces", "grpc://host:4317"] {
            assert_eq!(url(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn certificates_that_nobody_vouches_for_are_not_tried_again() {
        let error = |kind| ureq::Error::Io(io::Error::new(kind, "x"));
        assert!(!may_repeat(&error(io::ErrorKind::InvalidData)));
        assert!(may_repeat(&error(io::ErrorKind::ConnectionRefused)));
        assert!(may_repeat(&ureq::Error::HostNotFound) && !may_repeat(&ureq::Error::TooManyRedirects));
    }

    #[test]
    fn dates_of_http_are_times() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
        for wrong in ["", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Xyz 1994 08:49:37 GMT"] {
            assert_eq!(http_date(wrong), None, "{wrong}");
        }
    }
}
