//! A session that was at rest when the hub began, and goes on: what its rows knew is no news.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Write,
    ops::ControlFlow,
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use subscope_collect::archive::Archive;
use subscope_fold::Limits;
use subscope_hub::{
    Hub, HubOptions, Live, clock,
    index::{IndexOptions, index},
};
use subscope_model::{Event, EventKind, Feed, PriceTable, Received, Update, iso8601, parse_rfc3339};
use subscope_store::{Access, Sqlite};
use subscope_testkit::fixtures::root;

/// Far more than any wait of these tests takes.
const LIMIT: Duration = Duration::from_secs(30);
/// How long after the last event nothing more is waited for.
const QUIET: Duration = Duration::from_millis(500);

/// A recording's transcripts, last written to days ago.
fn old_session() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("projects/-home-user-shop");
    fs::create_dir_all(&project).unwrap();
    let from = root().join("claude-code/2.1.330/a-single/projects");
    let from = fs::read_dir(from).unwrap().next().unwrap().unwrap().path();
    let mut files = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path());
    let main = files.find(|path| path.extension().is_some_and(|it| it == "jsonl")).unwrap();
    let to = project.join(main.file_name().unwrap());
    fs::copy(&main, &to).unwrap();
    let days_ago = UNIX_EPOCH + Duration::from_millis(clock::now_ms().unsigned_abs() - 3 * 86_400_000);
    fs::File::options().append(true).open(&to).unwrap().set_modified(days_ago).unwrap();
    (folder, to)
}

#[test]
fn what_its_rows_knew_is_not_told_again() {
    let (folder, main) = old_session();
    let projects = folder.path().join("projects");
    let mut store = Sqlite::open(&folder.path().join("data"), Access::Write, "1", 1).unwrap();
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
    let driver = Box::new(Live::projects(projects).unwrap());
    let hub = Hub::start(driver, Box::new(store), HubOptions::default()).unwrap();
    let mut feed = hub.subscribe();
    let began = clock::tick();
    while !matches!(feed.next(LIMIT), Received::Update(Update::CaughtUp)) {
        assert!(began.elapsed() < LIMIT, "the hub never catches up");
    }
    let text = fs::read_to_string(&main).unwrap();
    let prompt = text.lines().find(|line| line.contains(r#""type":"user""#)).unwrap();
    let mut line: serde_json::Value = serde_json::from_str(prompt).unwrap();
    // Recorded lines are older than the store, as a replay's are; it is newer than what the rows knew.
    let times = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        parse_rfc3339(line["timestamp"].as_str()?)
    });
    line["timestamp"] = iso8601(times.max().unwrap() + 1_000).into();
    line["uuid"] = "11111111-2222-4333-8444-555555555555".into();
    line["promptId"] = "22222222-2222-4333-8444-555555555555".into();
    line["message"]["content"] = "and now the tests".into();
    writeln!(fs::File::options().append(true).open(&main).unwrap(), "{line}").unwrap();
    let mut told: Vec<Event> = Vec::new();
    loop {
        let wait = if told.is_empty() { LIMIT } else { QUIET };
        match feed.next(wait) {
            Received::Update(Update::Event(event)) => told.push(*event),
            Received::Update(_) => {}
            Received::Idle => break,
            Received::Closed => panic!("the hub has ended"),
        }
    }
    let prompts: Vec<_> = told.iter().filter(|event| event.kind == EventKind::UserPrompt).collect();
    assert!(prompts.len() == 1 && prompts[0].data["text"] == "and now the tests", "{told:#?}");
    assert!(told.iter().all(|event| event.kind != EventKind::ToolPre), "{told:#?}");
}
