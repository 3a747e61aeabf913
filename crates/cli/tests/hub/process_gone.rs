//! A session with files only, whose process is killed or exits: agents at work are lost within a second, live and after
//! a restart of the hub.

use subscope_testkit::lines::{Line, launch_result, spawn_input, transcript};

use super::*;
use crate::common::serving::Serving;

const SESSION: &str = "59d3cea2-0000-4000-8000-000000000001";

/// Writes a session whose agent is at work, and the file of its process.
fn write_session(env: &TestEnv, process: u32) {
    let now = clock::now_ms();
    let at =
        |line: Line, after: i64| line.session(SESSION).set("timestamp", iso8601(now + after)).line() + "\n";
    let main = [
        at(transcript::user("Look into it."), -5_000),
        at(transcript::tool_use("Agent", "spawn-1").input(spawn_input("Explore", "Look", "Look.")), -4_000),
        at(transcript::tool_result("spawn-1", "Launched.").harness_result(launch_result("a111")), -3_900),
    ];
    let project = format!("home/.claude/projects/-home-user-shop/{SESSION}");
    env.write(&format!("{project}.jsonl"), main.concat());
    let own = at(transcript::tool_use("Bash", "bash-1").agent("a111"), -3_000);
    env.write(&format!("{project}/subagents/agent-a111.jsonl"), own);
    let note = format!(r#"{{"pid":{process},"sessionId":"{SESSION}","startedAt":{now},"entrypoint":"cli"}}"#);
    env.write(&format!("home/.claude/sessions/{process}.json"), note);
}

fn agent(tree: &Value) -> Option<(&str, &str)> {
    let row = tree["agents"].as_array()?.iter().find(|row| row["id"] == "a111")?;
    Some((row["status"].as_str()?, row["evidence"].as_str().unwrap_or_default()))
}

fn wait_for(serving: &Serving, expected: (&str, &str)) {
    let began = clock::tick();
    loop {
        let tree = serving.tree(SESSION).unwrap_or_default();
        if agent(&tree) == Some(expected) {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{expected:?}, but {:?}", agent(&tree));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a hub, and a process with an agent at work; ends the process in some way.
fn agent_is_lost_after(end: impl FnOnce(&TestEnv, &mut Child)) {
    let env = env();
    let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
    write_session(&env, process.id());
    let serving = Serving::start(&env, "");
    wait_for(&serving, ("running", ""));
    // Several intervals of the watch: it notices the end only of a process that it has seen alive.
    thread::sleep(Duration::from_secs(3));
    end(&env, &mut process);
    let lost = ("lost", "its process ended");
    wait_for(&serving, lost);
    serving.end("-TERM");
    let _ = process.kill();
    let _ = process.wait();
    let serving = Serving::start(&env, "");
    wait_for(&serving, lost);
    serving.end("-TERM");
    let tree = json(&env.run(&["tree", SESSION, "--json"]).success());
    assert_eq!(agent(&tree), Some(lost));
}

#[test]
fn agent_of_a_killed_process_is_lost() {
    agent_is_lost_after(|_, process| {
        process.kill().unwrap();
        process.wait().unwrap();
    });
}

/// Other programs remove notes, a person a whole folder: the process still runs.
#[test]
fn agent_of_a_process_whose_note_vanished_is_lost_when_the_process_ends() {
    agent_is_lost_after(|env, process| {
        fs::remove_dir_all(env.path("home/.claude/sessions")).unwrap();
        let tree = || json(&env.run(&["tree", SESSION, "--json"]).success());
        // Several intervals of the watch.
        thread::sleep(Duration::from_secs(3));
        assert_eq!(agent(&tree()), Some(("running", "")));
        process.kill().unwrap();
        process.wait().unwrap();
    });
}
