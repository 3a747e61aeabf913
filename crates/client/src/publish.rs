//! Publishes events of an agent's subagents; can be embedded in any Rust agent.
//!
//! ```no_run
//! use subscope_client::publish::{Event, EventKind, Published, Publisher};
//!
//! fn investigate(publisher: &Publisher) -> Result<(), Box<dyn std::error::Error>> {
//!     let event = |kind| Event::new("investigator", "run-1", kind);
//!     publisher.publish(&event(EventKind::SubagentStart).with_payload("Find the bug."))?;
//!     let call = event(EventKind::ToolCall).with_tool("Read", "call-1");
//!     if let Published::StopRequested = publisher.publish(&call.with_json(&serde_json::json!({"path": "a.rs"})))? {
//!         publisher.publish(&event(EventKind::SubagentEnd).with_stopped())?;
//!         return Ok(());
//!     }
//!     let text = std::fs::read_to_string("a.rs")?;
//!     publisher.publish(&event(EventKind::ToolResult).with_tool("Read", "call-1").with_payload(text))?;
//!     let ended = publisher.publish(&event(EventKind::SubagentEnd))?;
//!     if let Some(warning) = ended.warning() {
//!         eprintln!("warning: {warning}");
//!     }
//!     Ok(())
//! }
//!
//! // `CPE_SUBAGENT_LOGGING_ADDRESS` is the listener's address; if it is not set, publishing does nothing.
//! let publisher = Publisher::from_env()?;
//! investigate(&publisher)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Fail fast.** Observers rely on complete runs. An event that cannot be delivered within 5 s is therefore an error
//! that must abort the subagent's run: propagate it with `?`. Later events of that run fail at once; other runs of the
//! same publisher continue. An undeliverable end event is no error: see [`Published::warning`].
//! [`Publisher::with_spool`] stores events for later delivery instead.
//!
//! **Stop.** Where a user asks that a run stop (`subscope stop`), the response to its next event says so:
//! [`Published::StopRequested`].
//!
//! Each event is one POST, without batching. Events of a run are delivered one after the other in the order of the
//! calls of [`Publisher::publish`]. Each call blocks until the listener has stored its event.

mod address;
mod compact;
mod error;
mod event;
mod post;
mod run_sequencer;

use std::{env, fmt, io, sync::Arc};

pub use address::AddressError;
pub use compact::compact;
pub use error::{Cause, PublishError};
pub use event::{EVENT_BYTES, Event, EventKind, TokenUsage};

use address::ListenerAddress;
use post::Poster;
use run_sequencer::{RunDelivery, RunSequencer};

/// Environment variable with the listener's address; inherited by child processes.
pub const ADDRESS_VARIABLE: &str = "CPE_SUBAGENT_LOGGING_ADDRESS";

/// Stores one event, a line of JSON, for later delivery.
type SpoolFn = dyn Fn(&[u8]) -> io::Result<()> + Send + Sync;

/// Outcome of a published event.
#[derive(Debug)]
pub enum Published {
    /// Not sent: no address is set.
    Off,
    /// Delivered.
    Delivered,
    /// Delivered, and a user asks that the run stop: end it, and publish its end with [`Event::with_stopped`]. Repeated
    /// for each event until the run has ended.
    StopRequested,
    /// Spooled. The error is set for the first spooled event of a run; later ones are spooled without an attempt to
    /// deliver.
    Spooled(Option<PublishError>),
    /// An end event could not be delivered, which aborts nothing.
    Undelivered(PublishError),
}

impl Published {
    /// Returns the error to show to the user, if any.
    pub fn warning(&self) -> Option<&PublishError> {
        match self {
            Self::Off | Self::Delivered | Self::StopRequested => None,
            Self::Spooled(error) => error.as_ref(),
            Self::Undelivered(error) => Some(error),
        }
    }
}

/// Whether the response to a posted event requests that its run stop.
pub fn is_stop(response: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Taken {
        #[serde(default)]
        stop: bool,
    }
    serde_json::from_slice::<Taken>(response).is_ok_and(|taken| taken.stop)
}

