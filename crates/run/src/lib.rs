//! Runs a command under observation: what a run consists of beside what is printed of it.
//!
//! Flow: [`Job`] starts the child and lives its life as a job of the terminal. Its standard output goes through [`pass`]: out
//! first, then into a record's file, then to a [`LineTap`], which cuts lines and hands them to bounded [`Queue`]s: one is the
//! [`RunDriver`] driver of the run's own hub, which knows nothing but this run (also by the transcripts of sessions that [`SessionFinder`]
//! finds the command's processes in); the other is emptied by [`keep`] into the hub of
//! this machine, or into the spool for the next hub. Events that the child's descendants post come in by the [`Listener`] and take the same two ways.
//!
//! Bytes never wait for any of that. Where a queue is full, lines that change how agents stand are still taken; others are
//! skipped, counted and told.
//!
//! Absent on purpose: printing, options, rules, a vendor's words (these are `decode`'s).

mod error;
mod event_relay;
pub mod forward;
mod job;
mod line_tap;
mod listener;
pub mod passthrough;
mod queue;
pub mod record;
mod run_driver;
mod session_finder;

pub use error::RunError;
pub use event_relay::{EventRoute, Posted, Upstream};
pub use job::{Ended, Handover, IN_FOREGROUND, Job, Signals, Streams, in_foreground};
pub use line_tap::{LineTap, SessionName};
pub use listener::Listener;
pub use queue::{Queue, Skipped};
pub use run_driver::{FollowRequests, Over, RunDriver};
pub use session_finder::{Followed, Home, SessionFinder};

/// The variable that names where programs post events about their subagents (requirement 4.2).
pub const ADDRESS_VARIABLE: &str = "CPE_SUBAGENT_LOGGING_ADDRESS";
