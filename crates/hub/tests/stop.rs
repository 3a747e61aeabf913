//! Stop orders, from the request to the hook answer that delivers them.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, sync::mpsc::sync_channel, time::Duration};

use subscope_collect::spool::{Delivery, Kind, Spool, write as spool};
use subscope_hub::{
    AskError, Asks, Hub, HubHandle, HubOptions, Ingest, IngestReceipt, MemoryStore, Nothing, StopError,
    StopReceipt, Store, clock, drain_spool, hook_ingest,
};
use subscope_model::{
    Agent, AgentId, AgentStatus, EventKind, Feed, FeedItem, Flag, SessionId, StopChannel, Update,
};
use subscope_session::Limits;
use subscope_store::{Access, SqliteStore};

/// Timeout, far above the time of any answer.
const LIMIT: Duration = Duration::from_secs(30);

fn hub(keeper: impl Store + 'static) -> Hub {
    Hub::start(Box::new(Nothing), Box::new(keeper), HubOptions::default()).unwrap()
}

fn store(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Access::Write, "test", 1).unwrap()
}

fn answer<T: Send + 'static>(ask: impl FnOnce(subscope_hub::ReplyCallback<T>) -> Result<(), AskError>) -> T {
    let (sender, answer) = sync_channel(1);
    ask(Box::new(move |told| sender.send(told).unwrap())).unwrap();
    answer.recv_timeout(LIMIT).unwrap()
}

/// Hook payload of an agent; of the root if `agent` is empty.
fn payload(session: &str, agent: &str, event: &str, call: &str) -> Vec<u8> {
    let agent = if agent.is_empty() {
        String::new()
    } else {
        format!(r#""agent_id":"{agent}","agent_type":"Explore","#)
    };
    format!(
        r#"{{"session_id":"{session}","hook_event_name":"{event}",{agent}"prompt_id":"p","tool_name":"Bash","tool_use_id":"{call}","tool_input":{{}}}}"#
    )
    .into_bytes()
}

/// A payload of a hook that waits for its answer.
fn asking(session: &str, agent: &str, event: &str, call: &str) -> Ingest {
    let key = format!("{session}-{agent}-{event}-{call}");
    Ingest {
        asks: Asks::WhetherToContinue,
        ..hook_ingest(subscope_harness::claude_code::HOOK, &key, None, payload(session, agent, event, call))
    }
}

/// Posts a payload as a hook that waits for its answer.
fn post(hub: &HubHandle, session: &str, agent: &str, event: &str, call: &str) -> IngestReceipt {
    answer(|reply| hub.ingest(asking(session, agent, event, call), reply)).unwrap()
}

/// Starts agents that have each called a tool.
fn start(hub: &HubHandle, session: &str, agents: &[&str]) {
    for agent in agents {
        post(hub, session, agent, "SubagentStart", "");
        post(hub, session, agent, "PreToolUse", &format!("first-{agent}"));
        post(hub, session, agent, "PostToolUse", &format!("first-{agent}"));
    }
}

fn order(hub: &HubHandle, session: Option<&str>, agent: &str) -> Result<StopReceipt, StopError> {
    answer(|reply| hub.stop(session.map(str::to_owned), agent.to_owned(), reply))
}

fn row(hub: &HubHandle, session: &str, agent: &str) -> Agent {
    let session = SessionId::from(session);
    let tree = answer(|reply| hub.ask(Some(session.clone()), reply, move |queries| queries.tree(&session)));
    let tree = tree.unwrap().unwrap();
    tree.agents.into_iter().find(|row| row.id == AgentId::from(agent)).unwrap()
}

fn is_stop(taken: &IngestReceipt) -> bool {
    taken.answer.as_ref().is_some_and(|json| json.contains(r#""continue":false"#))
}

#[test]
fn ordered_agent_alone_is_told_at_its_next_call() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    start(&handle, "s", &["a1", "a2"]);
    let told = order(&handle, None, "a1").unwrap();
    let expected = StopReceipt {
        session: "s".into(),
        agent: "a1".into(),
        title: "Explore".to_owned(),
        is_repeat: false,
        is_reached: true,
        told_by: StopChannel::Hook,
    };
    assert_eq!(told, expected);
    assert!(row(&handle, "s", "a1").has(Flag::Stopping));
    assert!(!row(&handle, "s", "a2").has(Flag::Stopping));
    // Neither others' calls nor its other events are answered.
    for (agent, event) in
        [("a2", "PreToolUse"), ("a2", "PostToolUse"), ("", "PreToolUse"), ("a1", "SubagentStart")]
    {
        assert_eq!(post(&handle, "s", agent, event, "t1").answer, None, "{agent} {event}");
    }
    // The same id in another session is another agent.
    start(&handle, "s2", &["a1"]);
    assert_eq!(post(&handle, "s2", "a1", "PreToolUse", "t1").answer, None);
    assert!(is_stop(&post(&handle, "s", "a1", "PreToolUse", "t2")));
    // Its version is unknown, so the call is allowed: the order stays pending until the call has ended.
    assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Running);
    post(&handle, "s", "a1", "PostToolUse", "t2");
    let stopped = row(&handle, "s", "a1");
    assert_eq!((stopped.status, stopped.flags.contains(&Flag::Stopping)), (AgentStatus::Stopped, false));
    assert_eq!(stopped.evidence.as_deref(), Some("hook answer"));
    assert_eq!(row(&handle, "s", "a2").status, AgentStatus::Running);
    assert_eq!(order(&handle, Some("s"), "a1"), Err(StopError::Ended(AgentStatus::Stopped)));
    assert_eq!(order(&handle, None, "a1").unwrap().session, "s2".into());
}

#[test]
fn agent_in_a_call_is_told_when_that_is_over() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    start(&handle, "s", &["a1"]);
    assert_eq!(post(&handle, "s", "a1", "PreToolUse", "t1").answer, None);
    order(&handle, None, "a1").unwrap();
    assert!(is_stop(&post(&handle, "s", "a1", "PostToolUse", "t1")));
    assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Stopped);
}