/// Posts events of subagents. Cheap to clone; clones share connections and event order.
#[derive(Clone, Default)]
pub struct Publisher {
    active: Option<Arc<ActivePublisher>>,
    spool: Option<Arc<SpoolFn>>,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("active", &self.active).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct ActivePublisher {
    poster: Poster,
    run_sequencer: RunSequencer,
}

impl Publisher {
    /// Creates a publisher for the address in [`ADDRESS_VARIABLE`]; [`Publisher::off`] if it is unset or empty.
    ///
    /// # Errors
    ///
    /// The variable is not UTF-8 or not an address of this machine.
    pub fn from_env() -> Result<Self, PublishError> {
        match env::var(ADDRESS_VARIABLE) {
            Ok(address) if !address.is_empty() => Self::to(&address),
            Ok(_) | Err(env::VarError::NotPresent) => Ok(Self::off()),
            Err(env::VarError::NotUnicode(_)) => Err(PublishError::Variable(ADDRESS_VARIABLE)),
        }
    }

    /// Creates a publisher for an address such as `http://127.0.0.1:7337`, without connecting.
    ///
    /// # Errors
    ///
    /// The address is not `http://`, or not of this machine.
    pub fn to(address: &str) -> Result<Self, PublishError> {
        let target = ListenerAddress::parse(address)
            .map_err(|cause| PublishError::Address { address: address.to_owned(), cause })?;
        let active = ActivePublisher { poster: Poster::new(target), run_sequencer: RunSequencer::default() };
        Ok(Self { active: Some(Arc::new(active)), spool: None })
    }

    /// Creates a publisher that does nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Lets a run continue if an event cannot be delivered: this and all its later events are stored with the function,
    /// each a line of JSON. If that fails, the run is aborted.
    #[must_use]
    pub fn with_spool(mut self, spool: impl Fn(&[u8]) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.spool = Some(Arc::new(spool));
        self
    }

    /// Whether an address is set.
    pub fn is_on(&self) -> bool {
        self.active.is_some()
    }

    /// Delivers an event; returns once the listener has stored it.
    ///
    /// Waits for earlier events of its run, and then at most 5 s. Any 2xx status is success. A payload that makes the
    /// event longer than [`EVENT_BYTES`] is truncated and ends with the number of bytes cut.
    ///
    /// # Errors
    ///
    /// The event could not be delivered, is no end event, and was not spooled: abort its run. Later events of the run
    /// fail without an attempt, except the end event, which is tried.
    pub fn publish(&self, event: &Event) -> Result<Published, PublishError> {
        let Some(active) = &self.active else { return Ok(Published::Off) };
        let is_last = event.kind == EventKind::SubagentEnd;
        let error = |cause| PublishError::Undelivered {
            event: Box::new(Event { payload: None, result: None, ..event.clone() }),
            address: active.poster.address().to_string(),
            cause,
        };
        active.run_sequencer.with_run(&event.subagent_run_id, is_last, |delivery| {
            let body = event.to_wire();
            let cause = match delivery {
                RunDelivery::Aborted(why) if !is_last => return Err(error(Cause::Aborted(why.clone()))),
                RunDelivery::Spooled => None,
                RunDelivery::Aborted(_) | RunDelivery::Delivered => match active.poster.post(&body) {
                    Ok(true) if !is_last => return Ok(Published::StopRequested),
                    Ok(_) => return Ok(Published::Delivered),
                    Err(cause) => Some(cause),
                },
            };
            let spooled_before = || "an event before it was spooled".to_owned();
            let cause = match &self.spool {
                Some(spool) => {
                    let Err(spool) = spool(&body) else {
                        *delivery = RunDelivery::Spooled;
                        return Ok(Published::Spooled(cause.map(error)));
                    };
                    let undelivered = cause.map_or_else(spooled_before, |cause| cause.to_string());
                    Cause::NotSpooled { undelivered, spool }
                }
                // Without a cause, a clone with a spool has spooled an event of this run.
                None => cause.unwrap_or_else(|| Cause::Aborted(spooled_before())),
            };
            let error = error(cause);
            if is_last {
                return Ok(Published::Undelivered(error));
            }
            *delivery = RunDelivery::Aborted(error.to_string());
            Err(error)
        })
    }
}
