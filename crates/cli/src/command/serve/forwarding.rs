//! Forwards the spans of agents that have ended to a receiver of OpenTelemetry (`serve --otlp-to`).
//!
//! Flow: the hub reports changed rows to [`DueSessions`], which keeps only the sessions in which an agent has ended. A
//! reader thread waits until such a session is quiet, reads it from its sources, and queues those of its spans that were
//! not queued before. A sender thread pushes the queue, the oldest request first, and waits as the receiver asks.
//!
//! The hub never waits for the receiver or a disk: a session is due at most once, however often it changes, and stays so while the
//! queue is full. A hub that starts again reads every session that was stored since forwarding to this receiver began.

mod queue;

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver as Inlet, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use subscope_client::push::{PushError, PushFailure, Receiver};
use subscope_export::{Mask, SpanSource, SpanWriter, encode_otlp, halve_otlp, rejected_spans, span_ids};
use subscope_harness::provider;
use subscope_hub::{EnqueueOutcome, HubHandle, RowsSource, UpdateQueue, clock};
use subscope_model::{Agent, Forwarding, Millis, SessionId, Update};
use subscope_query::{ListQuery, Queries};
use subscope_session::{EventScope, FactDetail, RouterOptions};

use self::queue::{QueuedRequest, SpanQueue};
use super::{ask_hub, history_service::HistoryService};

/// How long a session must be quiet before it is read: the last lines of an agent come after its end.
const QUIET: Duration = Duration::from_secs(1);
/// Delay after an agent's end at which a session is read although it is not quiet.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Interval of looking at sessions that are due.
const POLL: Duration = Duration::from_millis(200);
/// Waits after failed attempts double from the first to the last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// How long a query of the hub may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// When a session became due, and when it last changed.
#[derive(Clone, Copy, Debug)]
struct Due {
    first: Instant,
    last: Instant,
    /// Whether a file notes it.
    is_noted: bool,
}

impl Due {
    fn is_ready(self) -> bool {
        self.last.elapsed() >= QUIET || self.first.elapsed() >= MAX_DELAY
    }
}

/// Sessions in which an agent has ended; the hub's end is a subscriber that is never full.
#[derive(Clone, Debug)]
struct DueSessions {
    state: Arc<ForwardingState>,
    /// At most one entry for each session of the hub.
    due: Arc<Mutex<HashMap<SessionId, Due>>>,
    /// Wakes the reader.
    wake: SyncSender<()>,
}

impl DueSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Due>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, session: &SessionId) {
        let now = clock::tick();
        let new = Due { first: now, last: now, is_noted: false };
        self.lock().entry(session.clone()).or_insert(new).last = now;
        // It is awake if the channel is full.
        let _ = self.wake.try_send(());
    }

    /// Notes new sessions in files, for a hub that is killed. Only the reader thread writes them: the hub, which marks
    /// sessions while it acknowledges input, waits for no disk.
    fn note(&self) {
        let is_new = |due: &mut Due| !std::mem::replace(&mut due.is_noted, true);
        let new: Vec<SessionId> =
            self.lock().iter_mut().filter_map(|(id, due)| is_new(due).then(|| id.clone())).collect();
        for session in new {
            if let Err(error) = self.state.queue.note_due(&session) {
                tracing::warn!("news of {session} is forgotten if the hub is killed: {error}");
            }
        }
    }

    /// Removes a session that is ready.
    fn take(&self) -> Option<SessionId> {
        let mut due = self.lock();
        let session = due.iter().find(|(_, due)| due.is_ready()).map(|(session, _)| session.clone())?;
        due.remove(&session);
        Some(session)
    }

    /// Records that all of a session is queued, unless it changed again.
    fn done(&self, session: &SessionId) -> std::io::Result<()> {
        let is_due = self.lock().contains_key(session);
        if is_due { Ok(()) } else { self.state.queue.note_done(session) }
    }
}

