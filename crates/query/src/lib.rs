//! The questions about sessions: one signature each, for all backends.
//!
//! [`Queries`] is implemented by a hub's rows, stored and unsaved ones (`hub`), by the store alone and by what is there
//! without a store (`cli`), by a hub or a team's server over HTTP (`client`), and by a team's store (`team`).
//!
//! Absent on purpose: storage, HTTP and a clock.

mod list_query;
mod polled_sessions;

use std::{collections::HashSet, error::Error};

pub use list_query::ListQuery;
pub use polled_sessions::PolledSessions;
use subscope_model::{
    AGENT_SCHEMA, AgentId, Attention, Hits, IdMatches, Inbox, Looks, Millis, OneAgent, SearchQuery,
    SessionId, SessionPage, SessionRow, Stats, StatsQuery, Status, Tree,
};

/// Most sessions looked at for an agent's id. Ids are random; a copied session has the same ones.
const MAX_SESSIONS_PER_AGENT: usize = 100;

/// Most live sessions that a status is made of.
const MAX_STATUS_SESSIONS: usize = 200;

/// Most live sessions that an inbox is made of, and rows of a page of those that ended.
const MAX_INBOX_SESSIONS: usize = 1_000;

/// Sessions at which an inbox looks for no more that ended.
const MAX_NEWS_SESSIONS: usize = 20_000;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Nothing is indexed.
    #[error("there is no full-text index")]
    NoFullText,
    /// Several sessions have an agent of an id, which names none of them.
    #[error("{0} sessions have an agent of that id: name one by ?session=")]
    SeveralSessions(usize),
    /// The backend does not know what is asked for.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The store, the hub or the server fails.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl QueryError {
    /// Returns the error of a backend.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// An answer.
pub type QueryResult<T> = Result<T, QueryError>;

/// Questions about sessions.
///
/// # Errors
///
/// All methods return the error of the backend.
pub trait Queries {
    /// Returns the page of sessions that a query selects, newest last event first.
    fn sessions(&mut self, query: &ListQuery) -> QueryResult<SessionPage>;

    /// Returns a session's tree; `None` if it is unknown.
    fn tree(&mut self, session: &SessionId) -> QueryResult<Option<Tree>>;

    /// Returns ids of sessions and of their subagents with a prefix, at most `limit` of each kind.
    fn names(&mut self, prefix: &str, limit: usize) -> QueryResult<IdMatches>;

    /// Returns subagents whose id, type and description have all words ([`subscope_model::AgentName::found`]), at most
    /// `limit`, those of the newest sessions first.
    fn agents_with_words(&mut self, words: &str, limit: usize) -> QueryResult<IdMatches>;

    /// Returns what the user has seen.
    fn looks(&mut self) -> QueryResult<Looks>;

    /// Returns statistics over the sessions and days that a query covers.
    fn stats(&mut self, query: &StatsQuery) -> QueryResult<Stats>;

    /// Returns the newest passages that match.
    fn search(&mut self, query: &SearchQuery) -> QueryResult<Hits>;

    /// Returns an agent by its id, in one session or in all; `None` if there is none.
    fn agent(&mut self, session: Option<&SessionId>, agent: &AgentId) -> QueryResult<Option<OneAgent>> {
        let sessions = match session {
            Some(session) => vec![session.clone()],
            // Every session has a root agent.
            None if agent.is_root() => {
                let page = self.sessions(&ListQuery::first(MAX_SESSIONS_PER_AGENT))?;
                page.sessions.into_iter().map(|row| row.id).collect()
            }
            None => {
                let found = self.names(agent.as_str(), MAX_SESSIONS_PER_AGENT)?.agents.into_iter();
                found.filter(|found| found.agent_id == *agent).map(|found| found.session_id).collect()
            }
        };
        let tree = match sessions.as_slice() {
            [] => return Ok(None),
            [session] => self.tree(session)?,
            several => return Err(QueryError::SeveralSessions(several.len())),
        };
        Ok(tree.and_then(|Tree { session, agents, .. }| {
            let agent = agents.into_iter().find(|row| row.id == *agent)?;
            Some(OneAgent { schema: AGENT_SCHEMA.into(), session, agent })
        }))
    }

    /// Returns the newest live sessions, at most `limit`.
    fn live_sessions(&mut self, limit: usize) -> QueryResult<Vec<SessionRow>> {
        Ok(self.sessions(&ListQuery::live(limit))?.sessions)
    }

    /// Returns what needs the user, and what ended since the user looked.
    fn inbox(&mut self, now: Millis) -> QueryResult<Inbox> {
        let looks = self.looks()?;
        let mut rows = self.live_sessions(MAX_INBOX_SESSIONS)?;
        let live: HashSet<SessionId> = rows.iter().map(|row| row.id.clone()).collect();
        let mut query = ListQuery::first(MAX_INBOX_SESSIONS);
        loop {
            let page = self.sessions(&query)?;
            let last = page.sessions.last().filter(|last| looks.may_lack_news(last));
            query.after = last.map(|last| (last.last_event_at_ms.unwrap_or(0), last.id.clone()));
            // A row that says that it is live and is not listed as such was left behind.
            let is_over = |row: &SessionRow| row.attention == Attention::Ended && !live.contains(&row.id);
            rows.extend(page.sessions.into_iter().filter(is_over));
            if page.next.is_none() || query.after.is_none() || rows.len() >= MAX_NEWS_SESSIONS {
                return Ok(Inbox::of(&rows, &looks, now));
            }
        }
    }

    /// Returns the counts of agents at work in all live sessions, or in one; zero for an unknown one.
    fn status(&mut self, session: Option<&SessionId>, now: Millis) -> QueryResult<Status> {
        let sessions = match session {
            Some(session) => vec![session.clone()],
            None => self.live_sessions(MAX_STATUS_SESSIONS)?.into_iter().map(|row| row.id).collect(),
        };
        let mut trees = Vec::new();
        for session in sessions {
            trees.extend(self.tree(&session)?);
        }
        Ok(Status::of(&trees, now))
    }
}
