//! A home in which six harnesses keep their sessions: every question is answered over all of them, and one hub follows all
//! of them at once.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
};

use common::{
    env, json as parsed,
    serving::{LIMIT, Serving},
};
use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_render::text;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, recording},
    others::{OtherRecording, differences, other_recordings},
};

/// Recordings of five harnesses, each with what it has on disk and where that goes in the environment.
const OTHERS: &[(&str, &str, &str)] = &[
    ("codex/0.169.0/v1_two_parallel", "sessions", "home/.codex/sessions"),
    ("copilot/1.0.102/two_parallel", "dot_copilot", "home/.copilot"),
    ("gemini/0.61.0/two_parallel", "dot_gemini_tmp", "home/.gemini/tmp"),
    ("opencode/1.18.33/two_parallel", "opencode.db", "data/opencode/opencode.db"),
    ("qwen/0.24.4/two_background", "dot_qwen", "home/.qwen"),
];
const CLAUDE_CODE: (&str, &str) = ("2.1.330", "c-nested");

fn recorded(name: &str) -> OtherRecording {
    other_recordings().into_iter().find(|recording| recording.name() == name).unwrap()
}

/// A file, and where it goes.
struct Placed {
    to: PathBuf,
    bytes: Vec<u8>,
}

/// All files of the home but the database.
fn files(env: &TestEnv) -> Vec<Placed> {
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1);
    let mut folders = vec![(claude.projects(), "home/.claude/projects")];
    for (name, on_disk, to) in OTHERS.iter().filter(|(.., to)| !to.ends_with(".db")) {
        folders.push((recorded(name).folder.join(on_disk), to));
    }
    let placed = |(from, to): (PathBuf, &str)| {
        let place = |file: PathBuf| Placed {
            to: env.path(to).join(file.strip_prefix(&from).unwrap()),
            bytes: fixtures::bytes(&file),
        };
        fixtures::files_below(&from).into_iter().map(place).collect::<Vec<Placed>>()
    };
    folders.into_iter().flat_map(placed).collect()
}

fn write(to: &PathBuf, bytes: &[u8]) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, bytes).unwrap();
}

fn database(env: &TestEnv) -> (PathBuf, PathBuf) {
    let (name, on_disk, to) = OTHERS.iter().find(|(.., to)| to.ends_with(".db")).unwrap();
    (recorded(name).folder.join(on_disk), env.path(to))
}

/// Writes the whole home. Returns its files, and where the database is.
fn fill(env: &TestEnv) -> (Vec<Placed>, PathBuf) {
    let all = files(env);
    all.iter().for_each(|file| write(&file.to, &file.bytes));
    let (from, to) = database(env);
    write(&to, &fixtures::bytes(&from));
    (all, to)
}

fn all_ids() -> Vec<String> {
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1).truth().session.id;
    let id =
        |(name, ..): &(&str, &str, &str)| recorded(name).truth["session"]["id"].as_str().unwrap().to_owned();
    OTHERS.iter().map(id).chain([claude.to_string()]).collect()
}

/// A way to spoil a file.
type Damage = fn(&Path, &[u8]);

/// What can happen to a file while its name stays: zeros after a power cut, one letter, a folder, a link to itself, which
/// not even root can read.
const DAMAGES: [(&str, Damage); 4] = [
    ("zeros", |path, bytes| fs::write(path, vec![0; bytes.len()]).unwrap()),
    ("one letter", |path, _| fs::write(path, "x").unwrap()),
    ("folder", |path, _| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    ("endless link", |path, _| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(path, path).unwrap();
    }),
];

/// What a tree says of a session: its sums, and its agents with their names and models.
fn sums_of(env: &TestEnv, session: &str) -> Value {
    let tree = parsed(&env.run(&["-q", "tree", session, "--json"]).success());
    let of = |row: &Value| {
        json!(
            ["id", "parent_id", "agent_type", "name", "description", "model"].map(|field| row[field].clone())
        )
    };
    let agents: Vec<Value> = tree["agents"].as_array().unwrap().iter().map(of).collect();
    json!([tree["session"]["id"], tree["summary"], agents])
}

