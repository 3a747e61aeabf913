//! The Agent Client Protocol: messages of JSON-RPC between an editor and an agent, which may be of any vendor.
//!
//! * [`messages`]: the messages of either direction, recorded with one or bare. [`updates`]: what an agent says of a session.
//! * [`agents`]: how the agents of the harnesses speak it.
//! * [`programs`]: which commands start an agent that speaks it. [`recorder`] records the messages of a running one.
//! * [`log`] decodes the messages of one connection; [`calls`] are its tool calls.

mod agents;
mod calls;
mod log;
mod messages;
mod programs;
mod recorder;
#[cfg(test)]
mod tests;
mod updates;

use subscope_decode::{Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, session_of};

pub use self::{
    agents::AcpAgent,
    messages::Peer,
    programs::is_acp_command,
    recorder::{AcpRecorder, StoppableChild},
};
pub(crate) use self::{
    agents::{AgentWords, PromptTokens},
    messages::{is_message, parsed},
};

/// The messages of one connection, in one direction or in both, of all of its sessions.
pub const MESSAGES: Dialect = Dialect::new(&DialectSpec {
    session_of: |lines| session_of(lines.split(|byte| *byte == b'\n').next()?),
    line_session: |line| session_of(line).map_or(LineSession::Unknown, LineSession::Named),
    lifecycle: Lifecycle { changes: log::CHANGES, opens: Some(log::OPENS), spawns: None },
    ..DialectSpec::new("acp.messages", |hint| {
        Box::new(LinesDecoder::new(hint.source, log::AcpConnection::new(hint)))
    })
});
