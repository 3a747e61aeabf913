//! Client library of the hub: queries and live feed, over its Unix socket or loopback TCP.
//!
//! [`Client`] sends one request at a time over a keep-alive connection. [`LiveFeed`] is a [`subscope_model::Feed`] that
//! survives a restart of the hub: it reconnects and resumes after the last position read. [`Fit`] checks version
//! compatibility.
//!
//! [`http`] is the HTTP/1.1 client underneath: [`http::request`] and [`http::exchange`] suffice for a single post.
//!
//! [`publish`] lets an agent post its subagents' events to a listener on this machine.
//!
//! With the feature `push`, [`push`] posts traces to a receiver of OpenTelemetry that a person names, over TLS too.
//!
//! Made to be embedded: without that feature it depends on the standard library, `rustix`, JSON and the model; no async runtime, no threads.
//!
//! It does not start hubs: [`LiveFeed`] gets its [`Client`]s from a [`ConnectFn`], which may.

mod client;
mod clock;
mod connection;
mod error;
mod fit;
pub mod http;
mod live_feed;
pub mod publish;
#[cfg(feature = "push")]
pub mod push;
mod sse;

pub use client::{Client, IngestAnswer, SessionQuery};
pub use connection::{Address, connect_socket};
pub use error::ClientError;
pub use fit::Fit;
pub use live_feed::{ConnectFn, LiveFeed};
