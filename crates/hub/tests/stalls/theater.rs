//! Plays sessions into a hub on a simulated clock, and records the hub's stall events and rows.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::Duration,
};

use subscope_hub::{Driver, EnqueueOutcome, Hub, HubOptions, MemoryStore, PollResult, UpdateQueue};
use subscope_model::{
    Agent, AgentId, AgentStatus, EventKind, Flag, LiveView, Millis, SessionId, SourceId, Update,
};
use subscope_session::{SessionRouter, SourceSpec};
use subscope_testkit::{
    clock::START,
    corpus::Source,
    waits::{Expected, Sleep, TimedLine},
};

/// Longest clock step without input: the longest sleep of a hub.
const STEP_MS: Millis = 1_000;
/// Shortest wait of a hub's turn while no session is dirty.
const AT_REST: Duration = Duration::from_millis(100);

/// A session to play.
#[derive(Clone)]
pub(crate) struct Act {
    pub(crate) session: String,
    pub(crate) lines: Vec<TimedLine>,
    pub(crate) look: Option<Look>,
    pub(crate) end: Millis,
}

/// An agent to observe, and the time.
#[derive(Clone)]
pub(crate) struct Look {
    pub(crate) agent: [String; 2],
    pub(crate) at: Millis,
}

/// A published stall.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "`since` is for whoever reads what went wrong")]
pub(crate) struct Told {
    pub(crate) agent: String,
    pub(crate) waits_for: String,
    pub(crate) at: Millis,
    pub(crate) since: Millis,
}

/// Observations of a session.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) session: String,
    pub(crate) looked: Option<Expected>,
    pub(crate) stalls: Vec<Told>,
    /// Whether all agents had ended at the end.
    pub(crate) is_over: bool,
    /// Agents that were running, stalled or lost at the end, and why.
    pub(crate) restless: Vec<String>,
}

/// State of a subscriber of the hub.
#[derive(Default)]
struct World {
    view: LiveView,
    stalls: HashMap<String, Vec<Told>>,
}

impl World {
    fn take(&mut self, update: Update) {
        match update {
            Update::Snapshot(_) | Update::Change(_) => self.view.apply(update),
            Update::Event(event) if event.kind == EventKind::Stall => {
                let text = |key: &str| event.text(key).unwrap_or_default().to_owned();
                let since = event.data["since_ms"].as_i64().unwrap_or_default() - START;
                let told = Told {
                    agent: text("agent_id"),
                    waits_for: text("waiting_for"),
                    at: event.at_ms.unwrap_or_default() - START,
                    since,
                };
                self.stalls.entry(event.session_id.to_string()).or_default().push(told);
            }
            Update::Event(_) | Update::CaughtUp | Update::Reset => {}
            Update::Missed(count) => panic!("{count} events missed"),
        }
    }

    fn look(&self, session: &str, look: &Look) -> Option<Expected> {
        let session = SessionId::from(session);
        let row = look.agent.iter().find_map(|id| self.view.agent(&session, &AgentId::from(&**id)))?;
        let doing = row.liveness.as_ref();
        Some(Expected {
            waits_for: doing.map(|doing| doing.kind),
            name: doing.and_then(|doing| doing.name.as_deref()).map(known_name),
            is_inferred: doing.is_some_and(|doing| doing.inferred),
            is_stalled: row.has(Flag::Stalled),
        })
    }
}

/// A tool's name as in scripts; other names belong to no tool.
fn known_name(name: &str) -> &'static str {
    const TOOLS: [&str; 8] =
        ["Bash", "WebFetch", "mcp__shop__search", "TaskOutput", "Read", "Edit", "Glob", "Write"];
    TOOLS.into_iter().find(|tool| *tool == name).unwrap_or("?")
}

/// A subscriber that accepts everything at once, on the hub's own thread.
#[derive(Clone)]
struct Listener(Arc<Mutex<World>>);

impl UpdateQueue for Listener {
    fn offer(&mut self, update: Update) -> EnqueueOutcome {
        lock(&self.0).take(update);
        EnqueueOutcome::Queued
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap()
}

/// Driver that pushes lines at their times.
struct Player {
    acts: Vec<Act>,
    /// By time: the act, and the index of the line in it.
    lines: Vec<(Millis, usize, usize)>,
    next: usize,
    looks: Vec<(Millis, usize)>,
    next_look: usize,
    sources: HashMap<(usize, Source), SourceId>,
    now: Millis,
    asleep_ms: Millis,
    sleep: Option<Sleep>,
    end: Millis,
    may_begin: Arc<AtomicBool>,
    world: Arc<Mutex<World>>,
    seen: Vec<Seen>,
    done: SyncSender<Vec<Seen>>,
}

impl Player {
    /// Advances the clock to the next line, at most by a step.
    fn advance(&mut self) {
        let mut to = self.now + STEP_MS;
        if let Some((at, ..)) = self.lines.get(self.next) {
            to = to.min(*at);
        }
        if let Some((at, _)) = self.looks.get(self.next_look) {
            to = to.min(*at);
        }
        if let Some(sleep) = self.sleep.filter(|sleep| to > sleep.from) {
            self.asleep_ms += sleep.to - sleep.from;
            to += sleep.to - sleep.from;
            self.sleep = None;
        }
        self.now = to.max(self.now);
    }

