//! `watch` on changing files, and `demo` as plain text: every event is printed once, until the end of the input.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use common::{env, json, run, run_with_stdin};
use subscope_hub::clock;
use subscope_model::iso8601;
use subscope_testkit::{
    corpus::{self, Options},
    env::TestEnv,
    fixtures::{self, recording},
    lines::{Line, jsonl, transcript},
};

/// Far more than showing a line takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(30);
/// Silence after which no more output is expected.
const QUIET: Duration = Duration::from_millis(1500);

/// The name of a session's file, as the harness gives it: only so is its folder known before it is there.
const SESSION: &str = "5e551017-0000-4000-8000-000000000001";

/// More than any of these tests prints.
const QUEUE_LINES: usize = 65_536;

/// A running `watch` and the lines that it prints.
struct Watching {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let errors = child.stderr.take().unwrap();
        let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
        Self { child, lines, seen: Vec::new(), errors: Some(errors) }
    }

    fn of(env: &TestEnv, words: &str, target: &Path) -> Self {
        let mut command = env.command();
        command.args(words.split_whitespace()).arg(target);
        Self::start(command)
    }

    /// Waits until a line holds these words.
    fn wait_for(&mut self, words: &str) {
        let began = clock::tick();
        while !self.seen.iter().any(|line| line.contains(words)) {
            match self.lines.recv_timeout(LIMIT.saturating_sub(began.elapsed())) {
                Ok(line) => self.seen.push(line),
                Err(error) => panic!("no {words:?} ({error}) in\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Reads until nothing comes for a while.
    fn settle(&mut self) {
        loop {
            match self.lines.recv_timeout(QUIET) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn count(&self, words: &str) -> usize {
        self.seen.iter().filter(|line| line.contains(words)).count()
    }

    /// Ends it; returns its stderr.
    fn end(mut self) -> String {
        assert_eq!(self.child.try_wait().unwrap(), None, "it ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let errors = self.errors.take().unwrap().join().unwrap();
        assert!(!errors.contains("panicked"), "{errors}");
        errors
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(QUEUE_LINES);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn said(words: &str, ms: i64) -> String {
    jsonl([transcript::assistant(words).session(SESSION).after_ms(ms)])
}

/// A line of the subagent `a1`, of now: one of long ago is taken to have ended.
fn own(line: Line) -> Line {
    line.session(SESSION).agent("a1").set("timestamp", iso8601(clock::now_ms()))
}

fn begun(env: &TestEnv) -> PathBuf {
    env.write(
        &format!("work/{SESSION}.jsonl"),
        jsonl([transcript::user("Look into it.").session(SESSION)]) + &said("First words.", 1),
    )
}

/// Number of agents reported as completed: lines of time, mark and name.
fn ends(blocks: &str) -> usize {
    blocks.lines().filter(|line| line.split_whitespace().nth(1) == Some("✓")).count()
}

#[test]
fn appended_lines_are_shown_as_they_come_and_once() {
    let env = env();
    let path = begun(&env);
    let mut watching = Watching::of(&env, "watch", &path);
    watching.wait_for("First words.");
    append(&path, said("Second words.", 2).as_bytes());
    watching.wait_for("Second words.");
    // A line is shown when it is whole.
    let third = said("Third words.", 3);
    let (one, two) = third.as_bytes().split_at(third.len() / 2);
    append(&path, one);
    watching.settle();
    assert_eq!(watching.count("Third words."), 0);
    append(&path, two);
    watching.wait_for("Third words.");
    watching.settle();
    for words in ["First words.", "Second words.", "Third words."] {
        assert_eq!(watching.count(words), 1, "{words}");
    }
    assert_eq!(watching.end(), "");
}

#[test]
fn agent_whose_file_appears_later_is_shown_with_its_calls() {
    let env = env();
    let path = begun(&env);
    let mut watching = Watching::of(&env, "watch", &path);
    watching.wait_for("First words.");
    let call = transcript::tool_use("Agent", "t1").input(subscope_testkit::lines::spawn_input(
        "Explore",
        "Find the cause",
        "Find it.",
    ));
    append(&path, jsonl([call.session(SESSION).after_ms(5)]).as_bytes());
    let folder = format!("work/{SESSION}/subagents");
    env.write(
        &format!("{folder}/agent-a1.meta.json"),
        transcript::meta("Explore", "t1").set("description", "Find the cause").line(),
    );
    let grep = transcript::tool_use("Grep", "g1").input(serde_json::json!({"pattern": "needle"}));
    let lines = [own(transcript::user("Find it.")), own(grep)];
    let agent = env.write(&format!("{folder}/agent-a1.jsonl"), jsonl(lines));
    watching.wait_for("Find the cause");
    watching.wait_for("needle");
    append(&agent, jsonl([own(transcript::assistant("Found it.").stop("end_turn"))]).as_bytes());
    watching.wait_for("✓ Explore: Find the cause");
    watching.settle();
    assert_eq!(watching.count("▶"), 1, "{:#?}", watching.seen);
    assert_eq!(watching.count("needle"), 1, "{:#?}", watching.seen);
    assert_eq!(watching.end(), "");
}

#[test]
fn truncated_and_replaced_files_repeat_nothing() {
    let env = env();
    let path = begun(&env);
    let mut watching = Watching::of(&env, "watch", &path);
    watching.wait_for("First words.");
    append(&path, said("Second words.", 2).as_bytes());
    watching.wait_for("Second words.");
    // Truncated to its first lines, and written on.
    let short = jsonl([transcript::user("Look into it.").session(SESSION)]) + &said("First words.", 1);
    fs::write(&path, &short).unwrap();
    watching.settle();
    append(&path, said("Words after the cut.", 4).as_bytes());
    watching.wait_for("Words after the cut.");
    // Replaced by another file of the same name.
    let other = env.write("work/other", short.clone() + &said("Words of the other file.", 5));
    fs::rename(other, &path).unwrap();
    watching.wait_for("Words of the other file.");
    // Taken away and made again.
    fs::remove_file(&path).unwrap();
    watching.settle();
    fs::write(&path, short + &said("Words of the third file.", 6)).unwrap();
    watching.wait_for("Words of the third file.");
    watching.settle();
    for words in [
        "First words.",
        "Second words.",
        "Words after the cut.",
        "Words of the other file.",
        "Words of the third file.",
    ] {
        assert_eq!(watching.count(words), 1, "{words} in {:#?}", watching.seen);
    }
    watching.end();
}

#[test]
fn without_a_target_new_sessions_are_followed_and_the_past_is_not_told() {
    let env = env();
    let old = jsonl([transcript::user("Old prompt."), transcript::assistant("Old words.").stop("end_turn")]);
    let old = env.write("home/.claude/projects/-p/session-1.jsonl", old);
    let mut command = env.command();
    command.args(["watch", "--json"]);
    let mut watching = Watching::start(command);
    // Written again and again: stdout does not say when following begins.
    let began = clock::tick();
    let mut number = 0;
    while watching.count("New words") == 0 {
        assert!(began.elapsed() < LIMIT, "{:#?}", watching.seen);
        number += 1;
        let session = "session-2";
        let line = transcript::assistant(&format!("New words {number}.")).session(session).after_ms(number);
        let new = env.home().join(".claude/projects/-q/session-2.jsonl");
        if new.exists() {
            append(&new, jsonl([line]).as_bytes());
        } else {
            env.write(
                "home/.claude/projects/-q/session-2.jsonl",
                jsonl([transcript::user("Go.").session(session), line]),
            );
        }
        if let Ok(line) = watching.lines.recv_timeout(Duration::from_millis(200)) {
            watching.seen.push(line);
        }
    }
    append(&old, said("Words of the old session.", 9).as_bytes());
    watching.wait_for("Words of the old session.");
    assert_eq!(watching.count("Old words."), 0);
    for line in &watching.seen {
        assert_eq!(json(line)["schema"], "subscope.event/1");
    }
    watching.end();
}

#[test]
fn recording_through_a_pipe_is_told_whole_and_ends() {
    let env = env();
    for (version, scenario) in [("2.1.330", "b-parallel"), ("2.1.330", "c-nested"), ("2.0.76", "b-parallel")]
    {
        let recording = recording(version, scenario);
        let ran = run_with_stdin(&env, "watch -", &[], &fixtures::bytes(&recording.streams()[0]));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{version} {scenario}");
        let agents =
            recording.truth().agents.iter().filter(|agent| !agent.optional && agent.id != "root").count();
        let starts = ran.stdout.lines().filter(|line| line.contains('▶')).count();
        assert_eq!((starts, ends(&ran.stdout)), (agents, agents), "{version} {scenario}:\n{}", ran.stdout);
    }
}

#[test]
fn watch_of_a_big_transcript_misses_nothing() {
    let env = env();
    let options =
        Options { agents: 40, turns: 20, dialects: corpus::Dialects::Transcripts, ..Options::default() };
    let made = corpus::on_disk(&options, env.root()).unwrap();
    let mut watching = Watching::of(&env, "watch --json", &made.main(env.root()));
    watching.wait_for("\"user.prompt\"");
    watching.settle();
    let of = |kind: &str| watching.seen.iter().filter(|line| json(line)["kind"] == kind).count();
    assert_eq!((of("tool.pre"), of("subagent.start"), of("subagent.stop")), (made.calls(), 40, 40));
    assert_eq!(watching.end(), "");
}

#[test]
fn demo_as_plain_text_tells_all_eight_agents_and_what_to_do_next() {
    let ran = run(&env(), "demo --speed 1000 --plain", &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines = |mark: char| ran.stdout.lines().filter(|line| line.contains(mark)).count();
    assert_eq!(lines('▶'), 8, "{}", ran.stdout);
    assert_eq!(ends(&ran.stdout), 8, "{}", ran.stdout);
    for words in ["agents    8 · 8 completed", "subscope watch", "subscope tree last", "subscope doctor"] {
        assert!(ran.stdout.contains(words), "{words}");
    }
}

#[test]
fn sessions_that_are_named_of_a_file_are_followed_alone() {
    let env = env();
    let lines = fs::read_to_string(fixtures::root().join("wild/two-runs-one-stream.jsonl")).unwrap();
    let path = env.write("runs.jsonl", &lines);
    let said = |run: usize, words: &str| {
        let line = lines.lines().filter(|line| line.contains("msg_")).nth(run - 1).unwrap();
        line.replace("msg_", &format!("msg_{words}")).replace("\"hi\"", &format!("\"{words}\"")) + "\n"
    };
    let mut watching = Watching::of(&env, "watch --json", &path.join("aaaaaaaa-0000-4000-8000-000000000002"));
    watching.wait_for("\"hi\"");
    append(&path, said(1, "others").as_bytes());
    append(&path, said(2, "second").as_bytes());
    watching.wait_for("second");
    watching.settle();
    let is_second = |line: &String| json(line)["session_id"] == "aaaaaaaa-0000-4000-8000-000000000002";
    assert!(watching.seen.iter().all(is_second), "{:#?}", watching.seen);
    assert_eq!(watching.end(), "");
    for (targets, code) in
        [(vec![path.join("aaaa")], 2), (vec![path.join("none")], 1), (vec![path.join("a"), path], 2)]
    {
        let targets: Vec<&Path> = targets.iter().map(PathBuf::as_path).collect();
        let ran = run(&env, "watch", &targets);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{}", ran.stderr);
    }
}

#[test]
fn stdin_beside_a_file_is_refused_by_watch() {
    let env = env();
    let path = begun(&env);
    let ran = run_with_stdin(&env, "watch -", &[&path], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
}
