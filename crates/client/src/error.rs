//! Errors of the hub client.

use std::{io, path::PathBuf};

use subscope_query::QueryError;

use crate::{connection::Address, http::is_timeout};

/// Error of a request to a hub.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens at the address.
    #[error("{} answers on {address}", if matches!(address, Address::Url(_)) { "no server" } else { "no hub" })]
    Unreachable {
        /// The hub's address.
        address: Address,
        /// The connect error.
        #[source]
        source: io::Error,
    },
    /// Another user owns the socket, its folder or the listener, or can replace them, so the listener may be an impostor.
    #[error("{} is not trusted", .0.display())]
    Untrusted(PathBuf, #[source] io::Error),
    /// The hub accepts connections but does not answer: it is stopped, blocked or overloaded.
    #[error("the hub{} accepts connections on {address} but does not answer", .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Unresponsive {
        /// The hub's address.
        address: Address,
        /// The hub's process id, if known.
        pid: Option<u32>,
    },
    /// The connection broke or timed out.
    #[error("the connection to the hub broke")]
    Broken(#[from] io::Error),
    /// The hub answered with an error status.
    #[error("the answer is {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Refused {
        /// HTTP status.
        status: u16,
        /// The hub's message; may be empty.
        message: String,
    },
    /// The response is not the expected JSON.
    #[error("the hub's answer is not understood")]
    Garbled(#[source] serde_json::Error),
    /// Error of a connect function, see [`crate::ConnectFn`].
    #[error("{0}")]
    Other(String),
}

impl ClientError {
    /// Whether the status is 404.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether a read or write timed out.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Broken(error) if is_timeout(error))
    }

    /// Whether the connection broke other than by a timeout.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Broken(_)) && !self.is_timeout()
    }
}

impl From<ClientError> for QueryError {
    fn from(error: ClientError) -> Self {
        Self::failed(error)
    }
}
