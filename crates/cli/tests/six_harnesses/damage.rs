//! What happens to the files of a home takes nothing from what is known of its sessions.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use subscope_testkit::{env::TestEnv, fixtures};

use crate::{
    common::{env, json as parsed, serving::Serving},
    home::{
        OTHERS, Placed, all_ids, assert_same, assert_trees, database, files, fill, recorded, rows, trees_of,
        write,
    },
};

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

/// What exports say of each agent: its calls with arguments and results, and its responses.
fn exported(env: &TestEnv, session: &str) -> BTreeMap<String, Vec<Value>> {
    let export = |format: &str| env.run(&["-q", "export", session, "--as", format]).success();
    let mut agents: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in parsed(&export("execution")).as_array().unwrap() {
        let calls = record["toolExecutions"].as_array().unwrap();
        agents.entry(record["subagentId"].as_str().unwrap().to_owned()).or_default().extend(calls.clone());
    }
    for line in export("otlp").lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        let scopes = request["resourceSpans"].as_array().unwrap().iter();
        let scopes = scopes.flat_map(|resource| resource["scopeSpans"].as_array().unwrap());
        for span in scopes.flat_map(|scope| scope["spans"].as_array().unwrap()) {
            let attributes = span["attributes"].as_array().unwrap().iter();
            let text = |key: &str| attributes.clone().find(|one| one["key"] == key).map(|one| &one["value"]);
            let agent = text("subscope.agent.id").unwrap()["stringValue"].as_str().unwrap().to_owned();
            if text("gen_ai.operation.name").unwrap()["stringValue"] == "chat" {
                agents.entry(agent).or_default().push(json!([span["spanId"], span["attributes"]]));
            }
        }
    }
    agents
}

#[test]
fn agents_whose_files_are_left_keep_their_texts() {
    let env = env();
    let (all, _) = fill(&env);
    env.run(&["index"]).success();
    let ids = all_ids();
    let folders = OTHERS.iter().map(|(.., to)| env.path(to)).chain([env.path("home/.claude/projects")]);
    for (folder, id) in folders.zip(&ids) {
        let before = exported(&env, id);
        assert!(before.len() > 2, "{id}: {:?}", before.keys());
        let files: Vec<&Placed> = all.iter().filter(|file| file.to.starts_with(&folder)).collect();
        for file in files.iter().filter(|_| files.len() > 1) {
            fs::remove_file(&file.to).unwrap();
            let after = exported(&env, id);
            let changed: Vec<&String> = before
                .iter()
                .filter(|(agent, told)| after.get(*agent) != Some(*told))
                .map(|(agent, _)| agent)
                .collect();
            assert!(changed.len() < 2, "{id} without {}: {changed:?}", file.to.display());
            write(&file.to, &file.bytes);
        }
    }
}
