//! `GET /api/v1/live`: all updates as server-sent events.
//!
//! A reader starts with snapshots, or after its `Last-Event-ID`. `id:` is the event's number in the event log. Rows (`change`,
//! `snapshot`) have none: a reader that reconnects gets the rows that may have changed since.

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse,
        sse::{self, KeepAlive, Sse},
    },
};
use futures_util::stream;
use subscope_hub::{EnqueueOutcome, SubscriptionStart, UpdateQueue};
use subscope_model::{Event, Update};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{
    active_agents::ActiveAgents,
    api_error::ApiError,
    ask::ask,
    connection_count::ConnectionGuard,
    state::{App, wait_for_shutdown},
};

/// Updates queued per feed: at most some megabytes for a stuck reader, until it is disconnected.
const QUEUE_UPDATES: usize = 2048;

/// Sender side of a feed, held by the hub.
pub(super) struct FeedQueue(mpsc::Sender<Update>);

impl UpdateQueue for FeedQueue {
    fn offer(&mut self, update: Update) -> EnqueueOutcome {
        match self.0.try_send(update) {
            Ok(()) => EnqueueOutcome::Queued,
            Err(mpsc::error::TrySendError::Full(update)) => EnqueueOutcome::Full(Box::new(update)),
            Err(mpsc::error::TrySendError::Closed(_)) => EnqueueOutcome::Closed,
        }
    }
}

/// Receiver side of a live feed.
pub(super) struct FeedConnection {
    pub(super) updates: mpsc::Receiver<Update>,
    pub(super) active: ActiveAgents,
    pub(super) heartbeat: Interval,
    pub(super) shutdown: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
    /// An upgraded WebSocket no longer counts as an HTTP connection.
    _counted: ConnectionGuard,
}

impl FeedConnection {
    /// Opens a feed, after an event number if given.
    pub(super) async fn open(app: &App, after: Option<u64>) -> Result<(Self, SubscriptionStart), ApiError> {
        let slots = std::sync::Arc::clone(&app.feeds);
        let slot =
            slots.try_acquire_owned().map_err(|_| ApiError::unavailable("too many live feeds are open"))?;
        let (sender, updates) = mpsc::channel(QUEUE_UPDATES);
        let joined = ask(|reply| app.hub.subscribe(Box::new(FeedQueue(sender)), after, reply)).await?;
        app.counters.feed_opened();
        let mut active = ActiveAgents::default();
        joined.snapshots.iter().for_each(|tree| active.insert(&tree.session, &tree.agents));
        let mut heartbeat = interval(app.heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let counted = app.connections.add();
        Ok((
            Self { updates, active, heartbeat, shutdown: app.ending.clone(), _slot: slot, _counted: counted },
            joined,
        ))
    }

    /// Returns the next updates; `None` at shutdown or when the hub ends.
    pub(super) async fn next(&mut self) -> Option<FeedOutput> {
        tokio::select! {
            // Updates before heartbeats, which only repeat state.
            biased;
            () = wait_for_shutdown(&mut self.shutdown) => None,
            update = self.updates.recv() => {
                let update = update?;
                self.active.apply(&update);
                Some(FeedOutput::Update(update))
            }
            _ = self.heartbeat.tick() => Some(FeedOutput::Heartbeats(self.active.heartbeats())),
        }
    }
}

/// Next output of a feed.
pub(super) enum FeedOutput {
    Update(Update),
    /// Heartbeats of the sessions with active subagents.
    Heartbeats(Vec<Event>),
}

/// Streams all updates.
#[utoipa::path(
    get, path = "/api/v1/live",
    params(("Last-Event-ID" = Option<u64>, Header, description = "Where to go on.")),
    responses(
        (status = 200, description = "text/event-stream. `event` (subscope.event/1, id is its seq), `change` \
            (subscope.change/1), `snapshot` (subscope.tree/1), `reset` (the place asked for is outside the log; snapshots \
            follow), `caught-up` (the hub has read the files that existed when it started), `missed` (the reader was too slow; \
            count and the last seq before).", body = String,
            content_type = "text/event-stream"),
        (status = 400, description = "Last-Event-ID is no number."),
        (status = 503, description = "Too many live feeds are open."),
    )
)]
pub(super) async fn get(State(app): State<App>, headers: HeaderMap) -> Result<impl IntoResponse, ApiError> {
    let after = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => None,
        Some(text) => Some(text.parse().map_err(|_| ApiError::bad_request("Last-Event-ID is no number"))?),
    };
    let (feed, joined) = FeedConnection::open(&app, after).await?;
    let writer = SseWriter::new(feed, joined, after);
    let events = stream::unfold(writer, |mut writer| async {
        let event = writer.next().await?;
        Some((Ok::<_, Infallible>(event), writer))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// Converts a feed into server-sent events.
struct SseWriter {
    feed: FeedConnection,
    /// Queued before the next update; converted as late as possible.
    queue: VecDeque<QueuedItem>,
    seq: u64,
}

enum QueuedItem {
    /// Only sets the reader's `Last-Event-ID`.
    Position(u64),
    Update(Update),
}

impl SseWriter {
    fn new(feed: FeedConnection, joined: SubscriptionStart, after: Option<u64>) -> Self {
        let SubscriptionStart { is_reset, snapshots, events, seq, is_caught_up } = joined;
        let mut queue = VecDeque::new();
        queue.extend(is_reset.then_some(QueuedItem::Update(Update::Reset)));
        queue.extend(snapshots.into_iter().map(Update::snapshot).map(QueuedItem::Update));
        queue.extend(events.into_iter().map(Update::event).map(QueuedItem::Update));
        // A reader that reconnects after these continues here, even if nothing follows.
        queue.push_back(QueuedItem::Position(seq));
        queue.extend(is_caught_up.then_some(QueuedItem::Update(Update::CaughtUp)));
        Self { feed, queue, seq: after.filter(|_| !is_reset).unwrap_or(seq) }
    }

    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(self.convert(item));
            }
            match self.feed.next().await? {
                FeedOutput::Update(update) => return Some(self.convert(QueuedItem::Update(update))),
                FeedOutput::Heartbeats(beats) => {
                    self.queue.extend(beats.into_iter().map(Update::event).map(QueuedItem::Update));
                }
            }
        }
    }

    fn convert(&mut self, item: QueuedItem) -> sse::Event {
        let update = match item {
            QueuedItem::Position(seq) => return sse::Event::default().id(seq.to_string()).comment("live"),
            QueuedItem::Update(update) => update,
        };
        let written = sse::Event::default().event(update.name()).data(update.data(self.seq));
        // An event that is not logged (a heartbeat) has no position to continue from.
        if let Update::Event(event) = &update
            && event.seq > 0
        {
            self.seq = event.seq;
            return written.id(event.seq.to_string());
        }
        written
    }
}
