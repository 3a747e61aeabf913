//! Idle sessions that continue: events that their rows contain are not published again. Idle are sessions whose files
//! were not tailed when the hub started, and evicted ones.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use subscope_collect::archive::Archive;
use subscope_hub::{
    BatchRead, Figures, FileTailDriver, Hub, HubHandle, HubOptions, HubSubscription, clock, hook_ingest,
    index::{IndexOptions, index},
};
use subscope_model::{
    Event, EventKind, Feed, FeedItem, Millis, PriceTable, SessionId, Tree, Update, iso8601, parse_rfc3339,
};
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions};
use subscope_store::{Access, SqliteStore};
use subscope_testkit::fixtures::root;

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);
/// Time without an event after which no more are expected.
const QUIET: Duration = Duration::from_millis(500);

/// A recording's transcripts, with the folder that holds them.
fn session() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("projects/-home-user-shop");
    let from = root().join("claude-code/2.1.330/a-single/projects");
    let from = fs::read_dir(from).unwrap().next().unwrap().unwrap().path();
    copy(&from, &project);
    let mut files = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().path());
    let main = files.find(|path| path.extension().is_some_and(|it| it == "jsonl")).unwrap();
    (folder, main)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// The same, with modification times days ago.
fn old_session() -> (tempfile::TempDir, PathBuf) {
    let (folder, main) = session();
    let days_ago = UNIX_EPOCH + Duration::from_millis(clock::now_ms().unsigned_abs() - 3 * 86_400_000);
    age(folder.path(), days_ago);
    (folder, main)
}

fn age(folder: &Path, to: SystemTime) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            age(&entry, to);
        } else {
            fs::File::options().append(true).open(&entry).unwrap().set_modified(to).unwrap();
        }
    }
}

/// The prompt of a session, repeated as one of its last lines.
fn next_prompt(main: &Path, words: &str, id: char) -> String {
    let text = fs::read_to_string(main).unwrap();
    let prompt = text.lines().find(|line| line.contains(r#""type":"user""#)).unwrap();
    let mut line: serde_json::Value = serde_json::from_str(prompt).unwrap();
    // Recorded lines are older than the store, as a replay's are; this one is newer than the session's rows.
    let times = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        parse_rfc3339(line["timestamp"].as_str()?)
    });
    line["timestamp"] = iso8601(times.max().unwrap() + 1_000).into();
    line["uuid"] = format!("{id}1111111-2222-4333-8444-555555555555").into();
    line["promptId"] = format!("{id}2222222-2222-4333-8444-555555555555").into();
    line["message"]["content"] = words.into();
    format!("{line}\n")
}

fn write(main: &Path, line: &str) {
    fs::File::options().append(true).open(main).unwrap().write_all(line.as_bytes()).unwrap();
}

/// Events published from now on, until no more come.
fn told(feed: &mut HubSubscription) -> Vec<Event> {
    let mut told: Vec<Event> = Vec::new();
    loop {
        let wait = if told.is_empty() { LIMIT } else { QUIET };
        match feed.next(wait) {
            FeedItem::Update(Update::Event(event)) => told.push(event.into_inner()),
            FeedItem::Update(_) => {}
            FeedItem::Idle => return told,
            FeedItem::Closed => panic!("the hub has ended"),
        }
    }
}

fn is_only_prompt(told: &[Event], words: &str) {
    let prompts: Vec<_> = told.iter().filter(|event| event.kind == EventKind::UserPrompt).collect();
    assert!(prompts.len() == 1 && prompts[0].data["text"] == words, "{told:#?}");
    assert!(told.iter().all(|event| event.kind != EventKind::ToolPre), "{told:#?}");
}

fn catch_up(feed: &mut HubSubscription) -> Vec<SessionId> {
    let (began, mut shown) = (clock::tick(), Vec::new());
    loop {
        match feed.next(LIMIT) {
            FeedItem::Update(Update::Snapshot(tree)) => shown.push(tree.session.id.clone()),
            FeedItem::Update(Update::CaughtUp) => return shown,
            FeedItem::Update(_) | FeedItem::Idle | FeedItem::Closed => {
                assert!(began.elapsed() < LIMIT, "the hub never catches up");
            }
        }
    }
}

