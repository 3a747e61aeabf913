//! The event loop turn by turn, on a clock that the test moves: nothing waits.

#![allow(clippy::unwrap_used)]

mod cold_read;
mod damage;
mod lines;

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use subscope_model::{Flag, SessionId, SourceId, Tree};
use subscope_session::SourceSpec;
use subscope_store::{Access, ListQuery, SqliteStore};

use super::*;
use crate::{
    command::{Asks, Ingest, IngestReceipt},
    driver::PollResult,
    read_pool::Question,
    read_view::ReadView,
};

/// 2027-01-15.
const START_MS: Millis = 1_800_000_000_000;

/// A clock that advances only when the test moves it.
#[derive(Clone)]
struct ManualClock {
    origin: Instant,
    elapsed_ms: Arc<AtomicI64>,
}

impl ManualClock {
    fn advance(&self, ms: i64) {
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn tick(&self) -> Instant {
        self.origin + Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst).unsigned_abs())
    }

    fn now_ms(&self) -> Millis {
        START_MS + self.elapsed_ms.load(Ordering::SeqCst)
    }

    fn awake_ms(&self) -> Millis {
        self.now_ms()
    }
}

/// A driver with one stream, whose bytes the test provides.
struct ManualDriver {
    clock: ManualClock,
    bytes: Arc<Mutex<Vec<u8>>>,
    source: Option<SourceId>,
    /// How often the tailed files of a session were listed.
    listings: Arc<AtomicI64>,
}

impl Driver for ManualDriver {
    fn poll(&mut self, _wait: Duration, router: &mut SessionRouter) -> PollResult {
        let bytes = std::mem::take(&mut *self.bytes.lock().unwrap());
        let spec = SourceSpec { label: "main.jsonl".to_owned(), ..SourceSpec::default() };
        let source = *self.source.get_or_insert_with(|| router.open(spec));
        router.push(source, &bytes);
        PollResult { has_pushed: !bytes.is_empty(), is_caught_up: true, ..PollResult::default() }
    }

    fn tailed_files(&self, _session: &SessionId) -> HashSet<&Path> {
        self.listings.fetch_add(1, Ordering::SeqCst);
        HashSet::new()
    }

    fn now(&self) -> Millis {
        self.clock.now_ms()
    }

    fn awake_ms(&self) -> Millis {
        self.clock.awake_ms()
    }
}

/// An event loop over an empty store.
struct World {
    event_loop: EventLoop,
    clock: ManualClock,
    bytes: Arc<Mutex<Vec<u8>>>,
    listings: Arc<AtomicI64>,
    commands: SyncSender<Command>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(options: HubOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(folder.path(), Access::Write, "test", START_MS.unsigned_abs() * 1000).unwrap();
        let clock = ManualClock { origin: crate::clock::tick(), elapsed_ms: Arc::default() };
        let (bytes, listings) = (Arc::default(), Arc::default());
        let driver = ManualDriver {
            clock: clock.clone(),
            bytes: Arc::clone(&bytes),
            source: None,
            listings: Arc::clone(&listings),
        };
        let (commands, queue) = sync_channel(64);
        let queue = CommandQueue::new(queue, Waker::new(commands.clone()), false);
        let mut event_loop =
            EventLoop::new(Box::new(driver), Box::new(store), options, queue, Box::new(clock.clone()));
        event_loop.start();
        event_loop.turn();
        Self { event_loop, clock, bytes, listings, commands, _folder: folder }
    }

    /// Moves the clock, then runs one turn.
    fn turn_after(&mut self, ms: i64) {
        self.clock.advance(ms);
        assert!(self.event_loop.turn() == LoopControl::Continue);
    }

    fn ask<T: Send + 'static>(&mut self, command: impl FnOnce(crate::ReplyCallback<T>) -> Command) -> T {
        let (sender, answer) = sync_channel(1);
        self.commands.send(command(Box::new(move |reply| sender.send(reply).unwrap()))).unwrap();
        self.turn_after(0);
        while !self.event_loop.pending.is_empty() {
            self.turn_after(0);
        }
        // Questions are answered by other threads.
        answer.recv().unwrap()
    }

    fn post(&mut self, session: &str, key: &str, event: &str) -> IngestReceipt {
        let body = format!(
            r#"{{"session_id":"{session}","hook_event_name":"{event}","tool_name":"Read","tool_use_id":"{key}","tool_input":{{}}}}"#
        );
        let ingest = Ingest {
            source: "hooks".to_owned(),
            session: None,
            dialect: Some(subscope_harness::claude_code::HOOK),
            key: format!("{session}/{key}/{event}"),
            received_ms: None,
            body: body.into_bytes(),
            begins: None,
            asks: Asks::Nothing,
        };
        self.ask(|reply| Command::Ingest(Box::new(ingest), reply)).unwrap()
    }

    fn is_loaded(&self, session: &str) -> bool {
        self.event_loop.sessions.has_rows(&session.into())
    }

    fn calls(&mut self, session: &str) -> u32 {
        let tree = self.ask(|reply| ask_tree(session.into(), reply));
        tree.map_or(0, |tree| tree.summary.tool_calls)
    }

    /// Number of stored sessions, unsaved ones not counted.
    fn saved(&self) -> usize {
        self.event_loop.store.list(&ListQuery::first(100)).unwrap().len()
    }

    fn subscribe(&mut self) -> Receiver<Update> {
        let (sender, updates) = sync_channel(4096);
        self.commands.send(Command::Subscribe(Subscriber::new(Box::new(sender)))).unwrap();
        self.turn_after(0);
        updates.try_iter().for_each(drop);
        updates
    }
}

