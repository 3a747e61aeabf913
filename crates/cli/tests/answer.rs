//! Permission requests that are answered here: the real program as hub, as hook and as the command.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    io::Write as _,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use common::{
    env, json, run,
    serving::{Serving, exchange, posting, wait_until},
    told,
};
use serde_json::{Value, json as value};
use subscope_testkit::env::TestEnv;

const LIST: &str = "/api/v1/permissions";
const LOOK: &str = "/api/v1/permissions?looking=true";

/// A hub that takes answers.
fn serve(env: &TestEnv) -> Serving {
    run(env, "config set answers.enabled true", &[]).success();
    let serving = Serving::start(env, "");
    serving.has_read();
    serving
}

fn payload(session: &str, event: &str) -> Value {
    value!({
        "session_id": session, "cwd": "/home/user/shop", "hook_event_name": event, "prompt_id": "p",
        "tool_name": "Bash", "tool_input": {"command": "git tag v1\nrm -rf build"},
    })
}

/// Starts `subscope hook` with a payload.
fn hook(env: &TestEnv, payload: &Value) -> Child {
    let mut command = env.command();
    command.arg("hook").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Its end closes the pipe: the hook reads all of it.
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    child
}

/// Waits for the end of a hook; returns what it printed. It never says anything else, and never fails.
fn printed(hook: Child) -> String {
    let ended = hook.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
    String::from_utf8(ended.stdout).unwrap()
}

/// Has a session ask for a command, while a frontend looks; returns the hook that waits and the id of its request.
fn ask(env: &TestEnv, serving: &Serving, session: &str) -> (Child, String) {
    ask_by(env, serving, session, &payload(session, "PermissionRequest"))
}

/// Has a session make the call that a request is about.
fn ask_by(env: &TestEnv, serving: &Serving, session: &str, request: &Value) -> (Child, String) {
    serving.json(LOOK);
    let mut call = request.clone();
    call["hook_event_name"] = "PreToolUse".into();
    let (name, id) = id_of(session);
    call[name] = id;
    assert_eq!(printed(hook(env, &call)), "");
    let waiting = hook(env, request);
    let id = wait_until(|| {
        let asked = serving.json(LIST);
        let mut requests = asked["requests"].as_array().unwrap().iter();
        let request = requests.find(|request| request["session_id"] == session)?;
        Some(request["id"].as_str().unwrap().to_owned())
    });
    (waiting, id)
}

/// Hooks in two places deliver each payload twice.
#[test]
fn one_answer_reaches_both_hooks_of_a_request() {
    let env = env();
    let serving = serve(&env);
    for _ in 0..2 {
        assert_eq!(printed(hook(&env, &payload("s", "SessionStart"))), "");
    }
    let request = payload("s", "PermissionRequest");
    let (first, id) = ask_by(&env, &serving, "s", &request);
    // The other hook, as its two requests.
    let second = serving.post("/hooks/claude", "x-subscope-waits: 1\r\n", request.to_string().as_bytes());
    let path = format!("/hooks/permissions/{}", json(&second)["held_permission"].as_str().unwrap());
    assert_eq!(serving.json(LIST)["requests"].as_array().unwrap().len(), 1);
    run(&env, &format!("answer {id} --allow"), &[]).success();
    assert_eq!(json(&printed(first))["hookSpecificOutput"]["decision"]["behavior"], "allow");
    assert_eq!(serving.json(&path)["behavior"], "allow");
    is_gone(&serving).unwrap();
}

fn id_of(session: &str) -> (String, Value) {
    ("tool_use_id".to_owned(), format!("toolu_{session}").into())
}

fn is_gone(serving: &Serving) -> Option<()> {
    serving.json(LIST)["requests"].as_array().unwrap().is_empty().then_some(())
}

