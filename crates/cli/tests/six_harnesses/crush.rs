//! Crush, which was not run here: a database made up after its source is found, read, followed and kept as those of the
//! programs that were run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_testkit::{env::TestEnv, fixtures};

use crate::{
    common::{
        env, json as parsed,
        serving::{LIMIT, Serving},
    },
    home::{assert_same, rows, write},
};

const ROOT: &str = "11111111-aaaa-4aaa-8aaa-000000000001";
const STOPPED: &str = "22222222-bbbb-4bbb-8bbb-000000000002";
/// The database, below the project.
const DATABASE: &str = ".crush/crush.db";

/// The statements that make the database, in order: its tables, sessions, messages.
fn statements() -> Vec<String> {
    let script = fixtures::bytes(&fixtures::root().join("wild/crush/sessions.sql"));
    let script = String::from_utf8(script).unwrap();
    script.lines().filter(|line| !line.starts_with("--")).map(str::to_owned).collect()
}

/// Writes the list of projects, and makes the folder of one. Returns where its database is.
fn project(env: &TestEnv) -> PathBuf {
    let database = env.path("shop").join(DATABASE);
    let data_dir = database.parent().unwrap();
    fs::create_dir_all(data_dir).unwrap();
    let project = |path: &Path, data_dir: &Path| json!({"path": path, "data_dir": data_dir, "last_accessed": "2026-06-01T00:00:00Z"});
    let gone = env.path("gone");
    let all = [project(&gone, &gone.join(".crush")), project(&env.path("shop"), data_dir)];
    write(&env.path("data/crush/projects.json"), json!({"projects": all}).to_string().as_bytes());
    database
}

fn fill(env: &TestEnv) -> PathBuf {
    let path = project(env);
    Connection::open(&path).unwrap().execute_batch(&statements().join("\n")).unwrap();
    path
}

fn tree(env: &TestEnv, target: &str) -> Value {
    parsed(&env.run(&["-q", "tree", target, "--json"]).success())
}

/// What a tree says of each agent.
fn agents(tree: &Value) -> Vec<Value> {
    let fields =
        ["parent_id", "spawned_by", "description", "status", "model", "cost_micro_usd", "result", "error"];
    let of = |row: &Value| json!([row["id"], fields.map(|field| row[field].clone()), row["tools"]]);
    tree["agents"].as_array().into_iter().flatten().map(of).collect()
}

#[test]
fn a_database_of_a_project_is_found_and_read() {
    let env = env();
    let database = fill(&env);
    let tree = tree(&env, ROOT);
    assert_eq!(tree["problems"], json!([]));
    let session = &tree["session"];
    assert_eq!(
        (session["harness"].as_str(), session["title"].as_str()),
        (Some("crush"), Some("Count what is there"))
    );
    assert_eq!((session["cwd"].as_str(), &session["runs"]), (env.path("shop").to_str(), &json!(2)));
    let row = |row: &Value| {
        let fields = ["spawned_by", "description", "status", "cost_micro_usd", "result", "error"];
        let calls = row["tools"].as_array().unwrap().iter();
        let calls: Vec<Value> =
            calls.map(|call| json!([call["name"], call["status"], call["writes"]])).collect();
        json!([fields.map(|field| row[field].clone()), calls])
    };
    let found: Vec<Value> = tree["agents"].as_array().unwrap().iter().map(row).collect();
    let no_file = Value::Null;
    let expected = [
        // Its cost is without those of the two whose calls were answered.
        json!([
            [null, null, "completed", 7000, "Nothing new.", null],
            [
                ["agent", "ok", no_file],
                ["agent", "error", no_file],
                ["bash", "denied", no_file],
                ["bash", "error", no_file],
                ["edit", "ok", ["/w/shop/app.py"]],
                ["agentic_fetch", "ok", no_file],
            ]
        ]),
        json!([
            ["call_a", "Lines of app.py", "completed", 2000, "app.py has 2 lines.", null],
            [["bash", "ok", no_file], ["view", "error", no_file]]
        ]),
        json!([["call_b", null, "failed", 700, null, "400 scripted failure"], [["grep", "ok", no_file]]]),
        json!([["call_w", "Fetch Analysis", "completed", 1500, "It says hello.", null], []]),
    ];
    assert_eq!(found, expected);
    assert!(tree["agents"].as_array().unwrap().iter().all(|row| row["usage"]["floor"] == true), "{found:#?}");
    let stopped = self::tree(&env, STOPPED);
    assert_eq!(stopped["agents"].as_array().unwrap().len(), 1, "no call of it started an agent");
    assert_eq!(
        (stopped["agents"][0]["status"].as_str(), &stopped["session"]["title"]),
        (Some("stopped"), &json!("Look at all of it"))
    );
    for target in [database.join(ROOT), PathBuf::from(&ROOT[..8])] {
        assert_eq!(
            agents(&self::tree(&env, target.to_str().unwrap())),
            agents(&tree),
            "{}",
            target.display()
        );
    }
    // The newest one is meant.
    assert_eq!(agents(&self::tree(&env, database.to_str().unwrap())), agents(&stopped));
    let listed = rows(&env);
    assert_eq!(listed.keys().collect::<Vec<_>>(), [ROOT, STOPPED]);
    assert_eq!(listed[ROOT], json!(["crush", "Count what is there", 3, 9, tree["summary"]["usage"]]));
    env.run(&["index"]).success();
    assert_same(&rows(&env), &listed, "indexed");
    let hits = parsed(&env.run(&["search", "hello", "--json"]).success());
    assert_eq!(hits["hits"][0]["session_id"], ROOT, "{hits}");
    let doctor = env.run(&["doctor"]).stdout;
    assert!(doctor.contains("Crush"), "{doctor}");
}

