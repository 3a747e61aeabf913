//! Spans of agent frameworks that are posted to a hub give the rows that a file of them gives, however they are divided
//! into requests, and whenever the hub is restarted.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::mpsc::sync_channel,
    time::Duration,
};

use serde_json::{Value, json};
use subscope_collect::archive::Archive;
use subscope_hub::{
    AskError, Encoding, FullTextLocation, Hub, HubHandle, HubOptions, IngestError, IngestReceipt, ListQuery,
    MemoryStore, Nothing, Signal, Store,
    index::{IndexOptions, forget, index_texts},
};
use subscope_model::{PriceTable, SessionId, SessionRow, Text, Tree};
use subscope_session::Limits;
use subscope_store::{Access, SqliteStore, TextIndex, TextQuery};
use subscope_testkit::{
    frameworks::{body_of, deliveries, facts_of_trees, framework_recordings, reduced_case},
    sessions::{LATER, Part, now, options, read},
    strategies::permutations,
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
    assert_eq!(post_any(handle, request), 0);
}

/// Posts a request; returns the number of its records that cannot be read.
fn post_any(handle: &HubHandle, request: &str) -> usize {
    let divided = handle.otlp_ingests(Signal::Traces, Encoding::Json, body_of(request).as_bytes()).unwrap();
    let mut problems = 0;
    for ingest in divided.ingests {
        let taken: Result<IngestReceipt, IngestError> = answer(|reply| handle.ingest(ingest, reply));
        problems += taken.unwrap().problem_count;
    }
    handle.release_spans(&divided.released).unwrap();
    assert_eq!(problems, divided.broken.len() as u64);
    divided.broken.len()
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

/// A hub that keeps what it has in a folder.
fn hub_in(folder: &Path) -> Hub {
    let store = SqliteStore::open(folder, Access::Write, "rules", 1).unwrap();
    let archive = Archive::new(folder.join("archive"));
    let texts = Some(FullTextLocation { folder: folder.to_owned(), archive });
    Hub::start(Box::new(Nothing), Box::new(store), HubOptions { texts, ..HubOptions::default() }).unwrap()
}

/// Requests of a trace, one for each span: a web server calls an agent, whose tool calls another server, which has an agent.
fn requests_across_programs() -> Vec<String> {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let span = |id: u64, parent: u64, attributes: Value| {
        let span = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": format!("{id:016x}"),
            "parentSpanId": if parent == 0 { String::new() } else { format!("{parent:016x}") }, "name": "step",
            "startTimeUnixNano": (1_795_264_741_000_000_000 + id * 1_000_000).to_string(),
            "endTimeUnixNano": (1_795_264_749_000_000_000 - id * 1_000_000).to_string(), "attributes": attributes,
        });
        json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] }).to_string()
    };
    let agent =
        |name: &str| json!([text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", name)]);
    let call = json!([
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", "ask"),
        text("gen_ai.tool.call.id", "c")
    ]);
    let http = || json!([text("http.request.method", "POST")]);
    vec![
        span(1, 0, http()),
        span(2, 1, agent("planner")),
        span(3, 2, call),
        span(4, 3, http()),
        span(5, 4, agent("helper")),
    ]
}

#[test]
fn spans_of_other_programs_wait_for_agents_whenever_the_hub_is_restarted_or_busy() {
    let requests = requests_across_programs();
    let expected = of_file(&requests);
    let without_links = [&requests[1..3], &requests[4..]].concat();
    assert_ne!(of_file(&without_links), expected, "the links say whose agent the helper is");
    let (mut wrong, mut waiting) = (Vec::new(), BTreeSet::new());
    for order in permutations(&(0..requests.len()).collect::<Vec<_>>()) {
        let folder = tempfile::tempdir().unwrap();
        let mut waited = 0;
        for request in order.iter().map(|number| &requests[*number]) {
            let hub = hub_in(folder.path());
            let body = body_of(request);
            // The first time, the hub has no room for what was divided: the program sends it again.
            let refused = hub.handle().otlp_ingests(Signal::Traces, Encoding::Json, body.as_bytes()).unwrap();
            waited += refused.foreign;
            post(&hub.handle(), request);
        }
        waiting.insert(waited);
        let last = trees(&hub_in(folder.path()).handle());
        let titles: Vec<Option<Text>> = last.iter().map(|tree| SessionRow::of(tree).title).collect();
        assert_eq!(
            titles,
            [Some("planner".into())],
            "a session without a prompt is called as its main agent"
        );
        let found = facts_of_trees(&last);
        if found != expected {
            wrong.push(format!("{order:?}:\n - {expected}\n + {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(waiting, BTreeSet::from([0, 1, 2]), "of the two, those wait that come before all agents");
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

/// A request with one more span of its trace, which cannot be read.
fn with_a_broken_span(request: &str) -> String {
    let mut request: Value = serde_json::from_str(request).unwrap();
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array_mut().unwrap();
    let mut broken = spans[0].clone();
    broken["spanId"] = Value::from("00000000deadbeef");
    broken["startTimeUnixNano"] = Value::from(true);
    spans.push(broken);
    request.to_string()
}

#[test]
fn span_that_cannot_be_read_stays_a_problem_of_its_session_when_that_is_named() {
    let (mut wrong, mut moved) = (Vec::new(), 0);
    for recording in framework_recordings() {
        let (_, mut requests) = deliveries(&recording.requests).pop().unwrap();
        requests[0] = with_a_broken_span(&requests[0]);
        let folder = tempfile::tempdir().unwrap();
        let store = || SqliteStore::open(folder.path(), Access::Write, "rules", 1).unwrap();
        let problems = |hub: &Hub| -> Vec<usize> {
            trees(&hub.handle()).iter().map(|tree| tree.problems.len()).collect()
        };
        let sessions = |hub: &Hub| -> Vec<SessionId> {
            trees(&hub.handle()).into_iter().map(|tree| tree.session.id).collect()
        };
        let first = hub(store());
        let broken: usize = requests.iter().map(|request| post_any(&first.handle(), request)).sum();
        assert_eq!(broken, 1, "{}", recording.name);
        moved += usize::from(sessions(&first).iter().all(|id| !id.starts_with("trace-")));
        let live = problems(&first);
        drop(first);
        let restarted = problems(&hub(store()));
        if (live.iter().sum::<usize>(), restarted.iter().sum::<usize>()) != (1, 1) {
            wrong.push(format!("{}: {live:?}, restarted {restarted:?}", recording.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(moved > 3, "{moved} sessions were named late");
}

/// Inbox rows of which a full-text index has passages, by session.
fn indexed(texts: &TextIndex) -> BTreeMap<SessionId, BTreeSet<u64>> {
    let mut rows: BTreeMap<SessionId, BTreeSet<u64>> = BTreeMap::new();
    for file in texts.inbox_files().unwrap() {
        rows.entry(file.session.clone()).or_default().extend(texts.inbox_rows(&file).unwrap());
    }
    rows.retain(|_, rows| !rows.is_empty());
    rows
}

fn index(store: &SqliteStore, texts: &mut TextIndex, folder: &Path) {
    let options = IndexOptions {
        roots: Vec::new(),
        prices: PriceTable::default(),
        limits: Limits::default(),
        now_ms: LATER,
        workers: Some(1),
        archive: Archive::new(folder.join("archive")),
        archives: false,
        keep_ms: None,
    };
    index_texts(store, texts, &options, &mut |_| ControlFlow::Continue(())).unwrap();
}

#[test]
fn texts_of_a_trace_are_those_of_its_session_whenever_it_is_named() {
    let (mut wrong, mut moved, mut with_texts) = (Vec::new(), 0, 0);
    let recorded = framework_recordings().into_iter().flat_map(|recording| {
        let mut ways = deliveries(&recording.requests);
        // As recorded, and span by span in another order.
        ways.drain(1..ways.len() - 1);
        ways.into_iter().map(move |(way, requests)| (format!("{} {way}", recording.name), requests))
    });
    for (name, requests) in recorded {
        let (folder, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = SqliteStore::open(folder.path(), Access::Write, "rules", 1).unwrap();
        let reader = SqliteStore::open(folder.path(), Access::Read, "rules", 1).unwrap();
        let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
        let hub = hub(store);
        let mut first = BTreeSet::new();
        for request in &requests {
            post(&hub.handle(), request);
            trees(&hub.handle());
            index(&reader, &mut texts, folder.path());
            first.extend(indexed(&texts).into_keys());
        }
        let known: BTreeSet<SessionId> =
            trees(&hub.handle()).into_iter().map(|tree| tree.session.id).collect();
        moved += first.difference(&known).count();
        drop(hub);
        index(&reader, &mut texts, folder.path());
        let mut again = TextIndex::open(fresh.path(), Access::Write).unwrap();
        index(&reader, &mut again, folder.path());
        let (found, expected) = (indexed(&texts), indexed(&again));
        let strangers: Vec<&SessionId> = found.keys().filter(|session| !known.contains(*session)).collect();
        with_texts += usize::from(!found.is_empty());
        if found != expected || !strangers.is_empty() {
            wrong.push(format!("{name}: of no session {strangers:?}\n - {expected:?}\n + {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        with_texts > 10 && moved > 5,
        "{with_texts} with texts, {moved} traces indexed before they were named"
    );
}

/// A request with one span of a trace, of which the model says these words.
fn request(span: &str, parent: Option<&str>, said: &str, conversation: Option<&str>) -> String {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let messages =
        json!([{ "role": "assistant", "parts": [{ "type": "text", "content": said }] }]).to_string();
    let mut attributes = vec![
        text("gen_ai.operation.name", if parent.is_some() { "chat" } else { "invoke_agent" }),
        text("gen_ai.output.messages", &messages),
    ];
    attributes.extend(conversation.map(|id| text("gen_ai.conversation.id", id)));
    let span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": span, "parentSpanId": parent, "name": "step",
        "startTimeUnixNano": "1795264741000000000", "endTimeUnixNano": "1795264742000000000", "attributes": attributes,
    });
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] }).to_string()
}

#[test]
fn words_of_a_trace_are_found_under_its_session_until_that_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = || SqliteStore::open(folder.path(), Access::Write, "rules", 1).unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let found = |texts: &TextIndex, session: Option<&str>| -> Vec<String> {
        let words = vec!["marmalade".to_owned()];
        let query = TextQuery { words, session: session.map(Into::into), limit: 10, ..TextQuery::default() };
        texts.find(&query).unwrap().into_iter().map(|hit| hit.session.to_string()).collect()
    };
    let hub = hub(store());
    let reader = SqliteStore::open(folder.path(), Access::Read, "rules", 1).unwrap();
    let early = request("00000000000000b3", Some("00000000000000b1"), "marmalade first", None);
    post(&hub.handle(), &early);
    index(&reader, &mut texts, folder.path());
    let trace = "trace-0af7651916cd43dd8448eb211c80319c";
    assert_eq!((found(&texts, None), found(&texts, Some(trace)).len()), (vec![trace.to_owned()], 1));
    post(&hub.handle(), &request("00000000000000b1", None, "done", Some("p1")));
    post(&hub.handle(), &request("00000000000000b4", Some("00000000000000b1"), "marmalade late", None));
    trees(&hub.handle());
    index(&reader, &mut texts, folder.path());
    assert_eq!((found(&texts, None), found(&texts, Some("p1")).len()), (vec!["p1".to_owned(); 2], 2));
    assert_eq!(found(&texts, Some(trace)), [""; 0]);
    drop(hub);
    // One that was indexed before it was named, and forgotten before it was indexed again.
    let mut texts = TextIndex::open(tempfile::tempdir().unwrap().path(), Access::Write).unwrap();
    index(&reader, &mut texts, folder.path());
    forget(&mut store(), &mut texts, &Archive::new(folder.path().join("archive")), &["p1".into()]).unwrap();
    index(&reader, &mut texts, folder.path());
    assert_eq!(found(&texts, None), [""; 0]);
}
