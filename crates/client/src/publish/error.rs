//! Why an event could not be published.

use std::{env, fmt, io, time::Duration};

use super::{AddressError, Event, EventKind};

/// An event could not be published; its run is to be aborted, unless it has ended anyway.
///
/// The text names the event and the cause, on one line. Names and messages in it are whoever's they are: they may hold control
/// characters.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The address is none that events can be posted to.
    #[error("nothing can be posted to {address:?}: {cause}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        cause: AddressError,
    },
    /// The variable that names the address is no text.
    #[error("{0} is no text")]
    Variable(&'static str),
    /// An event could not be delivered.
    #[error("{event} could not be delivered to {address}: {cause}")]
    Undelivered {
        /// Which.
        event: Box<EventName>,
        /// Where to.
        address: String,
        /// Why.
        cause: Cause,
    },
}

impl PublishError {
    /// The event that could not be delivered.
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

/// Which event: what an error names it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName {
    /// What it tells.
    pub kind: EventKind,
    /// Of which run.
    pub run_id: String,
    /// What the subagent is called.
    pub subagent_name: String,
    /// Of which tool.
    pub tool_name: Option<String>,
    /// Of which call.
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

/// Why an event was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Nobody takes connections there.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// It took too long to connect, to send and to be answered, all together.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection ended before the answer.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// It was answered with another status than success.
    #[error("the answer is {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status {
        /// The status of HTTP.
        status: u16,
        /// The first of its words.
        message: String,
    },
    /// Its run was aborted by an event before it.
    #[error("its run is aborted, since {0}")]
    Aborted(String),
    /// It could not be spooled either.
    #[error("{undelivered}; and it cannot be spooled: {spool}")]
    NotSpooled {
        /// Why it was not delivered.
        undelivered: String,
        /// Why it was not spooled.
        spool: io::Error,
    },
}
