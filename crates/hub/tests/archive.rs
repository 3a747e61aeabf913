//! Indexing with an archive: archived copies of deleted files are read as if the files were in their places.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::{fs, path::PathBuf};

use subscope_collect::{archive::Archive, fault};
use subscope_hub::{
    ListQuery, SessionQueries,
    index::{IndexOptions, forget, index},
};
use subscope_model::{PriceTable, SessionId};
use subscope_session::Limits;
use subscope_store::{Access, SqliteStore, TextIndex};
use subscope_testkit::{
    fixtures::recording,
    sessions::{LATER, Telling, parts_of, tree},
};

/// A folder with a session's files, and an empty store.
fn place() -> (tempfile::TempDir, IndexOptions, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("projects/-home-user-shop");
    for path in recording("2.1.330", "c-nested").conversation() {
        let below =
            path.to_string_lossy().split_once("-home-user-shop/").map(|(_, below)| PathBuf::from(below));
        let to = project.join(below.unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&path, to).unwrap();
    }
    let options = IndexOptions {
        roots: vec![folder.path().join("projects")],
        prices: PriceTable::default(),
        limits: Limits::default(),
        now_ms: LATER,
        workers: None,
        archive: Archive::new(folder.path().join("data/archive")),
        archives: true,
        keep_ms: None,
    };
    let store = SqliteStore::open(&folder.path().join("data"), Access::Write, "1", 1).unwrap();
    (folder, options, store)
}

/// Number of agents, and of calls, of the only session.
fn figures(store: &SqliteStore) -> Option<(u32, u32)> {
    let rows = store.list(&ListQuery::first(2)).unwrap();
    assert!(rows.len() < 2);
    rows.first().map(|row| (row.agents, row.tool_calls))
}

#[test]
fn a_session_that_came_and_went_while_no_index_ran_is_taken_from_the_archive() {
    let expected = tree(&parts_of(&recording("2.1.330", "c-nested"), &[Telling::Transcript]));
    let expected = Some((expected.summary.agents, expected.summary.tool_calls));
    let (folder, options, mut store) = place();
    // As a hub that tails it does.
    for path in fs_walk(folder.path().join("projects")) {
        options.archive.take(&path.canonicalize().unwrap()).unwrap();
    }
    fs::remove_dir_all(folder.path().join("projects/-home-user-shop")).unwrap();
    index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(figures(&store), expected);
    let report = index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.sessions, figures(&store)), (0, expected), "once is enough");
}

#[test]
fn a_session_of_which_one_file_is_left_is_whole_with_what_the_archive_has() {
    let (folder, options, mut store) = place();
    index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let before = figures(&store);
    let mains = fs_walk(folder.path().join("projects"));
    let main = mains.iter().find(|path| !path.to_string_lossy().contains("subagents")).unwrap();
    fs::remove_file(main).unwrap();
    drop(store);
    let mut store = SqliteStore::open(&folder.path().join("data"), Access::Write, "2", 1).unwrap();
    let report = index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.sessions, figures(&store)), (1, before), "made anew by other rules");
    // Without the archived file its facts are those that are stored.
    options
        .archive
        .remove(&main.parent().unwrap().canonicalize().unwrap().join(main.file_name().unwrap()))
        .unwrap();
    drop(store);
    let mut store = SqliteStore::open(&folder.path().join("data"), Access::Write, "3", 1).unwrap();
    let report = index(&mut store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.sessions, figures(&store)), (1, before));
}

/// All files below a folder.
fn fs_walk(folder: PathBuf) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { fs_walk(path) } else { vec![path] }).collect()
}

/// A session's archived file whose name says nothing must not outlive the session because it could not be read.
#[test]
fn forgetting_says_which_archived_file_it_could_not_read() {
    let (folder, options, mut store) = place();
    let main = folder.path().join("projects/-home-user-shop");
    let data = folder.path().join("data");
    let nameless = main.join("backup-of-a-session.jsonl");
    let named =
        fs_walk(main).into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    fs::copy(&named, &nameless).unwrap();
    options.archive.take(&nameless.canonicalize().unwrap()).unwrap();
    let [(_, session)] = options.archive.originals().unwrap().known.try_into().unwrap();
    let mut texts = TextIndex::open(&data, Access::Write).unwrap();
    let sessions = [SessionId::from(session.as_str())];
    let mut failed = 0;
    for looks in 0..50 {
        fault::fail_after(looks, 1);
        let outcome = forget(&mut store, &mut texts, &options.archive, &sessions);
        let has_failed = fault::end();
        let left = options.archive.originals().unwrap().known.len();
        assert_eq!(outcome.is_ok(), left == 0, "at look {looks}: {outcome:?}");
        failed += u32::from(outcome.is_err());
        if !has_failed {
            break;
        }
        options.archive.take(&nameless.canonicalize().unwrap()).unwrap();
    }
    assert!(failed > 0);
}
