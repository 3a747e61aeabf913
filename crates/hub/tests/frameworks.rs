//! Spans of agent frameworks that are posted to a hub give the rows that a file of them gives, however they are divided
//! into requests, and whenever the hub is restarted.

#![allow(clippy::unwrap_used)]

use std::{sync::mpsc::sync_channel, time::Duration};

use serde_json::Value;
use subscope_hub::{
    AskError, Encoding, Hub, HubHandle, HubOptions, IngestError, IngestReceipt, ListQuery, MemoryStore,
    Nothing, Signal, Store,
};
use subscope_model::{PriceTable, SessionId, Tree};
use subscope_store::{Access, SqliteStore};
use subscope_testkit::{
    frameworks::{body_of, deliveries, facts_of_trees, framework_recordings, reduced_case},
    sessions::{LATER, Part, now, options, read},
};

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(60);

fn hub(store: impl Store + 'static) -> Hub {
    Hub::start(Box::new(Nothing), Box::new(store), HubOptions::default()).unwrap()
}

fn answer<T: Send + 'static>(ask: impl FnOnce(subscope_hub::ReplyCallback<T>) -> Result<(), AskError>) -> T {
    let (sender, answer) = sync_channel(1);
    ask(Box::new(move |told| sender.send(told).unwrap())).unwrap();
    answer.recv_timeout(LIMIT).unwrap()
}

fn post(handle: &HubHandle, request: &str) {
    let divided = handle.otlp_ingests(Signal::Traces, Encoding::Json, body_of(request).as_bytes()).unwrap();
    assert_eq!(divided.broken, [""; 0]);
    for ingest in divided.ingests {
        let taken: Result<IngestReceipt, IngestError> = answer(|reply| handle.ingest(ingest, reply));
        assert_eq!(taken.unwrap().problem_count, 0);
    }
}

fn trees(handle: &HubHandle) -> Vec<Tree> {
    let listed = answer(|reply| handle.ask(None, reply, |queries| queries.sessions(&ListQuery::first(100))));
    let ids: Vec<SessionId> = listed.unwrap().sessions.into_iter().map(|row| row.id).collect();
    let tree = |id: SessionId| {
        answer(|reply| handle.ask(Some(id.clone()), reply, move |queries| queries.tree(&id)))
            .unwrap()
            .unwrap()
    };
    ids.into_iter().map(tree).collect()
}

fn of_file(requests: &[String]) -> Value {
    let lines = requests.iter().map(|line| format!("{line}\n")).collect::<String>();
    let router = read(&[Part::new("otlp.jsonl", lines)], options(false));
    let prices = PriceTable::default();
    let trees: Vec<Tree> =
        router.sessions().filter_map(|session| router.tree(session, &now(LATER, &prices))).collect();
    facts_of_trees(&trees)
}

#[test]
fn hub_shows_what_the_file_shows_in_whatever_order_requests_come() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for recording in framework_recordings() {
        let expected = of_file(&recording.requests);
        for (way, requests) in deliveries(&recording.requests) {
            let hub = hub(MemoryStore::new());
            requests.iter().for_each(|request| post(&hub.handle(), request));
            let found = facts_of_trees(&trees(&hub.handle()));
            seen += 1;
            if found != expected {
                wrong.push(format!("{} {way}:\n - {expected}\n + {found}", recording.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 200);
}

#[test]
fn restarted_hub_knows_the_session_of_a_trace() {
    let mut wrong = Vec::new();
    for recording in framework_recordings() {
        let expected = of_file(&recording.requests);
        let folder = tempfile::tempdir().unwrap();
        let store = || SqliteStore::open(folder.path(), Access::Write, "rules", 1).unwrap();
        for request in &recording.requests {
            let hub = hub(store());
            post(&hub.handle(), request);
        }
        let hub = hub(store());
        let found = facts_of_trees(&trees(&hub.handle()));
        if found != expected {
            wrong.push(format!("{}:\n - {expected}\n + {found}", recording.name));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn session_that_is_named_late_takes_over_what_its_trace_showed_at_once() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let requests = reduced_case("split");
    post(&handle, &requests[0]);
    let [first] = &trees(&handle)[..] else { panic!() };
    assert!(first.session.id.starts_with("trace-"), "{}", first.session.id);
    assert_eq!(first.summary.tool_calls, 1, "it is shown at once");
    post(&handle, &requests[1]);
    let [named] = &trees(&handle)[..] else { panic!() };
    assert!(!named.session.id.starts_with("trace-"), "{}", named.session.id);
    assert_eq!(named.summary.tool_calls, 1, "nothing of it is lost");
    assert_eq!(facts_of_trees(std::slice::from_ref(named)), of_file(&requests));
}
