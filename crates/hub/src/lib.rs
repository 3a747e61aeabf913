//! Owns live sessions, the one writer, subscribers and the only wall clock.
//!
//! Flow: a driver (followed files, a replay) hands over bytes → fold → commit → subscribers. One thread does all of it;
//! others hold a cheap handle and a bounded queue. A new subscriber gets the snapshots and joins the list in the same
//! turn: no gap, no repeat.
//!
//! Loss, by class: `Snapshot` and `Change` are never lost silently (a subscriber that cannot take one is marked and gets
//! a fresh snapshot as soon as it can); events are dropped for a subscriber whose queue is full, counted, and told as
//! `Missed`.
//!
//! Absent on purpose: dialects, HTTP, terminals.

pub mod clock;
mod cold;
mod driver;
mod hub;
pub mod index;
mod live;
mod piped;
mod replay;
mod subscription;

pub use cold::Cold;
pub use driver::{Driver, Fed};
pub use hub::{Hub, HubError, HubOptions};
pub use live::Live;
pub use piped::Piped;
pub use replay::{Recording, Replay};
pub use subscription::Subscription;
