//! The life of a session in the hub: the states of a slot, and what each transition leaves to do.
//!
//! ```text
//!                     load                        show
//!          Stored ───────────────► Loading ───────────────► Live ──┐ show
//!           ▲  ▲ ▲      evict       │   ▲                    │ ▲───┘
//!           │  │ └──────────────────┘   │ load               │
//!    expire │  │ evict, no room         │        evict       │
//!           │  └────────────────────────┼────────────────────┤
//!           └────────────────────────Evicted ◄───────────────┘
//! ```
//!
//! | state | in memory | its rows are read from | next |
//! |---|---|---|---|
//! | `Stored` | nothing | the store | input, a deadline or a scan loads it |
//! | `Evicted` | nothing | the store, for new subscribers too | the same; after a while it is `Stored` |
//! | `Loading` | facts | the store | its files and its inbox input are read, then its rows are derived and shown |
//! | `Live` | facts and rows | memory | its rows change with its input, until it is idle and evicted |
//!
//! A session that cannot be read stays `Loading`, with a [`Task::Derive`] or [`Task::Retry`] after a pause, and the
//! failure is published as a problem: its stored rows are served until what they were derived from is in the router.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use subscope_model::{Agent, AgentId, Millis, Tree};
use subscope_store::SourceFile;

use super::{
    budget::SessionCost, duplicates::LiveKeys, publish_dedup::PublishedEvents, retained::RetainedState,
    row_broadcast::BroadcastState,
};

/// Work on a session in memory that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Derive it: it has changes.
    Derive,
    /// Send its changed rows to subscribers.
    Broadcast,
    /// Save its rows.
    Save,
    /// Read again what could not be read of it.
    Retry,
}

impl Task {
    pub(super) const ALL: [Self; 4] = [Self::Derive, Self::Broadcast, Self::Save, Self::Retry];
}

/// What the hub knows of a session beyond its facts and its stored rows.
#[derive(Default)]
pub(super) struct SessionSlot {
    state: SlotState,
    /// Its input from programs.
    pub(super) inbox: InboxInput,
    /// Sequence number of the change log before the commit that last changed its rows.
    pub(super) rows_changed_at: Option<u64>,
    /// Time at which it began, if its stored keys are among those that are compared for duplicates.
    pub(super) stored_keys_since: Option<Millis>,
    /// Time at which its rows may change without new input: then it is loaded, if it is not in memory.
    pub(super) deadline: Option<Millis>,
}

/// The states of a session.
#[derive(Default)]
enum SlotState {
    #[default]
    Stored,
    Evicted {
        /// Time of its last derivation.
        since: Instant,
    },
    Loading {
        session: Box<LoadedSession>,
        /// As in `Evicted`, if it was that: its stored rows stay in the snapshots for new subscribers.
        evicted: Option<Instant>,
    },
    Live {
        session: Box<LoadedSession>,
        rows: Box<LiveRows>,
    },
}

/// Rows of a live session.
pub(super) struct LiveRows {
    /// The rows as last derived. Shared with the questions that are being answered from them.
    pub(super) tree: Arc<Tree>,
    /// Time of the last derivation.
    pub(super) derived_at: Instant,
    pub(super) broadcast: BroadcastState,
}

/// A session in memory.
#[derive(Default)]
pub(super) struct LoadedSession {
    /// When each [`Task`] is due; `None` if there is nothing to do.
    due: [Option<Instant>; 4],
    /// It is not derived before this time, so that big sessions do not delay small ones.
    pub(super) derive_after: Option<Instant>,
    pub(super) loaded_by: LoadedBy,
    pub(super) input: InputState,
    pub(super) coverage: Coverage,
    pub(super) stop_orders: StopOrders,
    /// Files that were read although the driver does not tail them.
    pub(super) backfilled: Vec<SourceFile>,
    /// Those of them that are not saved as its sources.
    pub(super) unsaved_files: Vec<SourceFile>,
    /// What could not be read of it, or is in no file any more.
    pub(super) retained: RetainedState,
    /// What an earlier hub process published of it; `None` until it is needed.
    pub(super) published: Option<PublishedEvents>,
    pub(super) keys: Option<LiveKeys>,
    pub(super) cost: SessionCost,
}

/// Why a session is in memory, and so how long it stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LoadedBy {
    /// New input: it stays until it is idle for a while.
    #[default]
    Input,
    /// The start-up scan alone: it is evicted once it is idle.
    StartupScan,
    /// A deadline alone: it is evicted once its rows are saved.
    Deadline,
}

/// How the input came into the router since the last derivation. What was read again was published before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum InputState {
    /// As it was written.
    #[default]
    Followed,
    /// Some of it was read again, from files, the archive or the inbox.
    Reread,
    /// Its files are being read for the first time, at start-up: until all are, its stored rows are better.
    FirstRead,
    /// It was running when the hub started, and its inbox input was replayed: it is derived when silence counts.
    AwaitsSilence,
}

