//! Event loop that turns input bytes into session rows and events, saves them and sends them to subscribers.
//!
//! Flow: a driver (tailed files, a replay) or a program (an ingest) delivers bytes → router → commit → subscribers. One
//! thread, the [`Hub`]'s event loop, does all of it and is the only writer of the store; other threads use a cheap
//! [`HubHandle`] in front of a bounded command queue. A new subscriber gets snapshots and is added to the subscriber
//! list in the same turn: no gap, no duplicate. An ingest is acknowledged after it is committed; ingests that wait at
//! the same time share one commit (group commit).
//!
//! Loss by class: `Snapshot` and `Change` are never lost silently (a subscriber with a full queue is marked stale and
//! gets a fresh snapshot as soon as it has room); events are dropped for a subscriber whose queue is full, counted, and
//! reported as `Missed`.
//!
//! Only [`clock`] reads the system clock. Not in this crate: parsing of dialects, HTTP, terminals.

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
mod history;
pub mod index;
mod ingest_batches;
mod loader;
mod otlp;
mod partitions;
mod read_pool;
mod read_view;
mod replay;
pub mod search;
mod session_sources;
mod spool_drain;
mod stop;
mod stream;
mod subscription;
mod suspend;

pub use batch::BatchRead;
pub use command::{
    AskError, Asks, Figures, Ingest, IngestError, IngestReceipt, LinePlace, ReplyCallback, SubscriptionStart,
};
pub use driver::{Driver, Nothing, PollResult};
pub use event_loop::{
    Budgets, FullTextLocation, Hub, HubError, HubOptions, RemoteBatch, RemoteOrder, RemoteOrders,
};
pub use event_routing::{ConnectionId, PostedError, RoutedEvent};
pub use file_tail::FileTailDriver;
pub use handle::{HubHandle, Waker};
pub use heartbeat::heartbeat;
pub use history::{HistoryRows, ReadHistory, RowsSource};
pub use ingest_batches::{LineBatch, delivered_dialect, line_ingests};
pub use loader::Unread;
pub use otlp::{OtlpError, OtlpIngests, ReleasedSpans};
pub use replay::{Recording, Replay};
pub use session_sources::{SessionSources, SourcesError, unread_files_naming};
pub use spool_drain::{SpoolDrain, SpoolStop, Spooler, delivery_key, drain_spool, hook_dialect, hook_ingest};
pub use stop::{StopError, StopReceipt};
pub use stream::StreamDriver;
pub use subscope_harness::{Encoding, MAX_OTLP_BYTES, Signal, otlp_answer};
pub use subscope_session::AskedPermission;
pub use subscope_store::{
    AgentLabel, Commit, History, Ledger, ListQuery, MemoryStore, ReceivedInput, SessionQueries, Store,
    StoreError,
};
pub use subscription::{EnqueueOutcome, HubSubscription, UpdateQueue};