#[test]
fn a_spoiled_file_takes_nothing_from_the_tree_of_its_session() {
    let env = env();
    let all = files(&env);
    all.iter().for_each(|file| write(&file.to, &file.bytes));
    let (from, to) = database(&env);
    let stored = Placed { to, bytes: fixtures::bytes(&from) };
    write(&stored.to, &stored.bytes);
    env.run(&["index"]).success();
    let ids = all_ids();
    let before: Vec<Value> = ids.iter().map(|id| sums_of(&env, id)).collect();
    for (damage, spoil) in DAMAGES {
        for file in all.iter().chain([&stored]) {
            spoil(&file.to, &file.bytes);
        }
        for (id, before) in ids.iter().zip(&before) {
            assert_eq!(sums_of(&env, id), *before, "{damage}: {id}");
        }
        for file in all.iter().chain([&stored]) {
            let _ = fs::remove_dir(&file.to);
            let _ = fs::remove_file(&file.to);
        }
        // One file of each session at a time: the others must not seem to be all of it.
        for file in all.iter().chain([&stored]) {
            write(&file.to, &file.bytes);
        }
        for file in &all {
            spoil(&file.to, &file.bytes);
            for (id, before) in ids.iter().zip(&before) {
                assert_eq!(sums_of(&env, id), *before, "{damage}: {id} without {}", file.to.display());
            }
            let _ = fs::remove_dir(&file.to);
            let _ = fs::remove_file(&file.to);
            write(&file.to, &file.bytes);
        }
    }
}

/// Recordings with files and hooks, each with where its files go.
fn hooked() -> Vec<(OtherRecording, PathBuf)> {
    let folder = |name: &str, on_disk: &str| {
        let same = |(other, below, _): &&(&str, &str, &str)| {
            other.split('/').next() == name.split('/').next() && *below == on_disk
        };
        OTHERS.iter().find(same).map(|(.., to)| PathBuf::from(to))
    };
    let placed = |recording: OtherRecording| {
        let on_disk = recording.on_disk.file_name()?.to_str()?.to_owned();
        let to = folder(&recording.name(), &on_disk)?;
        (recording.folder.join("hooks.jsonl").is_file() && recording.on_disk.is_dir())
            .then_some((recording, to))
    };
    other_recordings().into_iter().filter_map(placed).collect()
}

/// What the list says of each session.
fn rows(env: &TestEnv) -> BTreeMap<String, Value> {
    let page = parsed(&env.run(&["ls", "--json", "--all"]).success());
    let rows = page["sessions"].as_array().unwrap().iter();
    let told =
        |row: &Value| json!([row["harness"], row["title"], row["agents"], row["tool_calls"], row["usage"]]);
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), told(row))).collect()
}

/// Asserts that no session has changed.
#[track_caller]
fn assert_same(after: &BTreeMap<String, Value>, before: &BTreeMap<String, Value>, what: &str) {
    let ids: BTreeSet<&String> = after.keys().chain(before.keys()).collect();
    let changed = ids.into_iter().filter(|id| after.get(*id) != before.get(*id));
    let told = |all: &BTreeMap<String, Value>, id| {
        all.get(id).map_or_else(|| "no session".to_owned(), Value::to_string)
    };
    let changed: Vec<String> =
        changed.map(|id| format!("{id}:\n{}\n{}", told(before, id), told(after, id))).collect();
    assert!(changed.is_empty(), "{what}:\n{}", changed.join("\n"));
}

/// The end of a file whose first lines are gone: they alone may have said whose it is.
fn last_lines(bytes: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    lines[lines.len().saturating_sub(4)..].concat()
}

