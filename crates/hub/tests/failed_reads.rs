//! A store or spool that cannot be read for a while: nothing is lost, nothing is published twice, and the failure is
//! reported.

#![allow(clippy::unwrap_used)]

mod failing;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::Duration,
};

use subscope_collect::{
    fault,
    spool::{self, Delivery, Kind, Spool},
};
use subscope_harness::claude_code::HOOK;
use subscope_hub::{
    AskError, Asks, Commit, Figures, Hub, HubHandle, HubOptions, Ingest, Ledger, Nothing, ReceivedInput,
    ReplyCallback, drain_spool,
};
use subscope_model::{EventKind, SessionId, Tree, Update};
use subscope_store::{Access, SqliteStore};

use failing::Failing;

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);

fn answer<T: Send + 'static>(ask: impl FnOnce(ReplyCallback<T>) -> Result<(), AskError>) -> T {
    let (sender, answer) = sync_channel(1);
    ask(Box::new(move |value| sender.send(value).unwrap())).unwrap();
    answer.recv_timeout(LIMIT).unwrap()
}

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Access::Write, "test", 0).unwrap()
}

fn tree(handle: &HubHandle) -> Option<Tree> {
    answer(|reply| handle.ask(Some("s".into()), reply, |queries| queries.tree(&"s".into()))).unwrap()
}

fn figures(handle: &HubHandle) -> Figures {
    answer(|reply| handle.figures(reply))
}

fn line(call: &str) -> Vec<u8> {
    let hook = r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{}"#;
    format!("{hook},\"tool_use_id\":\"{call}\"}}\n").into_bytes()
}

fn hook(call: &str) -> Ingest {
    Ingest {
        source: "hooks".to_owned(),
        session: None,
        dialect: Some(HOOK),
        key: call.to_owned(),
        received_ms: Some(1_000),
        begins: None,
        asks: Asks::Nothing,
        body: line(call),
    }
}

/// Starts a hub on the folder's store, whose reads fail from the start if `fails` is set. Also returns a subscription.
fn hub(folder: &Path, fails: bool) -> (Hub, Arc<AtomicBool>, Receiver<Update>) {
    let store = Failing::new(open(folder));
    store.fails_reads.store(fails, Ordering::SeqCst);
    let fails_reads = Arc::clone(&store.fails_reads);
    let hub = Hub::start(Box::new(Nothing), Box::new(store), HubOptions::default()).unwrap();
    let (queue, updates) = sync_channel(1_000);
    answer(|reply| hub.handle().subscribe(Box::new(queue), None, reply));
    (hub, fails_reads, updates)
}

/// Published events by kind.
fn published(updates: &Receiver<Update>, kind: EventKind) -> usize {
    let is_kind = |update: &Update| matches!(update, Update::Event(event) if event.kind == kind);
    updates.try_iter().filter(is_kind).count()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}

/// Starts a hub on the folder's store, which cannot read what a session is loaded from until the flag is cleared.
fn hub_that_cannot_load(folder: &Path) -> (Hub, Arc<AtomicBool>, Receiver<Update>) {
    let store = Failing::new(open(folder));
    store.fails_loads.store(true, Ordering::SeqCst);
    let fails_loads = Arc::clone(&store.fails_loads);
    let hub = Hub::start(Box::new(Nothing), Box::new(store), HubOptions::default()).unwrap();
    let (queue, updates) = sync_channel(1_000);
    answer(|reply| hub.handle().subscribe(Box::new(queue), None, reply));
    (hub, fails_loads, updates)
}

/// Puts a call of the session into the inbox of the folder's store, as a hub does that dies before it derives rows.
fn acknowledge(folder: &Path) {
    let received = ReceivedInput {
        source: "hooks".to_owned(),
        session: None,
        dialect: HOOK.as_str().to_owned(),
        key: "t1".to_owned(),
        received_ms: 1_000,
        body: line("t1"),
        parts: Vec::new(),
        sessions: vec![SessionId::from("s")],
    };
    open(folder).commit(&Commit { received: vec![received], ..Commit::default() }).unwrap();
}

#[test]
fn acknowledged_input_is_replayed_once_it_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    // The input is older than the store, and new nevertheless: no hub has published it.
    drop(SqliteStore::open(folder.path(), Access::Write, "test", 5_000_000).unwrap());
    acknowledge(folder.path());
    let (hub, fails_loads, updates) = hub_that_cannot_load(folder.path());
    let handle = hub.handle();
    wait_for("a failed read is counted", || figures(&handle).failed_reads > 1);
    assert_eq!(tree(&handle), None);
    fails_loads.store(false, Ordering::SeqCst);
    wait_for("the call has a row", || tree(&handle).is_some_and(|tree| tree.summary.tool_calls == 1));
    assert_eq!(published(&updates, EventKind::ToolPre), 1);
}