impl UpdateQueue for DueSessions {
    fn offer(&mut self, update: Update) -> EnqueueOutcome {
        let has_ended = |agents: &[Agent]| agents.iter().any(|agent| !agent.is_at_work());
        let machine = match &update {
            Update::Snapshot(tree) => tree.session.machine.as_ref(),
            Update::Change(change) => change.session().machine.as_ref(),
            Update::Event(_) | Update::Missed(_) | Update::Reset | Update::CaughtUp => None,
        };
        if machine.is_some() {
            // Only its rows are here.
            return EnqueueOutcome::Queued;
        }
        match update {
            Update::Snapshot(tree) if has_ended(&tree.agents) => self.mark(&tree.session.id),
            // Rows that did not change are not in it.
            Update::Change(change) if has_ended(&change.agents) => self.mark(&change.session().id),
            Update::Change(change) => {
                // Its agents are still at work: it stays due until it is quiet.
                if let Some(due) = self.lock().get_mut(&change.session().id) {
                    due.last = clock::tick();
                }
            }
            Update::Snapshot(_) | Update::Event(_) | Update::Missed(_) | Update::Reset | Update::CaughtUp => {
            }
        }
        EnqueueOutcome::Queued
    }
}

/// State that both threads and the server share.
#[derive(Debug)]
struct ForwardingState {
    address: String,
    queue: SpanQueue,
    spans: AtomicU64,
    refused: AtomicU64,
    error: Mutex<Option<String>>,
    has_ended: AtomicBool,
}

impl ForwardingState {
    fn report(&self) -> Forwarding {
        let (waiting, waiting_bytes) = self.queue.size();
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        Forwarding {
            to: self.address.as_str().into(),
            spans: self.spans.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            waiting,
            waiting_bytes,
            error: error.as_deref().map(Into::into),
        }
    }

    /// Records whether the last attempt failed, and logs each change.
    fn set_error(&self, error: Option<String>) {
        let mut known = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &error) {
            (None, Some(error)) => tracing::warn!("spans wait: {error}"),
            (Some(_), None) => tracing::info!("spans are accepted again by {}", self.address),
            (Some(_), Some(_)) | (None, None) => {}
        }
        *known = error;
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// Where spans are forwarded to.
#[derive(Debug)]
pub(super) struct SpanForwarder {
    receiver: Receiver,
    state: Arc<ForwardingState>,
}

impl SpanForwarder {
    /// Opens the queue of a receiver. Nothing is connected yet.
    pub(super) fn open(receiver: Receiver, data: &Path) -> std::io::Result<Self> {
        let queue = SpanQueue::open(data, receiver.url(), clock::now_ms())?;
        let state = ForwardingState {
            address: receiver.url().to_owned(),
            queue,
            spans: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            error: Mutex::new(None),
            has_ended: AtomicBool::new(false),
        };
        Ok(Self { receiver, state: Arc::new(state) })
    }

    /// Returns a reader of its state.
    pub(super) fn reader(&self) -> impl Fn() -> Forwarding + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move || state.report()
    }

    /// Starts forwarding.
    pub(super) fn start(self, hub: &HubHandle, history: HistoryService) -> RunningForwarder {
        let (wake, woken) = sync_channel(1);
        let (state, receiver) = (self.state, self.receiver);
        let sessions = DueSessions { state: Arc::clone(&state), due: Arc::default(), wake: wake.clone() };
        let (queued, arrivals) = sync_channel(1);
        {
            let state = Arc::clone(&state);
            // Not waited for: what it was pushing is still queued.
            thread::spawn(move || send(&state, &receiver, &arrivals));
        }
        let reader = {
            let (state, hub) = (Arc::clone(&state), hub.clone());
            thread::spawn(move || {
                super::lower_priority();
                SessionQueuer { state: &state, hub: &hub, history: &history, sessions, queued }.run(&woken);
            })
        };
        RunningForwarder { state, wake, reader: Some(reader) }
    }
}

