//! IO drivers: discovers and tails transcripts, reads streams, and hands over bytes with file and offset.
//!
//! * [`layout`] knows Claude Code's folders; it is the only module that knows a vendor.
//! * [`expand()`] turns a TARGET into files, grouped by session.
//! * [`read`] and [`stdin`] read what is there, with bounded memory.
//! * [`follow`] reads what is there and then what is written, as it is written.
//! * [`archive`] keeps transcripts that the harness deletes.
//! * [`spool`] keeps hook payloads that no hub took until one does.
//!
//! Nothing here knows what the bytes mean: lines, attribution and display are other crates' matters. The one
//! exception is the session id in the first line of a file whose path does not tell it.

pub mod archive;
mod error;
mod expand;
pub mod follow;
mod frames;
pub mod layout;
mod list;
mod peek;
pub mod read;
pub mod spool;
pub mod stdin;
mod target;

pub use error::CollectError;
pub use expand::{Expanded, Group, Skipped, expand};
pub use layout::{Found, Role};