/// What is written of a session bit by bit is shown as a database that is read at once, at every step.
#[test]
fn a_session_is_followed_while_its_rows_are_rewritten() {
    let env = env();
    let path = project(&env);
    let (tables, inserts): (Vec<String>, Vec<String>) =
        statements().into_iter().partition(|line| line.starts_with("CREATE"));
    let (sessions, messages): (Vec<String>, Vec<String>) =
        inserts.into_iter().partition(|line| line.starts_with("INSERT INTO sessions"));
    let database = Connection::open(&path).unwrap();
    database.pragma_update(None, "journal_mode", "WAL").unwrap();
    database.execute_batch(&tables.join("\n")).unwrap();
    database.execute_batch(&sessions[0]).unwrap();
    let serving = Serving::start(&env, "");
    serving.has_read();
    let touch = "UPDATE sessions SET updated_at = strftime('%s', 'now')";
    let rest =
        sessions[1..].iter().chain(messages.iter().filter(|line| line.contains(ROOT) || line.contains("$$")));
    let mut count = 0;
    for statement in rest {
        let first = statement.contains("\"end_turn\"");
        if first {
            // A response that comes in has parts of its text, and no end.
            let half = statement.replace(
                "\"}}, {\"type\": \"finish\", \"data\": {\"reason\": \"end_turn\"",
                "\"}}, {\"type\": \"text\", \"data\": {\"text\": \"\"",
            );
            assert_ne!(half, *statement);
            database.execute_batch(&half).unwrap();
            database.execute_batch(touch).unwrap();
            let id = statement.split('\'').nth(1).unwrap();
            shows(&env, &serving);
            database.execute("DELETE FROM messages WHERE id = ?1", [id]).unwrap();
        }
        database.execute_batch(statement).unwrap();
        database.execute_batch(touch).unwrap();
        count += 1;
        if first || count % 6 == 0 {
            shows(&env, &serving);
        }
    }
    let end = shows(&env, &serving);
    assert_eq!(end.len(), 4);
    serving.end("-TERM");
}

/// Waits until a hub shows what a cold read of the session shows; returns that.
fn shows(env: &TestEnv, serving: &Serving) -> Vec<Value> {
    let began = clock::tick();
    let cold = env.path("shop").join(DATABASE).join(ROOT).display().to_string();
    let cold = agents(&tree(env, &cold));
    loop {
        let live = agents(&serving.tree(ROOT).unwrap_or_default());
        if live == cold {
            return live;
        }
        assert!(began.elapsed() < LIMIT, "{live:#?}\n{cold:#?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn damage_to_a_database_takes_nothing_away() {
    let env = env();
    let path = fill(&env);
    let bytes = fs::read(&path).unwrap();
    env.run(&["index"]).success();
    let (list, known) = (rows(&env), agents(&tree(&env, ROOT)));
    let spoiled: [(&str, Vec<u8>); 4] = [
        ("zeros", vec![0; bytes.len()]),
        ("one letter", b"x".to_vec()),
        ("half", bytes[..bytes.len() / 2].to_vec()),
        ("nothing", Vec::new()),
    ];
    for (damage, content) in spoiled {
        fs::write(&path, content).unwrap();
        assert_eq!(agents(&tree(&env, ROOT)), known, "{damage}");
        env.run(&["index"]);
        assert_same(&rows(&env), &list, damage);
        fs::write(&path, &bytes).unwrap();
    }
    // Rows that are no JSON are left out; what was known of them stays.
    let database = Connection::open(&path).unwrap();
    database.execute_batch("UPDATE messages SET parts = 'half a ' WHERE rowid % 2 = 0; DELETE FROM messages WHERE rowid % 5 = 0").unwrap();
    drop(database);
    env.run(&["index"]);
    assert_same(&rows(&env), &list, "spoiled rows");
    assert_eq!(agents(&tree(&env, ROOT)), known, "spoiled rows");
    fs::remove_file(&path).unwrap();
    env.run(&["index"]);
    assert_same(&rows(&env), &list, "deleted");
    assert_eq!(agents(&tree(&env, ROOT)), known, "deleted");
}
