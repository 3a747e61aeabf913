//! Errors of publishing.

use std::{env, fmt, io, time::Duration};

use super::{AddressError, Event, EventKind};

/// An event could not be published; abort its run unless it has ended.
///
/// The message names the event and the cause on one line. It quotes names and messages of agents and listeners unsanitised: they
/// may contain control characters.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The address is invalid.
    #[error("nothing can be posted to {address:?}: {cause}")]
    Address {
        /// The address as given.
        address: String,
        /// The reason.
        cause: AddressError,
    },
    /// The environment variable is not UTF-8.
    #[error("{0} is no text")]
    Variable(&'static str),
    /// An event could not be delivered.
    #[error("{event} could not be delivered to {address}: {cause}")]
    Undelivered {
        /// The event.
        event: Box<EventName>,
        /// The listener's address.
        address: String,
        /// The reason.
        cause: Cause,
    },
}

impl PublishError {
    /// The undelivered event, if the error is about one.
    pub fn event(&self) -> Option<&EventName> {
        match self {
            Self::Undelivered { event, .. } => Some(event),
            Self::Address { .. } | Self::Variable(_) => None,
        }
    }
}

impl From<env::VarError> for PublishError {
    fn from(_: env::VarError) -> Self {
        Self::Variable(super::ADDRESS_VARIABLE)
    }
}

/// Identification of an event in error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName {
    /// The event's kind.
    pub kind: EventKind,
    /// The subagent's run.
    pub run_id: String,
    /// The subagent's name.
    pub subagent_name: String,
    /// The tool, if any.
    pub tool_name: Option<String>,
    /// The tool call, if any.
    pub tool_call_id: Option<String>,
}

impl EventName {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            kind: event.kind,
            run_id: event.subagent_run_id.clone(),
            subagent_name: event.subagent_name.clone(),
            tool_name: event.tool_name.clone(),
            tool_call_id: event.tool_call_id.clone(),
        }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match (&self.tool_name, &self.tool_call_id) {
            (Some(name), Some(id)) => write!(f, " {name} ({id})")?,
            (Some(word), None) | (None, Some(word)) => write!(f, " {word}")?,
            (None, None) => {}
        }
        write!(f, " of run {}", self.run_id)?;
        if self.subagent_name.is_empty() { Ok(()) } else { write!(f, " ({})", self.subagent_name) }
    }
}

/// Reason that an event was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Connecting failed.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// Connecting, sending and the response together took longer than this.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection broke before the response.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// The response has another status than 2xx.
    #[error("the answer is {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status {
        /// HTTP status.
        status: u16,
        /// Beginning of the response's message.
        message: String,
    },
    /// An earlier event has aborted the run; its error.
    #[error("its run is aborted, since {0}")]
    Aborted(String),
    /// Neither delivered nor spooled.
    #[error("{undelivered}; and it cannot be spooled: {spool}")]
    NotSpooled {
        /// Reason that it was not delivered.
        undelivered: String,
        /// Error of spooling.
        spool: io::Error,
    },
}
