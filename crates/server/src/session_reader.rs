//! Sessions read again from their sources (files and inbox), for past states and complete event histories. The hub only
//! has current rows; the caller that starts the server supplies the reader.

use std::sync::Arc;

use subscope_export::{Mask, OtlpRequest, execution};
use subscope_hub::{AskError, ReplyCallback};
use subscope_model::{Event, ExecutionTrace, Millis, SessionId, Tree};

use crate::{api_error::ApiError, ask::ask, state::App};

/// A session read from its sources.
#[derive(Clone, Debug)]
pub struct SessionHistory {
    /// Rows, at the requested time or now.
    pub tree: Tree,
    /// All events until then in order of time, with `seq` counted from 1.
    pub events: Vec<Event>,
    /// Execution traces of its subagents, if requested.
    pub traces: Vec<ExecutionTrace>,
    /// OpenTelemetry spans without contents, if requested; `None` if its sources are gone: they are not made of rows.
    pub spans: Option<Vec<OtlpRequest>>,
}

/// Options of reading a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryRequest {
    /// Time of the state to return; `None` for now.
    pub at: Option<Millis>,
    /// Include execution traces, which contain tool inputs and outputs.
    pub traces: bool,
    /// Include OpenTelemetry spans, masked so; `None` to leave them out.
    pub spans: Option<Mask>,
}

/// The sources of a session cannot be read, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableSession(pub String);

/// A session; `None` if there is no such session.
pub type HistoryResult = Result<Option<SessionHistory>, UnreadableSession>;

/// Callback that reads a session. It must not block: it replies from a thread of its own.
pub type SessionReader = Arc<
    dyn Fn(SessionId, HistoryRequest, ReplyCallback<HistoryResult>) -> Result<(), AskError> + Send + Sync,
>;

/// Maximum number of logged events returned if a session's sources cannot be read.
const MAX_LOGGED_EVENTS: usize = 50_000;

/// Reads a session from its sources; without them from its stored rows and the event log.
pub(crate) async fn read_session(
    app: &App,
    session: SessionId,
    request: HistoryRequest,
) -> Result<SessionHistory, ApiError> {
    if let Some(read) = &app.session_reader {
        let outcome = ask(|reply| read(session.clone(), request, reply)).await?;
        if let Some(history) = outcome.map_err(|error| ApiError::unavailable(error.to_string()))? {
            return Ok(history);
        }
    }
    // Its sources are gone, or there is no reader.
    if request.at.is_some() {
        return Err(ApiError::not_found("record of that moment"));
    }
    let tree = find_tree(app, session.clone()).await?;
    let events = ask(|reply| app.hub.events_after(0, Some(session), MAX_LOGGED_EVENTS, reply)).await?;
    let traces = if request.traces { execution(&tree, &|_| None) } else { Vec::new() };
    Ok(SessionHistory { tree, events: events.unwrap_or_default(), traces, spans: None })
}

/// Queries the stored rows of a session.
pub(crate) async fn find_tree(app: &App, session: SessionId) -> Result<Tree, ApiError> {
    ask(|reply| app.hub.tree(session, reply)).await?.ok_or(ApiError::not_found("session"))
}