/// The question of [`crate::HubHandle::tree`].
fn ask_tree(session: SessionId, reply: crate::ReplyCallback<Option<Tree>>) -> Command {
    let answer = {
        let session = session.clone();
        move |view: &ReadView<'_>| reply(view.tree(&session))
    };
    Command::Ask(Question { session: Some(session), answer: Box::new(answer) })
}

/// Posts one call that ends, and with it everything that the session does.
fn post_ended_call(world: &mut World, session: &str, key: &str) {
    for event in ["PreToolUse", "PostToolUse", "SessionEnd"] {
        world.post(session, key, event);
    }
}

#[test]
fn idle_session_is_evicted_after_its_time_and_loaded_by_its_next_input() {
    let mut world = World::new(HubOptions::default());
    post_ended_call(&mut world, "s", "c1");
    world.turn_after(2_000);
    assert!(world.is_loaded("s"));
    for _ in 0..11 {
        world.turn_after(5_000);
    }
    assert!(world.is_loaded("s"), "57 s of silence");
    world.turn_after(10_000);
    assert!(!world.is_loaded("s"), "67 s of silence");
    assert_eq!(world.calls("s"), 1, "served from the store");
    world.post("s", "c2", "PreToolUse");
    assert_eq!(world.calls("s"), 2, "earlier input is replayed first");
    assert!(world.is_loaded("s"));
}

#[test]
fn session_with_a_running_agent_is_not_evicted() {
    let mut world = World::new(HubOptions { limits: Limits::endless(), ..HubOptions::default() });
    world.post("s", "c1", "PreToolUse");
    for _ in 0..100 {
        world.turn_after(10_000);
    }
    assert!(world.is_loaded("s"));
}

#[test]
fn rows_are_saved_a_second_after_their_first_change() {
    let mut world = World::new(HubOptions::default());
    world.post("s", "c1", "PreToolUse");
    world.turn_after(999);
    assert_eq!(world.saved(), 0);
    assert_eq!(world.calls("s"), 1, "queries see them before");
    world.turn_after(1);
    assert_eq!(world.saved(), 1);
}

#[test]
fn large_change_delays_the_next_one_of_its_session_only() {
    let mut world = World::new(HubOptions::default());
    world.post("large", "c", "PreToolUse");
    world.post("small", "c", "PreToolUse");
    world.turn_after(1_000);
    let updates = world.subscribe();
    let changes = |world: &mut World, ms| {
        world.turn_after(ms);
        let updates = updates.try_iter();
        let changed = updates.filter_map(|update| match update {
            Update::Change(change) => Some(change.session().id.to_string()),
            Update::Snapshot(_) | Update::Event(_) | Update::Missed(_) | Update::CaughtUp | Update::Reset => {
                None
            }
        });
        changed.collect::<Vec<_>>()
    };
    for number in 0..500 {
        world.post("large", &format!("c{number}"), "PreToolUse");
    }
    changes(&mut world, 10_000);
    // About 500 calls of 180 bytes were sent: at 5 MB a second, the next change waits for 18 ms.
    world.post("large", "next", "PreToolUse");
    world.post("small", "next", "PreToolUse");
    assert_eq!(changes(&mut world, 0), ["small"]);
    assert_eq!(changes(&mut world, 15), Vec::<String>::new());
    assert_eq!(changes(&mut world, 5), ["large"]);
}

#[test]
fn deadline_without_input_is_met_when_it_comes() {
    let line = r#"{"type":"user","sessionId":"t","uuid":"u","timestamp":"2027-01-15T08:00:00Z","message":{"role":"user","content":"go"}}"#;
    let mut world = World::new(HubOptions::default());
    *world.bytes.lock().unwrap() = format!("{line}\n").into_bytes();
    world.turn_after(0);
    let session = SessionId::from("t");
    let is_stalled = |world: &World| {
        let tree = world.event_loop.tree(&session).unwrap();
        tree.agents.iter().any(|row| row.has(Flag::Stalled))
    };
    while !is_stalled(&world) {
        let deadline = world.event_loop.sessions.deadline_of(&session).unwrap();
        // A hub that did not look for longer than a minute was halted: that time does not count.
        let left = deadline - world.clock.now_ms();
        assert!(left > 0, "a deadline that nothing comes of");
        for _ in 0..left / 50_000 {
            world.turn_after(50_000);
            assert!(!is_stalled(&world));
        }
        world.turn_after(left % 50_000 - 1);
        assert!(!is_stalled(&world));
        world.turn_after(1);
    }
}

/// A line for a session of 20,000 agents took minutes: each of its files was compared with each of the others.
#[test]
fn files_of_a_loaded_session_are_compared_with_the_tailed_ones_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let projects = fs::canonicalize(folder.path()).unwrap().join("projects/-p");
    fs::create_dir_all(projects.join("s/subagents")).unwrap();
    let mut files = vec![projects.join("s.jsonl")];
    files.extend((0..50).map(|number| projects.join(format!("s/subagents/agent-a{number:03}.jsonl"))));
    files.iter().for_each(|file| fs::write(file, "{}\n").unwrap());
    let mut world = World::new(HubOptions::default());
    let session = SessionId::from("s");
    world.event_loop.backfill_files(&session, &files);
    assert_eq!(world.listings.load(Ordering::SeqCst), 1);
    let read = &world.event_loop.sessions.loaded(&session).unwrap().backfilled;
    assert_eq!(read.len(), files.len());
}