/// Expected tree of the complete file.
fn cold(folder: &Path, at: Millis) -> Tree {
    cold_with(folder, at, &[])
}

/// Expected tree of the complete file and input from programs.
fn cold_with(folder: &Path, at: Millis, received: &[subscope_hub::ReceivedInput]) -> Tree {
    let mut cold = BatchRead::read(
        BatchRead::expand(&[folder.join("projects")]).unwrap(),
        RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing },
        None,
    );
    cold.receive(received);
    let (prices, limits) = (PriceTable::default(), Limits::default());
    let now = Now { at, has_ended: false, is_growing: true, prices: &prices, limits };
    let id = cold.router.sessions().next().unwrap().clone();
    let tree = cold.router.tree(&id, &now).unwrap();
    let _ = cold.router.take_problems();
    tree
}

fn figures(hub: &HubHandle) -> Figures {
    let (sender, answer) = sync_channel(1);
    hub.figures(Box::new(move |figures| sender.send(figures).unwrap())).unwrap();
    answer.recv_timeout(LIMIT).unwrap()
}

fn tree(hub: &HubHandle, session: &SessionId) -> Tree {
    let (sender, answer) = sync_channel(1);
    let (id, reply) = (session.clone(), Box::new(move |tree| sender.send(tree).unwrap()));
    hub.ask(Some(session.clone()), reply, move |queries| queries.tree(&id)).unwrap();
    answer.recv_timeout(LIMIT).unwrap().unwrap().unwrap()
}