#[test]
fn a_file_begun_anew_without_its_head_stays_its_session() {
    let replaced: fn(&Placed, &[u8]) = |file, bytes| {
        let new = file.to.with_extension("new");
        write(&new, bytes);
        fs::rename(new, &file.to).unwrap();
    };
    for (way, anew) in [("replaced", replaced), ("in place", |file, bytes| write(&file.to, bytes))] {
        let env = env();
        let all: Vec<Placed> =
            files(&env).into_iter().filter(|file| last_lines(&file.bytes).len() < file.bytes.len()).collect();
        files(&env).iter().for_each(|file| write(&file.to, &file.bytes));
        env.run(&["index"]).success();
        let before = rows(&env);
        assert_eq!(before.len(), OTHERS.len(), "all but the database, and Claude Code: {before:#?}");
        let trees = |env: &TestEnv| -> BTreeMap<String, Value> {
            before.keys().map(|id| (id.clone(), sums_of(env, id))).collect()
        };
        let sums = trees(&env);
        for file in &all {
            let what = format!("{way}: {}", file.to.display());
            anew(file, &last_lines(&file.bytes));
            assert_same(&trees(&env), &sums, &format!("read again, {what}"));
            env.run(&["index"]).success();
            assert_same(&rows(&env), &before, &what);
            assert_same(&trees(&env), &sums, &what);
            anew(file, &file.bytes);
            env.run(&["index"]).success();
            assert_same(&rows(&env), &before, &format!("whole again, {what}"));
            assert_same(&trees(&env), &sums, &format!("whole again, {what}"));
        }
        for (state, content) in
            [("without heads", last_lines as fn(&[u8]) -> Vec<u8>), ("whole again", <[u8]>::to_vec)]
        {
            all.iter().for_each(|file| anew(file, &content(&file.bytes)));
            let serving = Serving::start(&env, "");
            serving.has_read();
            assert_same(&rows(&env), &before, &format!("a hub that starts, {way}, {state}"));
            serving.end("-TERM");
            assert_same(&rows(&env), &before, &format!("afterwards, {way}, {state}"));
        }
    }
}

/// A session at rest whose hooks arrive: a hub reads its files again, one by one, some of which may be gone.
#[test]
fn hooks_of_sessions_at_rest_make_no_others_of_them() {
    let all = hooked();
    let kinds: BTreeSet<&str> = all.iter().map(|(recording, _)| recording.harness).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    for has_mains in [true, false] {
        let env = env();
        let mut mains = Vec::new();
        for (recording, to) in &all {
            for file in fixtures::files_below(&recording.on_disk) {
                let to = env.path(to.join(file.strip_prefix(&recording.on_disk).unwrap()).to_str().unwrap());
                write(&to, &fixtures::bytes(&file));
                fs::File::options().write(true).open(&to).unwrap().set_modified(at_rest()).unwrap();
                mains.extend(
                    (subscope_harness::classify(&to).role == subscope_harness::Role::Main).then_some(to),
                );
            }
        }
        env.run(&["index"]).success();
        let before = rows(&env);
        assert!(before.len() >= all.len(), "{before:#?}");
        if !has_mains {
            mains.iter().for_each(|main| fs::remove_file(main).unwrap());
        }
        let serving = Serving::start(&env, "");
        serving.has_read();
        for (recording, _) in &all {
            let hooks = String::from_utf8(fixtures::bytes(&recording.folder.join("hooks.jsonl"))).unwrap();
            for line in hooks.replace("/home/user", env.path("home").to_str().unwrap()).lines() {
                serving.post(&format!("/hooks/{}", recording.harness), "", line.as_bytes());
            }
        }
        let live = rows(&env);
        serving.end("-TERM");
        assert_same(&live, &before, &format!("live, main files: {has_mains}"));
        assert_same(&rows(&env), &before, &format!("afterwards, main files: {has_mains}"));
    }
}

fn at_rest() -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_millis(clock::now_ms().unsigned_abs())
        - std::time::Duration::from_secs(5 * 86_400)
}

