//! MCP servers over stdio: [`AgentServer`] runs an agent command as a tool, [`QueryServer`] lets agents query sessions.
//!
//! stdout carries only MCP: no module here prints. A server ends when its client closes the connection or a signal
//! arrives; by then every process that it started has ended.
//!
//! No access to store, hub or clock: queries go to the host process as [`Question`]s, events are published with
//! `client`'s `Publisher`, the clock is a parameter.

mod agent;
mod query;
mod stdio;

pub use agent::{AgentServer, AgentSpec, FinalAnswer, IsStopRequested};
pub use query::{QueryError, QueryHost, QueryServer, Question, QuestionSender, Scope};
pub use stdio::{ClientGone, ServeError, Shutdown, serve};
