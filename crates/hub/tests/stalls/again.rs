//! Restart: events that an earlier hub published are not published again, and events that it missed are published by
//! the next.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use subscope_hub::{
    Asks, Driver, EnqueueOutcome, Hub, HubHandle, HubOptions, Ingest, PollResult, UpdateQueue,
};
use subscope_model::{EventKind, Millis, Update};
use subscope_session::SessionRouter;
use subscope_store::{Access, SqliteStore};
use subscope_testkit::{
    clock::{FakeClock, START},
    lines::{Line, events},
};

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);
const MINUTE: Millis = 60_000;

/// Driver without input on a simulated clock. Reports its time after each turn.
struct Idle {
    clock: FakeClock,
    turned: Arc<Mutex<Millis>>,
}

impl Driver for Idle {
    fn poll(&mut self, _wait: Duration, _fold: &mut SessionRouter) -> PollResult {
        std::thread::sleep(Duration::from_millis(1));
        *self.turned.lock().unwrap() = self.clock.now();
        PollResult { is_caught_up: true, ..PollResult::default() }
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn awake_ms(&self) -> Millis {
        self.clock.now()
    }
}

/// Forwards stall events.
struct Stalls(SyncSender<(String, Millis)>);

impl UpdateQueue for Stalls {
    fn offer(&mut self, update: Update) -> EnqueueOutcome {
        if let Update::Event(event) = &update
            && event.kind == EventKind::Stall
        {
            let told =
                (event.text("waiting_for").unwrap().to_owned(), event.data["since_ms"].as_i64().unwrap());
            self.0.try_send(told).unwrap();
        }
        EnqueueOutcome::Queued
    }
}

struct Watching {
    _hub: Hub,
    handle: HubHandle,
    clock: FakeClock,
    turned: Arc<Mutex<Millis>>,
    stalls: Receiver<(String, Millis)>,
}

fn watch(folder: &Path, now: Millis) -> Watching {
    let clock = FakeClock::at(START + now);
    let turned = Arc::default();
    let store = SqliteStore::open(folder, Access::Write, "rules", 0).unwrap();
    let options = HubOptions::default();
    let driver = Idle { clock: clock.clone(), turned: Arc::clone(&turned) };
    let hub = Hub::start(Box::new(driver), Box::new(store), options).unwrap();
    // The subscriber joins before anything is derived: its command comes first.
    let (sender, stalls) = sync_channel(16);
    let handle = hub.handle();
    let (joined, is_joined) = sync_channel(1);
    handle.subscribe(Box::new(Stalls(sender)), None, Box::new(move |_| joined.send(()).unwrap())).unwrap();
    is_joined.recv_timeout(LIMIT).unwrap();
    Watching { _hub: hub, handle, clock, turned, stalls }
}

impl Watching {
    fn tell(&self, key: &str, line: Line) {
        let (sender, answer) = sync_channel(1);
        let ingest = Ingest {
            source: "posted".to_owned(),
            session: Some("s".to_owned()),
            dialect: Some(subscope_session::SUBAGENT_EVENTS),
            key: key.to_owned(),
            received_ms: Some(self.clock.now()),
            body: line.line().into_bytes(),
            begins: None,
            asks: Asks::Nothing,
        };
        self.handle.ingest(ingest, Box::new(move |taken| sender.send(taken).unwrap())).unwrap();
        answer.recv_timeout(LIMIT).unwrap().unwrap();
    }

    /// Advances the clock and returns the events published once the hub has derived at its new time.
    fn after(&self, millis: Millis) -> Vec<(String, Millis)> {
        let now = self.clock.advance(millis);
        for _ in 0..2 {
            while *self.turned.lock().unwrap() != now {
                std::thread::yield_now();
            }
            // Events due in the first turn are published two turns later.
            *self.turned.lock().unwrap() = 0;
        }
        while *self.turned.lock().unwrap() != now {
            std::thread::yield_now();
        }
        let mut told = Vec::new();
        while let Ok(stall) = self.stalls.recv_timeout(Duration::from_millis(300)) {
            told.push((stall.0, stall.1 - START));
        }
        told
    }
}

#[test]
fn stall_is_told_once_across_restarts_and_again_for_another_silence() {
    let folder = tempfile::tempdir().unwrap();
    let first = watch(folder.path(), 0);
    first.tell("1", events::start("scout", "run-1").after_ms(0));
    assert_eq!(first.after(9 * MINUTE), []);
    assert_eq!(first.after(MINUTE), [("the model".to_owned(), 0)]);
    assert_eq!(first.after(MINUTE), []);
    drop(first);
    let second = watch(folder.path(), 12 * MINUTE);
    assert_eq!(second.after(MINUTE), [], "known from before");
    let call = events::event("tool_call", "scout", "run-1").tool("grep", "call-1");
    second.tell("2", call.after_ms(13 * MINUTE));
    let result = events::event("tool_result", "scout", "run-1").tool("grep", "call-1");
    second.tell("3", result.after_ms(13 * MINUTE + 5));
    assert_eq!(second.after(9 * MINUTE), []);
    assert_eq!(second.after(2 * MINUTE), [("the model".to_owned(), 13 * MINUTE + 5)]);
}

#[test]
fn stall_that_no_hub_lived_to_see_is_told_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let first = watch(folder.path(), 0);
    first.tell("1", events::start("scout", "run-1").after_ms(0));
    assert_eq!(first.after(MINUTE), []);
    drop(first);
    let second = watch(folder.path(), 5 * MINUTE);
    assert_eq!(second.after(4 * MINUTE), []);
    assert_eq!(second.after(2 * MINUTE), [("the model".to_owned(), 0)]);
}