/// Trees of sessions: their titles, sums, and agents with all that rows have of them.
fn trees_of(env: &TestEnv, ids: &[String]) -> Vec<Value> {
    let tree = |id: &String| {
        let tree = parsed(&env.run(&["-q", "tree", id, "--json"]).success());
        json!([tree["session"]["id"], tree["session"]["title"], tree["summary"], tree["agents"]])
    };
    ids.iter().map(tree).collect()
}

/// Asserts that trees are equal, and names the first that is not.
#[track_caller]
fn assert_trees(found: &[Value], expected: &[Value], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{what}: {}", expected[0]);
    }
}

#[test]
fn a_copy_of_a_file_takes_nothing_and_counts_nothing_twice() {
    for name in ["STEM copy", "STEM 2", "STEM (1)", "Copy of STEM", "a STEM"] {
        let env = env();
        let (all, _) = fill(&env);
        let ids = all_ids();
        let (before, list) = (trees_of(&env, &ids), rows(&env));
        env.run(&["index"]).success();
        for file in &all {
            let full = file.to.file_name().unwrap().to_str().unwrap();
            let (stem, ending) = full.split_once('.').unwrap();
            let copy = file.to.with_file_name(format!("{}.{ending}", name.replace("STEM", stem)));
            write(&copy, &file.bytes);
        }
        let what = format!("{name}: with rows of before");
        assert_trees(&trees_of(&env, &ids), &before, &what);
        env.run(&["index"]).success();
        assert_eq!(rows(&env), list, "{what}");
        assert_trees(&trees_of(&env, &ids), &before, &what);
        let what = format!("{name}: read anew");
        fs::remove_dir_all(env.path("data/subscope")).unwrap();
        assert_trees(&trees_of(&env, &ids), &before, &what);
        assert_eq!(rows(&env), list, "{what}");
        env.run(&["index"]).success();
        assert_trees(&trees_of(&env, &ids), &before, &what);
        assert_eq!(rows(&env), list, "{what}");
    }
}

/// The sessions of a list, and of each tree its agents with their parents.
fn family(env: &TestEnv, ids: &[&str]) -> Value {
    let page = parsed(&env.run(&["-q", "ls", "--json"]).success());
    let listed: Vec<&Value> = page["sessions"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    let trees = ids.iter().map(|id| {
        let tree = parsed(&env.run(&["-q", "tree", id, "--json"]).success());
        let agents = tree["agents"].as_array().unwrap().iter();
        let agents: Vec<Value> = agents.map(|row| json!([row["id"], row["parent_id"]])).collect();
        json!([tree["session"]["id"], agents, tree["summary"]["usage"]["floor"]])
    });
    json!([listed, trees.collect::<Vec<Value>>()])
}

#[test]
fn agents_of_a_session_that_was_deleted_stay_below_it() {
    const TABLES: [(&str, &str); 4] =
        [("session", "id"), ("event", "aggregate_id"), ("message", "session_id"), ("part", "session_id")];
    let truth = recorded("opencode/1.18.33/two_parallel").truth;
    let root = truth["session"]["id"].as_str().unwrap();
    let agents = |truth: &Value| -> Vec<Value> {
        let ids = truth["agents"].as_array().unwrap().iter().skip(1);
        let of = |id: &Value| json!([id, "root"]);
        [json!(["root", null])].into_iter().chain(ids.map(|row| of(&row["id"]))).collect()
    };
    for (indexed, deleted) in [(false, 1), (true, 1), (false, 4), (true, 4)] {
        let env = env();
        let (from, to) = database(&env);
        write(&to, &fixtures::bytes(&from));
        if indexed {
            env.run(&["index"]).success();
        }
        let database = rusqlite::Connection::open(&to).unwrap();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        for (table, column) in &TABLES[..deleted] {
            database.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [root]).unwrap();
        }
        drop(database);
        let floor = deleted == 4 && !indexed;
        let expected = json!([[root], [[root, agents(&truth), floor]]]);
        for _ in 0..2 {
            assert_eq!(family(&env, &[root]), expected, "{indexed} {deleted}");
            env.run(&["index"]).success();
        }
        // A child that is named alone is the root of what is shown.
        let child = truth["agents"][1]["id"].as_str().unwrap();
        let alone = parsed(&env.run(&["-q", "tree", to.join(child).to_str().unwrap(), "--json"]).success());
        assert!(alone["agents"].as_array().unwrap().iter().all(|row| row["id"] != child), "{alone}");
    }
    // The folder of objects of older versions.
    let old = recorded("opencode/1.1.53/resume_denied");
    let root = old.truth["session"]["id"].as_str().unwrap();
    let env = env();
    for file in fixtures::files_below(&old.on_disk) {
        if file.file_stem().is_none_or(|stem| stem != root) {
            let below = file.strip_prefix(&old.on_disk).unwrap();
            write(&env.path("data/opencode/storage").join(below), &fixtures::bytes(&file));
        }
    }
    for floor in [false, true] {
        assert_eq!(family(&env, &[root]), json!([[root], [[root, agents(&old.truth), floor]]]));
        fs::remove_dir_all(env.path("data/opencode/storage/message").join(root)).unwrap_or_default();
        fs::remove_dir_all(env.path("data/subscope")).unwrap_or_default();
    }
}

