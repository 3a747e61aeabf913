//! Types and ingests of stop orders.

use subscope_model::{AgentId, AgentStatus, Millis, SessionId, StopOrder};
use subscope_session::{HookCoverage, STOP_ORDERS};

use crate::command::{Asks, Ingest};

/// Partition of all stop orders.
pub(crate) const ORDERS_SOURCE: &str = "stop-orders";

/// A saved order: the agent gets it as the answer to the next hook of one of its own calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReceipt {
    /// The agent's session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// Display name.
    pub title: String,
    /// Whether it was ordered before, so that no new order was saved.
    pub is_repeat: bool,
    /// Whether a hook of its session has named an agent: only then is delivery certain.
    pub is_reached: bool,
}

/// Why an order was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No agent has such an id.
    #[error("no such agent")]
    Unknown,
    /// The main thread is no subagent.
    #[error("the main thread is not stopped this way: interrupt it where it runs")]
    Root,
    /// Several agents match.
    #[error("{0} agents at work have an id that begins so: give more of it, or its session")]
    Ambiguous(usize),
    /// The agent has ended, or counts as lost.
    #[error("the agent has ended already: {}", .0.as_str())]
    Ended(AgentStatus),
    /// No hook could deliver the order.
    #[error(
        "no hook of its session has come here, so that it cannot be told: `subscope hooks install`, then start the session anew"
    )]
    NoHooks,
    /// The order could not be saved.
    #[error("{0}")]
    Store(String),
}

/// Whether a session's hooks certainly deliver an order.
///
/// # Errors
/// If the session has no hooks.
pub(crate) fn is_delivery_certain(hooked: HookCoverage) -> Result<bool, StopError> {
    match hooked {
        HookCoverage::No => Err(StopError::NoHooks),
        HookCoverage::Unnamed => Ok(false),
        HookCoverage::Named => Ok(true),
    }
}

/// Returns the ingest of one line about an order, under a unique `key`.
pub(crate) fn order_ingest(key: String, order: &StopOrder) -> Ingest {
    Ingest {
        source: ORDERS_SOURCE.to_owned(),
        session: Some(order.session_id.as_str().to_owned()),
        dialect: Some(STOP_ORDERS),
        key,
        received_ms: Some(order.at_ms),
        // Texts and numbers only: serialising cannot fail.
        body: serde_json::to_vec(order).unwrap_or_default(),
        begins: None,
        asks: Asks::Nothing,
    }
}

/// Returns the key of a user's order.
pub(crate) fn asked_key(session: &SessionId, agent: &AgentId, at_ms: Millis) -> String {
    format!("asked/{session}/{agent}/{at_ms}")
}
