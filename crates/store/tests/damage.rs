//! Damage of a store: what its pages or its backup still hold comes back, of any version of the schema, and no bit that
//! flips in a row changes a figure without a word.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rusqlite::Connection;
use subscope_model::{Event, Looks, SessionId, SessionKeys, SessionRow, Stats, StatsQuery, Tree};
use subscope_store::{
    Access, Commit, DuplicateScan, FileIdentity, History, Ledger, ListQuery, ReceivedInput, SessionPart,
    SessionQueries, SetAside, SharedHistory, SourceFile, SqliteStore, StoredSessionKeys,
};
use subscope_testkit::{
    fixtures::recording,
    random::Random,
    sessions::{Telling, parts_of, tree},
};

const SCENARIOS: [&str; 5] = ["a-single", "b-parallel", "c-nested", "k-big", "e-sigint"];
const SECRET: &str = "pelican of session 0";

/// The trees of the sessions.
fn trees() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let read = |scenario| tree(&parts_of(&recording("2.1.330", scenario), &[Telling::Transcript]));
    TREES.get_or_init(|| SCENARIOS.map(read).into())
}

fn id(at: usize) -> SessionId {
    trees()[at].session.id.clone()
}

fn open(folder: &Path, access: Access) -> SqliteStore {
    SqliteStore::open(folder, access, "1", 1).unwrap()
}