#[test]
fn a_file_that_is_a_link_to_another_disk_is_read_like_any_file() {
    let env = env();
    let (all, to) = fill(&env);
    let ids = all_ids();
    let (before, list) = (trees_of(&env, &ids), rows(&env));
    for path in all.iter().map(|file| &file.to).chain([&to]) {
        let disk = env.path("disk").join(path.strip_prefix(env.root()).unwrap());
        fs::create_dir_all(disk.parent().unwrap()).unwrap();
        fs::rename(path, &disk).unwrap();
        std::os::unix::fs::symlink(&disk, path).unwrap();
    }
    assert_trees(&trees_of(&env, &ids), &before, "found by the id");
    assert_eq!(rows(&env), list);
    env.run(&["index"]).success();
    assert_trees(&trees_of(&env, &ids), &before, "with rows");
    assert_eq!(rows(&env), list);
    let mut serving = Serving::start(&env, "");
    serving.has_read();
    assert_eq!(rows(&env), list);
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
}

/// Sessions, by what is in the home: files that are placed there.
fn listed_ids(home: &[Placed], first: &[&str]) -> BTreeSet<String> {
    let env = env();
    for file in home {
        write(&env.path(file.to.to_str().unwrap()), &file.bytes);
    }
    if !first.is_empty() {
        env.run(first).success();
    }
    let page = parsed(&env.run(&["ls", "--json"]).success());
    let rows = page["sessions"].as_array().unwrap();
    let found: BTreeSet<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let doctor = env.run(&["doctor"]).stdout;
    assert_eq!(found.is_empty(), doctor.contains("none found"), "{doctor}");
    found
}

