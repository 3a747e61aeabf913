//! A session of objects that are written again, and of rows in a database, is followed while it grows.

use std::{fs, path::Path, thread};

use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_model::iso8601;
use subscope_testkit::{env::TestEnv, fixtures, others::differences};

use crate::{
    common::{
        env, json as parsed,
        serving::{LIMIT, Serving},
    },
    home::{recorded, write},
};

const RECORDING: &str = "cline/3.0.65/two_parallel";

/// Moves the times of messages.
fn moved(mut object: Value, by: i64) -> Value {
    for message in object["messages"].as_array_mut().into_iter().flatten() {
        message["ts"] = json!(message["ts"].as_i64().unwrap() + by);
    }
    object
}

/// Waits until a tree of the session is as expected.
#[track_caller]
fn until(serving: &Serving, session: &str, what: &str, is_it: impl Fn(&Value) -> bool) {
    let began = clock::tick();
    loop {
        let tree = serving.tree(session).unwrap_or_default();
        if is_it(&tree) {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{what}: {tree:#}");
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn statuses(tree: &Value) -> Vec<&str> {
    tree["agents"].as_array().into_iter().flatten().filter_map(|row| row["status"].as_str()).collect()
}

/// The recorded database and its log, copied, and a database beside it into which rows are to come.
fn databases(env: &TestEnv, from: &Path, to: &Path) -> rusqlite::Connection {
    for file in ["sessions.db", "sessions.db-wal"] {
        write(&env.path("recorded").join(file), &fixtures::bytes(&from.join("db").join(file)));
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let database = rusqlite::Connection::open(to).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let old = env.path("recorded").join("sessions.db").display().to_string();
    database.execute("ATTACH ?1 AS old", [old]).unwrap();
    database.execute_batch("CREATE TABLE sessions AS SELECT * FROM old.sessions WHERE 0").unwrap();
    database
}

#[test]
fn rows_and_objects_that_are_written_again_are_followed() {
    let env = env();
    let recording = recorded(RECORDING);
    let session = recording.truth["session"]["id"].as_str().unwrap();
    let (from, data) = (&recording.on_disk, env.path("home/.cline/data"));
    let database = databases(&env, from, &data.join("db/sessions.db"));
    let below = Path::new("sessions").join(session);
    let object = |name: &str| parsed(&fixtures::text(&from.join(&below).join(name)));
    let main = format!("{session}.messages.json");
    let mut root = object(&main);
    let now = clock::now_ms();
    let by = now - root["messages"][0]["ts"].as_i64().unwrap();
    root = moved(root, by);
    let put =
        |name: &str, object: &Value| write(&data.join(&below).join(name), object.to_string().as_bytes());
    let started = iso8601(now);
    // The first messages of the root, whose agents have rows and no file.
    let mut first = root.clone();
    first["messages"].as_array_mut().unwrap().truncate(2);
    put(&main, &first);
    let sql = "INSERT INTO sessions SELECT * FROM old.sessions WHERE is_subagent = ?1";
    let open = "UPDATE sessions SET status = 'running', ended_at = NULL, started_at = ?1, updated_at = ?1";
    let mut serving = Serving::start(&env, "");
    serving.has_read();
    until(&serving, session, "calls of the root are agents", |tree| statuses(tree).len() == 3);
    // No reader sees the rows as they were recorded.
    database.execute_batch("BEGIN").unwrap();
    for is_subagent in [0, 1] {
        database.execute(sql, [is_subagent]).unwrap();
    }
    database.execute(open, [&started]).unwrap();
    database.execute_batch("COMMIT").unwrap();
    let id = |number: usize| recording.truth["agents"][number]["id"].clone();
    until(&serving, session, "agents by their rows", |tree| {
        tree["agents"][1]["id"] == id(1)
            && tree["agents"][2]["id"] == id(2)
            && statuses(tree) == ["running", "running", "running"]
    });
    // The file of an agent comes when it ends, and its row says completed although it has failed.
    for number in [2, 1] {
        let agent = id(number);
        let name = format!("{}.messages.json", agent.as_str().unwrap());
        put(&name, &moved(object(&name), by));
        let end =
            "UPDATE sessions SET status = 'completed', ended_at = ?1, updated_at = ?1 WHERE agent_id = ?2";
        database.execute(end, [&started, agent.as_str().unwrap()]).unwrap();
        let expected = recording.truth["agents"][number]["status"][0].as_str().unwrap();
        until(&serving, session, "an agent that has ended", |tree| {
            statuses(tree).get(number) == Some(&expected) && statuses(tree)[0] == "running"
        });
    }
    put(&main, &root);
    put(&format!("{session}.json"), &object(&format!("{session}.json")));
    database
        .execute(
            "UPDATE sessions SET status = 'completed', ended_at = ?1, updated_at = ?1 WHERE is_subagent = 0",
            [iso8601(now + 60_000)],
        )
        .unwrap();
    until(&serving, session, "the truth", |tree| differences(tree, &recording.truth, true).is_empty());
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
}

#[test]
fn each_path_of_a_session_of_rows_and_objects_is_the_session() {
    let env = env();
    let recording = recorded(RECORDING);
    let session = recording.truth["session"]["id"].as_str().unwrap();
    for file in fixtures::files_below(&recording.on_disk) {
        let below = file.strip_prefix(&recording.on_disk).unwrap();
        write(&env.path("copy").join(below), &fixtures::bytes(&file));
    }
    let folder = format!("sessions/{session}");
    let targets = [
        folder.clone(),
        format!("{folder}/{session}.json"),
        format!("{folder}/{session}.messages.json"),
        "db/sessions.db".to_owned(),
        format!("db/sessions.db/{session}"),
        String::new(),
    ];
    for target in targets {
        let path = env.path("copy").join(&target).display().to_string();
        let tree = parsed(&env.run(&["tree", path.trim_end_matches('/'), "--json"]).success());
        assert_eq!(differences(&tree, &recording.truth, true), [""; 0], "{target}");
    }
}
