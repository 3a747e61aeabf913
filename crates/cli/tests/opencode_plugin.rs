//! The plugin for OpenCode: its file, and the plugin itself in node, with the real hub and the real hook.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_testkit::{env::TestEnv, skip};

use common::{
    env, json,
    serving::{LIMIT, Serving, wait_until},
};

const CHOSEN: [&str; 2] = ["--harness", "opencode"];
/// Plays OpenCode: takes a line of JSON for each event or call, and says what came of it.
const DRIVER: &str = r#"
import { createInterface } from "node:readline";
const { subscope } = await import(process.argv[2]);
const parents = { ses_child: "ses_root" };
const aborted = [];
const replies = [];
const client = {
  _client: { post: async ({ url, path, body }) => replies.push({ url, path, body }) },
  session: {
    get: async ({ path }) => {
      if (path.id === "ses_lost") throw new Error("not found");
      return { data: { id: path.id, parentID: parents[path.id] } };
    },
    abort: async ({ path }) => aborted.push(path.id),
  },
};
const hooks = await subscope({ client });
for await (const line of createInterface({ input: process.stdin })) {
  const { event, call } = JSON.parse(line);
  let said = "went on";
  if (!event && !call) {
    console.log(JSON.stringify(replies));
    continue;
  }
  if (event) await hooks.event({ event });
  else await hooks["tool.execute.before"](call, { args: {} }).catch((error) => (said = error.message));
  console.log(JSON.stringify({ said, aborted }));
}
"#;

/// A question that replies are asked for.
const REPLIES: Value = Value::Null;

