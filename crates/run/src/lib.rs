//! Runs a command under observation: what a run consists of beside what is printed of it.
//!
//! Flow: [`Job`] starts the child and lives its life as a job of the terminal. Its standard output goes through [`pass`]: out
//! first, then into a record's file, then to a [`Tap`], which cuts lines and hands them to bounded [`Queue`]s: one is the
//! [`Tapped`] driver of the run's own hub, which knows nothing but this run (also by the transcripts of sessions that [`Kin`]
//! finds the command's processes in); the other is emptied by [`keep`] into the hub of
//! this machine, or into the spool for the next hub. Events that the child's descendants post come in by the [`Listener`] and take the same two ways.
//!
//! Bytes never wait for any of that. Where a queue is full, lines that change how agents stand are still taken; others are
//! skipped, counted and told.
//!
//! Absent on purpose: printing, options, rules, a vendor's words (these are `decode`'s).

mod error;
mod job;
pub mod keep;
mod kin;
mod listener;
pub mod pass;
mod posted;
mod queue;
pub mod record;
mod tap;
mod tapped;

pub use error::RunError;
pub use job::{Ended, Handover, IN_FOREGROUND, Job, Signals, Streams, in_foreground};
pub use kin::{Followed, Home, Kin};
pub use listener::Listener;
pub use posted::{Posted, Upstream, Way};
pub use queue::{Queue, Skipped};
pub use tap::{SessionName, Tap};
pub use tapped::{Following, Over, Tapped};

/// The variable that names where programs post events about their subagents (requirement 4.2).
pub const ADDRESS_VARIABLE: &str = "CPE_SUBAGENT_LOGGING_ADDRESS";
