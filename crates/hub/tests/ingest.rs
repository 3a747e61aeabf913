//! Ingests: acknowledged after they are saved, ingested once, and never shown as saved before they are.

#![allow(clippy::unwrap_used)]

mod failing;

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use subscope_hub::{
    AskError, Asks, Driver, Figures, FileTailDriver, Hub, HubHandle, HubOptions, Ingest, IngestError,
    IngestReceipt, ListQuery, MemoryStore, Nothing, PollResult, SessionQueries, Store, SubscriptionStart,
};
use subscope_model::{EventKind, Millis, SessionId, StatsQuery, Text, Tree, Update};
use subscope_query::Queries;
use subscope_session::SessionRouter;
use subscope_store::{Access, SqliteStore};
use subscope_testkit::fixtures::recording;

use failing::Failing;

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);

fn hub(keeper: impl Store + 'static) -> Hub {
    let options = HubOptions::default();
    Hub::start(Box::new(Nothing), Box::new(keeper), options).unwrap()
}

fn answer<T: Send + 'static>(ask: impl FnOnce(subscope_hub::ReplyCallback<T>) -> Result<(), AskError>) -> T {
    let (sender, answer) = sync_channel(1);
    ask(Box::new(move |told| sender.send(told).unwrap())).unwrap();
    answer.recv_timeout(LIMIT).unwrap()
}

fn hook(session: &str, key: &str, event: &str) -> Ingest {
    Ingest {
        source: "hooks".to_owned(),
        session: None,
        dialect: Some(subscope_harness::claude_code::HOOK),
        key: key.to_owned(),
        received_ms: Some(1_000),
        begins: None,
        asks: Asks::Nothing,
        body: format!(
            r#"{{"session_id":"{session}","hook_event_name":"{event}","tool_name":"Read","tool_use_id":"{key}","tool_input":{{}}}}"#
        )
        .into_bytes(),
    }
}

fn ingest(handle: &HubHandle, told: Ingest) -> Result<IngestReceipt, IngestError> {
    answer(|reply| handle.ingest(told, reply))
}

fn tree(handle: &HubHandle, session: &str) -> Option<Tree> {
    let session = SessionId::from(session);
    answer(|reply| handle.ask(Some(session.clone()), reply, move |queries| queries.tree(&session))).unwrap()
}

fn figures(handle: &HubHandle) -> Figures {
    answer(|reply| handle.figures(reply))
}

#[test]
fn ingest_is_kept_before_it_is_answered_and_taken_once() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let taken = ingest(&handle, hook("s", "t1", "PreToolUse")).unwrap();
    assert_eq!((taken.lines, taken.sessions), (1, vec![SessionId::from("s")]));
    assert_eq!(tree(&handle, "s").unwrap().summary.tool_calls, 1);
    let before = tree(&handle, "s");
    assert!(ingest(&handle, hook("s", "t1", "PreToolUse")).unwrap().is_repeat);
    assert_eq!(tree(&handle, "s"), before);
    // Another source has keys of its own.
    let other = Ingest { source: "others".to_owned(), ..hook("s", "t1", "PreToolUse") };
    assert!(!ingest(&handle, other).unwrap().is_repeat);
    let figures = figures(&handle);
    assert_eq!((figures.ingests, figures.repeats, figures.sessions), (2, 1, 1));
}

#[test]
fn problems_are_told_to_whoever_hands_them_over() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let mut told = hook("s", "t1", "PreToolUse");
    told.body.extend_from_slice(b"\nnot json\n\n{}\n");
    let taken = ingest(&handle, told).unwrap();
    assert_eq!((taken.lines, taken.problem_count, taken.problems.len()), (3, 2, 2));
    assert_eq!(taken.problems[0].at, "hooks:2");
    assert_eq!(tree(&handle, "s").unwrap().problems.len(), 2);
    assert_eq!(ingest(&handle, hook("t", "t2", "PreToolUse")).unwrap().problems, []);
}

#[test]
fn many_at_once_share_commits_and_lose_nothing() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let (sender, answers) = sync_channel(4096);
    let mut busy = 0;
    for number in 0..2000 {
        let told = hook(&format!("s{}", number % 7), &format!("t{number}"), "PreToolUse");
        loop {
            let sender = sender.clone();
            match handle.ingest(told.clone(), Box::new(move |taken| sender.send(taken).unwrap())) {
                Ok(()) => break,
                Err(AskError::Busy) => busy += 1,
                Err(AskError::Ended) => panic!("it ended"),
            }
            thread::yield_now();
        }
    }
    for _ in 0..2000 {
        assert!(answers.recv_timeout(LIMIT).unwrap().is_ok());
    }
    let calls: u32 =
        (0..7).map(|number| tree(&handle, &format!("s{number}")).unwrap().summary.tool_calls).sum();
    assert_eq!(calls, 2000, "{busy} times busy");
    let commits = figures(&handle).commits;
    assert!(commits < 2000, "{commits} commits");
}

