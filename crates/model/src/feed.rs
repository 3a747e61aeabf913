//! The live feed of all frontends: a snapshot, then updates, and their JSON.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Agent, AgentId, Event, Session, SessionId, Summary, Text, Tree};

/// An immutable value that all readers of a feed share, with its JSON, which is encoded at most once.
#[derive(Debug)]
pub struct Shared<T>(Arc<SharedValue<T>>);

#[derive(Debug)]
struct SharedValue<T> {
    value: T,
    json: OnceLock<String>,
}

impl<T> Shared<T> {
    /// Creates a shared value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(SharedValue { value, json: OnceLock::new() }))
    }
}

impl<T: Clone> Shared<T> {
    /// Returns the value; clones it if it has other readers.
    pub fn into_inner(self) -> T {
        Arc::try_unwrap(self.0).map_or_else(|shared| shared.value.clone(), |owned| owned.value)
    }
}

impl<T: Serialize> Shared<T> {
    /// Returns the value's JSON.
    pub fn json(&self) -> &str {
        // Rows and events consist of strings, numbers and JSON values: serializing cannot fail.
        self.0.json.get_or_init(|| serde_json::to_string(&self.0.value).unwrap_or_default())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Changed rows of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Change {
    /// Always [`Change::SCHEMA`].
    pub schema: Text,
    /// Position of the last event before it.
    pub seq: u64,
    /// The session's current row.
    pub sessions: [Session; 1],
    /// New, changed or moved agents, in the order of the tree.
    pub agents: Vec<Agent>,
    /// Agents that no longer exist (merged into another, or refuted).
    pub removed: Vec<AgentId>,
    /// Index of each of `agents` in the tree, so that readers keep its order without sorting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<u32>,
    /// Current statistics of the session, so that readers need not request the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

impl Change {
    /// Schema version of the change's JSON. Changes within it are additive only.
    pub const SCHEMA: &'static str = "subscope.change/1";

    /// Returns a tree's changes: the agents that `is_changed` selects, and `removed`.
    pub fn of(tree: &Tree, is_changed: impl Fn(&Agent) -> bool, removed: Vec<AgentId>) -> Self {
        let changed = || tree.agents.iter().zip(0..).filter(|(agent, _)| is_changed(agent));
        Self {
            schema: Self::SCHEMA.into(),
            seq: 0,
            sessions: [tree.session.clone()],
            agents: changed().map(|(agent, _)| agent.clone()).collect(),
            removed,
            places: changed().map(|(_, place)| place).collect(),
            summary: Some(tree.summary.clone()),
        }
    }

    /// Returns what differs between two trees of a session.
    pub fn between(before: &Tree, tree: &Tree) -> Self {
        let rows: HashMap<_, _> = before.agents.iter().map(|agent| (&agent.id, agent)).collect();
        let ids: HashSet<_> = tree.agents.iter().map(|agent| &agent.id).collect();
        let removed = before.agents.iter().map(|agent| &agent.id).filter(|id| !ids.contains(id));
        let is_changed = |agent: &Agent| rows.get(&agent.id).is_none_or(|row| *row != agent);
        Self::of(tree, is_changed, removed.cloned().collect())
    }

    /// Returns the session's row.
    pub fn session(&self) -> &Session {
        let [session] = &self.sessions;
        session
    }
}

/// A message to a subscriber. Closed enum: every frontend handles every variant.
///
/// Delivery: `Snapshot` and `Change` are never lost silently (a later one carries the state); an `Event` may be dropped
/// for a slow reader, which then gets `Missed` with the count.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The current state of a session, before any of its changes.
    Snapshot(Shared<Tree>),
    /// Changed rows.
    Change(Shared<Change>),
    /// An event.
    Event(Shared<Event>),
    /// This many events were dropped for this reader.
    Missed(u64),
    /// The event log does not contain the reader's position: an unknown number of events was missed, and snapshots of
    /// all current sessions follow.
    Reset,
    /// All existing content has been sent; updates from here on are live.
    CaughtUp,
}

/// Data of `missed`.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct MissedData {
    schema: Text,
    /// Number of dropped events.
    count: u64,
    /// Position of the last event before them.
    after: u64,
}

/// Data of `reset` and `caught-up`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct FeedPosition {
    schema: Text,
    /// Position of the reader.
    seq: u64,
}

impl Update {
    /// Creates a snapshot.
    pub fn snapshot(tree: Tree) -> Self {
        Self::Snapshot(Shared::new(tree))
    }

    /// Creates an update with changed rows.
    pub fn change(change: Change) -> Self {
        Self::Change(Shared::new(change))
    }

    /// Creates an update with an event.
    pub fn event(event: Event) -> Self {
        Self::Event(Shared::new(event))
    }

    /// Returns the name of the update's server-sent event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Snapshot(_) => "snapshot",
            Self::Change(_) => "change",
            Self::Event(_) => "event",
            Self::Missed(_) => "missed",
            Self::Reset => "reset",
            Self::CaughtUp => "caught-up",
        }
    }

    /// Returns the data of the update's server-sent event for a reader at position `seq`.
    pub fn data(&self, seq: u64) -> Cow<'_, str> {
        let position = |schema: &str| encode(&FeedPosition { schema: schema.into(), seq });
        match self {
            Self::Snapshot(tree) => tree.json().into(),
            Self::Change(change) => change.json().into(),
            Self::Event(event) => event.json().into(),
            Self::Missed(count) => {
                encode(&MissedData { schema: "subscope.missed/1".into(), count: *count, after: seq })
            }
            Self::Reset => position("subscope.reset/1"),
            Self::CaughtUp => position("subscope.caught-up/1"),
        }
    }

    /// Parses a server-sent event. `None` if it is unknown or unreadable: it is of a newer hub.
    pub fn parse(name: &str, data: &str) -> Option<Self> {
        match name {
            "snapshot" => decode(data).map(Self::snapshot),
            "change" => decode(data).map(Self::change),
            "event" => decode(data).map(Self::event),
            "missed" => decode(data).map(|missed: MissedData| Self::Missed(missed.count)),
            "reset" => Some(Self::Reset),
            "caught-up" => Some(Self::CaughtUp),
            _ => None,
        }
    }
}

fn encode(data: &impl Serialize) -> Cow<'static, str> {
    serde_json::to_string(data).unwrap_or_default().into()
}

fn decode<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).ok()
}

/// Result of waiting for an update.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// The next update.
    Update(Update),
    /// No update arrived within the time limit.
    Idle,
    /// No more updates will arrive.
    Closed,
}

/// A source of updates for frontends: implemented by the hub's subscriptions and by replays.
///
/// A new subscriber gets the snapshots and is registered atomically: no gap and no repeat.
pub trait Feed: Send {
    /// Returns the next update, waiting at most `wait`.
    fn next(&mut self, wait: Duration) -> FeedItem;

    /// Returns the current tree of a session; `None` if the session is unknown.
    fn tree(&mut self, session: &SessionId) -> Option<Tree>;
}
