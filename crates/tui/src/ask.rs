//! Requests from the UI to its host process, and the replies. Besides the feed, this is its only access to files, hubs
//! and settings.

use subscope_model::{
    AgentId, AgentName, Event, Hits, Iteration, Jumped, Looks, Millis, Ordered, PermissionAnswered,
    PermissionDecision, PermissionRequests, ReadingProgress, SearchQuery, SessionId, SessionRow, Stats,
    StatsQuery, Text, Tree,
};

use crate::settings::{Choice, Setting};

/// A request to the host. The host answers one after the other; the UI never blocks on a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// List the newest sessions, at most this many.
    Sessions(usize),
    /// Load a session's agent tree.
    Tree(SessionId),
    /// Load all events of a session.
    Events(SessionId),
    /// Load a session's tree as of a point in time.
    At(SessionId, Millis),
    /// List the newest sessions with all these words in title, directory, id or harness.
    Find(String),
    /// Search all stored text.
    Search(SearchQuery),
    /// Compute statistics over stored sessions.
    Stats(StatsQuery),
    /// List the recorded iterations of `run` in the projects of all sessions, the newest first.
    Iterations,
    /// Say what the user has seen.
    Looks,
    /// Say how far existing sessions are read.
    Reading,
    /// List the permission requests that can be answered. Somebody looks: they are held for the next seconds.
    Permissions,
    /// Answer the permission request with this id.
    Permit(Text, PermissionDecision),
    /// Dismiss these facts of a session.
    Dismiss(SessionId, Vec<Text>),
    /// Mark everything that ended up to a time as seen.
    MarkSeen(Millis),
    /// Ask a subagent to stop.
    Stop(SessionId, AgentId),
    /// Go to the terminal of a session.
    Jump(SessionId),
    /// Open the web page in a browser.
    Page,
    /// Save a setting.
    Keep(Setting, Choice),
}

/// The result of a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Sessions`]; whether there are more.
    Sessions(Vec<SessionRow>, bool),
    /// To [`Question::Tree`]; `None` if the session is unknown.
    Tree(SessionId, Option<Box<Tree>>),
    /// To [`Question::Events`], in chronological order.
    Events(SessionId, Vec<Event>),
    /// To [`Question::Events`]: they are not here, and why.
    NoEvents(SessionId, String),
    /// To [`Question::At`]; `None` if the session had not begun by then.
    At(SessionId, Millis, Option<Box<Tree>>),
    /// To [`Question::Find`].
    Sought(Vec<SessionRow>, Vec<AgentName>),
    /// To [`Question::Search`].
    Found(SearchQuery, Hits),
    /// To [`Question::Stats`].
    Stats(StatsQuery, Box<Stats>),
    /// To [`Question::Iterations`].
    Iterations(Vec<Iteration>),
    /// To [`Question::Looks`], [`Question::Dismiss`] and [`Question::MarkSeen`].
    Looks(Looks),
    /// To [`Question::Reading`]; `None` if all are read, or nobody reads.
    Reading(Option<ReadingProgress>),
    /// To [`Question::Permissions`].
    Permissions(PermissionRequests),
    /// To [`Question::Permit`].
    Permitted(PermissionAnswered),
    /// To [`Question::Stop`].
    Ordered(Ordered),
    /// To [`Question::Jump`].
    Jumped(Jumped),
    /// To [`Question::Page`]: the page's URL.
    Page(String),
    /// To [`Question::Keep`].
    Kept,
}

/// A question with its answer, or with an error message.
pub type Reply = (Question, Result<Answer, String>);