#[test]
fn each_request_is_answered_once_and_its_hook_says_so_to_the_harness() {
    let env = env();
    let serving = serve(&env);
    let (first, allowed) = ask(&env, &serving, "s-allow");
    let (second, denied) = ask(&env, &serving, "s-deny");

    let listed = run(&env, "answer", &[]).success();
    let commands = listed.lines().filter(|line| line.contains("git tag v1") || line.contains("rm -rf build"));
    assert_eq!(commands.count(), 4, "both lines of both calls\n{listed}");
    assert_eq!(json(&run(&env, "answer --json", &[]).success()), serving.json(LIST));

    let said = run(&env, &format!("answer {allowed} --allow"), &[]).success();
    assert_eq!(said, "allowed: Bash of s-allow\n");
    let decision = json(&printed(first))["hookSpecificOutput"].take();
    assert_eq!(decision, value!({"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}));

    let denial = env.run(&["answer", &denied[..8], "--deny", "--reason", "not on Fridays", "--json"]);
    let answered = json(&denial.success());
    assert_eq!((answered["id"].as_str(), answered["behavior"].as_str()), (Some(&*denied), Some("deny")));
    let decision = json(&printed(second))["hookSpecificOutput"]["decision"].take();
    assert_eq!(decision, value!({"behavior": "deny", "message": "not on Fridays"}));

    for id in [&allowed, &denied] {
        let again = run(&env, &format!("answer {id} --allow"), &[]);
        assert_eq!(told(&again).0, 1);
        let body = br#"{"behavior":"allow"}"#;
        assert_eq!(answer_status(&serving, id, "x-subscope: 1\r\n", body), 409, "answered before");
    }
}

/// Posts an answer; returns the status.
fn answer_status(serving: &Serving, id: &str, headers: &str, body: &[u8]) -> u16 {
    let path = format!("/api/v1/permissions/{id}/answer");
    exchange(serving.connect(), &posting(&serving.address, &path, headers, body)).0
}

#[test]
fn no_other_page_and_no_other_word_answers() {
    let env = env();
    let serving = serve(&env);
    let (waiting, id) = ask(&env, &serving, "s-1");
    let allow: &[u8] = br#"{"behavior":"allow"}"#;
    let long = value!({"behavior": "deny", "reason": "x".repeat(2_001)}).to_string();
    for (headers, body, status) in [
        ("", allow, 403),
        ("x-subscope: 1\r\norigin: https://example.com\r\n", allow, 403),
        ("x-subscope: 1\r\n", b"{}", 400),
        ("x-subscope: 1\r\n", br#"{"behavior":"always"}"#, 400),
        ("x-subscope: 1\r\n", br#"{"behavior":"allow","reason":"why not"}"#, 400),
        ("x-subscope: 1\r\n", long.as_bytes(), 400),
    ] {
        assert_eq!(answer_status(&serving, &id, headers, body), status, "{headers}{}", body.len());
    }
    assert_eq!(answer_status(&serving, "0123456789abcdef", "x-subscope: 1\r\n", allow), 404);
    // Nobody else gets the decision in the place of its hook.
    assert_eq!(serving.get(&format!("/hooks/permissions/{id}")).0, 404);
    assert_eq!(answer_status(&serving, &id, "x-subscope: 1\r\n", allow), 200);
    assert!(printed(waiting).contains("allow"));
}

/// The request of a tool that asks its user.
fn request_of(session: &str, tool: &str, input: Value) -> Value {
    let mut request = payload(session, "PermissionRequest");
    request["tool_name"] = tool.into();
    request["tool_input"] = input;
    request
}

#[test]
fn questions_are_answered_each_and_a_plan_is_approved() {
    let env = env();
    let serving = serve(&env);
    let input = value!({ "questions": [
        { "question": "Which unit?", "header": "Unit", "multiSelect": false,
          "options": [{ "label": "In cents", "description": "whole numbers" }, { "label": "In euros" }] },
        { "question": "Which parts?", "multiSelect": true, "options": [{ "label": "Door" }, { "label": "Wall" }] },
    ]});
    let asked = request_of("s-asks", "AskUserQuestion", input.clone());
    let (waiting, id) = ask_by(&env, &serving, "s-asks", &asked);
    let listed = run(&env, "answer", &[]).success();
    for line in [
        "1. Which unit? (one of these, or other words)",
        "- In cents: whole numbers",
        "(any of these, or other words)",
    ] {
        assert!(listed.contains(line), "{line}\n{listed}");
    }
    for options in ["--allow", "--answer cents", "--answer a --answer b --answer c"] {
        assert_eq!(told(&run(&env, &format!("answer {id} {options}"), &[])).0, 2, "{options}");
    }
    let one: &[u8] = br#"{"behavior":"allow","answers":["In cents"]}"#;
    assert_eq!(answer_status(&serving, &id, "x-subscope: 1\r\n", one), 400, "it waits on");
    let said = env.run(&["answer", &id, "--answer", "in CENTS", "--answer", "Door, the fence"]).success();
    assert_eq!(said, "answered: AskUserQuestion of s-asks\n");
    let decision = json(&printed(waiting))["hookSpecificOutput"]["decision"].take();
    let mut answered = input;
    answered["answers"] = value!({ "Which unit?": "In cents", "Which parts?": "Door, the fence" });
    assert_eq!(decision, value!({ "behavior": "allow", "updatedInput": answered }));

    let input =
        value!({ "plan": "# Mugs\n1. Count them.", "planFilePath": "/home/user/.claude/plans/mugs.md" });
    let asked = request_of("s-plans", "ExitPlanMode", input.clone());
    let (waiting, id) = ask_by(&env, &serving, "s-plans", &asked);
    assert!(run(&env, "answer", &[]).success().contains("1. Count them."));
    assert_eq!(told(&env.run(&["answer", &id, "--answer", "yes"])).0, 2, "it asks no question");
    run(&env, &format!("answer {id} --allow"), &[]).success();
    let decision = json(&printed(waiting))["hookSpecificOutput"]["decision"].take();
    assert_eq!(decision, value!({ "behavior": "allow", "updatedInput": input }));
}

#[test]
fn answer_in_the_terminal_ends_the_wait() {
    let env = env();
    let serving = serve(&env);
    let (waiting, id) = ask(&env, &serving, "s-1");
    // The hub has noticed that the agent waits before it notices that it does so no longer.
    wait_until(|| (serving.json("/api/v1/inbox")["waits"] == 1).then_some(()));
    thread::sleep(Duration::from_millis(1_500));
    let mut done = payload("s-1", "PostToolUse");
    done["tool_use_id"] = id_of("s-1").1;
    done["tool_response"] = value!({"stdout": ""});
    assert_eq!(printed(hook(&env, &done)), "");
    assert_eq!(printed(waiting), "", "the harness has its answer");
    assert_eq!(answer_status(&serving, &id, "x-subscope: 1\r\n", br#"{"behavior":"allow"}"#), 404);
}

#[test]
fn request_goes_with_its_hook_and_the_hook_with_its_hub() {
    let env = env();
    let mut serving = serve(&env);
    let (mut killed, id) = ask(&env, &serving, "s-killed");
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until(|| is_gone(&serving));
    assert_eq!(answer_status(&serving, &id, "x-subscope: 1\r\n", br#"{"behavior":"allow"}"#), 404);

    let (waiting, _) = ask(&env, &serving, "s-waits");
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    assert_eq!(printed(waiting), "", "nobody has decided");
    // The hub had stored the request: it is not delivered again.
    drop(serving);
    let serving = serve(&env);
    let tree = serving.tree("s-waits").unwrap();
    assert_eq!(tree["agents"][0]["tools"].as_array().unwrap().len(), 1, "{tree}");
    assert_eq!(is_gone(&serving), Some(()), "no hook waits any more");
}

#[test]
fn hook_returns_at_once_unless_answers_are_taken_and_somebody_looks() {
    let env = env();
    let serving = Serving::start(&env, "");
    serving.json(LOOK);
    assert_eq!(printed(hook(&env, &payload("s-off", "PermissionRequest"))), "", "off by default");
    assert_eq!(serving.json(LIST)["enabled"], false);
    assert!(run(&env, "answer", &[]).stderr.contains("answers.enabled"));
    serving.end("-TERM");

    let serving = serve(&env);
    serving.json(LIST);
    assert_eq!(printed(hook(&env, &payload("s-1", "PermissionRequest"))), "", "a list is no look");
    serving.json(LOOK);
    let question = request_of("s-2", "AskUserQuestion", value!({ "questions": [] }));
    assert_eq!(printed(hook(&env, &question)), "", "nothing can be answered");
    let plan = request_of("s-2", "ExitPlanMode", value!({}));
    assert_eq!(printed(hook(&env, &plan)), "", "no plan can be read");
    // A harness that posts by itself cannot wait for a second response.
    let answer =
        serving.post("/hooks/claude", "", payload("s-3", "PermissionRequest").to_string().as_bytes());
    assert_eq!(answer, "");
    assert_eq!(is_gone(&serving), Some(()));
}