/// OpenCode as [`DRIVER`] plays it, with the plugin.
struct Played {
    node: Child,
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Played {
    /// Installs the plugin and starts it; `None` without node.
    fn start(env: &TestEnv) -> Option<Self> {
        let node = Command::new("node").arg("--version").stdout(Stdio::null()).status();
        if !node.is_ok_and(|status| status.success()) {
            skip::missing_tool("node");
            return None;
        }
        run(env, &["install"]).success();
        // Node takes this ending for a module of its own, as OpenCode's runtime takes the other.
        let module = env.write("work/plugin.mjs", fs::read(plugin(env)).unwrap());
        let driver = env.write("work/driver.mjs", DRIVER);
        let mut node = env.command_of("node");
        node.arg(driver).arg(module).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut node = node.spawn().unwrap();
        let (stdin, stdout) = (node.stdin.take().unwrap(), node.stdout.take().unwrap());
        Some(Self { node, stdin, answers: BufReader::new(stdout) })
    }

    /// Plays an event or a call; returns what came of it.
    fn play(&mut self, line: &Value) -> Value {
        let line = if *line == REPLIES { json!({}) } else { line.clone() };
        writeln!(self.stdin, "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        json(&answer)
    }

    fn end(self) {
        let Self { mut node, stdin, .. } = self;
        drop(stdin);
        assert!(node.wait().unwrap().success());
    }
}

fn event(kind: &str, properties: &Value) -> Value {
    json!({ "event": { "type": kind, "properties": properties } })
}

fn plugin(env: &TestEnv) -> PathBuf {
    env.path("config/opencode/plugin/subscope.js")
}

fn run(env: &TestEnv, words: &[&str]) -> subscope_testkit::env::Ran {
    env.run(&[&["hooks"], words, &CHOSEN].concat())
}

#[test]
fn file_is_installed_shown_and_removed_with_its_folders() {
    let env = env();
    run(&env, &["install"]).success();
    let once = fs::read_to_string(plugin(&env)).unwrap();
    assert!(run(&env, &["install"]).success().contains("already"));
    assert_eq!(fs::read_to_string(plugin(&env)).unwrap(), once);
    let status = json(&run(&env, &["status", "--json"]).success());
    let row = status["scopes"].as_array().unwrap().iter().find(|row| row["scope"] == "user").unwrap();
    assert_eq!((&row["installed"], row["hooks"].as_array().map(Vec::len)), (&json!(true), Some(5)));
    run(&env, &["remove"]).success();
    assert!(!env.path("config/opencode").exists(), "the folders that were made are gone, too");
    // Another file of this name stays.
    env.write("config/opencode/plugin/subscope.js", "export const mine = 1;\n");
    let refused = run(&env, &["install"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("this is no plugin of subscope"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(plugin(&env)).unwrap(), "export const mine = 1;\n");
}

#[test]
fn plugin_tells_of_questions_and_stops_one_agent() {
    let env = env();
    let serving = Serving::start(&env, "");
    let Some(mut played) = Played::start(&env) else { return };
    let mut play = |line: &Value| played.play(line);
    let created = |id: &str, parent: Option<&str>| {
        let info = json!({ "id": id, "parentID": parent, "agent": "general", "title": "Move (@general subagent)",
            "version": "1.18.33", "time": { "created": clock::now_ms() } });
        event("session.created", &json!({ "sessionID": id, "info": info }))
    };
    let asked = json!({ "id": "per_1", "sessionID": "ses_child", "permission": "bash", "patterns": ["mv a b"],
        "metadata": {}, "tool": { "messageID": "msg_1", "callID": "call_1" } });
    let part = json!({ "type": "tool", "tool": "bash", "callID": "call_1", "sessionID": "ses_child",
        "state": { "status": "running", "input": { "command": "mv a b" } } });
    let row = || {
        let tree = serving.tree("ses_root")?;
        tree["agents"].as_array()?.iter().find(|row| row["id"] == "ses_child").cloned()
    };
    let wait = |what: &str, is_so: &dyn Fn(&Value) -> bool| {
        let began = clock::tick();
        while !row().is_some_and(|row| is_so(&row)) {
            assert!(began.elapsed() < LIMIT, "{what}: {:?}", row());
            thread::sleep(Duration::from_millis(5));
        }
    };
    // Deltas of texts and the like are not passed on.
    for line in [
        created("ses_root", None),
        created("ses_child", Some("ses_root")),
        event("message.part.delta", &json!({ "sessionID": "ses_child", "delta": "x" })),
        event("message.part.updated", &json!({ "sessionID": "ses_child", "part": part })),
        event("permission.asked", &asked),
        // Whose agent asks is unknown.
        event("permission.asked", &json!({ "id": "per_0", "sessionID": "ses_lost" })),
        json!({ "call": { "tool": "bash", "sessionID": "ses_lost", "callID": "call_0" } }),
    ] {
        assert_eq!(play(&line), json!({ "said": "went on", "aborted": [] }));
    }
    wait("the question", &|row| row["liveness"]["kind"] == "permission" && row["liveness"]["name"] == "bash");
    let replied = json!({ "sessionID": "ses_child", "requestID": "per_1", "reply": "once" });
    play(&event("permission.replied", &replied));
    wait("the answer", &|row| row["liveness"]["kind"] != "permission");
    let before =
        |session: &str| json!({ "call": { "tool": "bash", "sessionID": session, "callID": "call_2" } });
    let went_on = json!({ "said": "went on", "aborted": [] });
    assert_eq!((play(&before("ses_child")), play(&before("ses_root"))), (went_on.clone(), went_on.clone()));
    env.run(&["stop", "ses_root/ses_child"]).success();
    assert_eq!(play(&before("ses_root")), went_on, "only the agent itself");
    let stopped = json!({ "said": "Stopped by the user, with subscope.", "aborted": ["ses_child"] });
    assert_eq!(play(&before("ses_child")), stopped);
    assert_eq!(serving.tree("ses_lost"), None);
    played.end();
}

#[test]
fn person_answers_a_question_once_unless_its_terminal_was_first() {
    let env = env();
    env.run(&["config", "set", "answers.enabled", "true"]).success();
    let serving = Serving::start(&env, "");
    let Some(mut played) = Played::start(&env) else { return };
    let ask = |played: &mut Played, id: &str, call: &str| {
        serving.json("/api/v1/permissions?looking=true");
        let part = json!({ "type": "tool", "tool": "bash", "callID": call, "sessionID": "ses_root",
            "state": { "status": "running", "input": { "command": format!("mv {call} b") } } });
        played.play(&event("message.part.updated", &json!({ "sessionID": "ses_root", "part": part })));
        let asked = json!({ "id": id, "sessionID": "ses_root", "permission": "bash", "patterns": [], "metadata": {},
            "tool": { "messageID": "msg_1", "callID": call } });
        played.play(&event("permission.asked", &asked));
        wait_until(|| {
            let request = serving.json("/api/v1/permissions")["requests"].get(0)?.clone();
            (request["arguments"].as_str()?.contains(call))
                .then(|| request["id"].as_str().unwrap().to_owned())
        })
    };
    let reply = |id: &str, body: Value| json!({ "url": "/permission/{requestID}/reply", "path": { "requestID": id }, "body": body });

    let first = ask(&mut played, "per_1", "call_1");
    env.run(&["answer", &first, "--deny", "--reason", "use git mv"]).success();
    let denied = reply("per_1", json!({ "reply": "reject", "message": "use git mv" }));
    wait_until(|| (played.play(&REPLIES) == json!([denied])).then_some(()));
    played.play(&event(
        "permission.replied",
        &json!({ "sessionID": "ses_root", "requestID": "per_1", "reply": "reject" }),
    ));

    let second = ask(&mut played, "per_2", "call_2");
    env.run(&["answer", &second, "--allow"]).success();
    let allowed = reply("per_2", json!({ "reply": "once" }));
    wait_until(|| (played.play(&REPLIES) == json!([denied, allowed])).then_some(()));
    played.play(&event(
        "permission.replied",
        &json!({ "sessionID": "ses_root", "requestID": "per_2", "reply": "once" }),
    ));

    // Its own user answers: the hook ends, and nobody else can answer.
    let third = ask(&mut played, "per_3", "call_3");
    played.play(&event(
        "permission.replied",
        &json!({ "sessionID": "ses_root", "requestID": "per_3", "reply": "once" }),
    ));
    wait_until(|| (serving.json("/api/v1/permissions")["requests"] == json!([])).then_some(()));
    assert_ne!(env.run(&["answer", &third, "--allow"]).code, Some(0));
    assert_eq!(played.play(&REPLIES), json!([denied, allowed]), "OpenCode is not answered twice");
    played.end();
}
