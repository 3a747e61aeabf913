//! One inbox on all faces: the same rows on the command line, in the terminal UI, as the JSON of the page and in an export
//! have the same words and counts of what needs a person; a dismissal and a look are kept by the hub for all of them.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::{fs, io::Write, process::Stdio, time::Duration};

use common::{
    env, json, run,
    serving::{Serving, wait_until},
};
use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_testkit::{
    env::{Terminal, TestEnv},
    lines::{Line, hook},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(40);

fn post(serving: &Serving, session: &str, line: Line) {
    let line = line.session(session).set("cwd", format!("/home/user/{session}"));
    serving.post("/hooks/claude", "", line.line().as_bytes());
}

/// A call with an id of its own: one that several sessions have counts in the first.
fn call(event: &str, name: &str, command: &str) -> Line {
    hook(event).tool("Bash", name).set("tool_input", json!({ "command": command }))
}

fn start(serving: &Serving, session: &str) {
    post(serving, session, hook("SessionStart"));
    post(serving, session, hook("UserPromptSubmit").set("prompt", format!("Task {session}")));
    post(serving, session, call("PreToolUse", &format!("first of {session}"), "npm test"));
}

fn ask(serving: &Serving, session: &str, name: &str) {
    post(serving, session, call("PreToolUse", name, name));
    post(serving, session, call("PermissionRequest", name, name).without("tool_use_id"));
}

/// A call that fails.
fn fail(serving: &Serving, session: &str, name: &str) {
    post(serving, session, call("PreToolUse", name, name));
    post(serving, session, call("PostToolUseFailure", name, name).set("error", "exit 1"));
}

/// Two sessions wait, one keeps failing, one works.
fn four(env: &TestEnv) -> Serving {
    let serving = Serving::start(env, "");
    serving.has_read();
    for session in ["asks", "fails", "works", "waits"] {
        start(&serving, session);
    }
    post(&serving, "fails", call("PostToolUse", "first of fails", "npm test"));
    (0..3).for_each(|at| fail(&serving, "fails", &format!("make {at}")));
    ask(&serving, "asks", "rm -rf a");
    ask(&serving, "waits", "rm -rf b");
    serving
}

fn status(env: &TestEnv) -> String {
    run(env, "status", &[]).stdout
}

/// Waits until the status line has a text.
fn status_with(env: &TestEnv, text: &str) -> String {
    let until = clock::tick() + LIMIT;
    loop {
        let line = status(env);
        if line.contains(text) {
            return line;
        }
        assert!(clock::tick() < until, "no {text:?} in {line:?}");
    }
}

/// Group, sentence and agents of a need, without what it is called by.
fn told(need: &Value) -> Value {
    let agent = |agent: &Value| json!([agent["agent_id"], agent["group"], agent["reason"], agent["words"]]);
    let agents: Vec<Value> = need["agents"].as_array().unwrap().iter().map(agent).collect();
    json!([need["group"], need["words"], need["waits"], need["trouble"], need["perhaps"], agents])
}

/// Programs that show the line start it with a pipe that they never close, and mostly write nothing into it.
#[test]
fn status_does_not_wait_for_the_end_of_its_standard_input() {
    let env = env();
    let _serving = four(&env);
    let (all, one) = ("2 wait for you", "1 waits for you");
    for (pieces, expected) in [
        (&[][..], all),
        (&["no JSON"], all),
        (&["{\"session_id\": \"asks\""], all),
        (&["{\"session_id\": \"asks\", \"cwd\": \"/x\"}"], one),
        (&["{\"session_id\":", " \"asks\"}\n"], one),
    ] {
        let mut command = env.command();
        command.arg("status").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        pieces.iter().for_each(|piece| input.write_all(piece.as_bytes()).unwrap());
        wait_until(|| child.try_wait().unwrap());
        let line = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert!(line.contains(expected), "{pieces:?}: {line}");
        drop(input);
    }
}

#[test]
fn all_faces_say_the_same_of_the_same_rows() {
    let env = env();
    let serving = four(&env);
    // The page.
    let inbox = serving.json("/api/v1/inbox");
    let counts = json!([inbox["waits"], inbox["trouble"], inbox["perhaps"]]);
    assert_eq!(counts, json!([2, 1, 0]), "{inbox}");
    let entries = inbox["entries"].as_array().unwrap();
    let ids: Vec<&str> = entries.iter().map(|entry| entry["session"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["asks", "waits", "fails"]);
    // The command line.
    let line = status(&env);
    assert!(line.contains("◆ 2 wait for you") && line.contains("! 1 in trouble"), "{line}");
    let of_status = json(&run(&env, "status --json", &[]).stdout)["inbox"].clone();
    assert_eq!(json!([of_status["waits"], of_status["trouble"], of_status["perhaps"]]), counts);
    let listed = json(&run(&env, "ls --json", &[]).stdout);
    let row = |id: &str| {
        listed["sessions"].as_array().unwrap().iter().find(|row| row["id"] == id).cloned().unwrap()
    };
    assert_eq!(row("works").get("need"), None);
    for entry in entries {
        let (id, need) = (entry["session"]["id"].as_str().unwrap(), told(&entry["session"]["need"]));
        assert_eq!(told(&row(id)["need"]), need, "ls of {id}");
        assert_eq!(told(&serving.tree(id).unwrap()["summary"]["need"]), need, "the stream of {id}");
        let tree = json(&run(&env, &format!("tree {id} --json"), &[]).stdout);
        assert_eq!(told(&tree["summary"]["need"]), need, "tree of {id}");
        // Agents are subagents, and open calls count, on each face.
        for field in ["agents", "tool_calls"] {
            assert_eq!(tree["summary"][field], row(id)[field], "{field} of {id}");
        }
        let saved = env.path("saved.html");
        run(&env, &format!("export {id} --as html -o {}", saved.display()), &[]);
        let page = fs::read_to_string(saved).unwrap();
        let (_, carried) = page.split_once("id=\"subscope-saved\"").unwrap();
        let (carried, _) = carried.split_once('>').unwrap().1.split_once("</script>").unwrap();
        assert_eq!(told(&json(carried)["tree"]["summary"]["need"]), need, "export of {id}");
    }
    // The terminal UI.
    for (width, height) in [(80, 24), (200, 60)] {
        let Some(terminal) = Terminal::start(&env, width, height, &[]) else { return };
        terminal.wait_for_text(LIMIT, "◆ 2 wait for you · ! 1 in trouble");
        assert_eq!(terminal.title(), "(3) subscope");
        terminal.send(&["0"]);
        let screen = terminal.wait_for(LIMIT, |screen| {
            screen.contains("! main keeps failing: 3 calls of Bash in a row")
                && screen.matches("◆ main waits for your permission: Bash").count() == 2
        });
        eprintln!("{screen}");
        terminal.send(&["q"]);
        terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(0));
    }
    serving.end("-TERM");
}

#[test]
fn what_is_dismissed_and_seen_is_kept_for_all_faces_and_the_next_hub() {
    let env = env();
    let serving = four(&env);
    let Some(terminal) = Terminal::start(&env, 120, 40, &[]) else { return };
    terminal.wait_for_text(LIMIT, "◆ 2 wait for you · ! 1 in trouble");
    // It opens on the session that waits for the longest.
    terminal.send(&["d"]);
    terminal.wait_for_text(LIMIT, "◆ 1 waits for you · ! 1 in trouble");
    status_with(&env, "◆ 1 waits for you");
    assert_eq!(serving.json("/api/v1/inbox")["entries"][0]["session"]["id"], "waits");
    // A run that ends is listed once, until the user has seen it.
    post(&serving, "works", call("PostToolUse", "first of works", "npm test"));
    post(&serving, "works", hook("Stop"));
    status_with(&env, "✓ 1 finished");
    terminal.send(&["0"]);
    let screen = terminal
        .wait_for(LIMIT, |screen| screen.contains("✓ 1 finished · ◆ 1 waits for you · ! 1 in trouble"));
    assert!(screen.contains("since ") && screen.contains("u marks all read"), "{screen}");
    eprintln!("{screen}");
    terminal.send(&["u"]);
    terminal.wait_for(LIMIT, |screen| !screen.contains("1 finished"));
    terminal.send(&["q"]);
    terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(0));
    let before = status_with(&env, "◆ 1 waits for you");
    assert!(!before.contains("finished"), "{before}");
    serving.end("-TERM");
    let serving = Serving::start(&env, "");
    serving.has_read();
    let after = status_with(&env, "◆ 1 waits for you");
    assert!(after.contains("! 1 in trouble") && !after.contains("finished"), "{after}");
    // A new question is a new fact.
    post(&serving, "asks", call("PostToolUse", "rm -rf a", "rm -rf a"));
    ask(&serving, "asks", "rm -rf c");
    status_with(&env, "◆ 2 wait for you");
    serving.end("-TERM");
}