/// Whether the router has everything that the stored rows of a session were derived from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coverage {
    /// It may have files that were not read.
    #[default]
    Unknown,
    Complete,
}

/// Agents of a session with a pending order to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StopOrders {
    Known(Vec<AgentId>),
    /// Input was replayed since, and not yet searched for orders.
    Outdated(Vec<AgentId>),
}

/// Where a session's input from programs is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum InboxInput {
    /// In the inbox, if there is any, and its rows contain it.
    #[default]
    Stored,
    /// In the inbox: acknowledged input that no rows contain.
    Unprocessed,
    /// In the router.
    Replayed {
        /// Its size; `None` if it belongs to several sessions or cannot be replayed.
        bytes: Option<u64>,
    },
}

/// What follows from derived rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// First rows of a session: publish them whole.
    First,
    /// No other rows than the known ones.
    Unchanged,
    /// Other rows: publish the changes, and that these agents are gone.
    Changed(Vec<AgentId>),
}

impl SessionSlot {
    /// Returns the session if it is in memory.
    pub(super) fn loaded(&self) -> Option<&LoadedSession> {
        match &self.state {
            SlotState::Stored | SlotState::Evicted { .. } => None,
            SlotState::Loading { session, .. } | SlotState::Live { session, .. } => Some(session),
        }
    }

    /// Returns the session for changes if it is in memory.
    pub(super) fn loaded_mut(&mut self) -> Option<&mut LoadedSession> {
        match &mut self.state {
            SlotState::Stored | SlotState::Evicted { .. } => None,
            SlotState::Loading { session, .. } | SlotState::Live { session, .. } => Some(session),
        }
    }

    /// Returns the rows if they are in memory.
    pub(super) fn rows(&self) -> Option<&LiveRows> {
        match &self.state {
            SlotState::Stored | SlotState::Evicted { .. } | SlotState::Loading { .. } => None,
            SlotState::Live { rows, .. } => Some(rows),
        }
    }

    /// Returns the rows for changes if they are in memory.
    pub(super) fn rows_mut(&mut self) -> Option<&mut LiveRows> {
        match &mut self.state {
            SlotState::Stored | SlotState::Evicted { .. } | SlotState::Loading { .. } => None,
            SlotState::Live { rows, .. } => Some(rows),
        }
    }

    /// Time of the last derivation before it was evicted, if that was a short time ago and it has no rows in memory.
    pub(super) fn evicted_since(&self) -> Option<Instant> {
        match self.state {
            SlotState::Evicted { since } => Some(since),
            SlotState::Loading { evicted, .. } => evicted,
            SlotState::Stored | SlotState::Live { .. } => None,
        }
    }

    /// Whether nothing is known of it that the store does not know.
    pub(super) fn is_empty(&self) -> bool {
        let Self { state, inbox, rows_changed_at, stored_keys_since, deadline } = self;
        matches!(state, SlotState::Stored)
            && *inbox == InboxInput::Stored
            && rows_changed_at.is_none()
            && stored_keys_since.is_none()
            && deadline.is_none()
    }

    /// Time since which its rows are idle: saved, without running agents.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let rows = self.rows()?;
        let is_saved = self.loaded().is_some_and(|session| !session.has(Task::Save));
        (is_idle(&rows.tree) && is_saved).then_some(rows.derived_at)
    }

    /// Brings the session into memory; `by` counts only if it was not there.
    pub(super) fn load(&mut self, by: LoadedBy) {
        let evicted = self.evicted_since();
        if self.loaded().is_none() {
            self.state = SlotState::Loading {
                session: Box::new(LoadedSession { loaded_by: by, ..LoadedSession::default() }),
                evicted,
            };
        }
    }

    /// Takes derived rows of a session in memory, and stamps what is new in them with a revision.
    pub(super) fn show(&mut self, mut tree: Tree, rev: u64, now: Instant) -> Shown {
        if let Some(rows) = self.rows_mut() {
            rows.derived_at = now;
            tree.stamp_news(&rows.tree, rev);
            if *rows.tree == tree {
                return Shown::Unchanged;
            }
            let ids: BTreeSet<&AgentId> = tree.agents.iter().map(|row| &row.id).collect();
            let gone = rows.tree.agents.iter().map(|row| &row.id).filter(|id| !ids.contains(id));
            let gone = gone.cloned().collect();
            rows.tree = Arc::new(tree);
            return Shown::Changed(gone);
        }
        tree.stamp(rev);
        let broadcast = BroadcastState::after_snapshot(rev, now);
        let rows = Box::new(LiveRows { tree: Arc::new(tree), derived_at: now, broadcast });
        let session = match std::mem::take(&mut self.state) {
            SlotState::Stored | SlotState::Evicted { .. } => Box::default(),
            SlotState::Loading { session, .. } | SlotState::Live { session, .. } => session,
        };
        self.state = SlotState::Live { session, rows };
        Shown::First
    }

    /// Takes the session out of memory; its stored keys are compared from now on. `has_room` if new subscribers can
    /// still get its rows. Returns the session, whose tasks and orders end; `None` if it is not in memory.
    pub(super) fn evict(&mut self, has_room: bool) -> Option<Box<LoadedSession>> {
        let (session, since) = match std::mem::take(&mut self.state) {
            away @ (SlotState::Stored | SlotState::Evicted { .. }) => {
                self.state = away;
                return None;
            }
            SlotState::Loading { session, .. } => (session, None),
            SlotState::Live { session, rows } => (session, Some(rows.derived_at)),
        };
        if let Some(since) = since.filter(|_| has_room) {
            self.state = SlotState::Evicted { since };
        }
        if matches!(self.inbox, InboxInput::Replayed { .. }) {
            self.inbox = InboxInput::Stored;
        }
        self.stored_keys_since = session.keys.as_ref().map(LiveKeys::began_ms).or(self.stored_keys_since);
        Some(session)
    }

    /// Removes it from the snapshots for new subscribers, unless its eviction is recent.
    pub(super) fn expire(&mut self, is_recent: impl Fn(Instant) -> bool) {
        match &mut self.state {
            SlotState::Evicted { since } if !is_recent(*since) => self.state = SlotState::Stored,
            SlotState::Loading { evicted, .. } => *evicted = evicted.filter(|since| is_recent(*since)),
            SlotState::Stored | SlotState::Evicted { .. } | SlotState::Live { .. } => {}
        }
    }
}

