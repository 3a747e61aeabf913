//! An agent and its client over ACP: a scripted client speaks with a scripted agent that replays a recording, through `run`.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, ChildStdout},
};

use serde_json::{Value, json as value};

use subscope_testkit::others::acp_recordings;

use super::{
    keeping::{send, taken},
    *,
};
use crate::common::serving::{Serving, wait_until};

const CODEX: &str = "acp/codex/2.6.0/acp_on";
/// What the client writes at the end: half a message.
const HALF: &str = "{\"jsonrpc\":\"2.0\",\"meth";

/// A message of the client, and what the agent prints once it has read it.
#[derive(Clone)]
struct Step {
    message: String,
    answers: String,
}

/// The log of a recording.
fn log(name: &str) -> Vec<u8> {
    let recording = acp_recordings().into_iter().find(|it| it.name() == name).unwrap();
    fixtures::bytes(&recording.streams[0][0])
}

/// The first lines of a recording as steps.
fn steps(log: &[u8], lines: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in json_lines(std::str::from_utf8(log).unwrap()).into_iter().take(lines) {
        let message = format!("{}\n", line["msg"]);
        match line["dir"].as_str().unwrap() {
            "out" => steps.push(Step { message, answers: String::new() }),
            _ => steps.last_mut().unwrap().answers += &message,
        }
    }
    steps
}

/// Puts an agent into the environment. It writes down what it reads, and prints after each line what the file of the line's
/// number has.
fn agent(env: &TestEnv, steps: &[Step]) -> PathBuf {
    for (number, step) in steps.iter().enumerate() {
        env.write(&format!("answers/{}", number + 1), &step.answers);
    }
    let script = format!(
        "#!/bin/sh\ncd '{}' || exit 9\nn=0\nwhile IFS= read -r line; do printf '%s\\n' \"$line\" >>got; n=$((n + 1)); \
         [ -e answers/$n ] && cat answers/$n; done\nprintf '%s' \"$line\" >>got\nexit 4\n",
        env.path("answers").parent().unwrap().display()
    );
    let path = env.write("bin/codex-acp", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A client that speaks with an agent through `run`.
struct Client {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    written: String,
    read: String,
}

impl Client {
    fn start(env: &TestEnv, options: &str, agent: &Path) -> Self {
        let mut command = env.command();
        command.arg("run").args(options.split_whitespace()).arg("--").arg(agent);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, to, from, written: String::new(), read: String::new() }
    }

    /// Writes in pieces of odd sizes, each of which must pass by itself.
    fn write(&mut self, text: &str) {
        for piece in text.as_bytes().chunks(text.len().div_ceil(3).max(7)) {
            self.to.write_all(piece).unwrap();
            self.to.flush().unwrap();
        }
        self.written += text;
    }

    /// Takes the steps, each of which needs the answers to those before it.
    fn take(&mut self, steps: &[Step]) {
        for step in steps {
            self.write(&step.message);
            let mut answers = vec![0; step.answers.len()];
            self.from.read_exact(&mut answers).unwrap();
            self.read += std::str::from_utf8(&answers).unwrap();
        }
    }

    /// Ends what it writes. Returns what else came, the exit code and stderr.
    fn end(mut self) -> (String, Option<i32>, String) {
        drop(self.to);
        let (mut rest, mut errors) = (String::new(), String::new());
        self.from.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (rest, self.child.wait().unwrap().code(), errors)
    }
}

/// What the agent has read.
fn got(env: &TestEnv) -> String {
    fs::read_to_string(env.path("got")).unwrap_or_default()
}

/// The agents of a recording's log, but for the root, whose process ends with a code of its own here.
fn subagents(tree: &Value) -> Vec<(String, String)> {
    let mut all: Vec<_> = agents(tree).into_iter().filter(|(id, _)| id != "root").collect();
    all.sort();
    all
}

fn direct(env: &TestEnv, log: &[u8]) -> Value {
    json(&env.run_with_stdin(&["tree", "-", "--json"], log).success())
}

#[test]
fn bytes_of_both_sides_are_equal_and_the_tree_is_that_of_the_log() {
    for recording in acp_recordings() {
        let env = env();
        let log = fixtures::bytes(&recording.streams[0][0]);
        let mut steps = steps(&log, usize::MAX);
        // Odd lines of both sides.
        for step in steps.iter_mut().step_by(2) {
            step.message = step.message.replace('\n', "\r\n");
            step.answers = step.answers.replace('\n', "\r\n");
        }
        let agent = agent(&env, &steps);
        let mut client = Client::start(&env, "", &agent);
        client.take(&steps);
        client.write(HALF);
        let (written, read) = (client.written.clone(), client.read.clone());
        let (rest, code, errors) = client.end();
        let expected: String = steps.iter().map(|step| step.answers.as_str()).collect();
        assert_eq!((got(&env), read, rest, code), (written, expected, String::new(), Some(4)), "{errors}");
        let direct = direct(&env, &log);
        let session = direct["session"]["id"].as_str().unwrap();
        let stored = json(&common::run(&env, &format!("tree {session} --json"), &[]).success());
        assert_eq!(subagents(&stored), subagents(&direct), "{}", recording.name());
        for field in ["harness", "harness_version", "runs", "title"] {
            let (is, direct) = (&stored["session"][field], &direct["session"][field]);
            assert_eq!(is, direct, "{} {field}", recording.name());
        }
        assert_eq!(stored["summary"]["tool_calls"], direct["summary"]["tool_calls"], "{}", recording.name());
        assert!(!errors.contains("warning"), "{errors}");
    }
}

#[test]
fn what_is_no_message_passes_too_and_is_a_problem_of_the_session() {
    let env = env();
    let log = log(CODEX);
    let mut steps = steps(&log, usize::MAX);
    let long = value!({
        "jsonrpc": "2.0", "method": "session/update", "params": {
            "sessionId": "01a2194b-fd77-78b3-b433-db2cbc7c35a0",
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x".repeat(1 << 20)}},
        },
    });
    let answers = std::mem::take(&mut steps[2].answers);
    steps[2].answers = format!("\u{1b}[1mlistening\u{1b}[0m\n\n{{not json}}\n{long}\n{answers}no line end");
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "-q", &agent);
    client.take(&steps);
    let (rest, code, errors) = client.end();
    assert_eq!((rest.as_str(), code, errors.as_str()), ("", Some(4), ""));
    let direct = direct(&env, &log);
    let session = direct["session"]["id"].as_str().unwrap();
    let stored = json(&common::run(&env, &format!("tree {session} --json"), &[]).success());
    assert_eq!(subagents(&stored), subagents(&direct));
}

