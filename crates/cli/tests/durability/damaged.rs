//! A damaged store: every command says how to repair it, and the repair keeps what the file still holds.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde_json::Value;
use subscope_store::{Access, Commit, Ledger, ReceivedInput, SqliteStore};
use subscope_testkit::{
    env::TestEnv,
    fixtures::{bytes, recording},
    random::Random,
};

use crate::{
    common::{env, json, run, run_with_stdin},
    kept::data,
};

/// What happened to a database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Half,
    Header,
    Garbage,
    Empty,
    LogDeleted,
    /// Some pages in the middle.
    Pages,
}

impl Damage {
    fn apply(self, file: &Path) {
        let mut random = Random::new(7);
        let mut noise = |count: usize| -> Vec<u8> { (0..count).map(|_| random.below(256) as u8).collect() };
        let length = fs::metadata(file).unwrap().len();
        let mut open = File::options().write(true).open(file).unwrap();
        match self {
            Self::Half => open.set_len(length / 2).unwrap(),
            Self::Header => open.write_all(&noise(100)).unwrap(),
            Self::Garbage => open.write_all(&noise(usize::try_from(length).unwrap())).unwrap(),
            Self::Empty => open.set_len(0).unwrap(),
            Self::LogDeleted => fs::remove_file(file.with_extension("db-wal")).unwrap_or_default(),
            Self::Pages => {
                open.seek(SeekFrom::Start(4096 * 2)).unwrap();
                open.write_all(&noise(4096 * 3)).unwrap();
            }
        }
    }
}

/// The sessions with their counts, without what the time of a commit changes.
fn sessions(env: &TestEnv) -> Vec<(String, Value, Value, Value)> {
    let page = json(&run(env, "ls --json -n 100", &[]).success());
    let rows = page["sessions"].as_array().unwrap().iter();
    let mut all: Vec<_> = rows
        .map(|row| {
            let id = row["id"].as_str().unwrap().to_owned();
            (id, row["agents"].clone(), row["tool_calls"].clone(), row["usage"].clone())
        })
        .collect();
    all.sort_by_key(|(id, ..)| id.clone());
    all
}

/// The number of deliveries in the inbox of the store.
fn deliveries(env: &TestEnv) -> i64 {
    let db = Connection::open(data(env).join("store.db")).unwrap();
    db.query_row("SELECT count(*) FROM inbox WHERE length(body) > 0", [], |row| row.get(0)).unwrap()
}

/// A store of transcripts, input of programs, a session whose transcript is gone, and a forgotten one.
fn filled() -> TestEnv {
    let env = env();
    let of = |scenario: &str| recording("2.1.330", scenario);
    let (gone, forgotten, stays) = (of("a-single"), of("e-tool-failures"), of("k-big"));
    env.adopt(&gone);
    env.adopt(&forgotten);
    run(&env, "index", &[]).success();
    fs::remove_dir_all(env.home().join(".claude/projects")).unwrap();
    env.adopt(&forgotten);
    env.adopt(&stays);
    run(&env, &format!("forget {}", forgotten.truth().session.id), &[]).success();
    let stream = bytes(&of("b-parallel").streams()[0]);
    run_with_stdin(&env, "import -", &[], &stream).success();
    for number in (0..200).step_by(20) {
        let event = format!(
            r#"{{"subagentName":"scout","subagentRunId":"run-{number}","sessionId":"posted-{}","timestamp":{number},"type":"subagent_start","payload":"{}"}}"#,
            number % 7,
            "look ".repeat(number * 10)
        );
        run_with_stdin(&env, "import -", &[], event.as_bytes()).success();
    }
    env
}

