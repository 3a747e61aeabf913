//! Types and ingests of stop orders.

use subscope_model::{AgentId, AgentStatus, Millis, SessionId, StopChannel, StopOrder};
use subscope_session::{HookCoverage, STOP_ORDERS};

use crate::command::{Asks, Ingest};

/// Partition of all stop orders.
pub(crate) const ORDERS_SOURCE: &str = "stop-orders";

/// A saved order: the agent gets it as the answer to the next hook of one of its own calls, or its publisher as the
/// answer to its next event.
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
    /// Whether delivery is certain: a hook of its session has named an agent, or a program publishes the agent.
    pub is_reached: bool,
    /// How it is delivered.
    pub told_by: StopChannel,
}

/// Why an order was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No agent has such an id.
    #[error("no such agent")]
    Unknown,
    /// The main thread is no subagent.
    #[error("the main agent cannot be stopped this way: interrupt it in its own terminal")]
    Root,
    /// Several agents match.
    #[error("{0} agents at work have an id that begins so: give more of it, or its session")]
    Ambiguous(usize),
    /// The agent has ended, or counts as lost.
    #[error("the agent has ended already: {}", .0.as_str())]
    Ended(AgentStatus),
    /// Nothing could deliver the order.
    #[error(
        "it cannot be reached: no hook of its session has named it, and no program publishes it: `subscope hooks install`, then start the session again"
    )]
    NoChannel,
    /// The harness can stop no agent alone.
    #[error("it cannot be stopped alone: {0}")]
    Harness(&'static str),
    /// The agent's machine is not connected, or refused the order.
    #[error("{0}")]
    Remote(String),
    /// The order could not be saved.
    #[error("{0}")]
    Store(String),
}

/// Returns how an order for an agent is delivered, and whether that is certain. `is_heard`: a program publishes what the
/// agent does.
///
/// # Errors
/// If nothing can deliver it.
pub(crate) fn stop_channel(is_heard: bool, hooked: HookCoverage) -> Result<(StopChannel, bool), StopError> {
    if is_heard {
        return Ok((StopChannel::Publisher, true));
    }
    match hooked {
        HookCoverage::No => Err(StopError::NoChannel),
        HookCoverage::Unnamed => Ok((StopChannel::Hook, false)),
        HookCoverage::Named => Ok((StopChannel::Hook, true)),
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
        // Texts and numbers only: serializing cannot fail.
        body: serde_json::to_vec(order).unwrap_or_default(),
        begins: None,
        asks: Asks::Nothing,
    }
}

/// Returns the key of a user's order.
pub(crate) fn asked_key(session: &SessionId, agent: &AgentId, at_ms: Millis) -> String {
    format!("asked/{session}/{agent}/{at_ms}")
}