fn event(session: &SessionId, number: usize) -> Event {
    let json = format!(
        r#"{{"schema":"subscope.event/1","id":"e{number}","seq":0,"at_ms":5,"session_id":"{session}","run":0,"actor_id":"agent:root","basis":"link","source":"x","kind":"heartbeat","data":{{}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

/// Fills a store: five sessions, of which the second has duplicates of the first, the third lost its transcript and the
/// fourth is forgotten; input of programs, events, files.
fn fill(folder: &Path) {
    let mut store = open(folder, Access::Write);
    for (at, tree) in trees().iter().enumerate() {
        let session = tree.session.id.clone();
        let rev = store.reserve_revs(1).unwrap();
        let mut tree = tree.clone();
        tree.stamp(rev);
        let keys = SessionKeys {
            session: session.clone(),
            began_ms: Some(at as i64),
            first_keys: vec![at as u64],
            keys: vec![at as u64, 100, 200 + at as u64],
        };
        store
            .commit(&Commit {
                trees: vec![tree],
                events: (0..20).map(|number| event(&session, at * 100 + number)).collect(),
                sources: vec![SourceFile {
                    path: format!("/p/{session}.jsonl").into(),
                    session: session.clone(),
                    identity: FileIdentity { inode: 7, bytes: 9, modified_ns: 11 },
                }],
                session_keys: vec![StoredSessionKeys { keys, replaces: true }],
                at_ms: 1_000 + at as i64,
                ..Commit::default()
            })
            .unwrap();
        let received = (0..30).map(|number| ReceivedInput {
            source: "hooks".into(),
            session: Some(session.to_string()),
            dialect: "x".into(),
            key: format!("{at}-{number}"),
            received_ms: 3,
            body: format!("{{\"pelican of session {at}\":{number}, \"{}\":0}}\n", "long ".repeat(number * 9))
                .into_bytes(),
            parts: Vec::new(),
            sessions: vec![session.clone()],
        });
        store.commit(&Commit { received: received.collect(), ..Commit::default() }).unwrap();
        if at < 2 {
            store.dismiss(&session, &["a1 silent 5".into(), "a2 plan".into()], 60).unwrap();
        }
    }
    store.mark_seen(50).unwrap();
    store.mark_seen(70).unwrap();
    // A delivery about two sessions.
    let parts = [0, 1].map(|at| SessionPart {
        session: id(at),
        line: 1 + at as u64,
        offset: 9 * at as u64,
        body: format!("part {at}\n").into_bytes(),
    });
    let both = ReceivedInput {
        source: "posts".into(),
        session: None,
        dialect: "x".into(),
        key: "both".into(),
        received_ms: 3,
        body: Vec::new(),
        parts: parts.into(),
        sessions: vec![id(0), id(1)],
    };
    store.commit(&Commit { received: vec![both], ..Commit::default() }).unwrap();
    let shared = vec![SharedHistory { later: id(1), earlier: id(0), shared: 1 }];
    let scan = DuplicateScan { sessions: vec![id(0), id(1)], shared };
    store.commit(&Commit { duplicate_scan: Some(scan), frozen: vec![id(2)], ..Commit::default() }).unwrap();
    store.forget(&[id(3)]).unwrap();
}

/// All that a store knows.
#[derive(Debug, PartialEq)]
struct Known {
    rows: Vec<SessionRow>,
    stats: Stats,
    trees: Vec<Option<Tree>>,
    sources: Vec<SourceFile>,
    shared: Vec<SharedHistory>,
    keys: Vec<Option<SessionKeys>>,
    received: Vec<Vec<ReceivedInput>>,
    events: Vec<Vec<Event>>,
    forgotten: Vec<SessionId>,
    looks: Looks,
    /// Not due although nothing of it is up to date: its transcript is gone.
    is_frozen: Vec<bool>,
}

fn known(folder: &Path) -> Known {
    let store = open(folder, Access::Read);
    let each = || (0..SCENARIOS.len()).map(id);
    let due = SqliteStore::open(folder, Access::Read, "another", 1).unwrap().due_sessions(0).unwrap();
    let mut sources = store.sources().unwrap();
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Known {
        rows: store.list(&ListQuery::first(100)).unwrap(),
        stats: store.stats(&StatsQuery::default()).unwrap(),
        trees: each().map(|id| store.tree(&id).unwrap()).collect(),
        sources,
        shared: store.shared_history().unwrap(),
        keys: each().map(|id| store.session_keys(&id).unwrap()).collect(),
        received: each().map(|id| store.received_of(&id).unwrap()).collect(),
        events: each().map(|id| store.events_after(0, Some(&id), 100).unwrap().unwrap()).collect(),
        forgotten: store.forgotten_sessions().unwrap(),
        looks: store.looks().unwrap(),
        is_frozen: each().map(|id| !due.contains(&id)).collect(),
    }
}

/// Takes a store back to an older version of the schema.
fn downgrade(folder: &Path, version: i64) {
    let db = Connection::open(folder.join("store.db")).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE sql LIKE '%sum BLOB%'";
    let tables: Vec<String> =
        db.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(tables.len(), 17);
    db.execute_batch(
        "UPDATE sessions SET row = json_remove(row, '$.tool_errors', '$.tools_denied'), sum = NULL WHERE json_valid(row)",
    )
    .unwrap();
    if version < 7 {
        db.execute_batch("DROP TABLE top_agents").unwrap();
    }
    if version < 6 {
        db.execute_batch("DROP TABLE looks").unwrap();
    }
    if version < 5 {
        db.execute_batch("DROP TABLE quarters; CREATE TABLE days(session_no INTEGER NOT NULL)").unwrap();
    }
    if version < 4 {
        db.execute_batch("DROP TABLE facts").unwrap();
        for table in tables
            .iter()
            .filter(|table| !["facts", "looks", "quarters", "top_agents"].contains(&table.as_str()))
        {
            db.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN sum")).unwrap();
        }
    }
    if version < 3 {
        db.execute_batch("DROP INDEX sessions_rev; ALTER TABLE sessions DROP COLUMN rev").unwrap();
    }
    if version < 2 {
        db.execute_batch("DROP TABLE at_work; DROP TABLE slow_calls").unwrap();
    }
    db.pragma_update(None, "user_version", version).unwrap();
}

/// Damages a closed store; the pages of its tables stay readable.
fn spoil(folder: &Path, how: &str) {
    let path = folder.join("store.db");
    let db = Connection::open(&path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let page: usize = db.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0)).unwrap() as usize;
    let root = |name: &str| -> usize {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        db.query_row(sql, [name], |row| row.get::<_, i64>(0)).unwrap() as usize
    };
    let roots = [root("sources_session"), root("sessions_newest"), root("sessions_kept")];
    drop(db);
    let mut bytes = fs::read(&path).unwrap();
    match how {
        "header" => bytes[16..100].fill(0),
        "first page" => bytes[..page].fill(0xa5),
        "index page" => bytes[roots[0] * page - 40..roots[0] * page - 32].fill(0xff),
        "index pages" => roots.iter().for_each(|root| bytes[(root - 1) * page..root * page].fill(0)),
        _ => unreachable!(),
    }
    fs::write(&path, bytes).unwrap();
}

#[test]
fn repair_keeps_all_that_the_pages_hold_at_any_version_of_the_schema() {
    for version in [8, 7, 6, 5, 4, 3, 2, 1] {
        for how in ["header", "first page", "index page", "index pages"] {
            let folder = tempfile::tempdir().unwrap();
            fill(folder.path());
            let mut before = known(folder.path());
            assert_eq!((before.looks.seen_until_ms, before.looks.dismissed.len()), (Some(70), 2));
            assert_eq!((before.rows.len(), before.shared.len(), before.sources.len()), (4, 1, 5));
            assert_eq!(before.is_frozen, [false, false, true, true, false]);
            assert!(before.rows.iter().all(|row| row.kept_at_ms.is_some()));
            if version < 6 {
                before.looks = Looks::default();
            }
            if version < 8 {
                downgrade(folder.path(), version);
            }
            spoil(folder.path(), how);
            assert!(SqliteStore::find_damage(folder.path()).unwrap().is_some(), "{version} {how}");
            let repaired = SqliteStore::repair(folder.path(), 5).unwrap();
            assert_eq!((repaired.sessions, repaired.deliveries), (4, 151), "{version} {how}");
            assert_eq!(SqliteStore::find_damage(folder.path()).unwrap(), None, "{version} {how}");
            let after = known(folder.path());
            assert_eq!(after, before, "{version} {how}");
        }
    }
}

#[test]
fn an_older_store_is_read_and_brought_up_to_date() {
    for version in [7, 6, 5, 4, 3, 2, 1] {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let mut before = known(folder.path());
        if version < 6 {
            before.looks = Looks::default();
        }
        downgrade(folder.path(), version);
        if version > 1 {
            // Its rows do not count failed and denied calls.
            let mut read = known(folder.path());
            for (row, full) in read.rows.iter_mut().zip(&before.rows) {
                assert_eq!((row.tool_errors, row.tools_denied), (None, None), "{version}");
                (row.tool_errors, row.tools_denied) = (full.tool_errors, full.tools_denied);
            }
            assert_eq!(read, before, "{version}: only read");
        } else {
            // Only statistics need what it lacks.
            let store = open(folder.path(), Access::Read);
            assert_eq!(store.tree(&id(0)).unwrap(), before.trees[0]);
        }
        drop(open(folder.path(), Access::Write));
        assert_eq!(known(folder.path()), before, "{version}");
        assert_eq!(SqliteStore::find_damage(folder.path()).unwrap(), None, "{version}");
    }
}

/// What a reader is shown of a store; `None` if a command would fail with the damage named.
/// How often to damage a store: as often as `SUBSCOPE_CASES` says.
fn cases(usual: u32) -> u32 {
    std::env::var("SUBSCOPE_CASES").map_or(usual, |cases| cases.parse().unwrap())
}

fn shown(folder: &Path) -> Option<(Vec<SessionRow>, Stats, Vec<Option<Tree>>)> {
    let store = SqliteStore::open(folder, Access::Read, "1", 1).ok()?;
    let trees: Result<_, _> = (0..SCENARIOS.len()).map(|at| store.tree(&id(at))).collect();
    Some((store.list(&ListQuery::first(100)).ok()?, store.stats(&StatsQuery::default()).ok()?, trees.ok()?))
}

#[test]
fn no_flipped_bit_is_shown_as_a_figure_while_the_store_counts_as_intact() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let db = Connection::open(folder.path().join("store.db")).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    let intact = fs::read(folder.path().join("store.db")).unwrap();
    let truth = shown(folder.path()).unwrap();
    let mut random = Random::new(37);
    let (mut seen, mut told) = (0, 0);
    for round in 0..cases(400) {
        let copy = tempfile::tempdir().unwrap();
        let mut bytes = intact.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(copy.path().join("store.db"), bytes).unwrap();
        let found = SqliteStore::find_damage(copy.path());
        let is_told = !matches!(found, Ok(None));
        let now = shown(copy.path());
        let is_same = now.as_ref() == Some(&truth);
        told += usize::from(is_told);
        seen += usize::from(!is_same);
        assert!(is_told || is_same, "round {round}, byte {at}: {found:?}");
        // A row that reads as another one, or as none, is named where it is shown.
        if let Some((rows, stats, _)) = now {
            let lost = truth.0.iter().filter(|row| !rows.iter().any(|other| other.id == row.id));
            assert!(lost.count() == 0 || is_told, "round {round}, byte {at}");
            assert!(stats == truth.1 || !stats.problems.is_empty() || is_told, "round {round}, byte {at}");
        }
    }
    assert!(told > 100 && seen > 10, "{told} {seen}");
}

