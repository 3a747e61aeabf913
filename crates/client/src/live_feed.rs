//! A hub's live feed as a [`Feed`]: it outlives the hub.
//!
//! Where the connection ends, another is asked for, and the feed goes on behind the last place that was read: what happened
//! meanwhile comes from the hub's log, rows that may have changed come as snapshots. Where the log does not reach back that
//! far, that something is missing is told.

use std::{collections::VecDeque, time::Duration};

use serde::Deserialize;
use subscope_model::{
    Agent, AgentId, Change, Event, EventKind, Feed, FeedItem, Session, SessionId, Tree, Update,
};

use crate::{
    client::Client,
    connection::{Connection, Heard},
    error::ClientError,
    http::Body,
    sse::{Message, Messages},
};

/// How long is waited after an attempt to connect that failed: the next would fail again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Gives a connected client, each time that one is needed; may start a hub for it.
pub type Connect = Box<dyn FnMut() -> Result<Client, ClientError> + Send>;

/// The live feed of a hub.
pub struct LiveFeed {
    connect: Connect,
    /// For questions beside the feed.
    client: Client,
    open: Option<Open>,
    /// The last place that was read.
    place: Option<u64>,
    updates: VecDeque<Update>,
}

/// A feed that is read.
struct Open {
    connection: Connection,
    body: Body,
    messages: Messages,
}

/// `event: change`.
#[derive(Deserialize)]
struct Changed {
    sessions: Vec<Session>,
    agents: Vec<Agent>,
    removed: Vec<AgentId>,
}

/// `event: missed`.
#[derive(Deserialize)]
struct Missed {
    count: u64,
}

impl std::fmt::Debug for LiveFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("client", &self.client)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl LiveFeed {
    /// Opens the feed. It begins with the sessions as they stand.
    ///
    /// # Errors
    ///
    /// Where there is no hub to begin with. Later ones are waited for.
    pub fn open(mut connect: Connect) -> Result<Self, ClientError> {
        let client = connect()?;
        let open = Some(Open::of(&client, None)?);
        Ok(Self { connect, client, open, place: None, updates: VecDeque::new() })
    }

    fn reopen(&mut self) -> Result<(), ClientError> {
        self.client = (self.connect)()?;
        self.open = Some(Open::of(&self.client, self.place)?);
        Ok(())
    }

    /// Reads what there is, and waits for it if need be. Returns whether something came.
    fn read(&mut self, wait: Duration) -> bool {
        let Some(open) = &mut self.open else { return false };
        let (mut bytes, mut messages) = (Vec::new(), Vec::new());
        let heard = open.connection.hear_body(&mut open.body, &mut bytes, wait);
        let is_cut = open.messages.push(&bytes, &mut |message| messages.push(message)).is_err();
        let is_over = is_cut || !matches!(heard, Ok(Heard::Bytes | Heard::Nothing));
        for message in messages {
            // What this version does not understand is passed over, as what it does not know is.
            let Some(update) = self.update(message) else { continue };
            self.updates.push_back(update);
        }
        if is_over {
            self.open = None;
        }
        is_over || matches!(heard, Ok(Heard::Bytes))
    }

    fn update(&mut self, message: Message) -> Option<Update> {
        let Message { id, event, data } = message;
        let update = match event.as_str() {
            "event" => serde_json::from_str::<Event>(&data)
                .ok()
                .filter(|event| !is_sign_of_life(event))
                .map(|event| Update::Event(Box::new(event))),
            "snapshot" => {
                serde_json::from_str::<Tree>(&data).ok().map(|tree| Update::Snapshot(Box::new(tree)))
            }
            "change" => serde_json::from_str::<Changed>(&data).ok().and_then(|changed| {
                let Changed { sessions, agents, removed } = changed;
                let session = sessions.into_iter().next()?;
                Some(Update::Change(Box::new(Change { session, agents, removed })))
            }),
            "missed" => serde_json::from_str::<Missed>(&data).ok().map(|missed| Update::Missed(missed.count)),
            "reset" => {
                self.place = None;
                Some(Update::Missed(0))
            }
            "caught-up" => Some(Update::CaughtUp),
            _ => None,
        };
        // A place counts once what stands there is taken.
        if let Some(place) = id.and_then(|id| id.parse().ok()) {
            self.place = Some(place);
        }
        update
    }
}

/// Whether a hub only says that agents are at work. Each face says so by itself, as often as it likes.
fn is_sign_of_life(event: &Event) -> bool {
    event.kind == EventKind::Heartbeat && event.seq == 0
}

impl Open {
    fn of(client: &Client, after: Option<u64>) -> Result<Self, ClientError> {
        let (connection, body) = client.open_live(after)?;
        Ok(Self { connection, body, messages: Messages::default() })
    }
}

impl Feed for LiveFeed {
    /// Gives [`FeedItem::Idle`] also where something came that is no whole update yet, and while there is no hub; never
    /// [`FeedItem::Closed`]. `Missed(0)` means that nobody knows how many.
    fn next(&mut self, wait: Duration) -> FeedItem {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return FeedItem::Update(update);
            }
            if self.open.is_none() && self.reopen().is_err() {
                std::thread::sleep(wait.min(AFTER_FAILURE));
                return FeedItem::Idle;
            }
            if !self.read(wait) || (self.open.is_some() && self.updates.is_empty()) {
                return FeedItem::Idle;
            }
        }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        self.client.tree(session).ok().flatten()
    }
}
