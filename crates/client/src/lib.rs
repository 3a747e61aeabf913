//! A hub for whoever asks it: questions and a live feed, over its Unix socket or loopback TCP.
//!
//! [`Client`] asks: one connection that is kept open, one question at a time. [`Live`] follows: a [`subscope_model::Feed`] that
//! survives the death of the hub, since it connects again and goes on behind the last place it read. [`Fit`] says whether two
//! versions can talk to each other.
//!
//! [`publish`] is the other direction: an agent tells what its subagents do, to whoever listens on this machine.
//!
//! It is made to be embedded: the standard library, system calls by `rustix`, JSON and the model, no runtime, no thread.
//!
//! Absent on purpose: starting a hub (whoever connects is asked for a [`Client`] and may start one), the store, rules.

mod client;
mod clock;
mod connection;
mod error;
mod fit;
mod http;
mod ingest;
mod live_feed;
pub mod publish;
mod sse;

pub use client::{Client, SessionQuery};
pub use connection::{Address, connect_socket};
pub use error::ClientError;
pub use fit::{Fit, Own};
pub use live_feed::{Connect, LiveFeed};
