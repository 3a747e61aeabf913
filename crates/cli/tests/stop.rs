//! `stop` as users run it: the real program as hub, as hook and as the command.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use common::{agents, env, json, run, told};
use serde_json::{Value, json as value};
use subscope_hub::clock;
use subscope_model::iso8601;
use subscope_testkit::{
    env::TestEnv,
    lines::{Line, launch_result, spawn_input, task_notification, transcript},
};

const SESSION: &str = "59d3cea2-0000-4000-8000-000000000001";

/// A running `serve`, which is killed at the end: answers must not depend on an orderly shutdown.
struct Hub(Child);

impl Hub {
    fn start(env: &TestEnv) -> Self {
        Self::start_with(env, &[])
    }

    fn start_with(env: &TestEnv, options: &[&str]) -> Self {
        let mut command = env.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "{url:?}");
        Self(child)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the output of `subscope hook` for an event of an agent; its stderr must be empty and its exit code 0.
fn hook(env: &TestEnv, agent: &str, event: &str, call: &str) -> String {
    let mut payload = value!({
        "session_id": SESSION, "cwd": "/home/user/shop", "hook_event_name": event, "prompt_id": "p",
        "tool_name": "Bash", "tool_use_id": call, "tool_input": {"command": "make"}, "tool_response": {},
    });
    if !agent.is_empty() {
        payload["agent_id"] = agent.into();
        payload["agent_type"] = "Explore".into();
    }
    let ran = env.run_with_stdin(&["hook"], payload.to_string().as_bytes());
    assert_eq!(told(&ran), (0, ""), "{event}");
    ran.stdout
}

/// Starts three agents that have each called a tool.
fn three(env: &TestEnv) {
    for agent in ["a111", "a222", "b333"] {
        hook(env, agent, "SubagentStart", "");
        hook(env, agent, "PreToolUse", &format!("{agent}-1"));
        assert_eq!(hook(env, agent, "PostToolUse", &format!("{agent}-1")), "");
    }
}

fn shown(env: &TestEnv, agent: &str) -> Value {
    json(&run(env, &format!("show {agent} --json"), &[]).success())
}

/// A transcript of the session as the harness of that version writes it, with what it says of `a222` in the end.
fn write_transcripts(env: &TestEnv, version: &str) {
    let now = clock::now_ms();
    let at = |line: Line, after: i64| {
        line.session(SESSION).set("timestamp", iso8601(now + after)).set("version", version)
    };
    let lines = |lines: Vec<Line>| lines.into_iter().map(|line| line.line() + "\n").collect::<String>();
    let mut main = vec![at(transcript::user("Look into it."), -5_000)];
    for (agent, after) in [("a111", -4_000), ("a222", -3_900), ("b333", -3_800)] {
        let call = format!("spawn-{agent}");
        let input = spawn_input("Explore", &format!("Look at {agent}"), "Look.");
        main.push(at(transcript::tool_use("Agent", &call).input(input), after));
        let launched = transcript::tool_result(&call, "Launched.").harness_result(launch_result(agent));
        main.push(at(launched, after + 50));
    }
    main.push(at(transcript::user(&task_notification("a222", "spawn-a222", "completed")), 60_000));
    let project = ".claude/projects/-home-user-shop";
    env.write(&format!("home/{project}/{SESSION}.jsonl"), lines(main));
    let own = vec![at(transcript::tool_use("Bash", "a222-1").agent("a222"), -3_000)];
    env.write(&format!("home/{project}/{SESSION}/subagents/agent-a222.jsonl"), lines(own));
}

#[test]
fn one_of_three_is_stopped_at_its_next_call_and_stays_so_whatever_the_harness_says() {
    let env = env();
    let hub = Hub::start(&env);
    three(&env);
    let asked = run(&env, "stop a2", &[]);
    assert_eq!(told(&asked), (0, ""));
    assert_eq!(
        asked.stdout,
        "a222 (Explore) is asked to stop, and ends after its running tool call or before its next\n"
    );
    assert_eq!(shown(&env, "a222")["flags"], value!(["stopping", "orphan"]));
    let status = json(&run(&env, "status --json", &[]).success());
    assert_eq!((&status["running"], &status["stopping"]), (&3.into(), &1.into()));
    assert!(run(&env, "status", &[]).success().contains("1 stopping"));
    assert!(run(&env, "show a222", &[]).success().contains("stopping"));
    let again = json(&run(&env, "stop a222 --json", &[]).success());
    assert_eq!((&again["schema"], &again["repeat"]), (&"subscope.stop-asked/1".into(), &true.into()));
    // The order outlives the hub that took it.
    drop(hub);
    let hub = Hub::start(&env);
    assert_eq!(hook(&env, "a111", "PreToolUse", "a111-2"), "");
    assert_eq!(hook(&env, "", "PreToolUse", "root-1"), "");
    let decision = json(&hook(&env, "a222", "PreToolUse", "a222-2"));
    assert_eq!(decision["continue"], false);
    assert!(decision["stopReason"].is_string() && decision.get("hookSpecificOutput").is_none(), "{decision}");
    assert_eq!(
        json(&hook(&env, "a222", "PostToolUse", "a222-2"))["continue"],
        false,
        "again, as long as it asks"
    );
    assert_eq!(shown(&env, "a222")["status"], "stopped");
    let ended = run(&env, "stop a222", &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("ended already: stopped"), "{}", ended.stderr);
    // Killed, and read from files again, which contain the harness's own report.
    drop(hub);
    write_transcripts(&env, "2.1.197");
    run(&env, "index", &[]).success();
    let statuses = |tree: &Value| {
        let mut all = agents(tree);
        all.sort();
        all.into_iter().map(|(agent, status)| format!("{agent} {status}")).collect::<Vec<_>>()
    };
    let kept = json(&run(&env, &format!("tree {SESSION} --json"), &[]).success());
    assert_eq!(statuses(&kept), ["a111 running", "a222 stopped", "b333 running", "root running"]);
    assert_eq!(shown(&env, "a222")["status"], "stopped");
    // A path is its file alone.
    let main = env.path(&format!("home/.claude/projects/-home-user-shop/{SESSION}.jsonl"));
    let alone = json(&run(&env, "tree --json", &[main.as_path()]).success());
    assert_eq!(statuses(&alone), ["a111 running", "a222 completed", "b333 running", "root running"]);
}

#[test]
fn versions_that_obey_both_have_the_call_refused_as_well() {
    let env = env();
    write_transcripts(&env, "2.1.330");
    let _hub = Hub::start(&env);
    three(&env);
    run(&env, "stop 59d3/a1", &[]).success();
    let decision = json(&hook(&env, "a111", "PreToolUse", "a111-2"));
    assert_eq!(decision["continue"], false);
    assert_eq!(decision["hookSpecificOutput"]["permissionDecision"], "deny");
    let row = shown(&env, "a111");
    assert_eq!(
        (&row["status"], &row["tools_denied"], &row["open_tools"]),
        (&"stopped".into(), &1.into(), &0.into())
    );
}

#[test]
fn what_cannot_be_stopped_is_refused_with_the_reason() {
    let env = env();
    let nobody = run(&env, "stop a2", &[]);
    assert_eq!(nobody.code, Some(1));
    assert!(
        nobody.stderr.contains("no hub runs") && nobody.stderr.contains("subscope serve"),
        "{}",
        nobody.stderr
    );
    let _hub = Hub::start(&env);
    three(&env);
    for (agent, code, says) in [
        ("root", 1, "main agent"),
        ("59d3cea2/root", 1, "main agent"),
        ("a", 1, "2 agents at work"),
        ("c", 1, "no such agent"),
        ("ffff/a111", 1, "no such agent"),
        ("59d3/", 2, "empty"),
        ("/a111", 2, "empty"),
        ("../../a?b#c%2f", 1, "no such agent"),
    ] {
        let ran = env.run(&["stop", agent]);
        assert_eq!(ran.code, Some(code), "{agent} {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{agent} {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    hook(&env, "b333", "SubagentStop", "");
    let ended = run(&env, "stop b333", &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("ended already: completed"), "{}", ended.stderr);
}

#[test]
fn http_hooks_are_answered_the_same() {
    let env = env();
    let hub = Hub::start(&env);
    three(&env);
    run(&env, "stop a2", &[]).success();
    let payload = value!({
        "session_id": SESSION, "hook_event_name": "PreToolUse", "agent_id": "a222", "agent_type": "Explore",
        "prompt_id": "p", "tool_name": "Bash", "tool_use_id": "a222-2", "tool_input": {},
    });
    let socket = env.path("data/subscope/hub.sock");
    let answer = post(&socket, &payload.to_string());
    assert!(answer.contains("content-type: application/json"), "{answer}");
    assert!(answer.contains(r#""continue":false"#), "{answer}");
    drop(hub);
    // Without a hub the agent continues, and no order is delivered later.
    assert_eq!(hook(&env, "a222", "PreToolUse", "a222-3"), "");
    assert_eq!(fs::read_dir(env.path("data/subscope/spool")).unwrap().count(), 1);
}

#[test]
fn order_for_a_run_of_a_session_reaches_nobody_who_only_uses_its_id() {
    let env = env();
    let _hub = Hub::start(&env);
    let socket = env.path("data/subscope/hub.sock");
    let event = |run: &str, session: Option<&str>, kind: &str, at: i64| {
        let mut event = value!({"subagentName": "n", "subagentRunId": run, "timestamp": clock::now_ms() + at, "type": kind});
        if let Some(session) = session {
            event["sessionId"] = session.into();
        }
        post_to(&socket, "/subagent-events", &event.to_string())
    };
    for session in [Some("A"), Some("B"), None] {
        assert!(event("r1", session, "subagent_start", 0).starts_with("HTTP/1.1 200"));
    }
    run(&env, "stop A/r1", &[]).success();
    for (run, session, is_stopped) in
        [("r1", None, false), ("r1", Some("B"), false), ("r10", Some("A"), false), ("r1", Some("A"), true)]
    {
        let answer = event(run, session, "tool_call", 1);
        assert_eq!(answer.contains(r#""stop":true"#), is_stopped, "{run} {session:?}: {answer}");
    }
    // A run that names no session is stopped by its own.
    run(&env, "stop events:r1/r1", &[]).success();
    assert!(event("r1", None, "tool_call", 2).contains(r#""stop":true"#));
}

fn post(socket: &Path, body: &str) -> String {
    post_to(socket, "/hooks/claude", body)
}

fn post_to(socket: &Path, route: &str, body: &str) -> String {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
    };
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(
        stream,
        "POST {route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Waits until an agent is asked to stop.
fn wait_until_asked(env: &TestEnv, agent: &str) {
    let deadline = clock::tick() + Duration::from_secs(30);
    while shown(env, agent)["flags"].as_array().is_none_or(|flags| !flags.contains(&"stopping".into())) {
        assert!(clock::tick() < deadline, "nobody asked it");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn stalled_subagent_is_stopped_where_serve_or_watch_is_told_so() {
    let limits = ["--stall", "1s", "--stall-subagents", "1s"];
    for by_serve in [true, false] {
        let env = env();
        let options = if by_serve { [&limits[..], &["--stall-kill"]].concat() } else { limits.to_vec() };
        let _hub = Hub::start_with(&env, &options);
        let watch = (!by_serve).then(|| {
            let mut command = env.command();
            let command = command.args(["watch", "--stall-kill"]);
            Hub(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        });
        hook(&env, "a111", "SubagentStart", "");
        assert_eq!(hook(&env, "a111", "PreToolUse", "1"), "");
        assert_eq!(hook(&env, "a111", "PostToolUse", "1"), "");
        wait_until_asked(&env, "a111");
        let answer = hook(&env, "a111", "PreToolUse", "2");
        assert!(answer.contains(r#""continue":false"#), "{answer}");
        drop(watch);
    }
}
