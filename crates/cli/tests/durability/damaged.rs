//! A damaged store: every command says how to repair it, and the repair keeps what the file still holds.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use rusqlite::Connection;
use serde_json::Value;
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
        assert_eq!(run(&env, "doctor", &[]).code, Some(0), "{damage:?}");
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
