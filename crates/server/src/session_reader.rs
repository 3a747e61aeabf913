//! Sessions read again from their sources (files and inbox), for past states and complete event histories. The hub only
//! has current rows; the caller that starts the server supplies the reader.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use subscope_hub::{AskError, ReplyCallback, clock};
use subscope_model::{EventRecord, Millis, Payload, SessionDetail, SessionId, Text, Tree};
use subscope_query::{Queries, QueryResult};
use tokio::time::timeout;

use crate::{
    api_error::ApiError,
    ask::ask,
    routes::{QuestionServer, document},
    state::{AppState, IndexRequest},
};

/// Returns the JSON text of a payload; `None` if its source cannot be read any more. It may read files.
pub type PayloadReader = Box<dyn Fn(&Payload) -> Option<String> + Send + Sync>;

/// A session read from its sources.
pub struct SessionHistory {
    /// Rows, at the requested time or now.
    pub tree: Tree,
    /// All events until then in order of time, with `seq` counted from 1; none if they were not requested.
    pub events: Vec<EventRecord>,
    /// Runs and responses; `None` if they were not requested, or the sources are gone.
    pub detail: Option<SessionDetail>,
    /// Reads what the rows and events leave in the sources.
    pub resolve: PayloadReader,
    /// Returns OpenTelemetry's name of the provider of a harness's model.
    pub provider: fn(Option<&str>, Option<&str>) -> Option<&'static str>,
}

/// Options of reading a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryRequest {
    /// Time of the state to return; `None` for now.
    pub at: Option<Millis>,
    /// Whether events are wanted.
    pub has_events: bool,
    /// Whether runs, responses and the payloads of calls are wanted.
    pub has_detail: bool,
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

/// Time that a search waits for the full text of what is on disk.
const INDEX_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of logged events returned if a session's sources cannot be read.
const MAX_LOGGED_EVENTS: usize = 50_000;

/// Reads a session from its sources; without them from its stored rows and the event log.
pub(crate) async fn read_session(
    app: &AppState,
    session: SessionId,
    request: HistoryRequest,
) -> Result<SessionHistory, ApiError> {
    if let Some(read) = &app.session_reader {
        let outcome = ask(|reply| read(session.clone(), request, reply)).await?;
        if let Some(history) = outcome.map_err(|error| ApiError::unavailable(error.to_string()))? {
            return Ok(history);
        }
    }
    if let Some(history) = read_demo(app, &session, request).await? {
        return Ok(history);
    }
    // Its sources are gone, or there is no reader.
    if request.at.is_some() {
        return Err(ApiError::not_found("record of that moment"));
    }
    let tree = app.find_tree(&(), session.clone()).await?;
    let events = ask(|reply| app.hub.events_after(0, Some(session), MAX_LOGGED_EVENTS, reply)).await?;
    let events = events.unwrap_or_default().into_iter().map(EventRecord::from).collect();
    Ok(SessionHistory { tree, events, detail: None, resolve: Box::new(|_| None), provider: |_, _| None })
}

/// Reads the session of the demo; `None` if that has another id, or had not begun at the requested time.
async fn read_demo(
    app: &AppState,
    session: &SessionId,
    request: HistoryRequest,
) -> Result<Option<SessionHistory>, ApiError> {
    let Some(demo) = app.demo.as_ref().filter(|demo| demo.session == *session) else { return Ok(None) };
    let read = Arc::clone(&demo.read);
    let outcome = tokio::task::spawn_blocking(move || read(request)).await;
    let outcome = outcome.map_err(|_| ApiError::unavailable("the demo cannot be read"))?;
    outcome.map_err(|error| ApiError::unavailable(error.to_string()))
}

impl QuestionServer for AppState {
    /// The guard has let it in: it may see everything.
    type Scope = ();

    async fn ask<T: Send + 'static>(
        &self,
        (): &(),
        session: Option<SessionId>,
        question: impl FnOnce(&mut dyn Queries) -> QueryResult<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(ask(|reply| self.hub.ask(session, reply, question)).await??)
    }

    /// Returns the stored rows, or those of the demo.
    async fn find_tree(&self, scope: &(), session: SessionId) -> Result<Tree, ApiError> {
        let id = session.clone();
        if let Some(tree) = self.ask(scope, Some(session.clone()), move |queries| queries.tree(&id)).await? {
            return Ok(tree);
        }
        let demo = read_demo(self, &session, HistoryRequest::default()).await?;
        demo.map(|history| history.tree).ok_or(ApiError::not_found("session"))
    }

    async fn tree_at(&self, (): &(), session: SessionId, at: Millis) -> Result<Tree, ApiError> {
        let request = HistoryRequest { at: Some(at), ..HistoryRequest::default() };
        read_session(self, session, request).await.map(|history| history.tree)
    }

    async fn catch_up_texts(&self) -> bool {
        let Some(index) = &self.indexer else { return false };
        let caught_up = timeout(INDEX_TIMEOUT, ask(|reply| index(IndexRequest::Texts(reply)))).await;
        !matches!(caught_up, Ok(Ok(())))
    }

    fn unsearched(&self) -> Vec<Text> {
        let machines = self.remotes.as_ref().map(|read| read()).unwrap_or_default();
        machines.into_iter().filter(|machine| !machine.is_searched()).map(|machine| machine.name).collect()
    }

    fn drawn_until(&self) -> Option<Millis> {
        Some(clock::now_ms())
    }

    fn document() -> serde_json::Result<Value> {
        document()
    }
}
