//! Events that programs publish about their own subagents: which session each belongs to, and by which key a repeat of it is
//! known. However an event comes (posted, spooled) it is placed here, so that one that came both ways counts once.

mod run_parents;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use subscope_fold::SUBAGENT_EVENTS;
use subscope_model::{AgentId, SessionId, event_id};

use self::run_parents::RunParents;
use crate::command::{Asks, Ingest};

/// The type of an event that begins a run: one that names no parent has none.
const START: &str = "subagent_start";

/// What of an event decides where it goes. Everything else is the decoder's.
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

/// Why an event cannot be taken. The text repeats nothing of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostedError {
    /// It is no JSON object.
    #[error("not a JSON object (column {0})")]
    NotJson(usize),
    /// It has not what every event has (requirement 4.1).
    #[error("{0} is missing, empty or of the wrong type")]
    Missing(&'static str),
}

/// An event with its place.
#[derive(Debug)]
pub struct Posted {
    /// What is handed over.
    pub ingest: Ingest,
    /// The run that decides about its session, where this process has not seen it start: a hub of before may have. Then
    /// whoever has the event asks for that agent, tells what it found ([`crate::HubHandle::resolve_posted`]), and places it anew.
    pub unsettled: Option<AgentId>,
}

/// What the session of events is called of which none names one, in front of the run at their root.
const SESSION: &str = "events:";

/// Which run was started by which, shared by all who hand a hub events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Posts(Arc<RunParents>);

impl Posts {
    /// Finds an event's session and key.
    pub(crate) fn place(&self, body: Vec<u8>) -> Result<Posted, PostedError> {
        let event: Envelope<'_> =
            serde_json::from_slice(&body).map_err(|error| PostedError::NotJson(error.column()))?;
        let Envelope { timestamp, .. } = event;
        event.subagent_name.as_str().ok_or(PostedError::Missing("subagentName"))?;
        let run = text(&event.subagent_run_id).ok_or(PostedError::Missing("subagentRunId"))?;
        let is_stamp =
            |raw: &&str| raw.starts_with(['"', '-']) || raw.starts_with(|first: char| first.is_ascii_digit());
        let stamp = timestamp.map(RawValue::get).filter(is_stamp).filter(|raw| *raw != "\"\"");
        let stamp = stamp.ok_or(PostedError::Missing("timestamp"))?;
        let kind = text(&event.kind).ok_or(PostedError::Missing("type"))?;
        let (session, unsettled) = match text(&event.session_id) {
            Some(session) => (session.to_owned(), None),
            None => {
                let parent = text(&event.parent_run_id);
                if parent.is_none() && kind == START {
                    self.0.settle(run, run);
                }
                let root = self.0.root(run, parent);
                (format!("{SESSION}{}", root.run), (!root.is_settled).then(|| root.run.as_str().into()))
            }
        };
        // Design, "Keys": its own id, else the call's, else what it says.
        let key = match (text(&event.event_id), text(&event.tool_call_id)) {
            (Some(id), _) => format!("id/{id}"),
            (None, Some(call)) => format!("call/{run}/{call}/{kind}"),
            (None, None) => {
                format!("hash/{run}/{stamp}/{}", event_id(&session, &String::from_utf8_lossy(&body)))
            }
        };
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
        Ok(Posted { ingest, unsettled })
    }

    /// Says of an unsettled run in which sessions there is an agent of that id.
    pub(crate) fn settle(&self, run: &AgentId, sessions_of_agent: &[SessionId]) {
        let root = sessions_of_agent.iter().find_map(|session| session.as_str().strip_prefix(SESSION));
        self.0.settle(run.as_str(), root.unwrap_or(run.as_str()));
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