/// Copies a data folder into another environment at the same place.
fn restore(env: &TestEnv, saved: &Path) {
    let folder = data(env);
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(saved).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn damaged_store_is_repaired_with_all_that_the_file_still_holds() {
    let env = filled();
    let forgotten = recording("2.1.330", "e-tool-failures").truth().session.id;
    let (before, kept) = (sessions(&env), deliveries(&env));
    let saved = env.path("saved");
    fs::rename(data(&env), &saved).unwrap();
    fs::create_dir(data(&env)).unwrap();
    let transcripts =
        before.iter().filter(|(id, ..)| *id == *recording("2.1.330", "k-big").truth().session.id);
    let transcripts: Vec<_> = transcripts.cloned().collect();
    assert_eq!((transcripts.len(), before.len()), (1, 10), "{before:?}");
    for damage in
        [Damage::Half, Damage::Header, Damage::Garbage, Damage::Empty, Damage::LogDeleted, Damage::Pages]
    {
        restore(&env, &saved);
        damage.apply(&data(&env).join("store.db"));
        let doctor = run(&env, "doctor", &[]);
        let has_all = |after: &[_], what: &[_]| what.iter().all(|row| after.contains(row));
        if matches!(damage, Damage::Empty | Damage::LogDeleted) {
            // An empty file is a new store; all commits are in the file where the writer has left.
            assert_eq!(doctor.code, Some(0), "{damage:?}: {}", doctor.stdout);
            let expected = if damage == Damage::Empty { &transcripts } else { &before };
            let after = sessions(&env);
            assert!(has_all(&after, expected), "{damage:?}: {after:?}");
            assert_eq!(run(&env, "doctor --repair", &[]).success(), "nothing is damaged\n");
            continue;
        }
        assert_eq!(doctor.code, Some(1), "{damage:?}: {}", doctor.stdout);
        assert!(doctor.stdout.contains("doctor --repair"), "{damage:?}: {}", doctor.stdout);
        for command in ["ls", "stats", "show x", "search shop", "index", "tree last"] {
            let ran = run(&env, command, &[]);
            assert_eq!(ran.code, Some(1), "{damage:?} {command}: {}", ran.stdout);
            assert!(
                ran.stderr.contains("`subscope doctor --repair`"),
                "{damage:?} {command}: {}",
                ran.stderr
            );
        }
        let repaired = run(&env, "doctor --repair", &[]).success();
        assert!(repaired.contains("the store was damaged"), "{damage:?}: {repaired}");
        let after = sessions(&env);
        assert!(has_all(&after, &transcripts), "{damage:?}: {after:?}");
        assert!(after.iter().all(|row| *row.0 != *forgotten), "{damage:?}: {after:?}");
        if damage == Damage::Half {
            // Which pages were in the lost half is chance.
            let known = |id: &str| before.iter().any(|row| row.0 == id);
            assert!(after.iter().all(|row| known(&row.0)) && deliveries(&env) > 0, "{damage:?}: {after:?}");
        }
        if damage == Damage::Header {
            assert_eq!((&after, deliveries(&env)), (&before, kept));
        }
        let doctor = run(&env, "doctor", &[]);
        assert_eq!(doctor.code, Some(0), "{damage:?}: {}", doctor.stdout);
        assert_eq!(run(&env, "search shop", &[]).code, Some(0), "{damage:?}");
    }
}

#[test]
fn damaged_search_database_is_remade_by_itself() {
    let env = env();
    env.adopt(&recording("2.1.330", "k-big"));
    let hits = |words: &str| {
        let answer = json(&run(&env, &format!("search {words} --json -n 1000"), &[]).success());
        answer["hits"].as_array().unwrap().len()
    };
    let before = hits("rounding");
    assert!(before > 0);
    for damage in
        [Damage::Half, Damage::Header, Damage::Garbage, Damage::Empty, Damage::LogDeleted, Damage::Pages]
    {
        damage.apply(&data(&env).join("search.db"));
        assert_eq!(run(&env, "ls", &[]).code, Some(0), "{damage:?}");
        // The command that finds the damage may say so; the next one has all.
        run(&env, "search rounding", &[]);
        assert_eq!(hits("rounding"), before, "{damage:?}");
    }
}

/// What commands say of a store: lists, figures, trees, hits and the content of each session.
fn figures(env: &TestEnv) -> Vec<String> {
    let mut all: Vec<String> = ["ls --json -n 100", "stats --json", "search the --json -n 1000"]
        .iter()
        .map(|words| run(env, words, &[]).success())
        .collect();
    for (id, ..) in sessions(env) {
        for words in [format!("tree {id} --json"), format!("export {id} --as feed")] {
            let ran = run(env, &words, &[]);
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words}");
            all.push(without_revs(&ran.stdout));
        }
    }
    all
}

/// Figures without the time at which the store saved a row that had been damaged.
fn without_kept(mut figures: Vec<String>) -> Vec<String> {
    let mut list: Value = json(&figures[0]);
    for row in list["sessions"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("kept_at_ms");
    }
    figures[0] = list.to_string();
    figures
}