impl LoadedSession {
    /// Whether a task is to be done, now or later.
    pub(super) fn has(&self, task: Task) -> bool {
        self.due(task).is_some()
    }

    /// Time at which a task is due.
    pub(super) fn due(&self, task: Task) -> Option<Instant> {
        self.due[task as usize]
    }

    /// Sets the time at which a task is due. Returns the former one.
    pub(super) fn schedule(&mut self, task: Task, at: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut self.due[task as usize], at)
    }

    /// Whether work on it is pending, so that it cannot be evicted.
    pub(super) fn is_busy(&self) -> bool {
        self.has(Task::Derive)
            || self.has(Task::Broadcast)
            || self.input != InputState::Followed
            || !self.stop_orders.agents().is_empty()
    }
}

impl InputState {
    /// Records that some input was read again.
    pub(super) fn record_reread(&mut self) {
        if *self == Self::Followed {
            *self = Self::Reread;
        }
    }

    /// Defers the derivation of replayed input until silence counts.
    pub(super) fn await_silence(&mut self) {
        if *self == Self::Reread {
            *self = Self::AwaitsSilence;
        }
    }

    /// Ends a wait. Returns whether the session was in it: then it is to be derived.
    pub(super) fn end_wait(&mut self, wait: Self) -> bool {
        let is_over = *self == wait;
        if is_over {
            *self = Self::Reread;
        }
        is_over
    }

    /// Records a derivation. Returns whether it contains input that was read again.
    pub(super) fn derive(&mut self) -> bool {
        let is_reread = *self != Self::Followed;
        if *self != Self::FirstRead {
            *self = Self::Followed;
        }
        is_reread
    }
}

impl Default for StopOrders {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl StopOrders {
    /// Returns the agents that are to stop, as far as that is known.
    pub(super) fn agents(&self) -> &[AgentId] {
        match self {
            Self::Known(agents) | Self::Outdated(agents) => agents,
        }
    }

    /// Records that input was replayed: it may contain orders.
    pub(super) fn expect(&mut self) {
        if let Self::Known(agents) = self {
            *self = Self::Outdated(std::mem::take(agents));
        }
    }
}

impl InboxInput {
    /// Begins a replay: the input is in the router from now on.
    pub(super) fn begin_replay(&mut self) {
        if !matches!(self, Self::Replayed { .. }) {
            *self = Self::Replayed { bytes: Some(0) };
        }
    }

    /// Ends a replay that could not read everything: the input is where it was before.
    pub(super) fn abandon_replay(&mut self, before: Self) {
        *self = match before {
            Self::Unprocessed => Self::Unprocessed,
            Self::Stored | Self::Replayed { .. } => Self::Stored,
        };
    }

    /// Counts new input that joins the replayed one; `bytes` is `None` if it cannot be replayed for this session alone.
    pub(super) fn record(&mut self, bytes: Option<u64>) {
        if let Self::Replayed { bytes: known } = self {
            *known = known.zip(bytes).map(|(known, more)| known + more);
        }
    }
}

/// Whether a session has no running agent.
pub(super) fn is_idle(tree: &Tree) -> bool {
    !tree.agents.iter().any(Agent::is_at_work)
}

#[cfg(test)]
pub(super) mod tests;
