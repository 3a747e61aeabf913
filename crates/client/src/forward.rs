//! Sends snapshots of sessions to the server of a team: batches, compression, and the interpretation of answers.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use serde::Deserialize;

use crate::{clock::now_ns, error::ClientError, http::error_field, remote::Remote};

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

#[derive(Deserialize)]
struct StoreAnswer {
    #[serde(default)]
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
    let refused = || ClientError::Refused {
        status: answer.status,
        message: error_field(&answer.body).unwrap_or_default(),
    };
    let parsed = serde_json::from_slice::<StoreAnswer>(&answer.body);
    Ok(match (answer.status, parsed) {
        (200 | 400, Ok(StoreAnswer { refused })) => Delivery::Stored(refused),
        (401 | 403, _) => Delivery::Forbidden(refused()),
        (413, _) => Delivery::TooLarge,
        _ => Delivery::Again { error: refused(), after: answer.retry_after.map(Duration::from_secs) },
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
    use super::*;

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