#[test]
fn agent_that_goes_on_all_the_same_is_told_again() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    start(&handle, "s", &["a1"]);
    order(&handle, None, "a1").unwrap();
    for call in ["t1", "t2", "t3"] {
        assert!(is_stop(&post(&handle, "s", "a1", "PreToolUse", call)), "{call}");
        post(&handle, "s", "a1", "PostToolUse", call);
        assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Stopped, "{call}");
    }
    // Also if they arrive together, before the first is derived.
    let (sender, answers) = sync_channel(8);
    for call in ["t4", "t5", "t6"] {
        let sender = sender.clone();
        let ingest = asking("s", "a1", "PreToolUse", call);
        handle.ingest(ingest, Box::new(move |taken| sender.send(taken.unwrap()).unwrap())).unwrap();
    }
    assert!((0..3).all(|_| is_stop(&answers.recv_timeout(LIMIT).unwrap())));
    // A repeated delivery gets no new answer.
    assert!(post(&handle, "s", "a1", "PreToolUse", "t3").is_repeat);
}

#[test]
fn order_is_void_once_the_agent_has_ended_otherwise_or_was_woken() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    start(&handle, "s", &["a1"]);
    order(&handle, None, "a1").unwrap();
    post(&handle, "s", "a1", "SubagentStop", "");
    assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Completed);
    assert_eq!(order(&handle, None, "a1"), Err(StopError::Ended(AgentStatus::Completed)));
    // An order of the very millisecond of the resumption would be one for the resumed agent.
    let ordered = clock::now_ms();
    while clock::now_ms() == ordered {}
    let resumed = r#"{"session_id":"s","hook_event_name":"PostToolUse","prompt_id":"p","tool_name":"SendMessage","tool_use_id":"w1","tool_input":{},"tool_response":{"success":true,"resumedAgentId":"a1"}}"#;
    answer(|reply| {
        handle.ingest(hook_ingest(subscope_harness::claude_code::HOOK, "w1", None, resumed.into()), reply)
    })
    .unwrap();
    post(&handle, "s", "a1", "SubagentStart", "again");
    assert!(!row(&handle, "s", "a1").has(Flag::Stopping));
    assert_eq!(post(&handle, "s", "a1", "PreToolUse", "t1").answer, None);
    assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Running);
}

#[test]
fn beginnings_of_ids_name_one_agent_at_work_or_are_refused() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    start(&handle, "one", &["abc1", "abd2", "ab"]);
    start(&handle, "two", &["abc9"]);
    post(&handle, "one", "abd2", "SubagentStop", "");
    assert_eq!(order(&handle, None, "abc"), Err(StopError::Ambiguous(2)));
    assert_eq!(order(&handle, Some("tw"), "abc").unwrap().agent, "abc9".into());
    assert_eq!(order(&handle, None, "abc1").unwrap().agent, "abc1".into());
    // A complete id matches itself only, even if it is a prefix of another.
    assert_eq!(order(&handle, Some("one"), "ab").unwrap().agent, "ab".into());
    assert_eq!(order(&handle, None, "abd"), Err(StopError::Ended(AgentStatus::Completed)));
    assert_eq!(order(&handle, None, "x"), Err(StopError::Unknown));
    assert_eq!(order(&handle, Some("three"), "abc"), Err(StopError::Unknown));
    assert_eq!(order(&handle, Some("one"), "root"), Err(StopError::Root));
    assert!(order(&handle, None, "abc1").unwrap().is_repeat);
}

