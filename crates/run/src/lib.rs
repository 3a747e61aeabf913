//! Runs a command under observation.
//!
//! Flow: [`ChildJob`] starts the child as a job of the terminal. [`passthrough`] copies its standard output to ours,
//! then to a record's file, then to a [`LineTap`], which cuts it into lines and enqueues them in bounded
//! [`LineQueue`]s. One feeds the [`RunDriver`] of the run's own hub, which knows only this run; it also follows
//! transcripts of sessions that [`SessionFinder`] finds. [`forward`] drains the other into the machine's hub, or into
//! the spool for the next hub. Events and OpenTelemetry records of child processes arrive at the [`Listener`] and take
//! the same two routes.
//!
//! With an agent that speaks the Agent Client Protocol both of its streams are passed on and observed: [`AgentInput`] copies
//! the client's messages, and a [`ConnectionTap`] makes one record of what the two sides write, for the same [`LineTap`].
//!
//! [`watch_processes`] runs in the machine's hub: it reports the sessions whose process has ended, including processes
//! that subscope did not start.
//!
//! [`jump()`] shows the terminal in which a session runs.
//!
//! The child's output is never delayed by any of that. A full queue still accepts lines that change an agent's status;
//! others are skipped, counted and reported.
//!
//! The modules of the child, its terminal and its pipes are those of Unix: on Windows nothing is run yet.
//!
//! Absent on purpose: printing, options, rules, vendor formats (these are in `decode`).

#![cfg_attr(windows, allow(dead_code, reason = "some that only the modules of Unix use"))]

#[cfg(unix)]
mod agent_input;
mod child_exit;
#[cfg(unix)]
mod connection_tap;
mod error;
pub mod forward;
#[cfg(unix)]
mod job;
mod jump;
mod line_cutter;
mod line_tap;
mod listener;
#[cfg(unix)]
pub mod passthrough;
mod post_relay;
mod process_end;
mod process_identity;
mod process_notes;
mod process_watch;
mod queue;
pub mod record;
mod run_driver;
mod session_finder;
mod working_folder;

#[cfg(unix)]
pub use agent_input::AgentInput;
pub use child_exit::ChildExit;
#[cfg(unix)]
pub use connection_tap::ConnectionTap;
pub use error::CommandRunError;
#[cfg(unix)]
pub use job::{ChildJob, IN_FOREGROUND, Signals, in_foreground};
pub use jump::jump;
pub use line_tap::{LineTap, SessionName};
pub use listener::Listener;
pub use post_relay::{PostRoute, RecordSessions, Upstream, relay_posts};
pub use process_end::{EndedSessions, report_process_end};
pub use process_notes::HarnessHome;
pub use process_watch::watch_processes;
pub use queue::{LineQueue, SkippedLines};
pub use run_driver::{RunDriver, RunHandle};
pub use session_finder::{FollowedSessions, SessionFinder, session_of_caller, session_of_parent};
pub use working_folder::WorkingFolder;

pub use subscope_client::publish::ADDRESS_VARIABLE;