/// Waits until the hub has this many sessions in memory.
fn holds(hub: &HubHandle, wanted: u64) {
    let began = clock::tick();
    while figures(hub).held != wanted {
        assert!(began.elapsed() < LIMIT, "{:?}", figures(hub));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_its_rows_knew_is_not_told_again() {
    let (folder, main) = old_session();
    let projects = folder.path().join("projects");
    let mut store = SqliteStore::open(&folder.path().join("data"), Access::Write, "1", 1).unwrap();
    let options = IndexOptions {
        roots: vec![projects.clone()],
        prices: PriceTable::default(),
        limits: Limits::default(),
        now_ms: clock::now_ms(),
        workers: None,
        archive: Archive::new(folder.path().join("data/archive")),
        archives: false,
        keep_ms: None,
    };
    index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let driver = Box::new(
        FileTailDriver::roots(vec![subscope_harness::Root {
            harness: &subscope_harness::claude_code::ClaudeCode,
            folder: projects,
        }])
        .unwrap(),
    );
    let hub = Hub::start(driver, Box::new(store), HubOptions::default()).unwrap();
    let mut feed = hub.subscribe();
    catch_up(&mut feed);
    write(&main, &next_prompt(&main, "and now the tests", '1'));
    is_only_prompt(&told(&mut feed), "and now the tests");
}

#[test]
fn what_the_hub_let_go_of_goes_on_as_if_it_had_not() {
    let (folder, main) = session();
    let projects = folder.path().join("projects");
    let store = SqliteStore::open(&folder.path().join("data"), Access::Write, "1", 1).unwrap();
    let driver = Box::new(
        FileTailDriver::roots(vec![subscope_harness::Root {
            harness: &subscope_harness::claude_code::ClaudeCode,
            folder: projects,
        }])
        .unwrap(),
    );
    let options = HubOptions { evict_after: Duration::from_millis(50), ..HubOptions::default() };
    let hub = Hub::start(driver, Box::new(store), options).unwrap();
    let handle = hub.handle();
    let mut feed = hub.subscribe();
    let shown = catch_up(&mut feed);
    let session = match shown.first() {
        Some(session) => session.clone(),
        None => cold(folder.path(), 0).session.id,
    };
    for (round, id) in ["first", "second"].into_iter().zip('3'..) {
        holds(&handle, 0);
        assert_eq!(figures(&handle).sessions, 1);
        // A new subscriber gets its snapshot all the same.
        assert_eq!(catch_up(&mut hub.subscribe()), std::slice::from_ref(&session));
        while !matches!(feed.next(QUIET), FeedItem::Idle) {}
        write(&main, &next_prompt(&main, round, id));
        is_only_prompt(&told(&mut feed), round);
        let mut known = tree(&handle, &session);
        let mut wanted = cold(folder.path(), clock::now_ms());
        for tree in [&mut known, &mut wanted] {
            tree.stamp(0);
        }
        assert_eq!(known.agents, wanted.agents);
        assert_eq!(known.session, wanted.session);
        assert_eq!(known.agents.len(), 2);
    }
    // Input from a program: the rows contain the files' content too, and the session is evicted again with that input.
    let kept = SqliteStore::open(&folder.path().join("data"), Access::Read, "1", 0).unwrap();
    for (round, id) in ["third", "fourth"].into_iter().zip('5'..) {
        holds(&handle, 0);
        while !matches!(feed.next(QUIET), FeedItem::Idle) {}
        hand_over(&handle, &session, &main, round);
        is_only_prompt(&told(&mut feed), round);
        holds(&handle, 0);
        while !matches!(feed.next(QUIET), FeedItem::Idle) {}
        let words = format!("{round} in the file");
        write(&main, &next_prompt(&main, &words, id));
        is_only_prompt(&told(&mut feed), &words);
        let mut known = tree(&handle, &session);
        let mut wanted = cold_with(folder.path(), clock::now_ms(), &kept.received_of(&session).unwrap());
        for tree in [&mut known, &mut wanted] {
            tree.stamp(0);
        }
        assert_eq!(known.agents, wanted.agents);
        assert_eq!(known.session, wanted.session);
    }
}

/// A line of a tool call with a time of its own.
fn late_call(main: &Path, id: &str, at: Millis) -> String {
    let text = fs::read_to_string(main).unwrap();
    let line = text.lines().find(|line| line.contains(r#""type":"assistant""#)).unwrap();
    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["timestamp"] = iso8601(at).into();
    line["uuid"] = format!("line-{id}").into();
    line["message"]["id"] = format!("msg-{id}").into();
    line["message"]["content"] =
        serde_json::json!([{ "type": "tool_use", "id": id, "name": "Read", "input": { "file_path": id } }]);
    format!("{line}\n")
}

/// A hub over a folder without a store before, and its feed after it has caught up.
fn fresh_hub(folder: &Path, evict_after: Duration) -> (Hub, HubSubscription) {
    let now = u64::try_from(clock::now_ms()).unwrap();
    let store = SqliteStore::open(&folder.join("data"), Access::Write, "1", now * 1_000).unwrap();
    let harness = &subscope_harness::claude_code::ClaudeCode;
    let root = subscope_harness::Root { harness, folder: folder.join("projects") };
    let options = HubOptions { evict_after, ..HubOptions::default() };
    let driver = Box::new(FileTailDriver::roots(vec![root]).unwrap());
    let hub = Hub::start(driver, Box::new(store), options).unwrap();
    let mut feed = hub.subscribe();
    catch_up(&mut feed);
    (hub, feed)
}

fn kinds(told: &[Event]) -> Vec<(EventKind, Option<&str>)> {
    told.iter().map(|event| (event.kind, event.data["tool_use_id"].as_str())).collect()
}

/// The session is days old, its files are new: a copy, or a session that a person left open.
#[test]
fn past_of_a_session_is_not_published_at_its_eviction_or_growth() {
    let (folder, main) = session();
    let (hub, mut feed) = fresh_hub(folder.path(), Duration::from_millis(50));
    let handle = hub.handle();
    holds(&handle, 0);
    assert_eq!(kinds(&quiet(&mut feed)), [], "nothing has happened");
    write(&main, &next_prompt(&main, "thanks", '1'));
    is_only_prompt(&told(&mut feed), "thanks");
    // The clock of the program that writes may be wrong: a new line is new, whatever its time.
    for (round, at) in
        [("older", 5_000), ("older-still", 1_000), ("future", clock::now_ms() + 900_000)].into_iter()
    {
        holds(&handle, 0);
        quiet(&mut feed);
        write(&main, &late_call(&main, round, at));
        let told = told(&mut feed);
        let calls: Vec<_> = told.iter().filter(|event| event.kind == EventKind::ToolPre).collect();
        assert_eq!(
            calls.iter().map(|event| &event.data["tool_use_id"]).collect::<Vec<_>>(),
            [round],
            "{told:#?}"
        );
        stop(&handle, &calls[0].session_id, round);
        quiet(&mut feed);
    }
}

/// A hub meets sessions late: one that no index has read goes on, one is new.
#[test]
fn session_that_is_met_late_is_news_if_it_is_not_past() {
    let (folder, main) = old_session();
    let (_hub, mut feed) = fresh_hub(folder.path(), Duration::from_millis(50));
    let mut line: serde_json::Value = serde_json::from_str(&next_prompt(&main, "once more", '1')).unwrap();
    line["timestamp"] = iso8601(clock::now_ms()).into();
    write(&main, &format!("{line}\n"));
    is_only_prompt(&told(&mut feed), "once more");
    // Its first line is older than the hub, as those of a replay are.
    let (id, known) = ("0a0b0c0d-0000-4000-8000-000000000001", main.file_stem().unwrap().to_str().unwrap());
    let first = next_prompt(&main, "a new session", '2').replace(known, id);
    fs::write(main.with_file_name(format!("{id}.jsonl")), first).unwrap();
    let told = told(&mut feed);
    is_only_prompt(&told, "a new session");
    assert!(told.iter().any(|event| event.kind == EventKind::SessionStart), "{told:#?}");
}

/// Events until no more come; none is no failure.
fn quiet(feed: &mut HubSubscription) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        match feed.next(QUIET) {
            FeedItem::Update(Update::Event(event)) => all.push(event.into_inner()),
            FeedItem::Update(_) => {}
            FeedItem::Idle => return all,
            FeedItem::Closed => panic!("the hub has ended"),
        }
    }
}

/// A session that only hooks report is evicted, and has all of them when one more arrives; so has the next hub.
#[test]
fn what_only_hooks_told_of_rests_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, session) = (folder.path().join("data"), SessionId::from("only-hooks"));
    let other = SessionId::from("others-hooks");
    let hub = |after| {
        let store = SqliteStore::open(&data, Access::Write, "1", 1).unwrap();
        let driver = Box::new(
            FileTailDriver::roots(vec![subscope_harness::Root {
                harness: &subscope_harness::claude_code::ClaudeCode,
                folder: folder.path().join("projects"),
            }])
            .unwrap(),
        );
        let options = HubOptions { evict_after: Duration::from_millis(after), ..HubOptions::default() };
        Hub::start(driver, Box::new(store), options).unwrap()
    };
    let calls = |handle: &HubHandle| tree(handle, &session).summary.tool_calls;
    let first = hub(50);
    let handle = first.handle();
    for (number, name) in ["Read", "Grep", "Bash"].into_iter().enumerate() {
        holds(&handle, 0);
        // Two ingests at once, of two sessions: each session is evicted with its own input only.
        for session in [&session, &other] {
            call(&handle, session, &format!("{session}-{number}"), name);
        }
        assert_eq!(calls(&handle), number as u32 + 1);
    }
    holds(&handle, 0);
    drop(handle);
    drop(first);
    let next = hub(60_000);
    let handle = next.handle();
    call(&handle, &session, "only-hooks-9", "Edit");
    assert_eq!(calls(&handle), 4);
    assert_eq!(tree(&handle, &other).summary.tool_calls, 3);
    let (sender, answer) = sync_channel(1);
    let reply = Box::new(move |events| sender.send(events).unwrap());
    handle.events_after(0, Some(session.clone()), 1_000, reply).unwrap();
    let told = answer.recv_timeout(LIMIT).unwrap().unwrap();
    let pre = |id: &str| {
        let is_it = |event: &&Event| event.kind == EventKind::ToolPre && event.data["tool_use_id"] == id;
        told.iter().filter(is_it).count()
    };
    assert_eq!(["0", "1", "2", "9"].map(|id| pre(&format!("{session}-{id}"))), [1; 4], "{told:#?}");
}