#[test]
fn a_row_of_any_bytes_is_a_problem_and_no_other_row_changes() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let truth = open(folder.path(), Access::Read).list(&ListQuery::first(100)).unwrap();
    let stats = open(folder.path(), Access::Read).stats(&StatsQuery::default()).unwrap();
    let mut random = Random::new(5);
    let db = Connection::open(folder.path().join("store.db")).unwrap();
    let row: String =
        db.query_row("SELECT row FROM sessions WHERE id = ?1", [id(0).as_str()], |row| row.get(0)).unwrap();
    for round in 0..cases(200) {
        let mut bytes = row.clone().into_bytes();
        match random.below(4) {
            0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
            1 => bytes = (0..random.below(300)).map(|_| random.below(256) as u8).collect(),
            2 => bytes = b"{\"id\":[[[[".repeat(random.below(2_000) as usize + 1),
            _ => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
        let sql = "UPDATE sessions SET row = CAST(?1 AS TEXT) WHERE id = ?2";
        db.execute(sql, rusqlite::params![bytes, id(0).as_str()]).unwrap();
        let store = open(folder.path(), Access::Read);
        let mut rows = store.list(&ListQuery::first(100)).unwrap();
        let own = rows.iter_mut().find(|row| row.id == id(0)).unwrap();
        assert!(own.problem.take().is_some(), "round {round}");
        assert_eq!(rows, truth, "round {round}: the row is made from the tree");
        let mut sums = store.stats(&StatsQuery::default()).unwrap();
        assert!(!std::mem::take(&mut sums.problems).is_empty());
        assert_eq!(sums, stats, "round {round}");
        assert_eq!(
            store.damaged_sessions().unwrap(),
            subscope_store::DamagedSessions::Some(vec![id(0)]),
            "round {round}"
        );
        assert!(SqliteStore::find_damage(folder.path()).unwrap().is_some());
    }
    db.execute("UPDATE trees SET body = x'00'", []).unwrap();
    let store = open(folder.path(), Access::Read);
    let rows = store.list(&ListQuery::first(100)).unwrap();
    assert_eq!(rows.len(), truth.len());
    assert!(rows.iter().find(|row| row.id == id(0)).unwrap().problem.is_some());
    assert_eq!(store.stats(&StatsQuery::default()).unwrap().problems.len(), 1 + truth.len());
}