#[test]
fn acknowledged_input_is_replayed_once_the_store_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    acknowledge(folder.path());
    let (hub, fails_reads, updates) = hub(folder.path(), true);
    let handle = hub.handle();
    wait_for("a failed read is counted", || figures(&handle).failed_reads > 0);
    assert!(figures(&handle).reading.is_some(), "what was acknowledged is not replayed yet");
    assert_eq!(tree(&handle), None);
    fails_reads.store(false, Ordering::SeqCst);
    wait_for("the call has a row", || tree(&handle).is_some_and(|tree| tree.summary.tool_calls == 1));
    wait_for("all is replayed", || figures(&handle).reading.is_none());
    assert!(published(&updates, EventKind::Problem) > 0, "a failed read is published");
}

#[test]
fn no_event_is_published_twice_after_reads_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _, updates) = hub(folder.path(), false);
    answer(|reply| first.handle().ingest(hook("t1"), reply)).unwrap();
    assert!(tree(&first.handle()).is_some());
    assert_eq!(published(&updates, EventKind::ToolPre), 1);
    drop(first);

    let (second, fails_reads, updates) = hub(folder.path(), false);
    let handle = second.handle();
    figures(&handle);
    fails_reads.store(true, Ordering::SeqCst);
    // The session's earlier input cannot be read: the ingest is not acknowledged.
    assert!(answer(|reply| handle.ingest(hook("t2"), reply)).is_err());
    fails_reads.store(false, Ordering::SeqCst);
    let taken = answer(|reply| handle.ingest(hook("t2"), reply)).unwrap();
    assert!(!taken.is_repeat);
    assert_eq!(tree(&handle).unwrap().summary.tool_calls, 2);
    assert_eq!(published(&updates, EventKind::ToolPre), 1, "the first call was published by the first hub");
}

#[test]
fn session_that_cannot_be_loaded_keeps_its_stored_rows_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let (first, ..) = hub(folder.path(), false);
    for call in ["t1", "t2"] {
        answer(|reply| first.handle().ingest(hook(call), reply)).unwrap();
    }
    assert_eq!(tree(&first.handle()).unwrap().summary.tool_calls, 2);
    drop(first);

    let (second, fails_loads, updates) = hub_that_cannot_load(folder.path());
    let handle = second.handle();
    answer(|reply| handle.ingest(hook("t3"), reply)).unwrap();
    for _ in 0..3 {
        assert_eq!(tree(&handle).unwrap().summary.tool_calls, 2, "the stored rows");
        thread::sleep(Duration::from_millis(200));
    }
    fails_loads.store(false, Ordering::SeqCst);
    wait_for("all calls have rows", || tree(&handle).unwrap().summary.tool_calls == 3);
    let updates: Vec<Update> = updates.try_iter().collect();
    let count = |kind: EventKind| {
        updates.iter().filter(|update| matches!(update, Update::Event(event) if event.kind == kind)).count()
    };
    assert_eq!(count(EventKind::ToolPre), 1, "the first hub has published the others");
    assert_eq!(count(EventKind::Problem), 2, "of its input and of its files, each once");
}

#[test]
fn spooled_input_that_cannot_be_read_stays_and_is_read_later() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, ..) = hub(&folder.path().join("data"), false);
    let spooled = folder.path().join("spool");
    for at in 1..=3 {
        let body = line(&format!("t{at}"));
        spool::write(&spooled, Kind::Hook("claude-code"), Delivery::new(at * 1_000_000, 1, 1), &[body])
            .unwrap();
    }
    let head = spool::unknown_head("other");
    spool::write(&spooled, Kind::Unknown, Delivery::new(4_000_000, 1, 1), &[head.as_slice(), b"{}"]).unwrap();
    let drain = || {
        let spool = Spool::open(&spooled).unwrap();
        drain_spool(&spool, &hub.handle(), &mut |problem| panic!("{problem}")).unwrap()
    };

    // The second of them cannot be read, then all.
    for (looks, length, ingested, waiting) in [(1, 1, 2, 1), (0, 9, 0, 1)] {
        fault::fail_after(looks, length);
        let drained = drain();
        assert!(fault::end());
        assert_eq!((drained.ingested, drained.unread.len()), (ingested, waiting));
        assert!(drained.unread[0].to_string().contains("cannot read"), "{:?}", drained.unread);
        assert_eq!(Spool::open(&spooled).unwrap().len(), waiting, "it stays");
    }
    assert_eq!(tree(&hub.handle()).unwrap().summary.tool_calls, 2);

    fault::fail_after(0, 9);
    let spool = Spool::open(&spooled).unwrap();
    assert_eq!((spool.unread().len(), spool.unknown().len()), (2, 0), "no name is made up for it");
    assert!(spool.unread()[0].to_string().contains("cannot read") && fault::end());
    assert_eq!((spool.unread().len(), spool.unknown()["other"]), (0, 1));

    assert_eq!((drain().ingested, Spool::open(&spooled).unwrap().len()), (1, 0));
    assert_eq!(tree(&hub.handle()).unwrap().summary.tool_calls, 3);
}