fn hand_over(handle: &HubHandle, session: &SessionId, main: &Path, words: &str) {
    let hook = serde_json::json!({
        "hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": words, "cwd": "/",
        "transcript_path": main,
    });
    deliver(handle, words, &hook);
    stop(handle, session, words);
}

fn call(handle: &HubHandle, session: &SessionId, id: &str, name: &str) {
    for event in ["PreToolUse", "PostToolUse"] {
        let hook = serde_json::json!({
            "hook_event_name": event, "session_id": session, "tool_name": name, "tool_use_id": id,
            "tool_input": {}, "tool_response": {}, "cwd": "/", "transcript_path": "/nowhere.jsonl",
        });
        deliver(handle, &format!("{session}/{id}/{event}"), &hook);
    }
    stop(handle, session, id);
}

/// No agent of a session is running.
fn stop(handle: &HubHandle, session: &SessionId, round: &str) {
    let hook = serde_json::json!({
        "hook_event_name": "SessionEnd", "reason": "other", "session_id": session, "cwd": "/",
        "transcript_path": "/nowhere.jsonl",
    });
    deliver(handle, &format!("{session}/{round}/Stop"), &hook);
}

fn deliver(handle: &HubHandle, key: &str, hook: &serde_json::Value) {
    let (sender, answer) = sync_channel(1);
    let ingest = hook_ingest(subscope_harness::claude_code::HOOK, key, None, hook.to_string().into_bytes());
    handle.ingest(ingest, Box::new(move |taken| sender.send(taken.is_ok()).unwrap())).unwrap();
    assert!(answer.recv_timeout(LIMIT).unwrap());
}

