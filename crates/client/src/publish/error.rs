//! Errors of publishing.

use std::{io, time::Duration};

use super::{AddressError, Event};

/// An event could not be published; abort its run unless it has ended.
///
/// The message names the event and the cause on one line. It quotes names and messages of agents and listeners
/// unsanitised: they may contain control characters.
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
    #[error("{0} is not UTF-8 text")]
    Variable(&'static str),
    /// An event could not be delivered.
    #[error("{} could not be delivered to {address}: {cause}", describe(event))]
    Undelivered {
        /// The event, without its payload.
        event: Box<Event>,
        /// The listener's address.
        address: String,
        /// The reason.
        cause: Cause,
    },
}

impl PublishError {
    /// The undelivered event without its payload, if the error is about one.
    pub fn event(&self) -> Option<&Event> {
        match self {
            Self::Undelivered { event, .. } => Some(event),
            Self::Address { .. } | Self::Variable(_) => None,
        }
    }
}

/// Names an event in an error message.
fn describe(event: &Event) -> String {
    let kind = event.kind.as_str();
    let tool = match (&event.tool_name, &event.tool_call_id) {
        (Some(name), Some(id)) => format!(" {name} ({id})"),
        (Some(word), None) | (None, Some(word)) => format!(" {word}"),
        (None, None) => String::new(),
    };
    let name = &event.subagent_name;
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    format!("{kind}{tool} of run {}{name}", event.subagent_run_id)
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
