//! Content of a store, read while another process writes it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde_json::{Value, json};
use subscope_model::StatsQuery;
use subscope_store::{Access, ListQuery, SessionQueries, SqliteStore, TextIndex, TextQuery};
use subscope_testkit::env::TestEnv;

/// The folder for data.
pub(crate) fn data(env: &TestEnv) -> PathBuf {
    env.path("data/subscope")
}

/// Checks the databases of a folder as a killed process left them. It checks copies, since opening a database recovers
/// it: that is left to the next process.
pub(crate) fn is_whole(folder: &Path) {
    let copies = tempfile::tempdir().unwrap();
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        // Shared duplicates are reassigned when the session that owned them is gone.
        if path.to_string_lossy().contains(".db") && !path.to_string_lossy().ends_with("-shm") {
            fs::copy(&path, copies.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    for entry in fs::read_dir(copies.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "db") {
            continue;
        }
        let db = Connection::open(&path).unwrap();
        let told: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(told, "ok", "{}", path.display());
    }
}

/// Everything that an index produces: rows, statistics, indexed files, and search results. Independent of the path of
/// the environment.
pub(crate) fn indexed(env: &TestEnv, words: &[&str]) -> Value {
    let store = SqliteStore::open(&data(env), Access::Read, "", 0).unwrap();
    let mut rows = store.list(&ListQuery::first(10_000)).unwrap();
    // When they were kept is the machine's business.
    rows.iter_mut().for_each(|row| row.kept_at_ms = None);
    let mut trees: Vec<_> = rows.iter().map(|row| store.tree(&row.id).unwrap().unwrap()).collect();
    // The rev of a row depends on the order of commits, not on its content.
    for tree in &mut trees {
        tree.session.rev = None;
        tree.agents.iter_mut().for_each(|row| row.rev = None);
    }
    let mut files: Vec<_> = store
        .sources()
        .unwrap()
        .into_iter()
        .map(|source| json!([source.path, source.session, source.identity.bytes]))
        .collect();
    files.sort_by_key(Value::to_string);
    let texts = TextIndex::open(&data(env), Access::Read).unwrap();
    let mut read: Vec<_> =
        texts.files().unwrap().into_iter().map(|(path, identity)| json!([path, identity.bytes])).collect();
    read.sort_by_key(Value::to_string);
    let found: BTreeMap<_, _> = words
        .iter()
        .map(|word| {
            let query = TextQuery { words: vec![(*word).to_owned()], limit: 10_000, ..TextQuery::default() };
            // Their times are left out: where a second is full, the next entry goes to a second with room, and which is
            // the next depends on the order of writing.
            let mut hits: Vec<_> = texts
                .find(&query)
                .unwrap()
                .iter()
                .map(|hit| {
                    format!("{} {} {:?} {:?} {:?}", hit.session, hit.agent, hit.kind, hit.path, hit.span)
                })
                .collect();
            hits.sort();
            (*word, hits)
        })
        .collect();
    let all = json!({
        "rows": rows, "trees": trees, "stats": store.stats(&StatsQuery::default()).unwrap(), "files": files, "read": read, "found": found,
    });
    serde_json::from_str(&all.to_string().replace(&*env.root().to_string_lossy(), "[ROOT]")).unwrap()
}

/// The first place where two values differ, and how: all of both would be pages.
pub(crate) fn difference(one: &Value, other: &Value) -> Option<String> {
    let children = |value: &Value| -> BTreeMap<String, Value> {
        let fields = value.as_object().into_iter().flatten();
        let items = value.as_array().into_iter().flatten().enumerate();
        fields
            .map(|(key, value)| (key.clone(), value.clone()))
            .chain(items.map(|(at, value)| (format!("{at:06}"), value.clone())))
            .collect()
    };
    if one == other {
        return None;
    }
    let (ones, others) = (children(one), children(other));
    let inner = ones.keys().chain(others.keys()).find(|key| ones.get(*key) != others.get(*key));
    let Some(key) = inner else { return Some(format!(": {one} is not {other}")) };
    let (null, at) = (Value::Null, key.clone());
    let below = difference(ones.get(key).unwrap_or(&null), others.get(key).unwrap_or(&null));
    Some(format!("/{at}{}", below.unwrap_or_default()))
}