/// A document without the revisions of its rows, which a rebuild changes.
fn without_revs(json: &str) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(json) else { return json.to_owned() };
    let rows = document["agents"].as_array_mut().into_iter().flatten();
    rows.for_each(|row| drop(row.as_object_mut().and_then(|row| row.remove("rev"))));
    if let Some(session) = document["session"].as_object_mut() {
        session.remove("rev");
    }
    document.to_string()
}

/// Overwrites a page of a closed database: that of a table or of an index.
fn spoil_page(file: &Path, name: &str, with: u8) {
    let db = Connection::open(file).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let page: u64 = db.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u64 = db.query_row(sql, [name], |row| row.get::<_, i64>(0)).unwrap() as u64;
    drop(db);
    let mut open = File::options().write(true).open(file).unwrap();
    open.seek(SeekFrom::Start((root - 1) * page)).unwrap();
    open.write_all(&vec![with; usize::try_from(page).unwrap()]).unwrap();
}

#[test]
fn repair_changes_no_figure_of_archived_sessions_and_forget_leaves_nothing_of_them() {
    let env = env();
    let gone = ["a-single", "e-tool-failures"].map(|scenario| recording("2.1.330", scenario));
    let stays = ["k-big", "b-parallel"].map(|scenario| recording("2.1.330", scenario));
    run(&env, "config set store.archive true", &[]).success();
    for recording in gone.iter().chain(&stays) {
        env.adopt(recording);
    }
    run(&env, "index", &[]).success();
    fs::remove_dir_all(env.home().join(".claude/projects")).unwrap();
    stays.iter().for_each(|recording| env.adopt(recording));
    run(&env, "index", &[]).success();
    let (before, store) = (figures(&env), data(&env).join("store.db"));
    assert_eq!(before.len(), 3 + 2 * 4);
    let spoiled: [(&str, &dyn Fn()); 5] = [
        ("header", &|| {
            let mut open = File::options().write(true).open(&store).unwrap();
            open.seek(SeekFrom::Start(16)).unwrap();
            open.write_all(&[0; 84]).unwrap();
        }),
        ("an index", &|| spoil_page(&store, "sources_session", 0)),
        ("another index", &|| spoil_page(&store, "sessions_newest", 0xff)),
        // What it has is derived again: the archive knows whose its files are.
        ("the sources", &|| spoil_page(&store, "sources", 0)),
        ("rows", &|| {
            let db = Connection::open(&store).unwrap();
            db.execute_batch("UPDATE sessions SET row = replace(row, 'tool_calls', '#ool_calls')").unwrap();
            db.execute_batch("UPDATE quarters SET input = input + 64").unwrap();
        }),
    ];
    for (how, spoil) in spoiled {
        spoil();
        assert_eq!(run(&env, "doctor", &[]).code, Some(1), "{how}");
        run(&env, "doctor --repair", &[]).success();
        assert!(figures(&env) == before, "{how}");
        assert_eq!(run(&env, "doctor", &[]).code, Some(0), "{how}");
    }
    // The store does not know the file of one of them any more.
    let db = Connection::open(&store).unwrap();
    db.execute_batch("DELETE FROM sources").unwrap();
    drop(db);
    for recording in &gone {
        run(&env, &format!("forget {}", recording.truth().session.id), &[]).success();
    }
    let ids = gone.map(|recording| recording.truth().session.id);
    let left: Vec<_> = walk(&data(&env))
        .into_iter()
        .filter(|path| ids.iter().any(|id| path.to_string_lossy().contains(id.as_str())))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    let folders = fs::read_dir(data(&env)).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(folders.into_iter().all(|name| !name.to_string_lossy().starts_with("damaged-")));
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn damaged_rows_are_problems_where_they_are_shown_and_derived_again_by_the_next_index() {
    let env = env();
    let (one, other) = (recording("2.1.330", "k-big"), recording("2.1.330", "b-parallel"));
    env.adopt(&one);
    env.adopt(&other);
    run(&env, "index", &[]).success();
    let before = without_kept(figures(&env));
    let store = data(&env).join("store.db");
    let db = Connection::open(&store).unwrap();
    for sql in [
        "UPDATE sessions SET row = replace(row, 'tool_calls', '#ool_calls')",
        "UPDATE sessions SET row = replace(row, 'agents', 'bgents')",
        "UPDATE quarters SET input = input + 64",
        "UPDATE trees SET body = x'28b52ffd00'",
        "UPDATE at_work SET intervals = '[]'",
        "UPDATE holdings SET keys = x'00'",
        "UPDATE sources SET inode = 0",
    ] {
        db.execute_batch(sql).unwrap();
        // Without the transcripts nothing can be derived again.
        let (projects, away) = (env.home().join(".claude/projects"), env.path("away"));
        let doctor = run(&env, "doctor", &[]);
        assert!(doctor.stdout.contains("rows that are not as they were written"), "{sql}: {}", doctor.stdout);
        if ["UPDATE sessions", "UPDATE quarters", "UPDATE at_work"].iter().any(|table| sql.starts_with(table))
        {
            fs::rename(&projects, &away).unwrap();
            let shown = [run(&env, "ls", &[]), run(&env, "stats", &[])];
            let warnings: String = shown.iter().map(|ran| ran.stderr.as_str()).collect();
            assert!(warnings.contains("warning: "), "{sql}: {warnings}");
            fs::rename(&away, &projects).unwrap();
        }
        run(&env, "index", &[]).success();
        assert!(without_kept(figures(&env)) == before, "{sql}");
        assert_eq!(run(&env, "doctor", &[]).code, Some(0), "{sql}");
    }
}

#[test]
fn input_that_no_hub_has_derived_is_there_without_one() {
    let env = env();
    run(&env, "index", &[]).success();
    let mut store = SqliteStore::open(&data(&env), Access::Write, "", 0).unwrap();
    let body = r#"{"subagentName":"scout","subagentRunId":"run-1","sessionId":"posted-1","timestamp":1,"type":"subagent_start","payload":"look"}"#;
    let received = ReceivedInput {
        source: "posts".into(),
        session: Some("posted-1".into()),
        dialect: "subagent-events".into(),
        key: "1".into(),
        received_ms: 1,
        body: format!("{body}\n").into_bytes(),
        parts: Vec::new(),
        sessions: vec!["posted-1".into()],
    };
    store.commit(&Commit { received: vec![received], ..Commit::default() }).unwrap();
    drop(store);
    let tree = json(&run(&env, "tree posted-1 --json", &[]).success());
    assert_eq!(tree["session"]["id"], "posted-1");
    assert!(run(&env, "ls", &[]).success().contains("scout"));
    assert!(run(&env, "export posted-1 --as feed", &[]).success().contains("posted-1"));
    assert!(run(&env, "show posted-1/root", &[]).code == Some(0));
}

#[test]
fn a_session_whose_agents_a_repair_cannot_read_keeps_its_figures_and_says_so() {
    let env = env();
    let gone = recording("2.1.330", "a-single");
    env.adopt(&gone);
    run(&env, "index", &[]).success();
    let before = sessions(&env);
    fs::remove_dir_all(env.home().join(".claude/projects")).unwrap();
    let id = gone.truth().session.id;
    // Without a copy, the damaged page has all that is known of the agents.
    for copy in ["archive", "backup"] {
        fs::remove_dir_all(data(&env).join(copy)).unwrap_or_default();
    }
    spoil_page(&data(&env).join("store.db"), "trees", 0xa5);
    assert_eq!(run(&env, "doctor", &[]).code, Some(1));
    run(&env, "doctor --repair", &[]).success();
    assert_eq!(sessions(&env), before);
    for _ in 0..2 {
        let doctor = run(&env, "doctor", &[]);
        assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
        assert!(
            doctor.stdout.contains(&format!("a repair lost the agents of 1 session: {id}")),
            "{}",
            doctor.stdout
        );
        assert_eq!(run(&env, "doctor --repair", &[]).success(), "nothing is damaged\n");
    }
    for command in ["tree ID", "show ID/root", "export ID --as feed", "replay ID"] {
        let ran = run(&env, &command.replace("ID", &id), &[]);
        assert!(ran.code == Some(1) && ran.stderr.contains("are lost"), "{command}: {}", ran.stderr);
    }
    // Its transcript brings it back.
    env.adopt(&gone);
    run(&env, "index", &[]).success();
    run(&env, &format!("tree {id}"), &[]).success();
    assert!(!run(&env, "doctor", &[]).stdout.contains("lost"));
}
