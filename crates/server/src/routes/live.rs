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
use serde_json::json;
use subscope_hub::{Inlet, Joined, Offered};
use subscope_model::{Change, Event, Tree, Update, feed_line};
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

impl Inlet for FeedQueue {
    fn offer(&mut self, update: Update) -> Offered {
        match self.0.try_send(update) {
            Ok(()) => Offered::Taken,
            Err(mpsc::error::TrySendError::Full(update)) => Offered::Full(Box::new(update)),
            Err(mpsc::error::TrySendError::Closed(_)) => Offered::Gone,
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
    pub(super) async fn open(app: &App, after: Option<u64>) -> Result<(Self, Joined), ApiError> {
        let slots = std::sync::Arc::clone(&app.feeds);
        let slot =
            slots.try_acquire_owned().map_err(|_| ApiError::unavailable("too many live feeds are open"))?;
        let (sender, updates) = mpsc::channel(QUEUE_UPDATES);
        let joined = ask(|reply| app.hub.subscribe(Box::new(FeedQueue(sender)), after, reply)).await?;
        app.counters.feed_opened();
        let mut active = ActiveAgents::default();
        joined.snapshots.iter().for_each(|tree| active.apply_tree(tree));
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
            follow), `caught-up` (what stood in files when the hub began is read), `missed` (the reader was too slow; \
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
    Reset,
    Snapshot(Box<Tree>),
    Event(Box<Event>),
    CaughtUp,
}

impl SseWriter {
    fn new(feed: FeedConnection, joined: Joined, after: Option<u64>) -> Self {
        let Joined { is_reset, snapshots, events, seq, is_caught_up } = joined;
        let mut queue = VecDeque::new();
        if is_reset {
            queue.push_back(QueuedItem::Reset);
        }
        queue.extend(snapshots.into_iter().map(|tree| QueuedItem::Snapshot(Box::new(tree))));
        queue.extend(events.into_iter().map(|event| QueuedItem::Event(Box::new(event))));
        // A reader that reconnects after these continues here, even if nothing follows.
        queue.push_back(QueuedItem::Position(seq));
        queue.extend(is_caught_up.then_some(QueuedItem::CaughtUp));
        Self { feed, queue, seq: after.filter(|_| !is_reset).unwrap_or(seq) }
    }

    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(self.convert(item));
            }
            match self.feed.next().await? {
                FeedOutput::Update(Update::Event(event)) => {
                    return Some(self.convert(QueuedItem::Event(event)));
                }
                FeedOutput::Update(Update::Snapshot(tree)) => {
                    return Some(self.convert(QueuedItem::Snapshot(tree)));
                }
                FeedOutput::Update(Update::Change(change)) => return Some(self.convert_change(&change)),
                FeedOutput::Update(Update::Missed(count)) => return Some(self.convert_missed(count)),
                FeedOutput::Update(Update::CaughtUp) => return Some(self.convert(QueuedItem::CaughtUp)),
                FeedOutput::Heartbeats(beats) => {
                    self.queue.extend(beats.into_iter().map(|beat| QueuedItem::Event(Box::new(beat))));
                }
            }
        }
    }

    fn convert(&mut self, item: QueuedItem) -> sse::Event {
        match item {
            QueuedItem::Position(seq) => sse::Event::default().id(seq.to_string()).comment("live"),
            QueuedItem::Reset => {
                let data = json!({ "schema": "subscope.reset/1", "seq": self.seq });
                sse::Event::default().event("reset").data(data.to_string())
            }
            QueuedItem::CaughtUp => {
                let data = json!({ "schema": "subscope.caught-up/1", "seq": self.seq });
                sse::Event::default().event("caught-up").data(data.to_string())
            }
            QueuedItem::Snapshot(tree) => {
                sse::Event::default().event("snapshot").data(serde_json::to_string(&tree).unwrap_or_default())
            }
            QueuedItem::Event(event) => {
                let written = sse::Event::default().event("event").data(feed_line(&event));
                // Not logged (a heartbeat): no position to continue from.
                if event.seq == 0 {
                    return written;
                }
                self.seq = event.seq;
                written.id(event.seq.to_string())
            }
        }
    }

    fn convert_change(&self, change: &Change) -> sse::Event {
        let Change { session, agents, removed } = change;
        let data = json!({
            "schema": "subscope.change/1", "seq": self.seq, "sessions": [session], "agents": agents, "removed": removed,
        });
        sse::Event::default().event("change").data(data.to_string())
    }

    fn convert_missed(&self, count: u64) -> sse::Event {
        let data = json!({ "schema": "subscope.missed/1", "count": count, "after": self.seq });
        sse::Event::default().event("missed").data(data.to_string())
    }
}