#[test]
fn a_first_list_has_what_an_index_finds() {
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1);
    let mut homes: Vec<(PathBuf, &str)> = vec![(claude.projects(), "home/.claude/projects")];
    homes.extend(OTHERS.iter().map(|(name, on_disk, to)| (recorded(name).folder.join(on_disk), *to)));
    let placed = |(from, to): &(PathBuf, &str)| {
        let files = if from.is_file() { vec![from.clone()] } else { fixtures::files_below(from) };
        let place = |file: PathBuf| {
            let below = file.strip_prefix(from).unwrap().iter();
            Placed {
                to: below.fold(PathBuf::from(to), |to, part| to.join(part)),
                bytes: fixtures::bytes(&file),
            }
        };
        files.into_iter().map(place).collect::<Vec<Placed>>()
    };
    let mut cases: Vec<(String, Vec<Placed>)> =
        homes.iter().map(|home| (home.1.to_owned(), placed(home))).collect();
    // Layouts of other versions, and a file that is one folder too high.
    let session = "aaaaaaaa-1111-4222-8333-444455556666";
    let is_main = |file: &&Placed| file.to.ends_with("events.jsonl");
    let events = cases.iter().flat_map(|(_, files)| files).find(is_main).unwrap().bytes.clone();
    let to = PathBuf::from(format!("home/.copilot/session-state/{session}.jsonl"));
    cases.push(("flat".to_owned(), vec![Placed { to, bytes: events }]));
    let main = &claude.mains()[0];
    let to = PathBuf::from("home/.claude/projects").join(main.file_name().unwrap());
    cases.push(("no project".to_owned(), vec![Placed { to, bytes: fixtures::bytes(main) }]));
    let children = cases[1].1.iter().filter(|file| {
        let first = String::from_utf8_lossy(&file.bytes);
        first.lines().next().unwrap_or_default().contains("parent_thread_id")
    });
    let children = children.map(|file| Placed { to: file.to.clone(), bytes: file.bytes.clone() }).collect();
    cases.push(("children".to_owned(), children));
    for (name, home) in cases {
        let first = listed_ids(&home, &[]);
        assert!(!first.is_empty(), "{name}: no session");
        assert_eq!(first, listed_ids(&home, &["index"]), "{name}");
    }
}

#[test]
fn every_question_is_answered_over_six_harnesses() {
    let env = env();
    files(&env).iter().for_each(|file| write(&file.to, &file.bytes));
    let (from, to) = database(&env);
    write(&to, &fixtures::bytes(&from));
    env.run(&["index"]).success();
    let listed = parsed(&env.run(&["ls", "--json"]).success());
    let rows = listed["sessions"].as_array().unwrap();
    let harnesses: BTreeSet<&str> = rows.iter().map(|row| row["harness"].as_str().unwrap()).collect();
    let expected = ["claude-code", "codex", "copilot", "gemini", "opencode", "qwen"];
    assert_eq!(harnesses.iter().copied().collect::<Vec<_>>(), expected);
    assert_eq!(rows.len(), 6);
    let last = parsed(&env.run(&["tree", "last", "--json"]).success());
    assert_eq!(last["session"]["id"], rows[0]["id"], "{}", rows[0]);
    let stats = parsed(&env.run(&["stats", "--json"]).success());
    let by_harness: BTreeSet<&str> = stats["by_harness"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["harness"].as_str().or(row["name"].as_str()).unwrap())
        .collect();
    assert_eq!(by_harness, harnesses);
    // Each of the scripts of the other harnesses begins with this prompt.
    let hits = parsed(&env.run(&["search", "ROOT", "--kind", "prompt", "--json"]).success());
    let found: BTreeSet<&str> =
        hits["hits"].as_array().unwrap().iter().map(|hit| hit["session_id"].as_str().unwrap()).collect();
    for (name, ..) in OTHERS {
        let truth = recorded(name).truth;
        assert!(found.contains(truth["session"]["id"].as_str().unwrap()), "{name}: {found:?}");
    }
    for (name, ..) in OTHERS {
        let truth = recorded(name).truth;
        let session = truth["session"]["id"].as_str().unwrap();
        let tree = parsed(&env.run(&["tree", session, "--json"]).success());
        assert_eq!(differences(&tree, &truth, true), [""; 0], "{name}");
        let agent = truth["agents"][1]["id"].as_str().unwrap();
        let shown = env.run(&["show", &format!("{session}/{agent}")]).success();
        for tool in truth["agents"][1]["tools"].as_array().unwrap() {
            assert!(shown.contains(tool["name"].as_str().unwrap()), "{name}: {shown}");
        }
        let replayed = env.run(&["replay", session, "--plain", "--speed", "10000"]).success();
        assert!(!replayed.is_empty(), "{name}");
        for format in ["trace", "feed", "csv", "html", "otlp"] {
            let exported = env.run(&["export", session, "--as", format]).success();
            assert!(
                exported.contains(agent) || format == "otlp" && exported.len() > 1_000,
                "{name} {format}"
            );
        }
    }
}

