//! What others ask of the hub, and what they are told.

use subscope_fold::Dialect;
use subscope_model::{
    Agent, AgentId, Event, IdMatches, Millis, Problem, SearchHit, Session, SessionId, SessionRow, Stats, Tree,
};
use subscope_store::{Commit, ListQuery};

use crate::{
    stop::{StopError, Stopping},
    subscription::Subscriber,
};

/// Takes an answer, on the hub's thread: it must not wait. Dropped without a call where the hub has ended.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// Bytes that a program hands over and that stand in no file: posts, hooks, streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The partition that they belong to: order counts within it, and keys are unique within it.
    pub source: String,
    /// The session of lines that name none.
    pub session: Option<String>,
    /// The dialect; `None` where the content has to tell.
    pub dialect: Option<Dialect>,
    /// What comes again with the same key is acknowledged and not taken again.
    pub key: String,
    /// When they came, where that was not just now.
    pub received_ms: Option<Millis>,
    /// Whole lines; a missing last line end is added.
    pub body: Vec<u8>,
    /// Where the first of them stands in the body that was handed over, where that tells of several sessions and was cut.
    pub begins: Option<LinePlace>,
    /// What whoever handed it over waits to be told.
    pub asks: Asks,
}

/// Where a line stands in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// Its number, from 1.
    pub line: u64,
    /// How many bytes stand before it.
    pub offset: u64,
}

impl LinePlace {
    /// The first line of a body.
    pub(crate) const FIRST: Self = Self { line: 1, offset: 0 };

    /// The place of what stands behind these whole lines.
    pub(crate) fn behind(self, lines: &[u8]) -> Self {
        let count = memchr::memchr_iter(b'\n', lines).count() as u64;
        Self { line: self.line + count, offset: self.offset + lines.len() as u64 }
    }
}

/// What somebody who hands bytes over waits to be told, beside that they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// Whether the agent that they come from may go on.
    WhetherToGoOn,
}

/// What became of an ingest that was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Whether its key was known already: then nothing of it was taken again.
    pub is_repeat: bool,
    /// Lines in it, blank ones not counted.
    pub lines: u64,
    /// Sessions that it told something about.
    pub sessions: Vec<SessionId>,
    /// What of it could not be understood; the first hundred.
    pub problems: Vec<Problem>,
    /// How many problems there were.
    pub problem_count: u64,
    /// What is answered to who asked whether to go on, in the words of its dialect; `None` where it may.
    pub answer: Option<String>,
}

/// Why an ingest was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// The store could not keep it. It can be handed over again with its key.
    #[error("{0}")]
    Store(String),
    /// Nothing more is taken.
    #[error("the hub has ended")]
    Ended,
}

/// Why a command was not even queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many commands wait.
    #[error("too much waits to be taken")]
    Busy,
    /// The hub has ended.
    #[error("the hub has ended")]
    Ended,
}

/// What a subscriber begins with. What follows comes through its queue, without a gap and without a repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// Whether the place asked for lies outside the log, so that everything begins anew.
    pub is_reset: bool,
    /// The rows of all sessions; of those that may have changed since, where a place was given.
    pub snapshots: Vec<Tree>,
    /// The events behind the place asked for; none where no place was given.
    pub events: Vec<Event>,
    /// The place in the log at which the queue begins.
    pub seq: u64,
    /// Whether everything that stood in files when the hub began is read.
    pub is_caught_up: bool,
}

/// Figures of the hub itself, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The last place in the change log.
    pub seq: u64,
    /// Sessions that readers are shown.
    pub sessions: u64,
    /// Those of them whose facts are held in memory: the others are at rest.
    pub held: u64,
    /// Subagents at work.
    pub running: u64,
    /// Commits.
    pub commits: u64,
    /// Commits that failed, retries included.
    pub failed_commits: u64,
    /// Reads of the store that failed.
    pub failed_reads: u64,
    /// Ingests that were kept.
    pub ingests: u64,
    /// Bytes of them.
    pub ingest_bytes: u64,
    /// Ingests whose key was known.
    pub repeats: u64,
    /// Ingests that were answered with an error.
    pub refused: u64,
    /// Events that were given a place.
    pub events: u64,
    /// Problems found in what was ingested.
    pub problems: u64,
    /// Whether something that stands in files is not read yet: answers do not know it.
    pub is_reading: bool,
    /// Readers now.
    pub subscribers: u64,
    /// Events that readers were too slow for.
    pub missed: u64,
}

/// What others ask of the hub. Closed.
pub(crate) enum Command {
    /// Takes bytes and answers when they are kept.
    Ingest(Box<Ingest>, Reply<Result<Taken, IngestError>>),
    /// Keeps what an index made, when nothing that is live waits.
    CommitIndexBatch(Box<Commit>, Reply<Result<(), IngestError>>),
    /// Adds a reader; what it begins with goes through its queue.
    Subscribe(Subscriber),
    /// Adds a reader; what it begins with is the answer.
    Join(Subscriber, Option<u64>, Reply<Joined>),
    Tree(SessionId, Reply<Option<Tree>>),
    Sessions(ListQuery, Reply<Vec<SessionRow>>),
    Agents(Option<SessionId>, AgentId, Reply<Vec<(Session, Agent)>>),
    /// Sessions that have an agent of that id, as far as a hub of before was told.
    SessionsOfAgent(AgentId, Reply<Vec<SessionId>>),
    /// The beginning of ids, and how many of each kind at most.
    Names(String, usize, Reply<IdMatches>),
    EventsAfter(u64, Option<SessionId>, usize, Reply<Option<Vec<Event>>>),
    Stats(Reply<Option<Stats>>),
    /// Session and agent, or beginnings of their ids.
    StopAgent(Option<String>, String, Reply<Result<Stopping, StopError>>),
    /// Terms, the session, and how many hits at most.
    Search(Vec<String>, Option<SessionId>, usize, Reply<Option<Vec<SearchHit>>>),
    Figures(Reply<Figures>),
    /// Somebody holds a handle: be answerable at any time.
    Expect,
    /// Whether sessions of before are still being read beside the hub.
    ReadsPast(bool),
    /// The driver has something.
    Wake,
    Stop,
}
