//! Client library of the hub: queries and live feed, over its Unix socket or loopback TCP.
//!
//! [`Client`] sends one request at a time over a keep-alive connection; its questions are those of [`Queries`]. [`LiveFeed`] is a [`subscope_model::Feed`] that
//! survives a restart of the hub: it reconnects and resumes after the last position read. [`Fit`] checks version
//! compatibility.
//!
//! [`http`] is the HTTP/1.1 client underneath: [`http::request`] and [`http::exchange`] suffice for a single post.
//!
//! [`hook`] is what a hook that waits for a decision agrees on with the hub.
//!
//! [`publish`] lets an agent post its subagents' events to a listener on this machine.
//!
//! With the feature `push`, [`push`] posts traces to a receiver of OpenTelemetry that a person names, [`forward`] snapshots of
//! sessions to a team's server, which a [`Client`] can ask too; all over TLS.
//!
//! Made to be embedded: without that feature it depends on the standard library, the operating system's calls, JSON and the model; no async runtime, no threads.
//!
//! It does not start hubs: [`LiveFeed`] gets its [`Client`]s from a [`ConnectFn`], which may.

mod client;
mod clock;
mod connection;
mod error;
mod fit;
#[cfg(feature = "push")]
pub mod forward;
pub mod hook;
pub mod http;
mod live_feed;
#[cfg(feature = "push")]
mod outgoing;
#[cfg(feature = "push")]
mod polled_feed;
pub mod publish;
#[cfg(feature = "push")]
pub mod push;
#[cfg(feature = "push")]
mod remote;
mod sse;

pub use client::{Client, IngestAnswer};
pub use connection::{Address, connect_socket};
pub use error::ClientError;
pub use fit::Fit;
pub use live_feed::{ConnectFn, LiveFeed};
#[cfg(feature = "push")]
pub use polled_feed::PolledFeed;
#[cfg(feature = "push")]
pub use remote::Remote;
pub use subscope_platform::{check_owner, check_private_folder};
pub use subscope_query::{ListQuery, Queries, QueryError, QueryResult};