#[test]
fn failed_commit_is_answered_with_its_error_and_kept_once_it_can_be() {
    let store = Failing::new(MemoryStore::new());
    let (fails, tries) = (Arc::clone(&store.fails_commits), Arc::clone(&store.commits));
    fails.store(true, Ordering::SeqCst);
    let hub = hub(store);
    let handle = hub.handle();
    let full = IngestError::Store("the disk is full".to_owned());
    assert_eq!(ingest(&handle, hook("s", "t1", "PreToolUse")), Err(full.clone()));
    assert_eq!(ingest(&handle, hook("s", "t2", "PreToolUse")), Err(full));
    assert_eq!(tree(&handle, "s"), None, "nothing is shown that is not kept");
    assert_eq!(figures(&handle).refused, 2);
    fails.store(false, Ordering::SeqCst);
    // A rejected ingest is either ingested later or recognized by its key; nothing counts twice.
    let taken = loop {
        match ingest(&handle, hook("s", "t1", "PreToolUse")) {
            Ok(taken) => break taken,
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(taken.is_repeat, "it was kept whole and tried again");
    assert!(!ingest(&handle, hook("s", "t2", "PreToolUse")).unwrap().is_repeat);
    assert_eq!(tree(&handle, "s").unwrap().summary.tool_calls, 2);
    assert!(tries.load(Ordering::SeqCst) >= 2);
}

fn join(handle: &HubHandle, queue: SyncSender<Update>, after: Option<u64>) -> SubscriptionStart {
    answer(|reply| handle.subscribe(Box::new(queue), after, reply))
}

/// Updates that a subscriber got for all acknowledged input: a query is answered after that.
fn seqs(handle: &HubHandle, updates: &Receiver<Update>) -> Vec<u64> {
    figures(handle);
    updates
        .try_iter()
        .filter_map(|update| match update {
            Update::Event(event) => Some(event.seq),
            Update::Snapshot(_)
            | Update::Change(_)
            | Update::Missed(_)
            | Update::Reset
            | Update::CaughtUp => None,
        })
        .collect()
}

#[test]
fn reader_that_returns_begins_where_it_left() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let (queue, first) = sync_channel(100);
    let start = join(&handle, queue, None);
    // Whether the first turn has ended depends on the machine.
    assert_eq!(start, SubscriptionStart { is_caught_up: start.is_caught_up, ..SubscriptionStart::default() });
    for number in 0..5 {
        ingest(&handle, hook("s", &format!("t{number}"), "PreToolUse")).unwrap();
        // Each is a commit of its own.
        figures(&handle);
    }
    let seen = seqs(&handle, &first);
    let all: Vec<u64> = (1..=*seen.last().unwrap()).collect();
    assert_eq!(seen, all);
    let (queue, second) = sync_channel(100);
    let joined = join(&handle, queue, Some(3));
    ingest(&handle, hook("s", "t9", "PreToolUse")).unwrap();
    let mut again: Vec<u64> = joined.events.iter().map(|event| event.seq).collect();
    again.extend(seqs(&handle, &second));
    assert_eq!(again, (4..=*again.last().unwrap()).collect::<Vec<_>>(), "no gap and no repeat");
    assert!(!joined.is_reset);
    assert_eq!(joined.snapshots.len(), 1);
    let (queue, _third) = sync_channel(100);
    let beyond = join(&handle, queue, Some(1_000_000));
    assert!(beyond.is_reset && beyond.snapshots.len() == 1, "a place of another log");
}

#[test]
fn stuck_reader_slows_nobody_and_is_told_what_it_missed() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let (stuck, updates) = sync_channel(3);
    join(&handle, stuck, None);
    let (queue, healthy) = sync_channel(1000);
    join(&handle, queue, None);
    for number in 0..50 {
        ingest(&handle, hook("s", &format!("t{number}"), "PreToolUse")).unwrap();
    }
    let all = seqs(&handle, &healthy);
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    let mut events = 0;
    let mut missed = 0;
    let mut rows = None;
    while events + missed < all.len() as u64 || rows.is_none() {
        match updates.recv_timeout(LIMIT).unwrap() {
            Update::Event(_) => events += 1,
            Update::Missed(count) => missed += count,
            Update::Snapshot(tree) => rows = Some(tree.summary.tool_calls).filter(|calls| *calls == 50),
            Update::Change(_) | Update::Reset | Update::CaughtUp => {}
        }
    }
    assert_eq!(events + missed, all.len() as u64);
    assert!(missed > 0);
    assert_eq!(figures(&handle).missed, missed);
}

