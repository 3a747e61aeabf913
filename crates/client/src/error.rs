//! Why a hub did not answer.

use std::{io, path::PathBuf};

use crate::connection::Address;

/// Why a hub did not answer, or not as hoped.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no hub answers on {address}")]
    Unreachable {
        /// Where.
        address: Address,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Other users may write to the socket's folder: what answers there may be anybody.
    #[error("others may write to the folder of {}: who answers there is not known", .0.display())]
    Untrusted(PathBuf),
    /// It accepts connections and does not answer: its process is stopped, blocked or overloaded.
    #[error("the hub{} accepts connections on {address} but does not answer", .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Unresponsive {
        /// Where.
        address: Address,
        /// Its process, where the system names it.
        pid: Option<u32>,
    },
    /// The connection broke, or nothing came for too long.
    #[error("the connection to the hub broke")]
    Broken(#[from] io::Error),
    /// It answered that it does not do that.
    #[error("the hub answers {status}: {message}")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// Its words.
        message: String,
    },
    /// It answered something else than what was asked for.
    #[error("the hub's answer is not understood")]
    Garbled(#[source] serde_json::Error),
    /// Whoever was to connect could not, for a reason of its own.
    #[error("{0}")]
    Other(String),
}

impl ClientError {
    /// Whether what was asked for is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether nothing came, or nothing was taken, for too long.
    pub(crate) fn is_timeout(&self) -> bool {
        let is_late = |kind| matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        matches!(self, Self::Broken(error) if is_late(error.kind()))
    }

    /// Whether the other side has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Broken(_)) && !self.is_timeout()
    }
}
