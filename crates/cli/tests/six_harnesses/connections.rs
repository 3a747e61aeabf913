//! Logs of connections over ACP below a folder: whatever happens to them takes nothing from what is known of their sessions.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use subscope_testkit::{
    env::TestEnv,
    fixtures,
    others::{OtherRecording, acp_recordings},
};

use crate::{
    common::{env, json as parsed},
    home::{Placed, assert_same, rows, write},
};

/// The folder of the logs.
const LOGS: &str = "work/logs";
/// Where the files go that the agents wrote meanwhile, by the name of their folder in a recording.
const HOMES: [(&str, &str); 5] = [
    ("projects", "home/.claude/projects"),
    ("sessions", "home/.codex/sessions"),
    ("share", "data/kilo"),
    ("dot_kimi", "home/.kimi-code"),
    ("dot_omp", "home/.omp/agent"),
];

/// What happens to the content of a log.
type Spoil = fn(&[u8]) -> Vec<u8>;

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

const DAMAGES: [(&str, Spoil); 7] = [
    ("nothing in it", |_| Vec::new()),
    ("one letter", |_| b"x".to_vec()),
    ("zeros", |bytes| vec![0; bytes.len()]),
    ("cut in a line", |bytes| bytes[..bytes.len() / 2].to_vec()),
    ("its first line", |bytes| lines(bytes)[0].to_vec()),
    ("half of its lines", |bytes| {
        let all = lines(bytes);
        all[..all.len() / 2].concat()
    }),
    // The first lines alone say which agent speaks, and whose the sessions are.
    ("its last lines", |bytes| {
        let all = lines(bytes);
        all[all.len().saturating_sub(4)..].concat()
    }),
];

fn logs(env: &TestEnv) -> Vec<Placed> {
    let to = |recording: &OtherRecording| {
        env.path(LOGS).join(format!("{}.jsonl", recording.name().replace('/', "-")))
    };
    let all = acp_recordings();
    all.iter().map(|it| Placed { to: to(it), bytes: fixtures::bytes(&it.streams[0][0]) }).collect()
}

/// Writes what the agents wrote meanwhile.
fn write_files(env: &TestEnv) {
    for recording in acp_recordings() {
        let name = recording.on_disk.file_name().unwrap();
        let (_, to) = HOMES.into_iter().find(|(folder, _)| name == *folder).unwrap();
        for file in fixtures::files_below(&recording.on_disk) {
            let below = file.strip_prefix(&recording.on_disk).unwrap();
            write(&env.path(to).join(below), &fixtures::bytes(&file));
        }
    }
}

fn index(env: &TestEnv) {
    env.run(&["index"]).success();
    env.run(&["index", env.path(LOGS).to_str().unwrap()]);
}

/// What a tree says of a session and of each agent.
fn told(env: &TestEnv, session: &str) -> Value {
    let mut tree = parsed(&env.run(&["-q", "tree", session, "--json"]).success());
    // A sum that equals what is known adds nothing.
    if tree["summary"]["unattributed_usage"]["total_tokens"] == 0 {
        tree["summary"]["unattributed_usage"] = Value::Null;
    }
    let of = |row: &Value| {
        json!(
            ["id", "parent_id", "type", "description", "status", "model", "usage", "tool_calls"]
                .map(|field| row[field].clone())
        )
    };
    let agents: Vec<Value> = tree["agents"].as_array().unwrap().iter().map(of).collect();
    json!([tree["session"]["id"], tree["session"]["runs"], tree["summary"], agents])
}

fn trees(env: &TestEnv, known: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    known.keys().map(|id| (id.clone(), told(env, id))).collect()
}

/// Spoils all logs, then each by itself, in every way.
fn assert_kept(has_files: bool) {
    let env = env();
    if has_files {
        write_files(&env);
    }
    let all = logs(&env);
    all.iter().for_each(|log| write(&log.to, &log.bytes));
    index(&env);
    let before = rows(&env);
    assert_eq!(before.len(), all.len(), "{before:#?}");
    let known = trees(&env, &before);
    let check = |what: &str| {
        let what = format!("{what}, with files: {has_files}");
        assert_same(&trees(&env, &before), &known, &what);
        index(&env);
        assert_same(&rows(&env), &before, &format!("{what}, indexed"));
        assert_same(&trees(&env, &before), &known, &format!("{what}, indexed"));
    };
    check("read again");
    for (damage, spoil) in DAMAGES {
        let replaced = |path: &Path, bytes: &[u8]| {
            let new = path.with_extension("new");
            write(&new, bytes);
            fs::rename(new, path).unwrap();
        };
        all.iter().for_each(|log| write(&log.to, &spoil(&log.bytes)));
        check(damage);
        all.iter().for_each(|log| write(&log.to, &log.bytes));
        check(&format!("whole again after {damage}"));
        all.iter().for_each(|log| replaced(&log.to, &spoil(&log.bytes)));
        check(&format!("{damage}, replaced"));
        all.iter().for_each(|log| replaced(&log.to, &log.bytes));
        index(&env);
    }
    // Another connection is logged in the same file. A longer one looks like the same log that has grown: beside the files of
    // the agent, which have all but the number of questions, that number is then not known any more.
    if !has_files {
        for (at, log) in all.iter().enumerate() {
            write(&log.to, &all[(at + 1) % all.len()].bytes);
        }
        check("another connection");
    }
    all.iter().for_each(|log| fs::remove_file(&log.to).unwrap());
    check("deleted");
    all.iter().for_each(|log| write(&log.to, &log.bytes));
    check("there again");
}

#[test]
fn damage_to_logs_of_connections_takes_nothing_away() {
    assert_kept(false);
}

#[test]
fn damage_to_logs_beside_the_files_of_their_agents_takes_nothing_away() {
    assert_kept(true);
}
