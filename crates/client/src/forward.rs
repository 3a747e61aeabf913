//! Sends snapshots of sessions to the server of a team: batches, compression, and the interpretation of answers.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use serde::Deserialize;

use crate::{clock::now_ns, error::ClientError, remote::Remote};

/// Route that takes snapshots.
const PATH: &str = "/team/v1/sessions";
/// Most bytes of a batch before compression; the server takes 32 MiB.
pub const MAX_BATCH_BYTES: usize = 4 << 20;
/// Most sessions of a batch; the server takes 500.
pub const MAX_BATCH_SESSIONS: usize = 200;
/// First and longest wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A session that the server does not store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// Its id; `None` if the server did not understand its line.
    #[serde(default)]
    pub id: Option<String>,
    /// Its line in the batch, from 1.
    #[serde(default)]
    pub line: usize,
    /// Why.
    #[serde(default)]
    pub why: String,
}

/// Result of sending a batch.
#[derive(Debug)]
pub enum Delivery {
    /// The server has stored it, but for these lines.
    Stored(Vec<Refusal>),
    /// Send it again, after the wait that the server asks for, if any.
    Again {
        /// What went wrong.
        error: ClientError,
        /// The server's wish.
        after: Option<Duration>,
    },
    /// It is larger than the server takes: to be sent in smaller parts.
    TooLarge,
    /// The token is refused: sending again does not help.
    Forbidden(ClientError),
}

/// Answer of a server that has read a batch. `accepted` must be there: other answers in JSON, of a proxy or of another
/// program at the address, acknowledge nothing.
#[derive(Deserialize)]
struct StoreAnswer {
    #[serde(rename = "accepted")]
    _accepted: u64,
    refused: Vec<Refusal>,
}

/// Posts a batch: one snapshot per line.
///
/// # Errors
/// If it cannot be compressed.
pub fn deliver(remote: &Remote, lines: &[u8]) -> io::Result<Delivery> {
    let mut body = GzEncoder::new(Vec::new(), Compression::default());
    body.write_all(lines)?;
    let body = body.finish()?;
    let headers = [("content-type", "application/x-ndjson"), ("content-encoding", "gzip")];
    let answer = match remote.send("POST", PATH, &headers, Some(&body)) {
        Ok(answer) => answer,
        Err(error) => return Ok(Delivery::Again { error, after: None }),
    };
    let parsed = serde_json::from_slice::<StoreAnswer>(&answer.body);
    Ok(match (answer.status, parsed) {
        (200 | 400, Ok(StoreAnswer { refused, .. })) => Delivery::Stored(refused),
        (401 | 403, _) => Delivery::Forbidden(answer.refused()),
        (413, _) => Delivery::TooLarge,
        _ => Delivery::Again { error: answer.refused(), after: answer.retry_after.map(Duration::from_secs) },
    })
}

/// Waits between attempts: 1, 2, 4 … 60 s, each between half and all of it, so that machines that failed together do
/// not come back together.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the wait after one more failure; at least what the server asked for, at most a minute.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let whole = FIRST_WAIT.saturating_mul(1 << self.failures.min(6)).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        let jitter = half.mul_f64((now_ns() % 1_000_003) as f64 / 1_000_003.0);
        (half + jitter).max(asked.unwrap_or_default()).min(LONGEST_WAIT)
    }

    /// Resets the waits after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read},
        net::TcpListener,
        thread,
    };

    use super::*;

    /// Delivers a batch to a server that gives one answer.
    fn delivered(status: &str, headers: &str, body: &str) -> Delivery {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let server = thread::spawn(move || {
            let mut reader = BufReader::new(listener.accept().unwrap().0);
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            reader.into_inner().write_all(answer.as_bytes()).unwrap();
        });
        let delivery = deliver(&Remote::new(&url, "token").unwrap(), b"{}\n").unwrap();
        server.join().unwrap();
        delivery
    }

    #[test]
    fn only_answers_that_count_sessions_acknowledge_a_batch() {
        let none = delivered("200 OK", "", r#"{"accepted":1,"refused":[]}"#);
        assert!(matches!(&none, Delivery::Stored(refused) if refused.is_empty()), "{none:?}");
        let one =
            delivered("400 Bad Request", "", r#"{"accepted":0,"refused":[{"id":null,"line":1,"why":"x"}]}"#);
        assert!(matches!(&one, Delivery::Stored(refused) if refused.len() == 1), "{one:?}");
        for (status, body) in [
            ("200 OK", "{}"),
            ("200 OK", r#"{"status":"ok"}"#),
            ("200 OK", "<html>Sign in</html>"),
            ("204 No Content", ""),
            ("400 Bad Request", r#"{"error":"the body broke off"}"#),
            ("502 Bad Gateway", r#"{"accepted":1,"refused":[]}"#),
        ] {
            let delivery = delivered(status, "", body);
            assert!(matches!(delivery, Delivery::Again { .. }), "{status} {body}: {delivery:?}");
        }
    }

    #[test]
    fn errors_of_proxies_name_the_redirect_or_only_the_status() {
        let error = |status: &str, headers: &str| {
            let Delivery::Again { error, .. } = delivered(status, headers, "") else { panic!("{status}") };
            error.to_string()
        };
        assert_eq!(error("503 Service Unavailable", ""), "the answer is 503");
        let redirected = error("308 Permanent Redirect", "location: https://host/\r\n");
        assert_eq!(redirected, "the answer is 308: it redirects to https://host/");
    }

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew() {
        let mut backoff = Backoff::default();
        for whole in [1_u64, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.next(None);
            let whole = Duration::from_secs(whole);
            assert!(wait >= whole / 2 && wait <= whole, "{wait:?} of {whole:?}");
        }
        backoff.reset();
        assert_eq!(backoff.next(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(backoff.next(Some(Duration::from_secs(700))), LONGEST_WAIT);
    }
}