/// Of many recently written sessions no more are in memory than the limit, and each continues as if it were.
#[test]
fn many_that_were_just_written_are_not_held_at_once() {
    let (folder, main) = session();
    let text = fs::read_to_string(&main).unwrap();
    let first = main.file_stem().unwrap().to_str().unwrap();
    let named = |number: usize| format!("{number:08x}{}", &first[8..]);
    let place = |number: usize| main.with_file_name(format!("{}.jsonl", named(number)));
    const MANY: usize = 100;
    for number in 0..MANY {
        // Other sessions' messages have other ids: shared ones would count once.
        let own = text.replace(first, &named(number)).replace("msg_", &format!("msg_{number}"));
        let own = own.replace("\"uuid\":\"", &format!("\"uuid\":\"{number}-"));
        fs::write(place(number), own).unwrap();
    }
    let store = SqliteStore::open(&folder.path().join("data"), Access::Write, "1", 1).unwrap();
    let driver = Box::new(
        FileTailDriver::roots(vec![subscope_harness::Root {
            harness: &subscope_harness::claude_code::ClaudeCode,
            folder: folder.path().join("projects"),
        }])
        .unwrap(),
    );
    let hub = Hub::start(driver, Box::new(store), HubOptions::default()).unwrap();
    let handle = hub.handle();
    let mut feed = hub.subscribe();
    let shown: BTreeSet<SessionId> = catch_up(&mut feed).into_iter().collect();
    assert_eq!((shown.len() as u64, figures(&handle).sessions), (MANY as u64 + 1, MANY as u64 + 1));
    // The last portion may be small.
    let began = clock::tick();
    while figures(&handle).held >= 64 {
        assert!(began.elapsed() < LIMIT, "{:?}", figures(&handle));
        std::thread::sleep(Duration::from_millis(20));
    }
    let again: BTreeSet<SessionId> = catch_up(&mut hub.subscribe()).into_iter().collect();
    assert_eq!(again, shown);
    // An evicted session continues.
    let known = tree(&handle, &SessionId::from(named(0).as_str()));
    write(&place(0), &next_prompt(&place(0), "and now the tests", '1'));
    is_only_prompt(&told(&mut feed), "and now the tests");
    let now = tree(&handle, &SessionId::from(named(0).as_str()));
    assert_eq!(known.agents.len(), now.agents.len());
    assert_eq!(known.summary.tool_calls, now.summary.tool_calls);
    assert!(now.session.rev > known.session.rev);
}
