//! The Agent Client Protocol: messages of JSON-RPC between an editor and an agent, which may be of any vendor.
//!
//! * [`messages`]: the messages of either direction, recorded with one or bare. [`updates`]: what an agent says of a session.
//! * [`agents`]: how the agents of the harnesses speak it.
//! * [`log`] decodes the messages of one connection; [`calls`] are its tool calls.

mod agents;
mod calls;
mod log;
mod messages;
#[cfg(test)]
mod tests;
mod updates;

use subscope_decode::{Dialect, DialectSpec, Lifecycle, LinesDecoder};

pub use self::agents::AcpAgent;
pub(crate) use self::{
    agents::{AgentWords, PromptTokens},
    messages::{is_message, parsed},
};

/// The messages of one connection, in one direction or in both, of all of its sessions.
pub const MESSAGES: Dialect = Dialect::new(&DialectSpec {
    lifecycle: Lifecycle { changes: log::CHANGES, opens: Some(log::OPENS), spawns: None },
    ..DialectSpec::new("acp.messages", |hint| {
        Box::new(LinesDecoder::new(hint.source, log::AcpConnection::new(hint)))
    })
});
