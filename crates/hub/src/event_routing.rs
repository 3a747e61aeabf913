//! Routes events that programs publish about their own subagents: finds the session of each event and its idempotency
//! key. Posted and spooled events are routed the same way, so that one that arrived both ways counts once.

mod run_parents;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use subscope_model::{AgentId, SessionId, event_id, parse_event_time, safe_id, true_id};
use subscope_session::SUBAGENT_EVENTS;

use self::run_parents::RunParents;
use crate::command::{Asks, Ingest};

/// Type of the event that starts a run. A start event without a parent run marks a root.
const START_TYPE: &str = "subagent_start";

/// Fields of an event that decide its route. All others belong to the decoder.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default)]
    subagent_name: Value,
    #[serde(default, alias = "subagentRunID")]
    subagent_run_id: Value,
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(rename = "type", default)]
    kind: Value,
    #[serde(default, alias = "toolCallID")]
    tool_call_id: Value,
    #[serde(default)]
    parent_run_id: Value,
    #[serde(default)]
    session_id: Value,
    #[serde(default)]
    event_id: Value,
}

/// Why an event is rejected. The message contains no text of the event.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostedError {
    /// It is not a JSON object.
    #[error("not a JSON object (column {0})")]
    NotJson(usize),
    /// A field is there twice, perhaps in two spellings.
    #[error("{0} is there twice")]
    Twice(String),
    /// A field that every event must have (requirement 4.1).
    #[error("{0} is missing, empty or not valid")]
    Missing(&'static str),
}

impl PostedError {
    /// Returns why an event cannot be read.
    fn unread(error: &serde_json::Error) -> Self {
        // No other error of serde names one of our fields.
        let message = error.to_string();
        let field = message.strip_prefix("duplicate field `").and_then(|rest| rest.split_once('`'));
        field.map_or_else(|| Self::NotJson(error.column()), |(field, _)| Self::Twice(field.to_owned()))
    }
}

/// An event with its route.
#[derive(Debug)]
pub struct RoutedEvent {
    /// Ingest of the event.
    pub ingest: Ingest,
    /// The event's run.
    pub run: AgentId,
    /// The run that decides its session, if this process has not seen it start; an earlier hub may have. Then the
    /// caller looks up that agent, passes the result to [`crate::HubHandle::resolve_posted`], and routes the event
    /// again.
    pub unsettled: Option<AgentId>,
}

/// Number of a connection over which events come, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Returns the number of a new connection.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Prefix of the session id of events that name no session; the id of their root run follows.
const SESSION_PREFIX: &str = "events:";

/// Event router, shared by all handles of a hub.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventRouter(Arc<RunParents>);

impl EventRouter {
    /// Finds an event's session and key.
    ///
    /// # Errors
    /// If it is not a JSON object or a required field is missing.
    pub(crate) fn route(
        &self,
        body: Vec<u8>,
        from: Option<ConnectionId>,
    ) -> Result<RoutedEvent, PostedError> {
        let event: Envelope<'_> =
            serde_json::from_slice(&body).map_err(|error| PostedError::unread(&error))?;
        let Envelope { timestamp, .. } = event;
        text(&event.subagent_name).ok_or(PostedError::Missing("subagentName"))?;
        let run = text(&event.subagent_run_id).ok_or(PostedError::Missing("subagentRunId"))?;
        let timestamp = timestamp.map(RawValue::get).filter(|json| parse_event_time(json).is_some());
        let timestamp = timestamp.ok_or(PostedError::Missing("timestamp"))?;
        let kind = text(&event.kind).ok_or(PostedError::Missing("type"))?;
        let (session, unsettled) = match text(&event.session_id) {
            Some(session) => {
                self.0.set_session(run, session, from);
                (session.to_owned(), None)
            }
            None => {
                let parent = text(&event.parent_run_id);
                if parent.is_none() && kind == START_TYPE {
                    self.0.set_root(run, run);
                }
                let root = self.0.root(run, parent);
                // Another program may use the same run id: only who named the session of its run goes on in it unnamed.
                let is_own = |by: Option<ConnectionId>| root.run != run || (by.is_some() && by == from);
                let named = root.session.filter(|(_, by)| is_own(*by)).map(|(session, _)| session);
                let session = named.unwrap_or_else(|| format!("{SESSION_PREFIX}{}", root.run));
                (session, (!root.is_resolved).then(|| AgentId::from_outside(&root.run)))
            }
        };
        let session = safe_id(&session).into_owned();
        // Key: its own id, else the tool call's, else a hash of its content (design, "Keys").
        let key = match (text(&event.event_id), text(&event.tool_call_id)) {
            (Some(id), _) => format!("id/{id}"),
            (None, Some(call)) => format!("call/{run}/{call}/{kind}"),
            (None, None) => {
                format!("hash/{run}/{timestamp}/{}", event_id(&session, &String::from_utf8_lossy(&body)))
            }
        };
        let run = AgentId::from_outside(run);
        let ingest = Ingest {
            source: format!("posted/{session}"),
            session: Some(session),
            begins: None,
            asks: Asks::Nothing,
            dialect: Some(SUBAGENT_EVENTS),
            key,
            received_ms: None,
            body,
        };
        Ok(RoutedEvent { ingest, run, unsettled })
    }

