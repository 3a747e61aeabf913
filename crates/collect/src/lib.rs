//! IO drivers: discovers and tails transcripts, reads streams, and passes on bytes with file and offset.
//!
//! Where transcripts are, and how files are classified, is known to `harness`.
//!
//! * [`expand()`] turns a TARGET into files, grouped by session.
//! * [`read`] and [`stdin`] read existing content, with bounded memory.
//! * [`follow`] reads existing content, and then new content as it is written.
//! * [`archive`] keeps transcripts that the harness deletes.
//! * [`work_tree()`] finds the project of a working directory that is a linked work tree of git.
//! * [`spool`] keeps hook payloads that no hub took until one does.
//!
//! Nothing here knows what the bytes mean: lines, attribution and display are other crates' matters.

pub mod archive;
mod bundle;
mod error;
mod expand;
pub mod fault;
pub mod follow;
mod found;
mod frames;
mod list;
mod packed;
mod peek;
pub mod read;
mod sessions;
mod source;
pub mod spool;
pub mod stdin;
mod target;
mod understood;
mod work_tree;

pub use bundle::{newest_session, stated_totals};
pub use error::CollectError;
pub use expand::{Expanded, Group, Skipped, expand};
pub use found::Found;
pub use list::{is_harness_output, is_recording_name};
pub use sessions::{main_transcripts, sessions_below, transcripts_naming, transcripts_since};
pub use source::{bundled, length};
pub use understood::{not_understood, sessions_not_understood, unread_databases};
pub use work_tree::{Repository, repository, small_file, work_tree};
