//! `GET /api/v1/live`: all updates as server-sent events.
//!
//! A reader starts with snapshots, or after its `Last-Event-ID`. `id:` is the event's number in the event log. Rows
//! (`change`, `snapshot`) have none: a reader that reconnects gets the rows that may have changed since.

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse,
        sse::{self, KeepAlive, Sse},
    },
};
use futures_util::{StreamExt, stream};
use subscope_hub::{EnqueueOutcome, HubHandle, SubscriptionStart, UpdateQueue};
use subscope_model::{Event, Update};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{
    active_agents::ActiveAgents,
    api_error::ApiError,
    ask::ask,
    counters::ConnectionGuard,
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
    updates: mpsc::Receiver<Update>,
    active: ActiveAgents,
    heartbeat: Interval,
    /// Heartbeats of the sessions with active subagents.
    beats: VecDeque<Event>,
    hub: HubHandle,
    shutdown: watch::Receiver<bool>,
    /// Whether shutdown began: what is queued is the rest.
    is_ending: bool,
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
        let mut active = ActiveAgents::default();
        joined.snapshots.iter().for_each(|tree| active.replace(&tree.session.id, &tree.agents));
        let mut heartbeat = interval(app.heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let feed = Self {
            updates,
            active,
            heartbeat,
            beats: VecDeque::new(),
            hub: app.hub.clone(),
            shutdown: app.ending.clone(),
            is_ending: false,
            _slot: slot,
            _counted: app.connections.feed_opened(),
        };
        Ok((feed, joined))
    }

    /// Returns the next update; `None` when the hub ends, and at shutdown, after everything that the hub had acknowledged
    /// before.
    pub(super) async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(beat) = self.beats.pop_front() {
                return Some(Update::event(beat));
            }
            if self.is_ending {
                return self.updates.try_recv().ok();
            }
            tokio::select! {
                // Updates before heartbeats, which only repeat state.
                biased;
                () = wait_for_shutdown(&mut self.shutdown) => {
                    // Its answer comes after the events of all acknowledged input.
                    let _ = ask(|reply| self.hub.figures(reply)).await;
                    self.is_ending = true;
                }
                update = self.updates.recv() => {
                    let update = update?;
                    self.active.apply(&update);
                    return Some(update);
                }
                _ = self.heartbeat.tick() => self.beats.extend(self.active.heartbeats()),
            }
        }
    }
}

/// Streams all updates.
#[utoipa::path(
    get, path = "/api/v1/live",
    params(("Last-Event-ID" = Option<u64>, Header, description = "Number of the last event received: the stream continues after it.")),
    responses(
        (status = 200, description = "text/event-stream. `event` (subscope.event/1, id is its seq), `change` \
            (subscope.change/1), `snapshot` (subscope.tree/1), `reset` (the log does not have that number; snapshots \
            follow), `caught-up` (the hub has read the files that existed when it started), `missed` (the reader was too slow; \
            count and the last seq before).", body = String,
            content_type = "text/event-stream"),
        (status = 400, description = "Last-Event-ID is not a number."),
        (status = 503, description = "Too many live feeds are open."),
    )
)]
pub(super) async fn get(State(app): State<App>, headers: HeaderMap) -> Result<impl IntoResponse, ApiError> {
    let after = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => None,
        Some(text) => Some(text.parse().map_err(|_| ApiError::bad_request("Last-Event-ID is not a number"))?),
    };
    let (feed, joined) = FeedConnection::open(&app, after).await?;
    let SubscriptionStart { is_reset, snapshots, events, seq, is_caught_up } = joined;
    // A reader that reconnects after these continues at the position, even if nothing follows.
    let backlog = (is_reset.then_some(Update::Reset).into_iter())
        .chain(snapshots.into_iter().map(Update::snapshot))
        .chain(events.into_iter().map(Update::event))
        .map(StreamItem::Update)
        .chain([StreamItem::Position])
        .chain(is_caught_up.then_some(StreamItem::Update(Update::CaughtUp)));
    let live = stream::unfold(feed, async |mut feed| Some((StreamItem::Update(feed.next().await?), feed)));
    let mut last_seq = after.filter(|_| !is_reset).unwrap_or(seq);
    // Converted as late as possible.
    let written = stream::iter(backlog).chain(live).map(move |item| {
        Ok::<_, Infallible>(match item {
            StreamItem::Position => sse::Event::default().id(seq.to_string()).comment("live"),
            StreamItem::Update(update) => write_update(&update, &mut last_seq),
        })
    });
    Ok(Sse::new(written).keep_alive(KeepAlive::default()))
}

/// Item of the event stream.
enum StreamItem {
    /// Only sets the reader's `Last-Event-ID`.
    Position,
    Update(Update),
}

/// Converts an update into a server-sent event; `last_seq` is the position before it, and is set to the position after
/// it.
fn write_update(update: &Update, last_seq: &mut u64) -> sse::Event {
    let written = sse::Event::default().event(update.name()).data(update.data(*last_seq));
    // An event that is not logged (a heartbeat) has no position to continue from.
    if let Update::Event(event) = update
        && event.seq > 0
    {
        *last_seq = event.seq;
        return written.id(event.seq.to_string());
    }
    written
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use subscope_hub::{Asks, Hub, HubOptions, Ingest, Nothing};
    use subscope_model::EventKind;
    use subscope_store::MemoryStore;

    use super::*;
    use crate::state::AppState;

    fn hook(call: &str) -> Ingest {
        let body = format!(
            r#"{{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Read","tool_use_id":"{call}","tool_input":{{}}}}"#
        );
        Ingest {
            source: "hooks".to_owned(),
            session: None,
            dialect: subscope_hub::hook_dialect("/hooks/claude"),
            key: call.to_owned(),
            received_ms: None,
            body: body.into_bytes(),
            begins: None,
            asks: Asks::Nothing,
        }
    }

    /// A feed was cut off at shutdown although the hub had answered, and logged, what was in its queue.
    #[tokio::test]
    async fn reader_gets_all_that_was_acknowledged_before_the_shutdown() {
        let hub = Hub::start(Box::new(Nothing), Box::new(MemoryStore::new()), HubOptions::default()).unwrap();
        let (ending, is_ending) = watch::channel(false);
        let app = AppState::new(hub.handle(), ([127, 0, 0, 1], 0).into(), is_ending);
        let app = AppState { heartbeat: std::time::Duration::from_secs(60), ..app };
        let app: App = Arc::new(app);
        let (mut feed, _) = FeedConnection::open(&app, None).await.unwrap();
        for call in ["t1", "t2", "t3"] {
            ask(|reply| app.hub.ingest(hook(call), reply)).await.unwrap().unwrap();
        }
        ending.send_replace(true);
        let mut calls = 0;
        while let Some(update) = feed.next().await {
            calls += usize::from(matches!(update, Update::Event(event) if event.kind == EventKind::ToolPre));
        }
        assert_eq!(calls, 3);
    }
}