    fn look(&mut self) {
        while let Some((_, act)) = self.looks.get(self.next_look).filter(|(at, _)| *at <= self.now) {
            let Act { session, look, .. } = &self.acts[*act];
            let looked = look.as_ref().and_then(|look| lock(&self.world).look(session, look));
            self.seen[*act].looked = looked;
            self.next_look += 1;
        }
    }

    fn push(&mut self, router: &mut SessionRouter) -> bool {
        let before = self.next;
        router.receive_at(Some(START + self.now));
        while let Some((_, act, line)) = self.lines.get(self.next).filter(|(at, ..)| *at <= self.now) {
            let Act { session, lines, .. } = &self.acts[*act];
            let TimedLine { source, text, .. } = &lines[*line];
            let id = *self
                .sources
                .entry((*act, source.clone()))
                .or_insert_with(|| router.open(spec(session, *act, source)));
            router.push(id, text.as_bytes());
            router.push(id, b"\n");
            if matches!(source, Source::Meta(_)) {
                router.flush(id);
            }
            self.next += 1;
        }
        self.next > before
    }

    fn finish(&mut self) {
        let mut world = lock(&self.world);
        for (seen, act) in self.seen.iter_mut().zip(&self.acts) {
            seen.session.clone_from(&act.session);
            seen.stalls = world.stalls.remove(&act.session).unwrap_or_default();
            let rows = world.view.get(&SessionId::from(&*act.session)).map(|tree| &tree.agents);
            let is_restless =
                |row: &&Agent| row.is_at_work() || row.has(Flag::Stalled) || row.status == AgentStatus::Lost;
            let restless = rows.into_iter().flatten().filter(is_restless);
            let describe =
                |row: &Agent| format!("{} {:?} {:?} {:?}", row.id, row.status, row.evidence, row.liveness);
            seen.restless = restless.map(describe).collect();
            seen.is_over =
                rows.is_some_and(|rows| rows.iter().all(|row| row.status == AgentStatus::Completed));
        }
        drop(world);
        // The receiver is gone only if the test has failed.
        let _ = self.done.send(std::mem::take(&mut self.seen));
    }
}

fn spec(session: &str, act: usize, source: &Source) -> SourceSpec {
    let spec = SourceSpec { group: act as u32, ..SourceSpec::default() };
    let file = |dialect, agent: Option<&str>| SourceSpec {
        dialect,
        session: Some(session.to_owned()),
        agent: agent.map(str::to_owned),
        ..spec.clone()
    };
    match source {
        Source::Main => file(None, None),
        Source::Agent(id) => file(Some(subscope_harness::claude_code::TRANSCRIPT), Some(id)),
        Source::Meta(id) => file(Some(subscope_harness::claude_code::META), Some(id)),
        Source::Stream => SourceSpec { dialect: Some(subscope_harness::claude_code::STREAM), ..spec },
        Source::Hooks => SourceSpec { dialect: Some(subscope_harness::claude_code::HOOK), ..spec },
    }
}

impl Driver for Player {
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult {
        if !self.may_begin.load(Ordering::Acquire) || wait < AT_REST {
            // The pushed lines are not derived yet: no time passes meanwhile.
            std::thread::sleep(wait.min(Duration::from_millis(5)));
            return PollResult::default();
        }
        self.look();
        if self.now >= self.end {
            self.finish();
            return PollResult { has_ended: true, ..PollResult::default() };
        }
        self.advance();
        PollResult { has_pushed: self.push(router), is_caught_up: true, ..PollResult::default() }
    }

    fn now(&self) -> Millis {
        START + self.now
    }

    fn awake_ms(&self) -> Millis {
        self.now - self.asleep_ms
    }
}

/// Plays acts concurrently on one machine, and returns the observations of each.
pub(crate) fn play(acts: Vec<Act>, sleep: Option<Sleep>) -> Vec<Seen> {
    let mut lines: Vec<(Millis, usize, usize)> = acts
        .iter()
        .enumerate()
        .flat_map(|(act, it)| it.lines.iter().enumerate().map(move |(line, timed)| (timed.at, act, line)))
        .collect();
    lines.sort_by_key(|(at, ..)| *at);
    let mut looks: Vec<(Millis, usize)> =
        acts.iter().enumerate().filter_map(|(act, it)| Some((it.look.as_ref()?.at, act))).collect();
    looks.sort_unstable();
    let world = Arc::new(Mutex::new(World::default()));
    let may_begin = Arc::new(AtomicBool::new(false));
    let (done, result) = sync_channel(1);
    let seen = acts.iter().map(|_| Seen::default()).collect();
    let player = Player {
        end: acts.iter().map(|act| act.end).max().unwrap_or(0) + 2 * STEP_MS,
        acts,
        lines,
        next: 0,
        looks,
        next_look: 0,
        sources: HashMap::new(),
        now: 0,
        asleep_ms: 0,
        sleep,
        may_begin: Arc::clone(&may_begin),
        world: Arc::clone(&world),
        seen,
        done,
    };
    let options = HubOptions::default();
    let hub = Hub::start(Box::new(player), Box::new(MemoryStore::new()), options).unwrap();
    let begin = Box::new(move |_| may_begin.store(true, Ordering::Release));
    hub.handle().subscribe(Box::new(Listener(world)), None, begin).unwrap();
    result.recv().unwrap()
}