    /// Records the sessions that contain an unresolved run.
    pub(crate) fn resolve(&self, run: &AgentId, sessions_of_agent: &[SessionId]) {
        // Events name runs and sessions by their true ids.
        let run = true_id(run);
        let sessions: Vec<_> = sessions_of_agent.iter().map(|session| true_id(session)).collect();
        let root = sessions.iter().find_map(|session| session.strip_prefix(SESSION_PREFIX));
        match (root, sessions.as_slice()) {
            (None, [session, ..]) => self.0.set_session(&run, session, None),
            (root, _) => self.0.set_root(&run, root.unwrap_or(&run)),
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routes an event of run `r1`; returns its session.
    fn routed(router: &EventRouter, fields: &str, from: Option<ConnectionId>) -> String {
        let event = format!(
            r#"{{"subagentName":"n","subagentRunId":"r1","timestamp":1795700000000,"type":"tool_call"{fields}}}"#
        );
        router.route(event.into_bytes(), from).unwrap().ingest.session.unwrap()
    }

    #[test]
    fn run_goes_on_unnamed_in_its_session_only_over_the_connection_that_named_it() {
        let (router, one, other) = (EventRouter::default(), ConnectionId::next(), ConnectionId::next());
        assert_eq!(routed(&router, r#","sessionId":"A""#, Some(one)), "A");
        assert_eq!(routed(&router, r#","sessionId":"B""#, Some(other)), "B");
        assert_eq!(routed(&router, "", Some(one)), "A");
        for stranger in [Some(other), Some(ConnectionId::next()), None] {
            assert_eq!(routed(&router, "", stranger), "events:r1");
        }
        let child = r#","subagentRunId":"r2","parentRunId":"r1""#;
        let event = format!(r#"{{"subagentName":"n","timestamp":1,"type":"x"{child}}}"#);
        let child = router.route(event.into_bytes(), None).unwrap();
        assert_eq!(child.ingest.session.as_deref(), Some("A"), "who names its parent names its session");
    }

    #[test]
    fn run_of_an_earlier_hub_is_not_joined_by_its_id_alone() {
        let router = EventRouter::default();
        router.resolve(&AgentId::from("r1"), &[SessionId::from("A")]);
        assert_eq!(routed(&router, "", Some(ConnectionId::next())), "events:r1");
        let router = EventRouter::default();
        router.resolve(&AgentId::from("r1"), &[SessionId::from("events:r0")]);
        assert_eq!(routed(&router, "", None), "events:r0");
    }

    #[test]
    fn ids_are_safe_and_found_again() {
        let router = EventRouter::default();
        let event = r#"{"subagentName":"n","subagentRunId":"r $x","timestamp":1,"type":"subagent_start"}"#;
        let routed = router.route(event.into(), None).unwrap();
        assert_eq!(
            (routed.run.as_str(), routed.ingest.session.as_deref()),
            ("r%20%24x", Some("events:r%20%24x"))
        );
        let router = EventRouter::default();
        router.resolve(&routed.run, &[SessionId::from("events:r%20%24x")]);
        let again = router.route(event.into(), None).unwrap();
        assert_eq!(again.ingest.session.as_deref(), Some("events:r%20%24x"));
    }
}
