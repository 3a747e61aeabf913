//! Publishing what an agent's subagents do, for whoever shows it: any Rust agent can embed this.
//!
//! ```no_run
//! use subscope_client::publish::{Event, EventKind, Publisher};
//!
//! fn investigate(publisher: &Publisher) -> Result<(), Box<dyn std::error::Error>> {
//!     let event = |kind| Event::new("investigator", "run-1", kind);
//!     publisher.publish(&event(EventKind::SubagentStart).with_payload("Find the bug."))?;
//!     let call = event(EventKind::ToolCall).with_tool("Read", "call-1");
//!     publisher.publish(&call.with_json(&serde_json::json!({"path": "a.rs"})))?;
//!     let text = std::fs::read_to_string("a.rs")?;
//!     publisher.publish(&event(EventKind::ToolResult).with_tool("Read", "call-1").with_payload(text))?;
//!     let ended = publisher.publish(&event(EventKind::SubagentEnd))?;
//!     if let Some(warning) = ended.warning() {
//!         eprintln!("warning: {warning}");
//!     }
//!     Ok(())
//! }
//!
//! // `CPE_SUBAGENT_LOGGING_ADDRESS` says where; where it is not set, nothing is published and nothing is lost by it.
//! let publisher = Publisher::from_env()?;
//! investigate(&publisher)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Fail fast.** Who watches a subagent relies on seeing all of it. So an event that cannot be delivered within 5 s is an error
//! that ends the subagent's run: pass it on with `?`. Later events of that run fail at once; other runs of the same
//! publisher go on. Only the ending of a run is not worth an error: [`Published::warning`] has what went wrong.
//! [`OnFailure::Spool`] keeps events elsewhere instead.
//!
//! Each event is one post, not gathered with others; events of one run are delivered one after the other, in the order in
//! which [`Publisher::publish`] is called. Every call blocks until its event is kept.

mod address;
mod compact;
mod error;
mod event;
mod lanes;
mod post;

use std::{env, fmt, io, sync::Arc};

pub use address::AddressError;
pub use compact::compact;
pub use error::{Cause, EventName, PublishError};
pub use event::{EVENT_BYTES, Event, EventKind, TokenUsage};

use address::Target;
use lanes::{Course, Lanes};
use post::Poster;

/// The variable that says where events are posted; children inherit it.
pub const ADDRESS_VARIABLE: &str = "CPE_SUBAGENT_LOGGING_ADDRESS";

/// Keeps one event, a line of JSON, for later delivery.
pub type Keep = dyn Fn(&[u8]) -> io::Result<()> + Send + Sync;

/// What becomes of a run of which an event cannot be delivered.
#[derive(Clone, Default)]
pub enum OnFailure {
    /// Its publishing fails, and whoever runs it is to abort it.
    #[default]
    Abort,
    /// It goes on: this event and all behind it are given to something that keeps them and delivers them later. What cannot be
    /// kept either aborts the run.
    Spool(Arc<Keep>),
}

impl OnFailure {
    /// Returns the way out that keeps events with a function of yours.
    pub fn spool(keep: impl Fn(&[u8]) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::Spool(Arc::new(keep))
    }
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abort => "Abort",
            Self::Spool(_) => "Spool",
        })
    }
}

/// What became of an event.
#[derive(Debug)]
pub enum Published {
    /// Nobody wants to know of it: no address is set.
    Off,
    /// It was delivered.
    Delivered,
    /// It was spooled. The error is there for the first of its run: the others follow that one without being tried.
    Spooled(Option<PublishError>),
    /// It told an ending and could not be delivered, which aborts nothing.
    Undelivered(PublishError),
}

impl Published {
    /// Returns what a person should be told.
    pub fn warning(&self) -> Option<&PublishError> {
        match self {
            Self::Off | Self::Delivered => None,
            Self::Spooled(error) => error.as_ref(),
            Self::Undelivered(error) => Some(error),
        }
    }
}

/// Posts events of subagents. Cheap to clone; clones share connections and the order of events.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    on: Option<Arc<On>>,
    on_failure: OnFailure,
}

#[derive(Debug)]
struct On {
    poster: Poster,
    lanes: Lanes,
}

impl Publisher {
    /// Returns a publisher to where [`ADDRESS_VARIABLE`] says; where it is not set or empty, [`Publisher::off`].
    ///
    /// # Errors
    ///
    /// Where it says something that is no address of this machine.
    pub fn from_env() -> Result<Self, PublishError> {
        match env::var(ADDRESS_VARIABLE) {
            Ok(address) if !address.is_empty() => Self::to(&address),
            Ok(_) | Err(env::VarError::NotPresent) => Ok(Self::off()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a publisher to an address such as `http://127.0.0.1:7337`. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// Where the address is not `http://`, or of another machine.
    pub fn to(address: &str) -> Result<Self, PublishError> {
        let target = Target::parse(address)
            .map_err(|cause| PublishError::Address { address: address.to_owned(), cause })?;
        let on = On { poster: Poster::new(target), lanes: Lanes::default() };
        Ok(Self { on: Some(Arc::new(on)), on_failure: OnFailure::Abort })
    }

    /// Returns a publisher that does nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Says what becomes of a run of which an event cannot be delivered.
    #[must_use]
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Whether anything is published at all.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Delivers an event: returns when it is kept by whoever listens.
    ///
    /// Waits for earlier events of its run, and then no longer than 5 s. Any status of success is one. A payload that makes it
    /// longer than [`EVENT_BYTES`] is cut, and says at its end by how much.
    ///
    /// # Errors
    ///
    /// Where it cannot be delivered, and neither tells an ending nor is spooled: then its run is to be aborted. Later events of
    /// the run fail without being tried, but for its ending, which is tried once more.
    pub fn publish(&self, event: &Event) -> Result<Published, PublishError> {
        let Some(on) = &self.on else { return Ok(Published::Off) };
        let is_last = event.kind == EventKind::SubagentEnd;
        let error = |cause| PublishError::Undelivered {
            event: Box::new(EventName::of(event)),
            address: on.poster.target().to_string(),
            cause,
        };
        on.lanes.in_turn(&event.subagent_run_id, is_last, |course| {
            let body = event.to_wire();
            let cause = match course {
                Course::Aborted(why) if !is_last => return Err(error(Cause::Aborted(why.clone()))),
                Course::Spooled => None,
                Course::Aborted(_) | Course::Delivered => match on.poster.post(&body) {
                    Ok(()) => return Ok(Published::Delivered),
                    Err(cause) => Some(cause),
                },
            };
            let cause = match (&self.on_failure, cause) {
                (OnFailure::Spool(keep), cause) => match keep(&body) {
                    Ok(()) => {
                        *course = Course::Spooled;
                        return Ok(Published::Spooled(cause.map(error)));
                    }
                    Err(spool) => {
                        let undelivered = cause.map_or_else(
                            || "an event before it was spooled".to_owned(),
                            |cause| cause.to_string(),
                        );
                        Cause::NotSpooled { undelivered, spool }
                    }
                },
                (OnFailure::Abort, Some(cause)) => cause,
                // Of clones with different ways, another one spools this run.
                (OnFailure::Abort, None) => Cause::Aborted("an event before it was spooled".to_owned()),
            };
            let error = error(cause);
            if is_last {
                return Ok(Published::Undelivered(error));
            }
            *course = Course::Aborted(error.to_string());
            Err(error)
        })
    }
}
