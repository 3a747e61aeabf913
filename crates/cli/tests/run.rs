//! `run`: a command's output passes through unchanged, and its agents' events are printed separately.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

#[path = "run/equal_calls.rs"]
mod equal_calls;
#[path = "run/iterations.rs"]
mod iterations;
#[path = "run/keeping.rs"]
mod keeping;
#[path = "run/output.rs"]
mod output;
#[path = "run/posting.rs"]
mod posting;
#[path = "run/protocol.rs"]
mod protocol;
#[path = "run/records.rs"]
mod records;
#[path = "run/terminal.rs"]
mod terminal;
#[path = "run/transcript.rs"]
mod transcript;
#[path = "run/working_folder.rs"]
mod working_folder;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use common::{agents, env, json, json_lines, run_with_stdin, told};
use subscope_hub::clock;
use subscope_testkit::{
    env::{Ran, TestEnv},
    fixtures::{self, recording},
};

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_secs(40);

/// The recorded stream of a session.
fn stream(name: &str) -> Vec<u8> {
    fixtures::bytes(&recording("2.1.330", name).streams()[0])
}

/// Puts a recorded stream into the environment, to be printed by a command.
fn printed(env: &TestEnv, name: &str) -> PathBuf {
    env.write(&format!("work/{name}.jsonl"), stream(name))
}

/// Runs `subscope run` with words in front of the command, and the command by words.
fn run(env: &TestEnv, options: &str, command: &[&str]) -> Ran {
    let mut words: Vec<&str> = ["run"].into_iter().chain(options.split_whitespace()).collect();
    words.push("--");
    words.extend(command);
    env.run(&words)
}

