//! Writers of the records that other programs read, one module per format.
//!
//! Everything here is a function from rows and events to bytes. Big payloads are not in the rows: their text
//! comes through a [`Resolve`] that the caller passes in. Only `checkpoint` touches files, because a checkpoint
//! is by definition a folder that is replaced whole.
//!
//! This crate knows no network, no clock and no vendor.

mod checkpoint;
mod checkpoint_tree;
mod csv;
mod execution;
mod feed;
mod html;
mod redact;
#[cfg(test)]
mod sample;
mod spans;
mod trace;

pub use checkpoint::{
    CHECKPOINT_FILE, ImportError, METADATA_FILE, SaveError, read_checkpoint, write_checkpoint,
};
pub use checkpoint_tree::checkpoint_tree;
pub use csv::write_csv;
pub use execution::{execution, execution_trace, write_execution};
pub use feed::{FeedWriter, Shape, write_feed};
pub use html::{Saved, write_html};
pub use redact::{Mask, Redacted};
pub use trace::{trace, write_trace};

/// Gives the JSON value of a payload; `None` where its source cannot be read any more.
pub type Resolve<'r> = dyn Fn(&subscope_model::Payload) -> Option<serde_json::Value> + 'r;