#[test]
fn a_run_that_stores_nothing_shows_the_agents_on_stderr_and_refuses_to_print_on_stdout() {
    let env = env();
    let steps = steps(&log(CODEX), usize::MAX);
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "--no-store --detail full", &agent);
    client.take(&steps);
    let (rest, code, errors) = client.end();
    assert_eq!((rest.as_str(), code), ("", Some(4)), "{errors}");
    assert!(errors.contains("count the lines of app.py"), "{errors}");
    assert!(!env.path("data/subscope").exists(), "--no-store keeps nothing");
    let ran = run(&env, "--render --no-store", &[agent.to_str().unwrap()]);
    assert!(ran.code == Some(2) && ran.stdout.is_empty(), "{}", ran.stderr);
    assert!(ran.stderr.contains("--render prints to stdout"), "{}", ran.stderr);
}

#[test]
fn record_of_a_connection_has_both_sides() {
    let env = env();
    let log = log(CODEX);
    let steps = steps(&log, usize::MAX);
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "--no-store --iterations 1", &agent);
    client.take(&steps);
    let (_, code, errors) = client.end();
    assert_eq!(code, Some(4), "{errors}");
    let base = env.path("work/.subscope/iterations");
    let record = fs::read_dir(&base).unwrap().next().unwrap().unwrap().path();
    let tree = json(&common::run(&env, "tree --json", &[&record]).success());
    let direct = direct(&env, &log);
    assert_eq!(
        (subagents(&tree), &tree["session"]["runs"]),
        (subagents(&direct), &direct["session"]["runs"])
    );
}

#[test]
fn hub_that_is_killed_in_between_costs_nothing() {
    let env = env();
    let log = log(CODEX);
    let mut steps = steps(&log, usize::MAX);
    let serving = Serving::start(&env, "");
    // The answers to the prompt come in two parts: with the second message of a client that says nothing.
    let answers: Vec<&str> = steps[2].answers.split_inclusive('\n').collect();
    let (first, second) = (answers[..25].concat(), answers[25..].concat());
    let message = "{\"jsonrpc\":\"2.0\",\"method\":\"$/nothing\"}\n".to_owned();
    steps[2].answers = first;
    steps.push(Step { message, answers: second });
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "", &agent);
    client.take(&steps[..3]);
    let direct = direct(&env, &log);
    let session = direct["session"]["id"].as_str().unwrap();
    wait_until(|| serving.tree(session).filter(|tree| subagents(tree).len() == 2));
    drop(serving);
    client.take(&steps[3..]);
    let (rest, code, errors) = client.end();
    assert_eq!((rest.as_str(), code), ("", Some(4)), "{errors}");
    assert!(!errors.contains("not kept"), "{errors}");
    let serving = Serving::start(&env, "");
    let stored = wait_until(|| {
        serving.tree(session).filter(|tree| subagents(tree).iter().all(|(_, status)| status != "running"))
    });
    assert_eq!(subagents(&stored), subagents(&direct));
    assert_eq!(stored["session"]["harness"], "codex", "the opening is read again");
    serving.end("-TERM");
}

