//! Handle to a running hub: cheap to clone; it sends commands through a bounded queue.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc::{SyncSender, TrySendError, sync_channel},
};

use subscope_harness::{Encoding, Signal};
use subscope_model::{AgentId, Event, Millis, ReadingProgress, SessionId, Text, Zone};
use subscope_query::Queries;
use subscope_store::{Commit, RemotePosition, StoreResult};

use crate::{
    command::{
        AskError, Command, Figures, Ingest, IngestError, IngestReceipt, ReplyCallback, SubscriptionStart,
    },
    event_loop::{RemoteBatch, RemoteOrders},
    event_routing::{ConnectionId, EventRouter, PostedError, RoutedEvent},
    otlp::{OtlpError, OtlpIngests, ReleasedSpans, TraceLinks},
    read_pool::Question,
    read_view::{HubAnswers, ReadView},
    stop::{StopError, StopReceipt},
    subscription::{Subscriber, UpdateQueue},
};

/// Most questions that wait or are being answered: one for each connection of a server. A caller beyond that gets
/// [`AskError::Busy`].
const MAX_QUESTIONS: usize = 1024;

/// Number of questions that wait or are being answered.
#[derive(Clone, Default)]
pub(crate) struct QuestionCount(Arc<AtomicUsize>);

/// A counted question.
struct CountedQuestion(QuestionCount);

impl QuestionCount {
    fn enter(&self) -> Result<CountedQuestion, AskError> {
        let counted = CountedQuestion(self.clone());
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        if before < MAX_QUESTIONS { Ok(counted) } else { Err(AskError::Busy) }
    }
}

impl Drop for CountedQuestion {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Sends commands to the hub. A call never blocks: the result arrives through the [`ReplyCallback`], and a full queue
/// is [`AskError::Busy`].
#[derive(Clone)]
pub struct HubHandle {
    commands: SyncSender<Command>,
    router: EventRouter,
    links: TraceLinks,
    questions: QuestionCount,
    zone: Zone,
}

impl std::fmt::Debug for HubHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubHandle")
    }
}

impl HubHandle {
    pub(crate) fn new(
        commands: SyncSender<Command>,
        router: EventRouter,
        links: TraceLinks,
        questions: QuestionCount,
        zone: Zone,
    ) -> Self {
        Self { commands, router, links, questions, zone }
    }

