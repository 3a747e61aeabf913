//! What the UI asks whoever hosts it, beside the feed. Closed: it has no other way to files, hubs and settings.

use subscope_model::{AgentId, Event, Found, Millis, Ordered, SessionId, SessionRow, Tree};

use crate::settings::{Choice, Setting};

/// A question. They are answered one after the other; whoever answers takes as long as it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The newest sessions, at most so many.
    Sessions(usize),
    /// A session's rows.
    Tree(SessionId),
    /// A session's whole feed.
    Events(SessionId),
    /// A session as it stood at a moment.
    At(SessionId, Millis),
    /// The newest passages with all these words, in everything that is kept.
    Search(String),
    /// That a subagent be asked to stop.
    Stop(SessionId, AgentId),
    /// That the page be opened.
    Page,
    /// That a setting be kept.
    Keep(Setting, Choice),
}

/// An answer, by question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Sessions`].
    Sessions(Vec<SessionRow>),
    /// To [`Question::Tree`]; nothing for a session that is not known.
    Tree(SessionId, Option<Box<Tree>>),
    /// To [`Question::Events`], in order of time.
    Events(SessionId, Vec<Event>),
    /// To [`Question::At`]; nothing where there was nothing yet.
    At(SessionId, Millis, Option<Box<Tree>>),
    /// To [`Question::Search`], with the words.
    Found(String, Vec<Found>),
    /// To [`Question::Stop`].
    Ordered(Ordered),
    /// To [`Question::Page`]: where it is.
    Page(String),
    /// To [`Question::Keep`]: where the setting is kept.
    Kept(String),
}

/// An answer, or why there is none, with the question.
pub type Reply = Result<Answer, (Question, String)>;