/// A session's cost, with the mark of a lower bound, is the same in its tree, in lists and in statistics, with the prices of
/// all models and with that of one.
#[test]
fn costs_of_six_harnesses_are_the_same_wherever_they_are_shown() {
    let price = "'claude-opus-5-5' = { input = 5000000, output = 25000000, cache_read = 500000, cache_write = 6250000, cache_write_1h = 10000000 }";
    let mut seen = BTreeSet::new();
    for settings in ["", "prices = 'one.toml'\n"] {
        let env = env();
        files(&env).iter().for_each(|file| write(&file.to, &file.bytes));
        // One whose own total is known though models have no price, and one whose stored tokens are a lower bound.
        for (version, scenario) in [("2.1.330", "h-custom-thinking"), ("2.1.50", "b-parallel")] {
            let projects = recording(version, scenario).projects();
            for file in fixtures::files_below(&projects) {
                let to = env.path("home/.claude/projects").join(file.strip_prefix(&projects).unwrap());
                write(&to, &fixtures::bytes(&file));
            }
        }
        let (from, to) = database(&env);
        write(&to, &fixtures::bytes(&from));
        let one = format!("source = 'a test'\ndate = '2026-01-01'\n[models]\n{price}\n");
        write(&env.path("config/subscope/one.toml"), one.as_bytes());
        write(&env.path("config/subscope/config.toml"), settings.as_bytes());
        env.run(&["index"]).success();
        let listed = parsed(&env.run(&["ls", "--json"]).success());
        let shown = env.run(&["ls"]).success();
        let mut sums: BTreeMap<String, (i64, bool)> = BTreeMap::new();
        for row in listed["sessions"].as_array().unwrap() {
            let (id, harness) = (row["id"].as_str().unwrap(), row["harness"].as_str().unwrap());
            let tree = parsed(&env.run(&["tree", id, "--json"]).success());
            for field in ["cost_micro_usd", "cost_floor", "usage"] {
                assert_eq!(row[field], tree["summary"][field], "{harness}: {field}");
            }
            let cost = row["cost_micro_usd"].as_i64();
            let is_floor = row["cost_floor"].as_bool().unwrap();
            seen.insert((cost.is_some(), is_floor));
            let words = cost.map_or_else(|| "—".to_owned(), |cost| text::money(cost, is_floor));
            let line = shown.lines().find(|line| line.contains(&id[..8])).unwrap();
            assert_eq!(line.split_whitespace().last(), Some(&*words), "{harness}: {line}");
            let tree = env.run(&["tree", id]).success();
            let tokens = tree.lines().rfind(|line| line.starts_with("tokens")).unwrap_or_default();
            assert!(cost.is_none() || tokens.ends_with(&format!(" {words}")), "{harness}: {words}\n{tree}");
            let has_tokens = row["usage"]["total_tokens"].as_u64().unwrap_or(0) > 0;
            for name in [harness, "all"] {
                let sum = sums.entry(name.to_owned()).or_default();
                sum.0 += cost.unwrap_or(0);
                sum.1 |= is_floor || (cost.is_none() && has_tokens);
            }
        }
        let stats = parsed(&env.run(&["stats", "--json"]).success());
        let rows = stats["by_harness"].as_array().unwrap().iter().chain([&stats["total"]]);
        let figures = |row: &Value| (row["cost_micro_usd"].as_i64().unwrap(), row["cost_floor"] == true);
        let found: BTreeMap<String, (i64, bool)> =
            rows.map(|row| (row["name"].as_str().unwrap().to_owned(), figures(row))).collect();
        assert_eq!(found, sums);
        let shown = env.run(&["stats"]).success();
        let (sum, is_floor) = sums["all"];
        let total = shown.lines().nth(1).unwrap();
        assert_eq!(total.split_whitespace().last(), Some(&*text::money(sum, is_floor)), "{shown}");
    }
    let kinds = BTreeSet::from([(false, false), (true, false), (true, true)]);
    assert_eq!(seen, kinds, "unknown, known, lower bound");
}

