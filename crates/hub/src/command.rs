//! Commands to the event loop, and their replies.

use subscope_model::{AgentId, Event, Millis, Problem, ReadingProgress, SessionId, Text, Tree};
use subscope_session::Dialect;
use subscope_store::{Commit, RemotePosition};

use crate::{
    event_loop::{RemoteBatch, RemoteOrders},
    read_pool::Question,
    stop::{StopError, StopReceipt},
    subscription::Subscriber,
};

/// Callback with the reply to a command. It runs on a thread of the hub and must not block. It is dropped without a call
/// if the hub has ended.
pub type ReplyCallback<T> = Box<dyn FnOnce(T) + Send>;

/// Input from a program that is in no file: posts, hooks, streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// Partition of the inbox: input is ordered within it, and keys are unique within it.
    pub source: String,
    /// Session of lines that name none.
    pub session: Option<String>,
    /// Dialect; `None` if it has to be recognized from the content.
    pub dialect: Option<Dialect>,
    /// Idempotency key: input with a key that was ingested before is acknowledged and not ingested again.
    pub key: String,
    /// Time of arrival; `None` for now.
    pub received_ms: Option<Millis>,
    /// Complete lines; a missing last line end is added.
    pub body: Vec<u8>,
    /// Position of the first line in the body that was sent, if that contains several sessions and was divided.
    pub begins: Option<LinePlace>,
    /// The answer that the sender waits for.
    pub asks: Asks,
}

/// Position of a line in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset.
    pub offset: u64,
}

impl LinePlace {
    /// The first line of a body.
    pub(crate) const FIRST: Self = Self { line: 1, offset: 0 };

    /// Returns the position after these complete lines.
    pub(crate) fn behind(self, lines: &[u8]) -> Self {
        let count = memchr::memchr_iter(b'\n', lines).count() as u64;
        Self { line: self.line + count, offset: self.offset + lines.len() as u64 }
    }
}

/// Answer that the sender of an ingest waits for, besides the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// Whether the agent that sent the hook may continue.
    WhetherToContinue,
}

/// Acknowledgement of an ingest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestReceipt {
    /// Whether its key was ingested before: then it was not ingested again.
    pub is_repeat: bool,
    /// Number of lines, blank ones not counted.
    pub lines: u64,
    /// Sessions that it touched.
    pub sessions: Vec<SessionId>,
    /// Problems with its content; the first hundred.
    pub problems: Vec<Problem>,
    /// Number of problems.
    pub problem_count: u64,
    /// Hook answer in the format of its dialect that stops the agent; `None` if it may continue.
    pub answer: Option<String>,
    /// Agents that a user asked to stop, of the sessions of published events: the answer to the next event carries the
    /// request.
    pub to_stop: Vec<AgentId>,
}

/// Why an ingest was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// The store could not save it. It can be sent again with the same key.
    #[error("{0}")]
    Store(String),
    /// The hub accepts no more input.
    #[error("the hub has ended")]
    Ended,
}

/// Why a command was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The command queue is full.
    #[error("too much waits to be taken")]
    Busy,
    /// The hub has ended.
    #[error("the hub has ended")]
    Ended,
}

/// Initial data of a subscriber. All later updates arrive through its queue, without a gap and without a duplicate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionStart {
    /// Whether the requested sequence number is outside the change log, so that the subscriber has to start from
    /// snapshots.
    pub is_reset: bool,
    /// Rows of all sessions; if a sequence number was given, of those that may have changed since.
    pub snapshots: Vec<Tree>,
    /// Events after the requested sequence number; none if none was given.
    pub events: Vec<Event>,
    /// Sequence number of the change log at which the queue begins.
    pub seq: u64,
    /// Whether the initial content of files is read.
    pub is_caught_up: bool,
}

/// Counters and gauges of the hub since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Last sequence number of the change log.
    pub seq: u64,
    /// Sessions in the snapshots for new subscribers.
    pub sessions: u64,
    /// Sessions in memory; the others are evicted.
    pub held: u64,
    /// Running subagents.
    pub running: u64,
    /// Commits.
    pub commits: u64,
    /// Commits that failed, retries included.
    pub failed_commits: u64,
    /// Reads of the store that failed.
    pub failed_reads: u64,
    /// Ingests that were saved.
    pub ingests: u64,
    /// Bytes of the saved ingests.
    pub ingest_bytes: u64,
    /// Ingests whose key was ingested before.
    pub repeats: u64,
    /// Ingests that were answered with an error.
    pub refused: u64,
    /// Events that were saved.
    pub events: u64,
    /// Problems found in what was ingested.
    pub problems: u64,
    /// Newest problems of input that no session could be read from.
    pub unowned_problems: Vec<Problem>,
    /// How far existing files are read, while query results may lack their content; `None` once they are.
    pub reading: Option<ReadingProgress>,
    /// Current subscribers.
    pub subscribers: u64,
    /// Events dropped for slow subscribers.
    pub missed: u64,
}

/// Command to the event loop.
pub(crate) enum Command {
    /// Ingests input and replies after it is saved.
    Ingest(Box<Ingest>, ReplyCallback<Result<IngestReceipt, IngestError>>),
    /// Commits a batch of the background index, when no live input waits.
    CommitIndexBatch(Box<Commit>, ReplyCallback<Result<(), IngestError>>),
    /// Adds a subscriber; its initial data goes through its queue.
    Subscribe(Subscriber),
    /// Adds a subscriber; its initial data, from a sequence number on where one is given, is the reply.
    Join(Subscriber, Option<u64>, ReplyCallback<SubscriptionStart>),
    /// Answers a question about rows, events or texts.
    Ask(Question),
    /// Sessions that have an agent of this id, from input acknowledged by earlier hub processes.
    SessionsOfAgent(AgentId, ReplyCallback<Vec<SessionId>>),
    /// Session and agent, or prefixes of their ids.
    StopAgent(Option<String>, String, ReplyCallback<Result<StopReceipt, StopError>>),
    /// Keeps the facts of a session that the user has dismissed.
    Dismiss(SessionId, Vec<Text>, ReplyCallback<Result<(), IngestError>>),
    /// Keeps until when the user has seen everything that ended; a time in the future counts as now.
    MarkSeen(Millis, ReplyCallback<Result<(), IngestError>>),
    /// Adds another machine that is heard; the reply is how far its rows are read.
    JoinRemote(Text, RemoteOrders, ReplyCallback<Result<Option<RemotePosition>, IngestError>>),
    /// Saves and publishes rows of another machine.
    PutRemote(Box<RemoteBatch>, ReplyCallback<Result<(), IngestError>>),
    /// Another machine is no longer heard, and was last at a time.
    LoseRemote(Text, Millis, ReplyCallback<Result<(), IngestError>>),
    Figures(ReplyCallback<Figures>),
    /// A handle exists: respond to commands at any time.
    EnableWaking,
    /// Whether the background index is still reading older sessions.
    SetIndexing(Option<ReadingProgress>),
    /// The driver has new input.
    Wake,
    Stop,
}
