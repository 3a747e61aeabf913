//! Indexing while a hub runs: the same rows as without one; newer rows of the hub are not overwritten; it can be
//! cancelled.

#![allow(clippy::unwrap_used)]

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    time::Duration,
};

use subscope_collect::archive::Archive;
use subscope_hub::{
    Asks, History, Hub, HubHandle, HubOptions, Ingest, ListQuery, Nothing, SessionQueries,
    index::{IndexError, IndexOptions, Report, index, index_beside},
};
use subscope_model::{PriceTable, SessionId, SessionRow};
use subscope_session::Limits;
use subscope_store::{Access, SqliteStore, TextIndex};
use subscope_testkit::corpus::{self, Options};

const LIMIT: Duration = Duration::from_secs(30);
const LATER: i64 = 4_000_000_000_000;
const SESSIONS: u64 = 12;

/// A folder with sessions, and options to index it.
fn sessions() -> (tempfile::TempDir, IndexOptions) {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..SESSIONS {
        let options =
            Options { seed, agents: 3, dialects: corpus::Dialects::Transcripts, ..Options::default() };
        corpus::on_disk(&options, folder.path()).unwrap();
    }
    let options = IndexOptions {
        roots: vec![folder.path().to_owned()],
        prices: PriceTable::default(),
        limits: Limits::default(),
        now_ms: LATER,
        workers: Some(2),
        archive: Archive::new(folder.path().join("archive")),
        archives: false,
        keep_ms: None,
    };
    (folder, options)
}

fn open(folder: &Path, access: Access) -> SqliteStore {
    SqliteStore::open(folder, access, "1", 1).unwrap()
}

fn rows(history: &dyn History) -> Vec<SessionRow> {
    let rows = history.list(&ListQuery::first(usize::MAX)).unwrap().into_iter();
    // The time of saving differs between runs.
    rows.map(|row| SessionRow { kept_at_ms: None, ..row }).collect()
}

/// A hub that writes a store, and the folder of the store.
fn hub() -> (Hub, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Access::Write);
    let options = HubOptions::default();
    let hub = Hub::start(Box::new(Nothing), Box::new(store), options).unwrap();
    (hub, folder.path().to_owned(), folder)
}

fn beside(hub: &HubHandle, store: &Path, options: &IndexOptions) -> Result<Report, IndexError> {
    let mut texts = TextIndex::open(store, Access::Write).unwrap();
    let told = &mut |_| ControlFlow::Continue(());
    index_beside(hub, &open(store, Access::Read), &mut texts, options, told)
}

#[test]
fn an_index_beside_a_hub_gives_the_rows_of_one_alone() {
    let (_sessions, options) = sessions();
    let alone = tempfile::tempdir().unwrap();
    let mut store = open(alone.path(), Access::Write);
    index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let (hub, folder, _kept) = hub();
    let report = beside(&hub.handle(), &folder, &options).unwrap();
    assert_eq!(report.sessions, SESSIONS);
    let kept = open(&folder, Access::Read);
    assert_eq!(rows(&kept), rows(&store));
    assert_eq!(rows(&kept).len() as u64, SESSIONS);
    let sorted = |store: &SqliteStore| {
        let mut sources = store.sources().unwrap();
        sources.sort_by(|one, other| one.path.cmp(&other.path));
        sources
    };
    assert_eq!(sorted(&kept), sorted(&store));
    assert_eq!(beside(&hub.handle(), &folder, &options).unwrap().sessions, 0, "nothing is read twice");
}

#[test]
fn what_the_hub_has_of_a_session_stays() {
    let (_sessions, options) = sessions();
    let alone = tempfile::tempdir().unwrap();
    let mut store = open(alone.path(), Access::Write);
    index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let own: SessionId = rows(&store)[0].id.clone();
    let (hub, folder, _kept) = hub();
    let handle = hub.handle();
    let (sender, taken) = sync_channel(1);
    let body = format!(
        r#"{{"session_id":"{own}","hook_event_name":"PreToolUse","tool_name":"Read","tool_use_id":"only-the-hub-knows","tool_input":{{}}}}"#
    );
    let ingest = Ingest {
        source: "hooks".to_owned(),
        session: None,
        dialect: Some(subscope_harness::claude_code::HOOK),
        key: "one".to_owned(),
        received_ms: Some(1_000),
        body: body.into_bytes(),
        begins: None,
        asks: Asks::Nothing,
    };
    handle.ingest(ingest, Box::new(move |outcome| sender.send(outcome).unwrap())).unwrap();
    taken.recv_timeout(LIMIT).unwrap().unwrap();
    beside(&handle, &folder, &options).unwrap();
    // The hub saves its own rows with a delay, and when it ends.
    drop(hub);
    let kept = open(&folder, Access::Read);
    let tree = kept.tree(&own).unwrap().unwrap();
    let calls: Vec<&str> = tree
        .agents
        .iter()
        .flat_map(|agent| &agent.tools)
        .filter_map(|call| Some(call.id.as_ref()?.as_str()))
        .collect();
    let alone = store.tree(&own).unwrap().unwrap();
    assert!(calls.contains(&"only-the-hub-knows"));
    assert_eq!(calls.len(), alone.summary.tool_calls as usize + 1, "its files are read by the hub");
    assert!(kept.sources().unwrap().iter().any(|source| source.session == own), "and after a restart");
    assert!(kept.due_sessions(0).unwrap().contains(&own), "and by the next index");
    assert_eq!(rows(&kept).len() as u64, SESSIONS);
}

#[test]
fn an_index_that_is_stopped_goes_on_where_it_was() {
    let (_sessions, options) = sessions();
    let (hub, folder, _kept) = hub();
    let store = open(&folder, Access::Read);
    let mut texts = TextIndex::open(&folder, Access::Write).unwrap();
    let mut told = |progress: subscope_hub::index::Progress| match progress.sessions {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let stopped = index_beside(&hub.handle(), &store, &mut texts, &options, &mut told);
    assert!(matches!(stopped, Err(IndexError::Stopped)));
    let before = rows(&store).len() as u64;
    assert!(before > 0, "what was told is kept");
    drop(texts);
    assert_eq!(beside(&hub.handle(), &folder, &options).unwrap().sessions, SESSIONS - before);
    assert_eq!(rows(&store).len() as u64, SESSIONS);
}
