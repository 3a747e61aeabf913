//! Records the live feed of a hub while a scenario runs.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use subscope_client::{Address, Client, LiveFeed};
use subscope_model::{Agent, AgentId, AgentStatus, Event, EventKind, Feed, FeedItem, Update};
use subscope_rig::tick;
use subscope_testkit::losses::Losses;

/// Timeout of one wait for an update, after which the reader checks whether it must end.
const WAIT: Duration = Duration::from_millis(50);

/// Recorded content of a feed.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// When the first row of each running agent arrived.
    pub(crate) live: BTreeMap<AgentId, Instant>,
    /// When each agent and each call with an id first appeared, by id.
    pub(crate) first: HashMap<String, Instant>,
    /// Reported stalls, in order.
    pub(crate) stalls: Vec<Event>,
    /// Number of events that hooks delivered before any file had them.
    pub(crate) hooked: usize,
    /// Events that were left out because the reader was slow.
    pub(crate) missed: u64,
    /// Losses of rows: fields that became unknown again.
    pub(crate) losses: Losses,
}

/// Reads the feed on a thread of its own.
pub(crate) struct Listener {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Heard>,
}

impl Listener {
    /// Starts to read; returns when the hub has accepted the subscription.
    pub(crate) fn start(address: SocketAddr) -> Result<Self> {
        let mut live = LiveFeed::open(Box::new(move || Client::connect(Address::Tcp(address))))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut heard = Heard::default();
            while !stop.load(Ordering::Relaxed) {
                if let FeedItem::Update(update) = live.next(WAIT) {
                    heard.take(update);
                }
            }
            heard
        });
        Ok(Self { is_over, thread })
    }

    /// Ends the reader; returns the recorded content.
    pub(crate) fn end(self) -> Result<Heard> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the reader of the live feed panicked"))
    }
}

impl Heard {
    fn take(&mut self, update: Update) {
        self.losses.take(&update);
        match update {
            Update::Snapshot(tree) => self.rows(&tree.agents),
            Update::Change(change) => self.rows(&change.agents),
            Update::Event(event) => {
                self.hooked += usize::from(event.source.ends_with(".hook"));
                if event.kind == EventKind::Stall {
                    self.stalls.push(event.into_inner());
                }
            }
            Update::CaughtUp | Update::Reset => {}
            Update::Missed(count) => self.missed += count,
        }
    }

    fn rows(&mut self, agents: &[Agent]) {
        let active = |agent: &&Agent| matches!(agent.status, AgentStatus::Pending | AgentStatus::Running);
        for agent in agents {
            let calls = agent.tools.iter().filter_map(|call| call.id.as_ref()).map(|id| id.as_str());
            for id in std::iter::once(agent.id.as_str()).chain(calls) {
                if !self.first.contains_key(id) {
                    self.first.insert(id.to_owned(), tick());
                }
            }
        }
        for agent in agents.iter().filter(active) {
            self.live.entry(agent.id.clone()).or_insert_with(tick);
        }
    }
}
