//! `GET /api/v1/live`: everything that happens, as server-sent events.
//!
//! A reader begins with snapshots, or behind its `Last-Event-ID`. `id:` is the event's place in the change log. Rows
//! (`change`, `snapshot`) have none: a reader that returns gets those that may have changed since.

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
    connection_count::Guest,
    state::{App, ended},
};

/// How many updates a feed may be behind: some megabytes at most for one that is stuck, until it is cut off.
const QUEUE_UPDATES: usize = 2048;

/// The hub's end of a feed.
pub(super) struct Queue(mpsc::Sender<Update>);

impl Inlet for Queue {
    fn offer(&mut self, update: Update) -> Offered {
        match self.0.try_send(update) {
            Ok(()) => Offered::Taken,
            Err(mpsc::error::TrySendError::Full(update)) => Offered::Full(Box::new(update)),
            Err(mpsc::error::TrySendError::Closed(_)) => Offered::Gone,
        }
    }
}

/// What a feed waits for.
pub(super) struct Feed {
    pub(super) updates: mpsc::Receiver<Update>,
    pub(super) board: ActiveAgents,
    pub(super) beat: Interval,
    pub(super) ending: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
    /// A WebSocket is no connection of HTTP any more.
    _guest: Guest,
}

impl Feed {
    /// Opens a feed, behind a place in the log where one is given.
    pub(super) async fn open(app: &App, after: Option<u64>) -> Result<(Self, Joined), ApiError> {
        let slots = std::sync::Arc::clone(&app.feeds);
        let slot = slots.try_acquire_owned().map_err(|_| ApiError::busy("too many live feeds are open"))?;
        let (sender, updates) = mpsc::channel(QUEUE_UPDATES);
        let joined = ask(|reply| app.hub.subscribe(Box::new(Queue(sender)), after, reply)).await?;
        app.counters.feed_opened();
        let mut board = ActiveAgents::default();
        joined.snapshots.iter().for_each(|tree| board.take_tree(tree));
        let mut beat = interval(app.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let guest = app.guests.enter();
        Ok((Self { updates, board, beat, ending: app.ending.clone(), _slot: slot, _guest: guest }, joined))
    }

    /// Returns what comes next; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Next> {
        tokio::select! {
            // What happened comes before what only repeats it.
            biased;
            () = ended(&mut self.ending) => None,
            update = self.updates.recv() => {
                let update = update?;
                self.board.take(&update);
                Some(Next::Update(update))
            }
            _ = self.beat.tick() => Some(Next::Beats(self.board.beat())),
        }
    }
}

/// What comes next on a feed.
pub(super) enum Next {
    Update(Update),
    /// Heartbeats of the sessions with active subagents.
    Beats(Vec<Event>),
}

/// Follows everything that happens.
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
        Some(text) => Some(text.parse().map_err(|_| ApiError::bad("Last-Event-ID is no number"))?),
    };
    let (feed, joined) = Feed::open(&app, after).await?;
    let writing = Writing::new(feed, joined, after);
    let events = stream::unfold(writing, |mut writing| async {
        let event = writing.next().await?;
        Some((Ok::<_, Infallible>(event), writing))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// A feed as it is written.
struct Writing {
    feed: Feed,
    /// What is to be written before the next update, converted as late as possible.
    before: VecDeque<Item>,
    seq: u64,
}

enum Item {
    /// Only sets the reader's place.
    Place(u64),
    Reset,
    Snapshot(Box<Tree>),
    Event(Box<Event>),
    CaughtUp,
}

impl Writing {
    fn new(feed: Feed, joined: Joined, after: Option<u64>) -> Self {
        let Joined { is_reset, snapshots, events, seq, is_caught_up } = joined;
        let mut before = VecDeque::new();
        if is_reset {
            before.push_back(Item::Reset);
        }
        before.extend(snapshots.into_iter().map(|tree| Item::Snapshot(Box::new(tree))));
        before.extend(events.into_iter().map(|event| Item::Event(Box::new(event))));
        // Whoever has read all of this returns to here, also if nothing more comes.
        before.push_back(Item::Place(seq));
        before.extend(is_caught_up.then_some(Item::CaughtUp));
        Self { feed, before, seq: after.filter(|_| !is_reset).unwrap_or(seq) }
    }

    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(item) = self.before.pop_front() {
                return Some(self.item(item));
            }
            match self.feed.next().await? {
                Next::Update(Update::Event(event)) => return Some(self.item(Item::Event(event))),
                Next::Update(Update::Snapshot(tree)) => return Some(self.item(Item::Snapshot(tree))),
                Next::Update(Update::Change(change)) => return Some(self.change(&change)),
                Next::Update(Update::Missed(count)) => return Some(self.missed(count)),
                Next::Update(Update::CaughtUp) => return Some(self.item(Item::CaughtUp)),
                Next::Beats(beats) => {
                    self.before.extend(beats.into_iter().map(|beat| Item::Event(Box::new(beat))));
                }
            }
        }
    }

    fn item(&mut self, item: Item) -> sse::Event {
        match item {
            Item::Place(seq) => sse::Event::default().id(seq.to_string()).comment("live"),
            Item::Reset => {
                let data = json!({ "schema": "subscope.reset/1", "seq": self.seq });
                sse::Event::default().event("reset").data(data.to_string())
            }
            Item::CaughtUp => {
                let data = json!({ "schema": "subscope.caught-up/1", "seq": self.seq });
                sse::Event::default().event("caught-up").data(data.to_string())
            }
            Item::Snapshot(tree) => {
                sse::Event::default().event("snapshot").data(serde_json::to_string(&tree).unwrap_or_default())
            }
            Item::Event(event) => {
                let written = sse::Event::default().event("event").data(feed_line(&event));
                // What stands in no log (a heartbeat) is no place to return to.
                if event.seq == 0 {
                    return written;
                }
                self.seq = event.seq;
                written.id(event.seq.to_string())
            }
        }
    }

    fn change(&self, change: &Change) -> sse::Event {
        let Change { session, agents, removed } = change;
        let data = json!({
            "schema": "subscope.change/1", "seq": self.seq, "sessions": [session], "agents": agents, "removed": removed,
        });
        sse::Event::default().event("change").data(data.to_string())
    }

    fn missed(&self, count: u64) -> sse::Event {
        let data = json!({ "schema": "subscope.missed/1", "count": count, "after": self.seq });
        sse::Event::default().event("missed").data(data.to_string())
    }
}