#[test]
fn replaced_file_keeps_what_was_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recording("2.1.330", "c-nested");
    let main = recording.conversation().into_iter().find(|path| {
        path.extension().is_some_and(|it| it == "jsonl") && !path.to_string_lossy().contains("subagents")
    });
    let bytes = std::fs::read(main.unwrap()).unwrap();
    let file = folder.path().join("session.jsonl");
    std::fs::write(&file, &bytes).unwrap();
    let driver = FileTailDriver::targets(vec![file.clone()], None).unwrap();
    let options = HubOptions::default();
    let hub = Hub::start(Box::new(driver), Box::new(MemoryStore::new()), options).unwrap();
    let handle = hub.handle();
    ingest(&handle, hook("s", "t1", "PreToolUse")).unwrap();
    let calls = |session: &SessionId| tree(&handle, session).map_or(0, |tree| tree.summary.tool_calls);
    let wait_for = |is_there: &dyn Fn() -> bool| {
        let began = subscope_hub::clock::tick();
        while !is_there() {
            assert!(began.elapsed() < LIMIT, "{:?}", figures(&handle));
            thread::sleep(Duration::from_millis(5));
        }
    };
    let named = || {
        let list = |queries: &mut dyn Queries| queries.sessions(&ListQuery::first(10));
        let listed = answer(|reply| handle.ask(None, reply, list)).unwrap().sessions;
        listed.into_iter().map(|it| it.id).find(|id| id.as_str() != "s")
    };
    wait_for(&|| named().is_some_and(|session| calls(&session) > 0));
    let session = named().unwrap();
    let whole = calls(&session);
    std::fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
    wait_for(&|| tree(&handle, &session).is_some_and(|tree| !tree.problems.is_empty()));
    assert_eq!(calls(&session), whole, "what it said before stays known");
    // New input continues the earlier input.
    ingest(&handle, hook("s", "t2", "PreToolUse")).unwrap();
    assert_eq!(calls(&SessionId::from("s")), 2);
    assert!(ingest(&handle, hook("s", "t1", "PreToolUse")).unwrap().is_repeat);
}

/// A driver that is still reading its initial files.
struct Reading;

impl Driver for Reading {
    fn poll(&mut self, wait: Duration, _fold: &mut SessionRouter) -> PollResult {
        thread::sleep(wait);
        PollResult::default()
    }

    fn now(&self) -> Millis {
        subscope_hub::clock::now_ms()
    }
}

#[test]
fn hooks_that_waited_for_a_hub_are_told_even_while_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let store = || Box::new(sqlite(folder.path()));
    let options = || HubOptions::default();
    let hub = Hub::start(Box::new(Nothing), store(), options()).unwrap();
    let late = Ingest { received_ms: Some(5_000), ..hook("s", "t1", "PreToolUse") };
    ingest(&hub.handle(), late).unwrap();
    drop(hub);
    // An event published before the subscriber joined reached nobody. Files are still being read, and their events that
    // an earlier hub published are dropped.
    let hub = Hub::start(Box::new(Reading), store(), options()).unwrap();
    let handle = hub.handle();
    ingest(&handle, hook("s", "t0", "PreToolUse")).unwrap();
    let log = answer(|reply| handle.events_after(0, None, 100, reply)).unwrap();
    let calls: Vec<_> = log
        .iter()
        .filter(|event| event.kind == EventKind::ToolPre)
        .map(|event| event.data["tool_use_id"].clone())
        .collect();
    assert_eq!(calls, ["t1", "t0"]);
}

/// Opens the store as a process killed now would leave it, while the first process continues with its own.
fn killed(folder: &Path) -> (tempfile::TempDir, SqliteStore) {
    let copy = tempfile::tempdir().unwrap();
    for file in ["store.db", "store.db-wal"] {
        std::fs::copy(folder.join(file), copy.path().join(file)).unwrap();
    }
    let store = sqlite(copy.path());
    (copy, store)
}

fn sqlite(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Access::Write, "1", 1_000_000).unwrap()
}

#[test]
fn acknowledged_and_not_yet_concluded_is_concluded_by_the_next_hub_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = hub(sqlite(folder.path()));
    let handle = first.handle();
    ingest(&handle, hook("s", "t1", "PreToolUse")).unwrap();
    ingest(&handle, hook("other", "o1", "PreToolUse")).unwrap();
    // Statistics are computed from saved rows: the query saves them.
    let stats = |queries: &mut dyn Queries| queries.stats(&StatsQuery::default());
    assert_eq!(answer(|reply| handle.ask(None, reply, stats)).unwrap().total.tool_calls, 2);
    let mut told = HashSet::new();
    for number in 2..30 {
        ingest(&handle, hook("s", &format!("t{number}"), "PreToolUse")).unwrap();
        if number % 3 == 0 {
            figures(&handle);
        }
        let (_copy, store) = killed(folder.path());
        let kept = store.tree(&SessionId::from("s")).unwrap().map_or(0, |tree| tree.summary.tool_calls);
        told.insert(number - kept);
        let next = hub(store);
        let handle = next.handle();
        assert_eq!(tree(&handle, "s").unwrap().summary.tool_calls, number);
        assert_eq!(tree(&handle, "other").unwrap().summary.tool_calls, 1);
        let log = answer(|reply| handle.events_after(0, None, 1_000, reply)).unwrap();
        let ids: HashSet<&Text> = log.iter().map(|event| &event.id).collect();
        assert_eq!(ids.len(), log.len(), "told twice");
        let calls = log.iter().filter(|event| event.kind == EventKind::ToolPre).count();
        assert_eq!(calls, number as usize + 1, "each call told");
    }
    assert!(told.len() > 3, "rows lagged behind what was acknowledged: {told:?}");
}
