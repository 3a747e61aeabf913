//! Sessions told anew from all that is known of them: their files and what was handed over. The hub knows rows as they are;
//! what they were at a moment of before, and all that was said, is read again by whoever opened the server.

use std::{fmt, sync::Arc};

use subscope_export::execution;
use subscope_hub::{AskError, Reply};
use subscope_model::{Event, ExecutionTrace, Millis, SessionId, Tree};

use crate::{api_error::ApiError, ask::ask, state::App};

/// A session told anew.
#[derive(Clone, Debug)]
pub struct SessionHistory {
    /// Its rows, as they were at the moment that was asked for, else as they are.
    pub tree: Tree,
    /// Everything that happened until then, in order of time, with `seq` counted from 1.
    pub events: Vec<Event>,
    /// The execution traces of its subagents, where they were asked for.
    pub traces: Vec<ExecutionTrace>,
}

/// What of a session is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The moment that it is shown at, if not now.
    pub at: Option<Millis>,
    /// Whether execution traces are wanted: they hold what went into tools and came out of them.
    pub traces: bool,
}

/// What is told: nothing where no such session is known, an error in words where it cannot be read.
pub type ReadOutcome = Result<Option<SessionHistory>, String>;

/// Tells sessions anew. It must not wait: it answers from a thread of its own.
#[derive(Clone)]
pub struct SessionReader(Arc<Ask>);

type Ask = dyn Fn(SessionId, Wanted, Reply<ReadOutcome>) -> Result<(), AskError> + Send + Sync;

impl SessionReader {
    /// One that asks so.
    pub fn new(
        ask: impl Fn(SessionId, Wanted, Reply<ReadOutcome>) -> Result<(), AskError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }
}

impl fmt::Debug for SessionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionReader")
    }
}

/// How much of the change log stands for a session whose sources are not read again.
const LOGGED: usize = 50_000;

/// Tells a session anew.
pub(crate) async fn read_session(
    app: &App,
    session: SessionId,
    wanted: Wanted,
) -> Result<SessionHistory, ApiError> {
    if let Some(SessionReader(tell)) = &app.teller {
        let told = ask(|reply| tell(session.clone(), wanted, reply)).await?;
        if let Some(told) = told.map_err(ApiError::busy)? {
            return Ok(told);
        }
    }
    // Not all that it was made of is kept, or nobody reads it again: there are its rows, and what was logged.
    if wanted.at.is_some() {
        return Err(ApiError::unknown("record of that moment"));
    }
    let tree = ask(|reply| app.hub.tree(session.clone(), reply)).await?;
    let tree = tree.ok_or(ApiError::unknown("session"))?;
    let events = ask(|reply| app.hub.events_after(0, Some(session), LOGGED, reply)).await?;
    let traces = if wanted.traces { execution(&tree, &|_| None) } else { Vec::new() };
    Ok(SessionHistory { tree, events: events.unwrap_or_default(), traces })
}
