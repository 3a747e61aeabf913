//! Questions are answered beside the event loop: they see everything that was acknowledged before them, and none delays
//! an acknowledgement.

#![allow(clippy::unwrap_used)]

mod failing;

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

use subscope_harness::claude_code::HOOK;
use subscope_hub::{
    AskError, Asks, Hub, HubHandle, HubOptions, Ingest, IngestReceipt, ListQuery, MemoryStore, Nothing,
    ReplyCallback, Store,
};
use subscope_model::{AgentId, SearchQuery, SessionPage, Stats, StatsQuery};
use subscope_query::{Queries, QueryError, QueryResult};
use subscope_store::{Access, SqliteStore};

use failing::Failing;

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);

fn ask<T: Send + 'static>(ask: impl FnOnce(ReplyCallback<T>) -> Result<(), AskError>) -> Receiver<T> {
    let (sender, answer) = sync_channel(1);
    ask(Box::new(move |value| sender.send(value).unwrap())).unwrap();
    answer
}

fn all_stats(queries: &mut dyn Queries) -> QueryResult<Stats> {
    queries.stats(&StatsQuery::default())
}

fn first_sessions(queries: &mut dyn Queries) -> QueryResult<SessionPage> {
    queries.sessions(&ListQuery::first(10))
}

fn post(hub: &HubHandle, session: &str, call: &str) -> IngestReceipt {
    let body = format!(
        r#"{{"session_id":"{session}","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{{}},"tool_use_id":"{call}"}}"#
    );
    let ingest = Ingest {
        source: "hooks".to_owned(),
        session: None,
        dialect: Some(HOOK),
        key: format!("{session}/{call}"),
        received_ms: Some(1_000),
        body: body.into_bytes(),
        begins: None,
        asks: Asks::WhetherToContinue,
    };
    ask(|reply| hub.ingest(ingest, reply)).recv_timeout(LIMIT).unwrap().unwrap()
}

fn sqlite(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Access::Write, "test", 0).unwrap()
}

fn start(store: impl Store + 'static) -> Hub {
    Hub::start(Box::new(Nothing), Box::new(store), HubOptions::default()).unwrap()
}

/// A hook waited up to 611 ms for its answer beside a search.
#[test]
fn question_that_hangs_delays_no_acknowledgement() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing::new(sqlite(folder.path()));
    let held_readers = Arc::clone(&store.held_readers);
    let hub = start(store);
    let handle = hub.handle();
    post(&handle, "s", "t0");
    let held = held_readers.lock().unwrap();
    // More than there are threads, each of another kind.
    let query = SearchQuery { terms: vec!["x".to_owned()], limit: 1, ..SearchQuery::default() };
    let search = ask(|reply| handle.ask(None, reply, move |queries| queries.search(&query)));
    let stats = ask(|reply| handle.ask(None, reply, all_stats));
    let names = ask(|reply| handle.ask(None, reply, |queries| queries.names("", 10)));
    let listed = ask(|reply| handle.ask(None, reply, first_sessions));
    let events = ask(|reply| handle.events_after(0, None, 10, reply));
    let agent = ask(|reply| handle.ask(None, reply, |queries| queries.agent(None, &AgentId::ROOT.into())));
    let tree = ask(|reply| handle.ask(Some("s".into()), reply, |queries| queries.tree(&"s".into())));
    let (queue, _updates) = sync_channel(100);
    let joined = ask(|reply| handle.subscribe(Box::new(queue), None, reply));
    for number in 1..20 {
        post(&handle, "s", &format!("t{number}"));
    }
    assert!(listed.try_recv().is_err(), "the readers hang");
    drop(held);
    assert!(matches!(search.recv_timeout(LIMIT).unwrap(), Err(QueryError::NoFullText)));
    assert_eq!(stats.recv_timeout(LIMIT).unwrap().unwrap().total.tool_calls, 1);
    assert_eq!(names.recv_timeout(LIMIT).unwrap().unwrap().sessions, ["s".into()]);
    assert_eq!(listed.recv_timeout(LIMIT).unwrap().unwrap().sessions[0].tool_calls, 1);
    assert!(!events.recv_timeout(LIMIT).unwrap().unwrap().is_empty());
    assert_eq!(agent.recv_timeout(LIMIT).unwrap().unwrap().unwrap().session.id, "s".into());
    assert_eq!(tree.recv_timeout(LIMIT).unwrap().unwrap().unwrap().summary.tool_calls, 1);
    assert_eq!(joined.recv_timeout(LIMIT).unwrap().snapshots[0].summary.tool_calls, 1);
}

/// Rows are saved a second after they changed: until then the store lacks them.
#[test]
fn answers_have_what_was_acknowledged_before_the_question() {
    let folder = tempfile::tempdir().unwrap();
    let check = |hub: &Hub| {
        let handle = hub.handle();
        for number in 1..=50_u64 {
            let session = format!("s{}", number % 5);
            post(&handle, &session, &format!("t{number}"));
            let stats = ask(|reply| handle.ask(None, reply, all_stats));
            let listed = ask(|reply| handle.ask(None, reply, first_sessions));
            let events = ask(|reply| handle.events_after(0, None, 1_000, reply));
            let prefix = session.clone();
            let names = ask(|reply| handle.ask(None, reply, move |queries| queries.names(&prefix, 1)));
            let stats = stats.recv_timeout(LIMIT).unwrap().unwrap();
            assert_eq!((stats.total.tool_calls, stats.total.sessions), (number, number.min(5)));
            let rows = listed.recv_timeout(LIMIT).unwrap().unwrap().sessions;
            assert_eq!(rows.iter().map(|row| u64::from(row.tool_calls)).sum::<u64>(), number);
            assert!(rows.iter().all(|row| row.kept_at_ms.is_some()));
            let events = events.recv_timeout(LIMIT).unwrap().unwrap();
            let calls = events.iter().filter(|event| event.kind == subscope_model::EventKind::ToolPre);
            assert_eq!(calls.count() as u64, number);
            assert_eq!(names.recv_timeout(LIMIT).unwrap().unwrap().sessions, [session.as_str().into()]);
        }
    };
    check(&start(sqlite(folder.path())));
    check(&start(MemoryStore::new()));
}

#[test]
fn what_the_user_has_seen_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let looks = |hub: &HubHandle| {
        ask(|reply| hub.ask(None, reply, |queries| queries.looks())).recv_timeout(LIMIT).unwrap().unwrap()
    };
    let hub = start(sqlite(folder.path()));
    let handle = hub.handle();
    let first = looks(&handle).seen_until_ms;
    assert!(first.is_some(), "the first look begins with the first hub");
    let facts: Vec<subscope_model::Text> = vec!["a1 silent 5".into()];
    let dismissed = facts.clone();
    ask(|reply| handle.dismiss("s".into(), dismissed, reply)).recv_timeout(LIMIT).unwrap().unwrap();
    ask(|reply| handle.mark_seen(i64::MAX, reply)).recv_timeout(LIMIT).unwrap().unwrap();
    let before = looks(&handle);
    assert!(before.seen_until_ms >= first && before.seen_until_ms < Some(i64::MAX));
    drop((handle, hub));
    let hub = start(sqlite(folder.path()));
    let after = looks(&hub.handle());
    assert_eq!(after, before);
    assert_eq!(after.dismissed[&"s".into()], facts);
}