#[test]
fn neither_side_waits_for_a_hub_that_is_stuck() {
    let env = env();
    let log = log(CODEX);
    let steps = steps(&log, usize::MAX);
    let serving = Serving::start(&env, "");
    send("-STOP", &serving);
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "", &agent);
    let began = clock::tick();
    client.take(&steps);
    // Less than one time-out of a connection to the hub.
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let (rest, code, errors) = client.end();
    assert_eq!((rest.as_str(), code), ("", Some(4)), "{errors}");
    assert!(errors.contains("lines are spooled") && !errors.contains("not kept"), "{errors}");
    send("-CONT", &serving);
    taken(&env);
    let direct = direct(&env, &log);
    let session = direct["session"]["id"].as_str().unwrap();
    assert_eq!(subagents(&serving.tree(session).unwrap()), subagents(&direct));
    serving.end("-TERM");
}

#[test]
fn one_agent_is_stopped_by_a_message_between_two_of_the_client() {
    const ROOT: &str = "01a2194b-fd77-78b3-b433-db2cbc7c35a0";
    let env = env();
    let serving = Serving::start(&env, "");
    // Both agents are at work, and each can be cancelled alone.
    let mut steps = steps(&log(CODEX), 23);
    let children = json_lines(std::str::from_utf8(&log(CODEX)).unwrap());
    let child =
        |line: usize| children[line]["msg"]["params"]["update"]["sessionId"].as_str().unwrap().to_owned();
    let (first, second) = (child(13), child(19));
    let update = |session: &str, state: Value| {
        let update = value!({"sessionUpdate": "subagent_update", "sessionId": session, "state": state});
        let params = value!({"sessionId": ROOT, "update": update});
        format!("{}\n", value!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    };
    let thread = second.split(":subagent:").nth(1).unwrap();
    let cancelled = update(&second, value!({"state": "idle", "stopReason": "cancelled"}));
    // The answer to the fourth line that it reads is that to our message, whatever stands in it.
    let message = "{\"jsonrpc\":\"2.0\",\"method\":\"$/nothing\",\"params\":{}}\n".to_owned();
    steps.push(Step { message: message.clone(), answers: String::new() });
    steps.push(Step { message: String::new(), answers: cancelled.clone() });
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "", &agent);
    client.take(&steps[..3]);
    let live = |tree: &Value| subagents(tree).iter().filter(|(_, status)| status == "running").count();
    wait_until(|| serving.tree(ROOT).filter(|tree| live(tree) == 2));
    // Half a message first: ours waits for its end.
    client.write(&message[..20]);
    let before = client.written.clone();
    let asked = common::run(&env, &format!("stop {thread}"), &[]);
    assert_eq!(told(&asked), (0, ""), "{}", asked.stdout);
    assert!(asked.stdout.contains("is asked to stop, and its program gets the request"), "{}", asked.stdout);
    thread::sleep(Duration::from_millis(1_500));
    assert!(!got(&env).contains("session/cancel"), "{}", got(&env));
    client.write(&message[20..]);
    let mut answers = vec![0; cancelled.len()];
    client.from.read_exact(&mut answers).unwrap();
    assert_eq!(answers, cancelled.as_bytes());
    let tree = wait_until(|| serving.tree(ROOT).filter(|tree| live(tree) == 1));
    let own = first.split(":subagent:").nth(1).unwrap();
    let mut expected = [(own, "running"), (thread, "stopped")].map(|(id, is)| (id.to_owned(), is.to_owned()));
    expected.sort();
    assert_eq!(subagents(&tree), expected);
    let written = client.written.clone();
    let (rest, code, errors) = client.end();
    assert_eq!((rest.as_str(), code), ("", Some(4)), "{errors}");
    let cancel = value!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": second}});
    let read = got(&env);
    let ours = read.strip_prefix(&written).unwrap_or_else(|| panic!("{before}\n{read}"));
    assert_eq!((json(ours), ours.ends_with('\n')), (cancel, true));
    serving.end("-TERM");
}

#[test]
fn an_agent_that_cannot_be_cancelled_alone_is_not_asked_to_and_the_refusal_says_why() {
    const ROOT: &str = "01a2194b-fd77-78b3-b433-db2cbc7c35a0";
    let env = env();
    let serving = Serving::start(&env, "");
    let mut steps = steps(&log(CODEX), 23);
    steps[2].answers = steps[2].answers.replace("\"cancel\":{}", "");
    let agent = agent(&env, &steps);
    let mut client = Client::start(&env, "", &agent);
    client.take(&steps);
    let tree = wait_until(|| serving.tree(ROOT).filter(|tree| subagents(tree).len() == 2));
    let asked = common::run(&env, &format!("stop {}", subagents(&tree)[0].0), &[]);
    assert_eq!(asked.code, Some(1));
    assert!(asked.stderr.contains("it cannot be stopped alone"), "{}", asked.stderr);
    let written = client.written.clone();
    assert_eq!(client.end().1, Some(4));
    assert_eq!(got(&env), written);
    serving.end("-TERM");
}
