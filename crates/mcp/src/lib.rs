//! MCP servers over stdio: an agent command as a tool ([`AgentServer`]), and what is known of sessions for agents that ask
//! ([`QueryServer`]).
//!
//! stdout carries MCP and nothing else: no module here prints. A server ends when its client closes the connection or a signal
//! comes, and then everything that it started has ended.
//!
//! Absent on purpose: the store, the hub and a clock. What is asked goes to whoever hosts the server ([`Question`]); events
//! leave through `client`'s `Publisher`; the time is handed in.

mod agent;
mod query;
mod stdio;

pub use agent::{AgentServer, AgentSpec, FinalAnswer, Origin};
pub use query::{Answer, Ask, QueryServer, Question, Scope};
pub use stdio::{Ends, Gone, ServeError, serve};
