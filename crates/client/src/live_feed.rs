//! Live feed of a hub (server-sent events) as a [`Feed`] that reconnects.
//!
//! After a disconnect it connects again and resumes after the last position (`last-event-id`): the hub replays events
//! from its log and sends snapshots of rows that may have changed. If the log does not reach back that far, the feed
//! yields [`Update::Reset`].

use std::{collections::VecDeque, time::Duration};

use subscope_model::{EventKind, Feed, FeedItem, SessionId, Tree, Update};
use subscope_query::Queries;

use crate::{
    client::Client,
    connection::Connection,
    error::ClientError,
    http::{BodyFraming, is_timeout},
    sse::{SseMessage, SseParser},
};

/// Pause after a failed attempt to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Returns a connected client, for the first and for each later connection; may start a hub.
pub type ConnectFn = Box<dyn FnMut() -> Result<Client, ClientError> + Send>;

/// The live feed of a hub.
pub struct LiveFeed {
    connect: ConnectFn,
    /// Client for queries while the feed is open.
    client: Client,
    open: Option<OpenFeed>,
    /// Last position read (SSE id).
    position: Option<u64>,
    updates: VecDeque<Update>,
}

/// An open feed connection.
struct OpenFeed {
    connection: Connection,
    body: BodyFraming,
    messages: SseParser,
}

impl LiveFeed {
    /// Opens the feed. It begins with snapshots of the current sessions.
    ///
    /// # Errors
    ///
    /// The first connection failed. Later failures are retried.
    pub fn open(mut connect: ConnectFn) -> Result<Self, ClientError> {
        let client = connect()?;
        let open = Some(OpenFeed::of(&client, None)?);
        Ok(Self { connect, client, open, position: None, updates: VecDeque::new() })
    }

    fn reopen(&mut self) -> Result<(), ClientError> {
        self.client = (self.connect)()?;
        self.open = Some(OpenFeed::of(&self.client, self.position)?);
        Ok(())
    }

    /// Reads available messages, waiting at most `wait`. Returns whether bytes arrived or the connection ended.
    fn read(&mut self, wait: Duration) -> bool {
        let Some(open) = &mut self.open else { return false };
        let (mut bytes, mut messages) = (Vec::new(), Vec::new());
        let outcome = open.connection.read_body_part(&mut open.body, &mut bytes, wait);
        let is_cut = open.messages.push(&bytes, &mut |message| messages.push(message)).is_err();
        let is_waiting = outcome.as_ref().is_err_and(is_timeout);
        let is_over = is_cut || !(is_waiting || matches!(outcome, Ok(false)));
        for message in messages {
            // Unknown or unreadable messages are skipped, for compatibility with newer hubs.
            let Some(update) = self.update(message) else { continue };
            self.updates.push_back(update);
        }
        if is_over {
            self.open = None;
        }
        is_over || !is_waiting
    }

    fn update(&mut self, message: SseMessage) -> Option<Update> {
        let SseMessage { id, event, data } = message;
        let update = Update::parse(&event, &data).filter(|update| !is_hub_heartbeat(update));
        if update == Some(Update::Reset) {
            self.position = None;
        }
        // The position advances once its message has been processed.
        if let Some(position) = id.and_then(|id| id.parse().ok()) {
            self.position = Some(position);
        }
        update
    }
}

/// Whether an update is a heartbeat of the hub itself, without a sequence number; user interfaces show liveness on
/// their own.
fn is_hub_heartbeat(update: &Update) -> bool {
    matches!(update, Update::Event(event) if event.kind == EventKind::Heartbeat && event.seq == 0)
}

impl OpenFeed {
    fn of(client: &Client, after: Option<u64>) -> Result<Self, ClientError> {
        let (connection, body) = client.open_live(after)?;
        Ok(Self { connection, body, messages: SseParser::default() })
    }
}

impl Feed for LiveFeed {
    /// Also yields [`FeedItem::Idle`] after an incomplete update and while disconnected; never [`FeedItem::Closed`].
    fn next(&mut self, wait: Duration) -> FeedItem {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return FeedItem::Update(update);
            }
            if self.open.is_none() && self.reopen().is_err() {
                std::thread::sleep(wait.min(RECONNECT_PAUSE));
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
