//! Recordings of the harnesses other than Claude Code, read by the real program and compared with their `truth.json`:
//! all sources merged in every order give the truth, and each source alone gives a part of it without contradiction.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{env, json, run};
use serde_json::Value;
use subscope_testkit::{
    env::TestEnv,
    fixtures,
    others::{OtherRecording, differences, other_recordings},
    strategies::permutations,
};

fn tree(targets: &[PathBuf]) -> Value {
    let paths: Vec<&Path> = targets.iter().map(PathBuf::as_path).collect();
    let ran = run(&env(), "tree --json", &paths);
    assert_eq!(ran.code, Some(0), "{targets:?}: {}", ran.stderr);
    assert_eq!(ran.stderr, "", "{targets:?}");
    json(&ran.stdout)
}

/// What is wrong with the tree of some sources of a recording.
fn mistakes(recording: &OtherRecording, targets: &[PathBuf], is_whole: bool) -> Vec<String> {
    let of = |path: &PathBuf| path.strip_prefix(&recording.folder).unwrap().display().to_string();
    let names: Vec<String> = targets.iter().map(of).collect();
    let place = format!("{} [{}]", recording.folder.display(), names.join(", "));
    let wrong = differences(&tree(targets), &recording.truth, is_whole);
    wrong.into_iter().map(|what| format!("{place}: {what}")).collect()
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn files_of_each_harness_give_the_truth() {
    let on_disk =
        |recording: &OtherRecording| mistakes(recording, std::slice::from_ref(&recording.on_disk), true);
    let wrong: Vec<String> = other_recordings().iter().flat_map(on_disk).collect();
    assert_none(&wrong);
}

#[test]
fn streams_alone_say_less_and_nothing_else() {
    let mut wrong = Vec::new();
    for recording in other_recordings() {
        for stream in &recording.streams {
            wrong.extend(mistakes(&recording, stream, false));
        }
    }
    assert_none(&wrong);
}

#[test]
fn all_sources_give_the_truth_in_every_order() {
    let mut wrong = Vec::new();
    for recording in other_recordings() {
        let sources: Vec<Vec<PathBuf>> =
            [vec![recording.on_disk.clone()]].into_iter().chain(recording.streams.clone()).collect();
        for order in permutations(&sources) {
            wrong.extend(mistakes(&recording, &order.concat(), true));
        }
    }
    assert_none(&wrong);
}

#[test]
fn sessions_of_several_harnesses_are_listed_with_their_harness_and_by_it() {
    let env = env();
    for (below_home, recorded) in [
        (".codex/sessions", "codex/0.169.0/v2_two_parallel/sessions"),
        (".copilot/session-state", "copilot/1.0.102/two_parallel/dot_copilot/session-state"),
    ] {
        let from = fixtures::root().join(recorded);
        for file in fixtures::files_below(&from) {
            let below = file.strip_prefix(&from).unwrap().display().to_string();
            env.write(&format!("home/{below_home}/{below}"), fixtures::bytes(&file));
        }
    }
    env.run(&["index"]).success();
    let listed = |words: &[&str]| {
        let text = env.run(&[&["ls", "--json"], words].concat()).success();
        let page: Value = serde_json::from_str(&text).unwrap();
        let mut names: Vec<String> = page["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["harness"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(listed(&[]), ["codex", "copilot"]);
    assert_eq!(listed(&["--harness", "codex"]), ["codex"]);
    let part = env.run(&["ls", "--json", "--harness", "cod"]);
    assert!(part.code == Some(1) && part.stderr.contains("did you mean codex?"), "{}", part.stderr);
    let lines = env.run(&["ls"]).success();
    let head = lines.lines().next().unwrap();
    assert!(head.contains("harness session"), "{lines}");
    let one = env.run(&["ls", "--harness", "copilot"]).success();
    assert!(!one.contains("harness session") && one.lines().count() == 2, "{one}");
    let none = env.run(&["ls", "--harness", "codx"]);
    assert!(none.stderr.contains("no session is of a harness \"codx\""), "{}", none.stderr);
}

/// A folder of the environment with the files of a recording.
fn copied(env: &TestEnv, recorded: &str, folder: &str) -> PathBuf {
    let from = fixtures::root().join(recorded);
    for file in fixtures::files_below(&from) {
        let below = file.strip_prefix(&from).unwrap().display().to_string();
        env.write(&format!("{folder}/{below}"), fixtures::bytes(&file));
    }
    env.path(folder)
}

fn rollouts(folder: &Path) -> Vec<PathBuf> {
    fixtures::files_below(folder)
        .into_iter()
        .filter(|path| path.to_str().unwrap().contains("rollout-"))
        .collect()
}

#[test]
fn database_of_several_sessions_is_its_newest_root_also_from_its_log_alone() {
    let env = env();
    let folder = env.path("data");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("opencode.db");
    // A writer has it open, and nothing has come from its log to the file.
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let recorded = |scenario: &str| {
        fixtures::root().join("opencode/1.18.33").join(scenario).join("opencode.db").display().to_string()
    };
    for (number, scenario) in ["two_parallel", "nested"].into_iter().enumerate() {
        database.execute("ATTACH ?1 AS old", [format!("file:{}?immutable=1", recorded(scenario))]).unwrap();
        for table in ["session", "event"] {
            let create = format!("CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM old.{table} WHERE 0");
            database.execute(&create, []).unwrap();
            database.execute(&format!("INSERT INTO {table} SELECT * FROM old.{table}"), []).unwrap();
        }
        let later = format!("UPDATE session SET time_updated = {number} WHERE time_updated > 1000");
        database.execute(&later, []).unwrap();
        database.execute("DETACH old", []).unwrap();
    }
    let truth = |scenario: &str| {
        let all = other_recordings();
        all.into_iter().find(|it| it.name() == format!("opencode/1.18.33/{scenario}")).unwrap().truth
    };
    assert_eq!(differences(&tree(std::slice::from_ref(&path)), &truth("nested"), true), [""; 0]);
    let session = truth("two_parallel")["session"]["id"].as_str().unwrap().to_owned();
    assert_eq!(differences(&tree(&[path.join(session)]), &truth("two_parallel"), true), [""; 0]);
}

#[test]
fn call_copied_into_a_fork_starts_no_agent_there() {
    let env = env();
    let from = fixtures::root().join("opencode/1.18.33/two_parallel/opencode.db");
    let path = env.write("data/opencode.db", fixtures::bytes(&from));
    let database = rusqlite::Connection::open(&path).unwrap();
    let root: String =
        database.query_row("SELECT id FROM session WHERE parent_id IS NULL", [], |row| row.get(0)).unwrap();
    let fork = "ses_dffffffffffffffFORKED00000";
    let columns = |table: &str, own: &[(&str, &str)]| {
        let mut all = database.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
        let names: Vec<String> = all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let of = |name: &String| {
            own.iter().find(|(own, _)| own == name).map_or(name.clone(), |(_, it)| (*it).into())
        };
        names.iter().map(of).collect::<Vec<String>>().join(", ")
    };
    let sql = format!(
        "PRAGMA foreign_keys = OFF;
         INSERT INTO session SELECT {} FROM session WHERE id = '{root}';
         INSERT INTO event SELECT {} FROM event WHERE aggregate_id = '{root}'
           AND data NOT LIKE '%\"status\":\"pending\"%' AND data NOT LIKE '%\"status\":\"running\"%' ORDER BY rowid;",
        columns("session", &[("id", &format!("'{fork}'")), ("time_updated", "time_updated + 5000")]),
        columns(
            "event",
            &[
                ("id", "id || 'F'"),
                ("aggregate_id", &format!("'{fork}'")),
                (
                    "data",
                    &format!(
                        "replace(replace(replace(data, '\"sessionID\":\"{root}', '\"sessionID\":\"{fork}'),
                 '\"id\":\"{root}', '\"id\":\"{fork}'), 'msg_', 'msg_f')"
                    )
                ),
            ]
        ),
    );
    database.execute_batch(&sql).unwrap();
    drop(database);
    let forked = tree(&[path]);
    assert_eq!(forked["session"]["id"], fork);
    assert_eq!(forked["summary"]["agents"], 0, "{forked}");
    assert_eq!(forked["agents"][0]["tool_calls"], 3);
}

#[test]
fn agent_whose_next_turn_was_cut_off_is_lost() {
    const AGENT: &str = "01a1ffd4-3801-7973-8291-134e0460ece1";
    for (lines, last) in [(36, "task_started"), (41, "NEW_TASK")] {
        let env = env();
        let all = rollouts(&copied(&env, "codex/0.169.0/v2_two_parallel/sessions", "home/.codex/sessions"));
        let of = |thread: &str| all.iter().find(|path| path.to_str().unwrap().contains(thread)).unwrap();
        let text = fixtures::text(of(AGENT));
        let cut: Vec<&str> = text.lines().take(lines).collect();
        assert!(cut.last().unwrap().contains(last), "{cut:?}");
        std::fs::write(of(AGENT), cut.join("\n")).unwrap();
        let tree = tree(&[of("9454.jsonl").clone()]);
        let rows = tree["agents"].as_array().unwrap();
        assert_eq!(rows.iter().find(|row| row["id"] == AGENT).unwrap()["status"], "lost", "{last}");
    }
}

#[test]
fn rollouts_of_other_days_and_of_the_archive_are_found() {
    let recording = other_recordings().into_iter().find(|it| it.name() == "codex/0.169.0/v2_resume").unwrap();
    let env = env();
    let folder = copied(&env, "codex/0.169.0/v2_resume/sessions", "home/.codex/sessions");
    let all = rollouts(&folder);
    let [root, _, second] = all.as_slice() else { panic!("{all:?}") };
    // A child of the resumed session, days later.
    let later = folder.join("2026/11/25").join(second.file_name().unwrap());
    std::fs::create_dir_all(later.parent().unwrap()).unwrap();
    std::fs::rename(second, &later).unwrap();
    assert_eq!(differences(&tree(std::slice::from_ref(root)), &recording.truth, true), [""; 0]);
    assert_eq!(differences(&tree(&[later]), &recording.truth, true), [""; 0], "the session of a child");
    // The modification time of a copy is meaningless.
    let file = std::fs::File::options().write(true).open(root).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(differences(&tree(std::slice::from_ref(root)), &recording.truth, true), [""; 0]);
    let archived = env.path("home/.codex/archived_sessions").join(root.file_name().unwrap());
    std::fs::create_dir_all(archived.parent().unwrap()).unwrap();
    std::fs::rename(root, &archived).unwrap();
    assert_eq!(differences(&tree(&[archived]), &recording.truth, true), [""; 0], "an archived root");
}
