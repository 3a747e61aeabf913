//! What is said about orders that a subagent stop.

use subscope_fold::{Hooked, STOP_ORDERS};
use subscope_model::{AgentId, AgentStatus, Millis, SessionId, StopOrder};

use crate::command::{Asks, Ingest};

/// The partition of all orders.
pub(crate) const ORDERS: &str = "stop-orders";

/// An order that is kept: the agent is told by the answer to the next hook of a call of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopping {
    /// The agent's session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// How people know it.
    pub title: String,
    /// Whether it was asked before, and nothing new was ordered.
    pub is_repeat: bool,
    /// Whether a hook of its session has named an agent: only then is it certain that one can be told.
    pub is_reached: bool,
}

/// Why nothing was ordered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No agent has such an id.
    #[error("no such agent")]
    Unknown,
    /// The main thread is no subagent.
    #[error("the main thread is not stopped this way: interrupt it where it runs")]
    Root,
    /// Several have.
    #[error("{0} agents at work have an id that begins so: give more of it, or its session")]
    Ambiguous(usize),
    /// It has ended, or counts as lost.
    #[error("the agent has ended already: {}", .0.as_str())]
    Ended(AgentStatus),
    /// Nobody would be told.
    #[error(
        "no hook of its session has come here, so that it cannot be told: `subscope hooks install`, then start the session anew"
    )]
    NoHooks,
    /// It could not be kept.
    #[error("{0}")]
    Store(String),
}

/// Whether a session's hooks can carry an order, and for certain.
pub(crate) fn reach(hooked: Hooked) -> Result<bool, StopError> {
    match hooked {
        Hooked::No => Err(StopError::NoHooks),
        Hooked::Unnamed => Ok(false),
        Hooked::Named => Ok(true),
    }
}

/// Returns the ingest of a line about an order. `key` tells it from all others.
pub(crate) fn order_ingest(key: String, order: &StopOrder) -> Ingest {
    Ingest {
        source: ORDERS.to_owned(),
        session: Some(order.session_id.as_str().to_owned()),
        dialect: Some(STOP_ORDERS),
        key,
        received_ms: Some(order.at_ms),
        // It is made of texts and numbers: writing it has no way to fail.
        body: serde_json::to_vec(order).unwrap_or_default(),
        begins: None,
        asks: Asks::Nothing,
    }
}

/// Returns the key of a person's order.
pub(crate) fn asked_key(session: &SessionId, agent: &AgentId, at_ms: Millis) -> String {
    format!("asked/{session}/{agent}/{at_ms}")
}