#[test]
fn session_without_hooks_is_refused_and_one_that_names_no_agents_is_told() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    let line = r#"{"type":"system","subtype":"task_started","session_id":"s","task_id":"a1","tool_use_id":"c1","task_type":"local_agent","description":"Look"}"#;
    let stream = Ingest {
        source: "run".to_owned(),
        session: None,
        dialect: Some(subscope_harness::claude_code::STREAM),
        key: "1".to_owned(),
        received_ms: None,
        body: line.into(),
        begins: None,
        asks: Asks::Nothing,
    };
    answer(|reply| handle.ingest(stream, reply)).unwrap();
    assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Running);
    assert_eq!(order(&handle, None, "a1"), Err(StopError::NoChannel));
    let old = r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Task","tool_use_id":"c1","tool_input":{}}"#;
    answer(|reply| {
        handle.ingest(hook_ingest(subscope_harness::claude_code::HOOK, "1", None, old.into()), reply)
    })
    .unwrap();
    assert!(!order(&handle, None, "a1").unwrap().is_reached);
}

#[test]
fn order_and_that_it_was_given_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    {
        let hub = hub(store(folder.path()));
        let handle = hub.handle();
        start(&handle, "s", &["a1", "a2"]);
        order(&handle, None, "a1").unwrap();
    }
    {
        let hub = hub(store(folder.path()));
        let handle = hub.handle();
        assert!(row(&handle, "s", "a1").has(Flag::Stopping));
        assert!(is_stop(&post(&handle, "s", "a1", "PreToolUse", "t1")));
        post(&handle, "s", "a1", "PostToolUse", "t1");
    }
    let hub = hub(store(folder.path()));
    let handle = hub.handle();
    // The harness's own report comes after the restart, and does not count.
    let notice = r#"{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt_id":"p2","prompt":"<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n</task-notification>"}"#;
    answer(|reply| {
        handle.ingest(hook_ingest(subscope_harness::claude_code::HOOK, "n", None, notice.into()), reply)
    })
    .unwrap();
    assert_eq!(row(&handle, "s", "a1").status, AgentStatus::Stopped);
    assert_eq!(row(&handle, "s", "a2").status, AgentStatus::Running);
}

#[test]
fn first_hook_after_a_kill_is_told_of_an_order() {
    let folder = tempfile::tempdir().unwrap();
    let hub_before = hub(store(folder.path()));
    start(&hub_before.handle(), "s", &["a1", "a2"]);
    order(&hub_before.handle(), None, "a1").unwrap();
    // The state after a killed hub: rows without the last input.
    let left = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), left.path().join(entry.file_name())).unwrap();
        }
    }
    let hub = hub(store(left.path()));
    for (agent, is_told) in [("a1", true), ("a2", false)] {
        assert_eq!(is_stop(&post(&hub.handle(), "s", agent, "PreToolUse", "t1")), is_told, "{agent}");
    }
}

#[test]
fn hooks_that_nobody_waits_for_are_told_nothing() {
    let hub = hub(MemoryStore::new());
    let handle = hub.handle();
    start(&handle, "s", &["a1"]);
    order(&handle, None, "a1").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let late = payload("s", "a1", "PreToolUse", "t1");
    spool(folder.path(), Kind::Hook("claude-code"), Delivery::new(1_000_000, 1, 1), &[late]).unwrap();
    let taken =
        drain_spool(&Spool::open(folder.path()).unwrap(), &handle, &mut |problem| panic!("{problem}"));
    assert_eq!(taken.unwrap().ingested, 1);
    let row = row(&handle, "s", "a1");
    assert_eq!((row.status, row.has(Flag::Stopping)), (AgentStatus::Running, true));
    assert_eq!(row.tool_calls, 2);
}

#[test]
fn stalled_agent_is_told_to_stop_only_where_that_is_wanted() {
    for stops_stalled in [true, false] {
        let limits = Limits { stall_ms: 100, stall_subagents_ms: 100, ..Limits::default() };
        let options = HubOptions { limits, stops_stalled, ..HubOptions::default() };
        let hub = Hub::start(Box::new(Nothing), Box::new(MemoryStore::new()), options).unwrap();
        let handle = hub.handle();
        let feed = hub.subscribe();
        start(&handle, "s", &["a1"]);
        let is_stall = |update: &Update| matches!(update, Update::Event(event) if event.kind == EventKind::Stall && event.text("agent_id") == Some("a1"));
        wait_until(feed, is_stall);
        // The order is ingested in the next turn; queries may be answered before it.
        let deadline = clock::tick() + LIMIT;
        while stops_stalled && !row(&handle, "s", "a1").has(Flag::Stopping) {
            assert!(clock::tick() < deadline, "nothing was ordered");
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_told = is_stop(&post(&handle, "s", "a1", "PreToolUse", "t1"));
        assert_eq!(is_told, stops_stalled);
    }
}

/// Reads a feed until an update comes.
fn wait_until(mut feed: impl Feed, is_it: impl Fn(&Update) -> bool) {
    let deadline = clock::tick() + LIMIT;
    loop {
        assert!(clock::tick() < deadline, "it never came");
        if let FeedItem::Update(update) = feed.next(Duration::from_millis(100))
            && is_it(&update)
        {
            return;
        }
    }
}