/// A program of the harness's name that prints a recorded stream where it is asked for a stream, and what the real one
/// prints otherwise.
fn harness(env: &TestEnv, stream: &Path, plain: &str) -> PathBuf {
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '2.1.330 (Claude Code)'; exit; }}\necho \"$@\" >>'{args}'\n\
         case \"$*\" in *'stream-json'*) cat '{stream}';; *) printf '%s' '{plain}';; esac\nexit 3\n",
        args = env.path("arguments").display(),
        stream = stream.display(),
    );
    let path = env.write("bin/claude", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn bytes_and_exit_code_pass_through_and_blocks_go_to_stderr() {
    let env = env();
    let file = printed(&env, "b-parallel");
    let script = format!("cat {}; exit 7", file.display());
    let ran = run(&env, "--no-store", &["sh", "-c", &script]);
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    assert_eq!(ran.stdout.as_bytes(), stream("b-parallel"));
    for words in [
        "▶ Explore: Map the checkout flow",
        "✓ Plan: Plan guest-cart merging",
        "Explore: Map the checkout flow → Bash ls -R",
    ] {
        assert!(ran.stderr.contains(words), "{words} in\n{}", ran.stderr);
    }
    assert!(!env.path("data/subscope").exists(), "--no-store keeps nothing");
}

#[test]
fn what_is_no_stream_passes_as_it_is_and_nothing_is_said_of_it() {
    let env = env();
    let odd = "plain\r\n{\"json\": of its own}\n\u{1b}[31mred\u{1b}[0m\0\nno line end";
    let file = env.write("work/odd", odd);
    let ran = run(&env, "", &["cat", file.to_str().unwrap()]);
    assert_eq!((ran.stdout.as_str(), told(&ran)), (odd, (0, "")));
}

#[test]
fn stdin_stderr_signals_and_missing_commands_are_as_without_us() {
    let env = env();
    let ran = run_with_stdin(&env, "run --no-store -- cat", &[], b"in\0\xff");
    assert_eq!(ran.stdout, String::from_utf8_lossy(b"in\0\xff"));
    let ran = run(&env, "--no-store", &["sh", "-c", "echo told >&2; kill -TERM $$"]);
    assert_eq!(told(&ran), (143, "told\n"));
    assert_eq!(run(&env, "--no-store", &["sh", "-c", "kill -KILL $$"]).code, Some(137));
    let ran = run(&env, "--no-store", &["no-such-command"]);
    assert!(told(&ran).0 == 127 && ran.stderr.contains("no-such-command"), "{}", ran.stderr);
    let ran = run(&env, "--no-store", &["/"]);
    assert_eq!(ran.code, Some(126), "{}", ran.stderr);
    assert_eq!(env.run(&["run"]).code, Some(2));
}

#[test]
fn signals_reach_the_command_and_it_decides_what_to_make_of_them() {
    let env = env();
    let script = "trap 'echo got TERM; exit 9' TERM; trap 'echo got INT' INT; echo ready; while :; do sleep 0.02; done";
    let mut command = env.command();
    command.args(["run", "--no-store", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let id = child.id().to_string();
    let send = |signal: &str| {
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    };
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    send("-INT");
    assert_eq!(lines.next().unwrap().unwrap(), "got INT");
    send("-TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "got TERM");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn a_background_child_that_holds_the_pipe_keeps_nobody_waiting() {
    let env = env();
    let ran = run(&env, "--no-store", &["sh", "-c", "sleep 300 2>/dev/null & echo $!; exit 4"]);
    let pid = ran.stdout.trim().to_owned();
    assert_eq!(ran.code, Some(4));
    assert!(Command::new("kill").arg(&pid).status().unwrap().success(), "it is still there");
}

#[test]
fn a_reader_that_leaves_ends_the_command_as_it_would_without_us() {
    let env = env();
    let mut command = env.command();
    command.args(["run", "--no-store", "--", "yes"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}

#[test]
fn render_prints_the_readable_view_in_place_of_the_bytes_and_json_the_feed() {
    let env = env();
    let file = printed(&env, "a-single");
    let ran = run(&env, "--render --no-store", &["cat", file.to_str().unwrap()]);
    assert!(ran.stdout.contains("▶ general-purpose") && !ran.stdout.contains("{\"type\""), "{}", ran.stdout);
    assert_eq!(told(&ran), (0, ""));
    let feed = run(&env, "--render --json --no-store", &["cat", file.to_str().unwrap()]).success();
    let beside = run(&env, "--json --no-store", &["cat", file.to_str().unwrap()]);
    assert_eq!(beside.stdout.as_bytes(), stream("a-single"));
    for text in [feed, beside.stderr] {
        let events = json_lines(&text);
        let stops = events.iter().filter(|event| event["kind"] == "subagent.stop").count();
        assert_eq!((stops, &events[0]["schema"]), (1, &"subscope.event/1".into()));
    }
}

#[test]
fn one_shot_harness_tells_what_it_does_and_prints_what_it_would_have_printed() {
    let env = env();
    let file = printed(&env, "b-parallel-bg");
    let program = harness(&env, &file, "unused");
    let ran = run(&env, "--verbose", &[program.to_str().unwrap(), "-p", "look", "around"]);
    let results: Vec<String> = json_lines(&String::from_utf8(stream("b-parallel-bg")).unwrap())
        .iter()
        .filter(|line| line["type"] == "result")
        .map(|line| format!("{}\n", line["result"].as_str().unwrap()))
        .collect();
    assert_eq!((ran.stdout, ran.code), (results.join("\n"), Some(3)));
    let added =
        "options added: --output-format stream-json --verbose --forward-subagent-text --settings {\"hooks\":";
    assert!(ran.stderr.starts_with(added) && ran.stderr.contains("#### Explore"), "{}", ran.stderr);
    // The command prints the answer itself; it is not printed a second time as a block.
    let (last, others) = results.split_last().unwrap();
    let equal = others.iter().filter(|other| *other == last).count();
    assert_eq!(ran.stderr.matches(last.trim()).count(), equal, "{}", ran.stderr);
    let arguments = fs::read_to_string(env.path("arguments")).unwrap();
    let (format, rest) = arguments.split_once(" --settings {").unwrap();
    assert_eq!(format, "--output-format stream-json --verbose --forward-subagent-text");
    assert!(rest.contains(" hook\"") && rest.ends_with("} -p look around\n"), "{rest}");
    // Nothing is stored, and agents cannot be stopped: there are no hooks.
    run(&env, "--no-store", &[program.to_str().unwrap(), "-p", "more"]);
    let arguments = fs::read_to_string(env.path("arguments")).unwrap();
    assert!(arguments.ends_with("\n--output-format stream-json --verbose --forward-subagent-text -p more\n"));
}

#[test]
fn a_format_that_the_user_gave_is_left_alone() {
    let env = env();
    let program = harness(&env, &printed(&env, "a-single"), "plain words");
    let program = program.to_str().unwrap();
    let ran = run(&env, "--no-store --verbose", &[program, "-p", "hi", "--output-format", "text"]);
    assert_eq!((ran.stdout.as_str(), told(&ran)), ("plain words", (3, "")));
    let ran = run(&env, "", &[program, "-p", "hi", "--output-format", "stream-json", "--verbose"]);
    assert_eq!(ran.stdout.as_bytes(), stream("a-single"));
    assert_eq!(
        fs::read_to_string(env.path("arguments")).unwrap(),
        "-p hi --output-format text\n-p hi --output-format stream-json --verbose\n"
    );
}

#[test]
fn what_was_run_is_kept_and_is_the_tree_of_its_stream() {
    let env = env();
    let file = printed(&env, "c-nested-text");
    let ran = run(&env, "", &["cat", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows = json(&env.run(&["ls", "--json"]).success());
    let session = rows["sessions"][0]["id"].as_str().unwrap().to_owned();
    let direct = json(&env.run_with_stdin(&["tree", "-", "--json"], &stream("c-nested-text")).success());
    assert_eq!(direct["session"]["id"], session.as_str());
    assert_eq!(rows["sessions"][0]["agents"], direct["summary"]["agents"]);
    // Its transcript is on no disk here: the hub has only what the run posted.
    let agent = agents(&direct).pop().unwrap().0;
    let shown = json(&env.run(&["show", &agent, "--json"]).success());
    assert_eq!(
        (shown["id"].as_str(), shown["status"].as_str()),
        (Some(agent.as_str()), Some("completed")),
        "{shown}"
    );
}

#[test]
fn tree_is_printed_at_the_end_where_a_detail_is_asked_for() {
    let env = env();
    let file = printed(&env, "c-nested");
    let ran = run(&env, "--detail minimal --no-store", &["cat", file.to_str().unwrap()]);
    let tree = env.run_with_stdin(&["tree", "-", "--detail", "minimal"], &stream("c-nested")).success();
    let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    assert_eq!(last(&ran.stderr), last(&tree));
    assert!(ran.stderr.contains("4 completed") || ran.stderr.contains(&last(&tree)), "{}", ran.stderr);
}

#[test]
fn a_stalled_command_is_ended_where_that_is_asked_for() {
    let env = env();
    let lines = String::from_utf8(stream("a-single")).unwrap();
    // It has read some lines, and the model writes nothing more.
    let read = lines.find("\"tool_result\"").unwrap();
    let open = &lines[..=read + lines[read..].find('\n').unwrap()];
    let file = env.write("work/open.jsonl", open);
    let script = format!("cat {}; exec sleep 600", file.display());
    let options = "--no-store --stall 1s --stall-subagents 1s --stall-kill";
    let ran = run(&env, options, &["sh", "-c", &script]);
    assert_eq!(ran.code, Some(143), "{}", ran.stderr);
    assert!(ran.stderr.contains("--stall-kill"), "{}", ran.stderr);
}

#[test]
fn a_terminal_that_takes_nothing_delays_no_command() {
    let env = env();
    let line = String::from_utf8(stream("b-parallel")).unwrap();
    let file = env.write("work/many.jsonl", line.repeat(200));
    let done = env.path("work/done");
    let script = format!("cat {}; touch {}", file.display(), done.display());
    let mut command = env.command();
    command.args(["run", "--no-store", "--verbose", "--full", "--", "sh", "-c", &script]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let began = clock::tick();
    while !done.exists() {
        assert!(began.elapsed() < LIMIT, "it waits for its terminal");
        thread::sleep(Duration::from_millis(5));
    }
    // No hub has read anything yet; the run ends nevertheless.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(reader);
}
