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

mod batch;
pub mod clock;
mod command;
mod driver;
mod duplicates;
mod event_loop;
mod event_routing;
mod file_tail;
mod file_thread;
mod handle;
mod heartbeat;
pub mod index;
mod ingest_batches;
mod partitions;
mod replay;
pub mod search;
mod session_sources;
mod spool_drain;
mod stop;
mod stream;
mod subscription;
mod suspend;

pub use batch::BatchRead;
pub use command::{AskError, Asks, Figures, Ingest, IngestError, Joined, LinePlace, Reply, Taken};
pub use driver::{Driver, Nothing, PollResult};
pub use event_loop::{Hub, HubError, HubOptions, TextsAt};
pub use event_routing::{Posted, PostedError};
pub use file_tail::FileTailDriver;
pub use handle::{HubHandle, Waker};
pub use heartbeat::heartbeat;
pub use ingest_batches::{LinesOf, handed_over_dialect, line_ingests};
pub use replay::{Recording, Replay};
pub use session_sources::{SessionSources, SourcesError, knows_more};
pub use spool_drain::{SpoolStop, Spooler, delivery_key, drain_spool, hook_ingest};
pub use stop::{StopError, Stopping};
pub use stream::StreamDriver;
pub use subscope_store::{
    AgentLabel, Commit, History, Ledger, ListQuery, MemoryStore, ReceivedInput, Store, StoreError,
};
pub use subscription::{Inlet, Offered, Subscription};
