//! Owns live sessions, the one writer, subscribers and the only wall clock.
//!
//! Flow: a driver (followed files, a replay) or a program (an ingest) hands over bytes → fold → commit → subscribers. One
//! thread does all of it; others hold a cheap [`HubHandle`] and a bounded queue. A new subscriber gets the snapshots and
//! joins the list in the same turn: no gap, no repeat. An ingest is answered when it is kept; those that wait together
//! share a commit.
//!
//! Loss, by class: `Snapshot` and `Change` are never lost silently (a subscriber that cannot take one is marked and gets
//! a fresh snapshot as soon as it can); events are dropped for a subscriber whose queue is full, counted, and told as
//! `Missed`.
//!
//! Absent on purpose: dialects, HTTP, terminals.

mod awake;
mod beside;
pub mod clock;
mod cold;
mod command;
mod copies;
mod driver;
mod handle;
mod heartbeat;
mod hub;
pub mod index;
mod lines;
mod live;
mod partitions;
mod piped;
mod posted;
mod replay;
pub mod search;
mod session_sources;
mod spooled;
mod stop;
mod subscription;

pub use cold::Cold;
pub use command::{AskError, Asks, Figures, Ingest, IngestError, Joined, LinePlace, Reply, Taken};
pub use driver::{Driver, Fed, Nothing};
pub use handle::{HubHandle, Waker};
pub use heartbeat::heartbeat;
pub use hub::{Hub, HubError, HubOptions, TextsAt};
pub use lines::{LinesOf, handed_over_dialect, line_ingests};
pub use live::Live;
pub use piped::Piped;
pub use posted::{Posted, PostedError};
pub use replay::{Recording, Replay};
pub use session_sources::{SessionSources, SourcesError, knows_more};
pub use spooled::{SpoolStop, Spooler, delivery_key, hook_ingest, take_spool};
pub use stop::{StopError, Stopping};
pub use subscope_store::{Commit, History, Keeper, Ledger, LedgerError, ListQuery, Memory, Named, Received};
pub use subscription::{Inlet, Offered, Subscription};