#[test]
fn damaged_delivery_is_a_line_that_nothing_decodes() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let db = Connection::open(folder.path().join("store.db")).unwrap();
    db.execute("UPDATE inbox SET body = x'7b7d' WHERE key = '0-4'", []).unwrap();
    let store = open(folder.path(), Access::Read);
    let received = store.received_of(&id(0)).unwrap();
    assert_eq!((received.len(), received[4].source.as_str()), (31, "store.db, delivery 5"));
    assert_eq!(store.received_of(&id(1)).unwrap().len(), 31);
}

#[test]
fn backup_gives_back_what_the_pages_have_lost_and_forgets_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let before = known(folder.path());
    let backup = folder.path().join("backup/store.db");
    let location = open(folder.path(), Access::Read).location().clone();
    let made_ms = 1_700_000_000_000;
    assert!(location.back_up(made_ms).unwrap());
    assert!(!location.back_up(made_ms).unwrap(), "it has just been made");
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(backup.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    for lost in [&b""[..], &[0xa5; 20_000]] {
        fs::write(folder.path().join("store.db"), lost).unwrap();
        assert!(SqliteStore::find_damage(folder.path()).unwrap().is_some());
        SqliteStore::repair(folder.path(), 5).unwrap();
        assert_eq!(known(folder.path()), before);
    }
    let has_secret = || {
        let files = walk(folder.path());
        let has = |file: &PathBuf| fs::read(file).unwrap().windows(20).any(|it| it == SECRET.as_bytes());
        files.into_iter().filter(has).collect::<Vec<_>>()
    };
    assert!(has_secret().len() >= 2);
    open(folder.path(), Access::Write).forget(&[id(0)]).unwrap();
    assert_eq!(has_secret(), Vec::<PathBuf>::new());
    assert!(SetAside::before(folder.path(), u64::MAX).unwrap().is_empty());
    // Other sessions are still in it.
    fs::write(folder.path().join("store.db"), "").unwrap();
    SqliteStore::repair(folder.path(), 9).unwrap();
    let after = known(folder.path());
    assert_eq!((after.rows.len(), after.received[1].len(), after.received[0].len()), (3, 31, 0));
    assert!(after.forgotten.contains(&id(0)));
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_damaged_store_does_not_replace_its_backup() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let location = open(folder.path(), Access::Read).location().clone();
    let db = Connection::open(folder.path().join("store.db")).unwrap();
    db.execute("UPDATE quarters SET cost = cost + 1", []).unwrap();
    assert!(!location.back_up(1_700_000_000_000).unwrap());
    assert!(!folder.path().join("backup").exists());
}
