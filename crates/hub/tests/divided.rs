//! Bodies of several sessions: saved split by session, in every dialect, so that loading one session reads its own
//! lines only; line positions are those of the body.

#![allow(clippy::unwrap_used)]

use std::{path::Path, sync::mpsc::sync_channel, time::Duration};

use subscope_hub::{AskError, Hub, HubHandle, HubOptions, IngestReceipt, LineBatch, Nothing, line_ingests};
use subscope_model::{Event, SessionId, Tree};
use subscope_session::Dialect;
use subscope_store::{Access, ReceivedInput, SqliteStore};

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);

/// Makes a line of a session with a call of an id.
type Line<'l> = &'l dyn Fn(&str, &str) -> String;

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Access::Write, "1", 1_000_000).unwrap()
}

fn hub(folder: &Path) -> Hub {
    Hub::start(Box::new(Nothing), Box::new(open(folder)), HubOptions::default()).unwrap()
}

fn answer<T: Send + 'static>(ask: impl FnOnce(subscope_hub::ReplyCallback<T>) -> Result<(), AskError>) -> T {
    let (sender, answer) = sync_channel(1);
    ask(Box::new(move |told| sender.send(told).unwrap())).unwrap();
    answer.recv_timeout(LIMIT).unwrap()
}

fn hand_over(handle: &HubHandle, dialect: Dialect, key: &str, body: &str) -> Vec<IngestReceipt> {
    let of = LineBatch { dialect, source: "x", key, received_ms: Some(1_000) };
    let ingests = line_ingests(of, body.as_bytes());
    ingests.map(|ingest| answer(|reply| handle.ingest(ingest, reply)).unwrap()).collect()
}

fn tree(handle: &HubHandle, session: &str) -> Tree {
    let session = SessionId::from(session);
    answer(|reply| handle.ask(Some(session.clone()), reply, move |queries| queries.tree(&session)))
        .unwrap()
        .unwrap()
}

fn calls(tree: &Tree) -> Vec<String> {
    tree.agents
        .iter()
        .flat_map(|agent| &agent.tools)
        .flat_map(|call| &call.id)
        .map(ToString::to_string)
        .collect()
}

/// Events of a session from input, without those that time alone derives.
fn events(handle: &HubHandle, session: &str) -> Vec<Event> {
    let session = Some(SessionId::from(session));
    let all = answer(|reply| handle.events_after(0, session, 1_000, reply)).unwrap();
    all.into_iter().filter(|event| *event.source != *"subscope").collect()
}

fn call(session: &str, id: &str) -> String {
    format!(
        r#"{{"session_id":"{session}","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{id}","tool_input":{{"file_path":"/x"}}}}"#
    )
}

fn received(folder: &Path, session: &str) -> Vec<ReceivedInput> {
    SqliteStore::open(folder, Access::Read, "1", 0).unwrap().received_of(&SessionId::from(session)).unwrap()
}

/// Bytes read to load a session.
fn own_bytes(folder: &Path, session: &str) -> String {
    let all = received(folder, session);
    let of =
        |one: &ReceivedInput| [one.body.clone(), one.parts.iter().flat_map(|it| it.body.clone()).collect()];
    String::from_utf8(all.iter().flat_map(of).flatten().collect()).unwrap()
}

