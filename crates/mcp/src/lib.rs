//! MCP servers over stdio: `AgentServer` runs an agent command as a tool (not on Windows yet), [`QueryServer`] lets agents query sessions.
//!
//! stdout carries only MCP: no module here prints. A server ends when its client closes the connection or a signal
//! arrives; by then every process that it started has ended.
//!
//! No access to store, hub or clock: queries go to the host process as [`Question`]s, events are published with
//! `client`'s `Publisher`, the clock is a parameter.

#[cfg(unix)]
mod agent;
mod answer_rule;
mod query;
mod stdio;

#[cfg(unix)]
pub use agent::{AgentServer, AgentSpec, IsStopRequested};
pub use answer_rule::FinalAnswer;
pub use query::{QueryError, QueryHost, QueryServer, Question, QuestionSender, Scope};
pub use stdio::{ClientGone, ServeError, Shutdown, serve};
