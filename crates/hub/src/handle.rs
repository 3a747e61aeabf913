//! What others hold of a running hub: a cheap handle with a bounded queue behind it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc::{SyncSender, TrySendError, sync_channel},
};

use subscope_model::{
    Agent, AgentId, Event, IdMatches, SearchHit, Session, SessionId, SessionRow, Stats, Tree,
};
use subscope_store::{Commit, ListQuery};

use crate::{
    command::{AskError, Command, Figures, Ingest, IngestError, Joined, Reply, Taken},
    event_routing::{Posted, PostedError, Posts},
    stop::{StopError, Stopping},
    subscription::{Inlet, Subscriber},
};

/// Asks the hub. A question never waits: its answer comes through the [`Reply`], and a full queue is [`AskError::Busy`].
#[derive(Clone)]
pub struct HubHandle {
    commands: SyncSender<Command>,
    posts: Posts,
}

impl std::fmt::Debug for HubHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubHandle")
    }
}

impl HubHandle {
    pub(crate) fn new(commands: SyncSender<Command>, posts: Posts) -> Self {
        Self { commands, posts }
    }

    fn ask(&self, command: Command) -> Result<(), AskError> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    }

    /// Hands bytes over. The answer comes once they are kept, or could not be.
    pub fn ingest(&self, ingest: Ingest, reply: Reply<Result<Taken, IngestError>>) -> Result<(), AskError> {
        self.ask(Command::Ingest(Box::new(ingest), reply))
    }

    /// Returns the ingest of one event that a program publishes, which stands in one line.
    ///
    /// # Errors
    /// Where it is no such event.
    pub fn posted_ingest(&self, event: Vec<u8>) -> Result<Posted, PostedError> {
        self.posts.place(event)
    }

    /// Asks in which sessions a hub of before was told of a [`Posted::unsettled`] run.
    pub fn sessions_of_agent(&self, run: AgentId, reply: Reply<Vec<SessionId>>) -> Result<(), AskError> {
        self.ask(Command::SessionsOfAgent(run, reply))
    }

    /// Says what [`HubHandle::sessions_of_agent`] found; nothing is an answer, too.
    pub fn resolve_posted(&self, run: &AgentId, sessions_of_agent: &[SessionId]) {
        self.posts.settle(run, sessions_of_agent);
    }

    /// Adds a reader, behind a place in the change log where one is given.
    pub fn subscribe(
        &self,
        inlet: Box<dyn Inlet>,
        after: Option<u64>,
        reply: Reply<Joined>,
    ) -> Result<(), AskError> {
        self.ask(Command::Join(Subscriber::new(inlet), after, reply))
    }

    /// Hands over what an index made, and waits until it is kept: that is when nothing that is live waits. What the hub has
    /// read of itself stays.
    pub(crate) fn commit_index_batch(&self, commit: Commit) -> Result<(), IngestError> {
        let (reply, answer) = sync_channel(1);
        let told = move |outcome| {
            // Whoever asked waits below.
            let _ = reply.send(outcome);
        };
        let command = Command::CommitIndexBatch(Box::new(commit), Box::new(told));
        self.commands.send(command).map_err(|_| IngestError::Ended)?;
        answer.recv().map_err(|_| IngestError::Ended)?
    }

    /// Says whether sessions of before are still being read beside the hub: who asks may want to wait.
    pub fn reads_past(&self, is_reading: bool) {
        // A hub that has ended answers nobody.
        let _ = self.commands.send(Command::ReadsPast(is_reading));
    }

    /// Asks for sessions, the newest first.
    pub fn sessions(&self, query: ListQuery, reply: Reply<Vec<SessionRow>>) -> Result<(), AskError> {
        self.ask(Command::Sessions(query, reply))
    }

    /// Asks for figures over everything; `None` where the store fails.
    pub fn stats(&self, reply: Reply<Option<Stats>>) -> Result<(), AskError> {
        self.ask(Command::Stats(reply))
    }

    /// Asks for the newest passages with all these terms; `None` where there is no full text.
    pub fn search(
        &self,
        terms: Vec<String>,
        session: Option<SessionId>,
        limit: usize,
        reply: Reply<Option<Vec<SearchHit>>>,
    ) -> Result<(), AskError> {
        self.ask(Command::Search(terms, session, limit, reply))
    }

    /// Asks for a session's tree as last committed.
    pub fn tree(&self, session: SessionId, reply: Reply<Option<Tree>>) -> Result<(), AskError> {
        self.ask(Command::Tree(session, reply))
    }

    /// Asks for an agent by its id, in one session or in whichever have one of that id.
    pub fn agents(
        &self,
        session: Option<SessionId>,
        agent: AgentId,
        reply: Reply<Vec<(Session, Agent)>>,
    ) -> Result<(), AskError> {
        self.ask(Command::Agents(session, agent, reply))
    }

    /// Orders that a subagent at work stop. Session and agent may be beginnings of ids. The answer comes once the order is
    /// kept; the agent is told by the answer to the next hook of a call of its own.
    pub fn stop(
        &self,
        session: Option<String>,
        agent: String,
        reply: Reply<Result<Stopping, StopError>>,
    ) -> Result<(), AskError> {
        self.ask(Command::StopAgent(session, agent, reply))
    }

    /// Asks which sessions' and subagents' ids begin so, at most `limit` of each.
    pub fn names(&self, prefix: String, limit: usize, reply: Reply<IdMatches>) -> Result<(), AskError> {
        self.ask(Command::Names(prefix, limit, reply))
    }

    /// Asks for at most `limit` events behind a place in the change log, of one session or of all. `None` where the log
    /// does not reach back there.
    pub fn events_after(
        &self,
        seq: u64,
        session: Option<SessionId>,
        limit: usize,
        reply: Reply<Option<Vec<Event>>>,
    ) -> Result<(), AskError> {
        self.ask(Command::EventsAfter(seq, session, limit, reply))
    }

    /// Asks for the hub's own figures.
    pub fn figures(&self, reply: Reply<Figures>) -> Result<(), AskError> {
        self.ask(Command::Figures(reply))
    }
}

/// Wakes the hub from its wait. Cheap, and harmless when it is awake.
#[derive(Clone)]
pub struct Waker {
    commands: SyncSender<Command>,
    /// Whether a wake-up is on its way, so that a burst sends one.
    is_due: Arc<AtomicBool>,
}

impl Waker {
    pub(crate) fn new(commands: SyncSender<Command>) -> Self {
        Self { commands, is_due: Arc::default() }
    }

    /// Wakes the hub.
    pub fn wake(&self) {
        // A full queue has woken it already.
        if !self.is_due.swap(true, Ordering::AcqRel) && self.commands.try_send(Command::Wake).is_err() {
            self.is_due.store(false, Ordering::Release);
        }
    }

    /// Says that the wake-up has come: what is told from now on needs another.
    pub(crate) fn has_woken(&self) {
        self.is_due.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}