/// Forwarding until it is dropped.
pub(super) struct RunningForwarder {
    state: Arc<ForwardingState>,
    wake: SyncSender<()>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for RunningForwarder {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
        let _ = self.wake.try_send(());
        // A panic is reported by its hook.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// The reader thread.
struct SessionQueuer<'a> {
    state: &'a ForwardingState,
    hub: &'a HubHandle,
    history: &'a HistoryService,
    sessions: DueSessions,
    /// Wakes the sender; dropped with this, which ends it.
    queued: SyncSender<()>,
}

impl SessionQueuer<'_> {
    fn run(&self, woken: &Inlet<()>) {
        let is_subscribed =
            ask_hub(ANSWER_TIMEOUT, |reply| self.hub.subscribe(Box::new(self.sessions.clone()), None, reply));
        if is_subscribed.is_none() {
            tracing::warn!("spans are not forwarded: the hub does not answer");
            return;
        }
        match self.state.queue.noted_due() {
            Ok(due) => due.iter().for_each(|session| self.sessions.mark(session)),
            Err(error) => tracing::warn!("what was due before is not read: {error}"),
        }
        let mut has_listed = false;
        while !self.state.has_ended() {
            // An earlier hub may have ended between an agent's end and its forwarding, and files may have grown since.
            has_listed = has_listed || self.mark_stored();
            self.sessions.note();
            while !self.state.has_ended()
                && self.state.queue.has_room()
                && let Some(session) = self.sessions.take()
            {
                let queued = self.queue(&session).and_then(|()| Ok(self.sessions.done(&session)?));
                self.sessions.note();
                if let Err(error) = queued {
                    tracing::warn!("spans of {session} wait: {error:#}");
                    self.sessions.mark(&session);
                    break;
                }
            }
            let is_idle = has_listed && self.sessions.lock().is_empty();
            let wait = if is_idle { LAST_WAIT } else { POLL };
            match woken.recv_timeout(wait) {
                // Wait before the next check while no due session is ready.
                Ok(()) if !self.state.has_ended() => {
                    self.sessions.note();
                    thread::sleep(POLL);
                }
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Marks the sessions that were stored since forwarding began; returns whether that is done: once all files are read.
    fn mark_stored(&self) -> bool {
        if ask_hub(ANSWER_TIMEOUT, |reply| self.hub.figures(reply))
            .is_none_or(|figures| figures.reading.is_some())
        {
            return false;
        }
        let query = ListQuery { kept_since: Some(self.state.queue.since), ..ListQuery::first(usize::MAX) };
        let list = move |queries: &mut dyn Queries| queries.sessions(&query);
        let Some(page) =
            ask_hub(ANSWER_TIMEOUT, |reply| self.hub.ask(None, reply, list)).and_then(Result::ok)
        else {
            return false;
        };
        let since: Millis = self.state.queue.since;
        let is_new = |last: Option<Millis>| last.is_none_or(|last| last >= since);
        page.sessions
            .iter()
            .filter(|row| row.machine.is_none() && is_new(row.last_event_at_ms))
            .for_each(|row| self.sessions.mark(&row.id));
        true
    }

    /// Queues the spans of a session that were not queued before.
    fn queue(&self, session: &SessionId) -> anyhow::Result<()> {
        let options =
            RouterOptions { keep: FactDetail::Responses, cutoff: None, events: EventScope::Nothing };
        let read = self.history.read_sources(session, options)?;
        // Spans that were sent before must not be sent again with less in them.
        let Some(read) = read.filter(|read| read.source == RowsSource::Sources) else {
            tracing::warn!("spans of {session} are not forwarded: only its rows are known");
            return Ok(());
        };
        let harness = read.tree.session.harness.as_deref();
        let detail = read.batch.router.detail(session, &self.history.now(None)).unwrap_or_default();
        let source = SpanSource {
            tree: &read.tree,
            detail: &detail,
            provider: &|model| provider(harness, model),
            contents: None,
            mask: Mask::Secrets,
        };
        let (writer, sent) = (SpanWriter::new(&source), self.state.queue.sent(session)?);
        for request in writer.requests_without(&sent) {
            self.state.queue.push(session, &encode_otlp(&request), &span_ids(&request))?;
            // It is awake if the channel is full.
            let _ = self.queued.try_send(());
        }
        Ok(())
    }
}

/// Pushes requests in order until forwarding ends.
fn send(state: &ForwardingState, receiver: &Receiver, arrivals: &Inlet<()>) {
    let mut wait = FIRST_WAIT;
    while !state.has_ended() {
        let Some(request) = state.queue.oldest() else {
            match arrivals.recv_timeout(LAST_WAIT) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        match push(state, receiver, &request) {
            Ok(()) => wait = FIRST_WAIT,
            Err(asked) => {
                sleep(asked.unwrap_or(wait), state);
                wait = (wait * 2).min(LAST_WAIT);
            }
        }
    }
}

/// Pushes a request once, and removes it if it needs not be sent again; else returns the wait that the receiver asks for.
fn push(
    state: &ForwardingState,
    receiver: &Receiver,
    request: &QueuedRequest,
) -> Result<(), Option<Duration>> {
    let failed = |error: std::io::Error| {
        state.set_error(Some(format!("the queue cannot be read or written: {error}")));
        None
    };
    let mut waiting = vec![(request.read().map_err(failed)?, request.spans)];
    let (mut accepted, mut refused) = (0, 0);
    while let Some((part, spans)) = waiting.pop() {
        let error = match receiver.push_once(&part) {
            Ok(answer) => {
                let rejected = rejected_spans(&answer).map_or(0, |(count, why)| {
                    tracing::warn!("{} rejected {count} spans: {why}", state.address);
                    u64::try_from(count).unwrap_or(0).min(spans)
                });
                (accepted, refused) = (accepted + spans - rejected, refused + rejected);
                continue;
            }
            Err(PushFailure { error, .. }) if is_of_the_request(&error) => error,
            Err(PushFailure { error, retry_after, .. }) => {
                // Parts that it took are sent again: their ids are the same.
                state.set_error(Some(error.to_string()));
                return Err(retry_after);
            }
        };
        match halve_otlp(&part).filter(|_| error.is_too_large()) {
            Some(halves) => waiting.extend(halves.map(|(half, spans)| (half, spans as u64))),
            None => {
                tracing::warn!("{spans} spans are dropped: {error}");
                refused += spans;
            }
        }
    }
    if accepted > 0 {
        state.set_error(None);
    }
    state.spans.fetch_add(accepted, Ordering::Relaxed);
    state.refused.fetch_add(refused, Ordering::Relaxed);
    state.queue.remove(request).map_err(failed)
}

/// Whether a request is refused for what it contains, so that no later attempt succeeds. A wrong token or path is not: a
/// person can correct it.
fn is_of_the_request(error: &PushError) -> bool {
    matches!(error, PushError::Refused { status: 400 | 413 | 422, .. })
}

/// Sleeps unless forwarding ends.
fn sleep(wait: Duration, state: &ForwardingState) {
    let began = clock::tick();
    while !state.has_ended()
        && let Some(rest) = wait.checked_sub(began.elapsed()).filter(|rest| !rest.is_zero())
    {
        thread::sleep(rest.min(POLL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hub marks sessions while it publishes: a disk that hangs must not delay what it acknowledges.
    #[test]
    fn only_the_reader_thread_writes_files() {
        let folder = tempfile::tempdir().unwrap();
        let state = ForwardingState {
            address: String::new(),
            queue: SpanQueue::open(folder.path(), "http://a/v1/traces", 0).unwrap(),
            spans: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            error: Mutex::new(None),
            has_ended: AtomicBool::new(false),
        };
        let (wake, woken) = sync_channel(1);
        let sessions = DueSessions { state: Arc::new(state), due: Arc::default(), wake };
        let session = SessionId::from("s");
        let noted = || sessions.state.queue.noted_due().unwrap();
        sessions.mark(&session);
        assert_eq!(woken.try_recv(), Ok(()));
        assert_eq!(noted(), []);
        sessions.note();
        assert_eq!(noted(), std::slice::from_ref(&session));
        let due = sessions.lock().remove(&session);
        sessions.mark(&session);
        sessions.done(&session).unwrap();
        assert_eq!(noted(), std::slice::from_ref(&session), "it changed while it was queued");
        assert!(due.is_some() && sessions.lock().remove(&session).is_some());
        sessions.done(&session).unwrap();
        assert_eq!(noted(), []);
    }
}