/// Appends what is missing of a file, line by line.
fn append(file: &Placed, from: usize) {
    let mut open = OpenOptions::new().append(true).open(&file.to).unwrap();
    for line in file.bytes[from..].split_inclusive(|byte| *byte == b'\n') {
        open.write_all(line).unwrap();
        thread::yield_now();
    }
}

#[test]
fn one_hub_follows_six_harnesses_that_write_at_the_same_time() {
    let env = env();
    let all = files(&env);
    let middle = |file: &Placed| {
        let half = file.bytes.len() / 2;
        // A file that is one object is written as a whole.
        let is_lines = file.to.extension().is_some_and(|ending| ending == "jsonl");
        let end = file.bytes[half..].iter().position(|byte| *byte == b'\n').map(|at| half + at + 1);
        end.filter(|_| is_lines).unwrap_or(file.bytes.len())
    };
    let halves: Vec<usize> = all.iter().map(middle).collect();
    for (file, half) in all.iter().zip(&halves) {
        write(&file.to, &file.bytes[..*half]);
    }
    let (from, to) = database(&env);
    write(&to, &fixtures::bytes(&from));
    let writer = rusqlite::Connection::open(&to).unwrap();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    writer
        .execute_batch(
            "CREATE TEMP TABLE later AS SELECT * FROM event WHERE rowid > (SELECT max(rowid) / 2 FROM event);
             DELETE FROM event WHERE rowid > (SELECT max(rowid) / 2 FROM event);
             UPDATE session SET time_updated = unixepoch() * 1000;",
        )
        .unwrap();
    let mut serving = Serving::start(&env, "");
    serving.has_read();
    let ids = all_ids();
    for id in &ids {
        assert!(serving.tree(id).is_some(), "{id} is not followed");
    }
    thread::scope(|scope| {
        for (file, half) in all.iter().zip(&halves) {
            scope.spawn(|| append(file, *half));
        }
        let rows: i64 = writer.query_row("SELECT count(*) FROM later", [], |row| row.get(0)).unwrap();
        for number in 1..=rows {
            let sql = "INSERT INTO event SELECT * FROM later WHERE later.rowid = ?1";
            writer.execute(sql, [number]).unwrap();
        }
    });
    let began = clock::tick();
    let wrong = |serving: &Serving| -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, ..) in OTHERS {
            let truth = recorded(name).truth;
            let tree = serving.tree(truth["session"]["id"].as_str().unwrap()).unwrap_or_default();
            wrong.extend(differences(&tree, &truth, true).into_iter().map(|what| format!("{name}: {what}")));
        }
        let truth = recording(CLAUDE_CODE.0, CLAUDE_CODE.1).truth();
        let tree = serving.tree(&truth.session.id.to_string()).unwrap_or_default();
        let calls: Vec<&Value> =
            tree["agents"].as_array().into_iter().flatten().map(|row| &row["tool_calls"]).collect();
        let expected: Vec<Value> = truth.agents.iter().map(|agent| agent.tool_calls.into()).collect();
        if calls != expected.iter().collect::<Vec<_>>() {
            wrong.push(format!("Claude Code: {calls:?} instead of {expected:?}"));
        }
        wrong
    };
    loop {
        let wrong = wrong(&serving);
        if wrong.is_empty() {
            break;
        }
        assert!(began.elapsed() < LIMIT, "{}", wrong.join("\n"));
        thread::sleep(std::time::Duration::from_millis(50));
    }
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
}