    /// Asks a question, which may be about one session. The reply includes everything that was acknowledged before, of that
    /// session or of all, and counts by days of the hub's zone where the question names none.
    pub fn ask<T: 'static>(
        &self,
        session: Option<SessionId>,
        reply: ReplyCallback<T>,
        question: impl FnOnce(&mut dyn Queries) -> T + Send + 'static,
    ) -> Result<(), AskError> {
        let zone = self.zone.clone();
        self.ask_view(session, reply, move |view| question(&mut HubAnswers { view, zone: &zone }))
    }

    fn ask_view<T: 'static>(
        &self,
        session: Option<SessionId>,
        reply: ReplyCallback<T>,
        answer: impl FnOnce(&ReadView<'_>) -> T + Send + 'static,
    ) -> Result<(), AskError> {
        let counted = self.questions.enter()?;
        let answer = move |view: &ReadView<'_>| {
            reply(answer(view));
            drop(counted);
        };
        self.send(Command::Ask(Question { session, answer: Box::new(answer) }))
    }

    fn send(&self, command: Command) -> Result<(), AskError> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    }

    /// Ingests input. The reply comes after it is saved, or could not be.
    pub fn ingest(
        &self,
        ingest: Ingest,
        reply: ReplyCallback<Result<IngestReceipt, IngestError>>,
    ) -> Result<(), AskError> {
        self.send(Command::Ingest(Box::new(ingest), reply))
    }

    /// Returns the ingests of a body of OpenTelemetry records. Takes up to a second for the largest body.
    ///
    /// # Errors
    /// If it is no request, or what waits on disk for an agent program cannot be read or written.
    pub fn otlp_ingests(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<OtlpIngests, OtlpError> {
        self.links.ingests(signal, encoding, body)
    }

    /// Forgets spans that waited for an agent program, once all ingests of the body that released them are acknowledged.
    ///
    /// # Errors
    /// If that cannot be written: they are ingested once more, which changes nothing.
    pub fn release_spans(&self, released: &ReleasedSpans) -> StoreResult<()> {
        self.links.release(released)
    }

    /// Returns the ingest of one published event, which is one line. `from` is the connection over which it came.
    ///
    /// # Errors
    /// If it is not such an event.
    pub fn posted_ingest(
        &self,
        event: Vec<u8>,
        from: Option<ConnectionId>,
    ) -> Result<RoutedEvent, PostedError> {
        self.router.route(event, from)
    }

    /// Queries which sessions earlier hub processes recorded for a [`RoutedEvent::unsettled`] run.
    pub fn sessions_of_agent(
        &self,
        run: AgentId,
        reply: ReplyCallback<Vec<SessionId>>,
    ) -> Result<(), AskError> {
        self.send(Command::SessionsOfAgent(run, reply))
    }

    /// Records the result of [`HubHandle::sessions_of_agent`]; an empty one counts, too.
    pub fn resolve_posted(&self, run: &AgentId, sessions_of_agent: &[SessionId]) {
        self.router.resolve(run, sessions_of_agent);
    }

    /// Adds a subscriber, which starts after a sequence number of the change log where one is given.
    pub fn subscribe(
        &self,
        inlet: Box<dyn UpdateQueue>,
        after: Option<u64>,
        reply: ReplyCallback<SubscriptionStart>,
    ) -> Result<(), AskError> {
        self.send(Command::Join(Subscriber::new(inlet), after, reply))
    }

    /// Commits a batch of the background index, and blocks until that is done: when no live input waits. Sessions that
    /// the hub has loaded itself are left out.
    ///
    /// # Errors
    /// If the hub has ended or its store cannot save the batch.
    pub(crate) fn commit_index_batch(&self, commit: Commit) -> Result<(), IngestError> {
        let (reply, answer) = sync_channel(1);
        let callback = move |outcome| {
            // The caller waits for it below.
            let _ = reply.send(outcome);
        };
        let command = Command::CommitIndexBatch(Box::new(commit), Box::new(callback));
        self.commands.send(command).map_err(|_| IngestError::Ended)?;
        answer.recv().map_err(|_| IngestError::Ended)?
    }

    /// Reports how far the background index has read older sessions, `None` once it has, for [`Figures::reading`].
    pub fn reads_past(&self, progress: Option<ReadingProgress>) {
        // A hub that has ended has no figures.
        let _ = self.commands.send(Command::SetIndexing(progress));
    }

    /// Orders a running subagent to stop. `session` and `agent` may be id prefixes. The reply comes after the order is
    /// saved; the agent gets it as the answer to the next hook of one of its own calls.
    pub fn stop(
        &self,
        session: Option<String>,
        agent: String,
        reply: ReplyCallback<Result<StopReceipt, StopError>>,
    ) -> Result<(), AskError> {
        self.send(Command::StopAgent(session, agent, reply))
    }

    /// Keeps the facts of a session that the user has dismissed. The reply comes after they are saved.
    pub fn dismiss(
        &self,
        session: SessionId,
        facts: Vec<Text>,
        reply: ReplyCallback<Result<(), IngestError>>,
    ) -> Result<(), AskError> {
        self.send(Command::Dismiss(session, facts, reply))
    }

    /// Keeps until when the user has seen everything that ended. The reply comes after that is saved.
    pub fn mark_seen(
        &self,
        until_ms: Millis,
        reply: ReplyCallback<Result<(), IngestError>>,
    ) -> Result<(), AskError> {
        self.send(Command::MarkSeen(until_ms, reply))
    }

    /// Queries at most `limit` events after a sequence number of the change log, of one session or of all. `None` if
    /// the change log does not reach back there.
    pub fn events_after(
        &self,
        seq: u64,
        session: Option<SessionId>,
        limit: usize,
        reply: ReplyCallback<Option<Vec<Event>>>,
    ) -> Result<(), AskError> {
        self.ask_view(None, reply, move |view| view.events_after(seq, session.as_ref(), limit))
    }

    /// Adds another machine that is heard, and what takes orders to stop its agents. The reply is how far its rows are
    /// read.
    pub fn join_remote(
        &self,
        machine: Text,
        orders: RemoteOrders,
        reply: ReplyCallback<Result<Option<RemotePosition>, IngestError>>,
    ) -> Result<(), AskError> {
        self.send(Command::JoinRemote(machine, orders, reply))
    }

    /// Saves rows of another machine and publishes what has changed. The reply comes after they are saved.
    pub fn put_remote(
        &self,
        batch: RemoteBatch,
        reply: ReplyCallback<Result<(), IngestError>>,
    ) -> Result<(), AskError> {
        self.send(Command::PutRemote(Box::new(batch), reply))
    }

    /// Marks what is at work on another machine as no longer heard, and last heard at a time.
    pub fn lose_remote(
        &self,
        machine: Text,
        last_heard_ms: Millis,
        reply: ReplyCallback<Result<(), IngestError>>,
    ) -> Result<(), AskError> {
        self.send(Command::LoseRemote(machine, last_heard_ms, reply))
    }

    /// Queries the hub's own counters.
    pub fn figures(&self, reply: ReplyCallback<Figures>) -> Result<(), AskError> {
        self.send(Command::Figures(reply))
    }
}

/// Wakes the event loop. Cheap, and harmless if it is awake.
#[derive(Clone)]
pub struct Waker {
    commands: SyncSender<Command>,
    /// Whether a wake-up is queued, so that a burst sends only one.
    is_due: Arc<AtomicBool>,
}

impl Waker {
    pub(crate) fn new(commands: SyncSender<Command>) -> Self {
        Self { commands, is_due: Arc::default() }
    }

    /// Wakes the event loop.
    pub fn wake(&self) {
        // A full queue wakes it anyway.
        if !self.is_due.swap(true, Ordering::AcqRel) && self.commands.try_send(Command::Wake).is_err() {
            self.is_due.store(false, Ordering::Release);
        }
    }

    /// Records that the wake-up was received: later input needs another.
    pub(crate) fn has_woken(&self) {
        self.is_due.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}