#[test]
fn each_session_of_a_body_is_kept_and_taken_up_by_itself() {
    let hook = |session: &str, id: &str| call(session, id);
    let event = |session: &str, id: &str| {
        format!(
            r#"{{"subagentName":"w","subagentRunId":"r-{session}","timestamp":1000,"type":"tool_call","toolName":"Read","toolCallId":"{id}","sessionId":"{session}"}}"#
        )
    };
    let feed = |session: &str, id: &str| {
        format!(
            r#"{{"schema":"subscope.event/1","id":"{id}","seq":1,"at_ms":1000,"session_id":"{session}","run":0,"actor_id":"agent:root","basis":"wire","source":"x","kind":"tool.pre","data":{{"tool_use_id":"{id}","tool_name":"Read","input":{{}}}}}}"#
        )
    };
    let stream = |session: &str, id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"m-{id}","role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"Read","input":{{}}}}]}},"parent_tool_use_id":null,"session_id":"{session}"}}"#
        )
    };
    let made: [(Dialect, Line<'_>); 4] = [
        (subscope_harness::claude_code::HOOK, &hook),
        (subscope_session::SUBAGENT_EVENTS, &event),
        (subscope_session::FEED, &feed),
        (subscope_harness::claude_code::STREAM, &stream),
    ];
    for (dialect, line) in made {
        let which = dialect.as_str();
        let folder = tempfile::tempdir().unwrap();
        let lines =
            [line("a", "a1"), line("b", "b1"), line("b", "b2"), "not JSON".to_owned(), line("a", "a2")];
        let body = lines.map(|line| line + "\n").concat();
        let first = hub(folder.path());
        let taken = hand_over(&first.handle(), dialect, "k", &body);
        let at = format!("ingest/{which}/x:4");
        assert_eq!(taken[0].problems.iter().map(|problem| &problem.at).collect::<Vec<_>>(), [&at], "{which}");
        assert_eq!(taken[0].sessions, [SessionId::from("a"), SessionId::from("b")], "{which}");
        assert!(hand_over(&first.handle(), dialect, "k", &body)[0].is_repeat, "{which}");
        let before = [tree(&first.handle(), "a"), tree(&first.handle(), "b")];
        assert_eq!(calls(&before[0]), ["a1", "a2"], "{which}");
        assert_eq!(calls(&before[1]), ["b1", "b2"], "{which}");
        assert!(before[1].problems.iter().any(|problem| problem.at == at), "{which}");
        let told = events(&first.handle(), "a");
        drop(first);
        let own = own_bytes(folder.path(), "a");
        assert_eq!(own, format!("{}\n{}\n", line("a", "a1"), line("a", "a2")), "{which}: only its own lines");
        // The next hub has them, and new input continues after them.
        let next = hub(folder.path());
        hand_over(&next.handle(), dialect, "l", &(line("a", "a3") + "\n" + &line("b", "b3") + "\n"));
        assert_eq!(calls(&tree(&next.handle(), "a")), ["a1", "a2", "a3"], "{which}");
        let b = tree(&next.handle(), "b");
        assert_eq!(calls(&b), ["b1", "b2", "b3"], "{which}");
        assert!(b.problems.iter().any(|problem| problem.at == at), "{which}: {:?}", b.problems);
        let later = events(&next.handle(), "a");
        assert_eq!(later[..told.len()], told, "{which}: nothing is told again");
        let more = later[told.len()..].iter().filter(|event| event.data["tool_use_id"].is_string()).count();
        assert_eq!(more, 1, "{which}");
    }
}

#[test]
fn body_of_many_sessions_is_taken_in_slices_and_its_lines_are_counted_on() {
    let body: String = (0..1_000).map(|number| call(&format!("s{number}"), "t") + "\n").collect();
    let of =
        LineBatch { dialect: subscope_harness::claude_code::HOOK, source: "x", key: "k", received_ms: None };
    let ingests: Vec<_> = line_ingests(of, body.as_bytes()).collect();
    assert_eq!(ingests.len(), 4, "256 sessions at once");
    let places: Vec<u64> = ingests.iter().map(|ingest| ingest.begins.unwrap().line).collect();
    assert_eq!(places, [1, 257, 513, 769]);
    let keys: Vec<&str> = ingests.iter().map(|ingest| ingest.key.as_str()).collect();
    assert_eq!(keys, ["k", "k/part/1", "k/part/2", "k/part/3"]);
    assert_eq!(ingests.iter().flat_map(|ingest| ingest.body.clone()).collect::<Vec<_>>(), body.as_bytes());
    // Input of one session is split by its length alone, as ever.
    let one: String = (0..1_000).map(|number| call("s", &format!("t{number}")) + "\n").collect();
    let ingests: Vec<_> = line_ingests(of, one.as_bytes()).collect();
    assert_eq!((ingests.len(), ingests[0].begins), (1, None));
}
