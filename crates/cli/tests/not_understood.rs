//! Files in known places of which nothing is understood, and files of programs that are not supported: `ls`, `doctor` and
//! `tree` name them, beside sessions that are read too, and show none as a session of another program.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;

use common::{env, json, run, serving::Serving};
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, recording},
};

const ROLLOUT: &str =
    "home/.codex/sessions/2026/02/24/rollout-2026-02-24T03-00-00-aaaaaaaa-2222-7333-8444-555566667777.jsonl";
/// A rollout of the CLI of spring 2025.
const OBJECT: &str = "home/.codex/sessions/rollout-2025-05-01-bbbbbbbb-2222-4333-8444-555566667777.json";
/// A line of Qoder's, and one that says so.
const QODER: &str = "{\"type\":\"user\",\"uuid\":\"u1\",\"parentUuid\":null,\"sessionId\":\"0f0f0f0f-0000-4000-8000-000000000009\",\"cwd\":\"/w\",\"message\":{\"role\":\"user\",\"content\":\"fix it\"}}\n{\"type\":\"assistant\",\"uuid\":\"u2\",\"parentUuid\":\"u1\",\"sessionId\":\"0f0f0f0f-0000-4000-8000-000000000009\",\"credits\":0.5,\"billable\":true,\"message\":{\"role\":\"assistant\",\"content\":[]}}\n";
/// Lines of Command Code, which look like pi's, and one that says so.
const COMMAND_CODE: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-02-24T03:00:00.000Z\",\"cwd\":\"/w\"}\n{\"type\":\"message\",\"id\":\"a\",\"timestamp\":\"2026-02-24T03:00:01.000Z\",\"message\":{\"role\":\"user\",\"content\":\"fix it\"}}\n{\"type\":\"message\",\"id\":\"b\",\"timestamp\":\"2026-02-24T03:00:02.000Z\",\"message\":{\"role\":\"assistant\",\"content\":[]},\"usage\":{\"inputTokens\":1},\"model\":\"m/n\"}\n";

fn good_session(env: &TestEnv) {
    let main = recording("2.1.330", "a-single").mains()[0].clone();
    let name = main.file_name().unwrap().to_str().unwrap();
    env.write(&format!("home/.claude/projects/-w/{name}"), fixtures::bytes(&main));
}

fn rollout(env: &TestEnv) -> PathBuf {
    env.write(ROLLOUT, "{\"foo\":1}\n");
    env.path(ROLLOUT).canonicalize().unwrap()
}

#[test]
fn a_list_names_files_that_are_not_understood_with_and_without_a_hub() {
    let env = env();
    good_session(&env);
    let silent = run(&env, "ls", &[]);
    assert_eq!((silent.code, silent.stderr.as_str()), (Some(0), ""));
    let one = format!("warning: {}: no line of it is understood\n", rollout(&env).display());
    let ran = run(&env, "ls", &[]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr), (Some(0), silent.stdout.as_str(), one));
    assert_eq!(json(&run(&env, "ls --json", &[]).stdout)["sessions"].as_array().unwrap().len(), 1);
    env.write(
        OBJECT,
        r#"{"session":{"id":"bbbbbbbb-2222-4333-8444-555566667777"},"items":[{"type":"message"}]}"#,
    );
    let first = env.path(ROLLOUT).canonicalize().unwrap();
    let two = format!(
        "warning: 2 files in known places are not understood, among them {}: no line of it is understood; `subscope doctor` names them\n",
        first.display()
    );
    assert_eq!(run(&env, "ls", &[]).stderr, two);
    assert_eq!(run(&env, "ls --strict", &[]).code, Some(3));
    for other in ["ls --harness claude-code", "ls --live"] {
        assert_eq!(
            run(&env, other, &[]).stderr.lines().filter(|line| line.contains("understood")).count(),
            0
        );
    }
    let serving = Serving::start(&env, "");
    serving.has_read();
    assert_eq!(run(&env, "ls", &[]).stderr, two);
    drop(serving);
    let doctor = run(&env, "doctor", &[]).stdout;
    assert!(doctor.contains("2 files not read or not understood"), "{doctor}");
    for path in [ROLLOUT, OBJECT] {
        let path = env.path(path).canonicalize().unwrap();
        assert!(doctor.contains(&format!("{}: no line of it is understood", path.display())), "{doctor}");
        let tree = run(&env, "tree", &[&path]);
        assert_eq!((tree.code, tree.stdout.as_str()), (Some(3), ""), "{}", tree.stderr);
        assert!(tree.stderr.contains("nothing recognized in "), "{}", tree.stderr);
    }
}

#[test]
fn files_that_are_not_understood_are_named_where_there_is_no_session_and_up_to_a_number() {
    let env = env();
    for number in 10..40 {
        env.write(&ROLLOUT.replace("aaaaaaaa", &format!("aaaaaa{number}")), "{\"foo\":1}\n");
    }
    let ran = run(&env, "ls", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(ran.stderr.contains("no sessions yet: ") && ran.stderr.contains("30 files"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    let doctor = run(&env, "doctor", &[]).stdout;
    assert_eq!(doctor.matches(": no line of it is understood").count(), 20, "{doctor}");
    assert!(doctor.contains("and 10 files more"), "{doctor}");
}

#[test]
fn sessions_of_a_program_with_a_harness_format_are_shown_as_no_other() {
    let env = env();
    let first_two: String = COMMAND_CODE.split_inclusive('\n').take(2).collect();
    let name = "0f0f0f0f-0000-4000-8000-000000000009.jsonl";
    for (path, text) in [
        (format!("home/.commandcode/projects/-w/{name}"), COMMAND_CODE),
        (format!("home/.commandcode/projects/-v/{name}"), first_two.as_str()),
        (format!("work/copied/{name}"), COMMAND_CODE),
    ] {
        env.write(&path, text);
        let ran = run(&env, "tree", &[&env.path(&path)]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{path}: {}", ran.stderr);
        assert!(ran.stderr.contains("it looks like a session of Command Code"), "{path}: {}", ran.stderr);
    }
    run(&env, "index", &[&env.home().join(".commandcode")]);
    assert_eq!(json(&run(&env, "ls --json", &[]).stdout)["sessions"].as_array().unwrap().len(), 0);
}

#[test]
fn sessions_of_a_fork_are_shown_as_its_own_with_and_without_a_hub() {
    let env = env();
    good_session(&env);
    let id = |number: u32| format!("0f0f0f0f-0000-4000-8000-00000000000{number}");
    let of = |number: u32| QODER.replace(&id(9), &id(number));
    // Only its folder tells while the session has one line.
    let only_first = of(7).lines().next().unwrap().to_owned() + "\n";
    let moved = env.path("moved");
    for (path, text) in [
        (format!("home/.qoder/projects/-w/{}.jsonl", id(9)), of(9)),
        (format!("home/.qoderwork/projects/-v/{}.jsonl", id(7)), only_first),
        (format!("moved/projects/-u/{}.jsonl", id(6)), of(6)),
    ] {
        env.write(&path, text);
    }
    let names = |variable: &[(&str, &std::path::Path)], id: &str| {
        let mut command = env.command();
        command.args(["ls", "--json"]);
        command.envs(variable.iter().copied());
        let listed = json(&String::from_utf8(command.output().unwrap().stdout).unwrap());
        let rows = listed["sessions"].as_array().unwrap().clone();
        rows.iter().find(|row| row["id"] == id).and_then(|row| Some(row["harness"].as_str()?.to_owned()))
    };
    run(&env, "index", &[]);
    for number in [9, 7] {
        assert_eq!(names(&[], &id(number)).as_deref(), Some("qoder"), "{number}");
    }
    let variable = [("QODER_CONFIG_DIR", moved.as_path())];
    let mut index = env.command();
    index.arg("index").env(variable[0].0, variable[0].1).output().unwrap();
    assert_eq!(names(&variable, &id(6)).as_deref(), Some("qoder"));
    let serving = Serving::start(&env, "");
    serving.has_read();
    for number in [9, 7] {
        assert_eq!(names(&[], &id(number)).as_deref(), Some("qoder"), "{number} of a hub");
    }
}

#[test]
fn what_is_named_as_not_understood_is_not_counted_as_found() {
    let env = env();
    good_session(&env);
    env.write("home/.claude/projects/-w/cccccccc-2222-4333-8444-555566667777.jsonl", "{\"foo\":1}\n");
    let message = "{\"id\":\"msg_1\",\"sessionID\":\"ses_1\",\"role\":\"user\",\"time\":{\"created\":1}}";
    env.write("data/opencode/storage/message/ses_1/msg_1.json", message);
    env.write(
        "data/opencode/storage/session/p/ses_1.json",
        "{\"id\":\"ses_1\",\"directory\":\"/w\",\"time\":{}}",
    );
    env.write("data/opencode/storage/session/p/ses_2.json", "[1]");
    env.write("data/opencode/storage/session/p/ses_3.json", "not JSON");
    rollout(&env);
    let doctor = run(&env, "doctor", &[]).stdout;
    assert!(doctor.contains("2 found"), "{doctor}");
    assert!(doctor.contains("4 files not read or not understood"), "{doctor}");
    for name in ["ses_2.json", "ses_3.json"] {
        assert!(doctor.contains(&format!("{name}: no line of it is understood")), "{doctor}");
    }
    let warned = run(&env, "ls", &[]).stderr;
    assert!(warned.contains("ses_2.json: no line of it is understood"), "{warned}");
}

#[test]
fn sessions_of_a_version_of_copilot_that_is_not_read_are_named() {
    let env = env();
    let old = "{\"sessionId\":\"aaaaaaaa-2222-4333-8444-555566667777\",\"startTime\":\"x\",\"chatMessages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
    let name = "session_aaaaaaaa-2222-4333-8444-555566667777_1.json";
    env.write(&format!("home/.copilot/history-session-state/{name}"), old);
    for words in ["ls", "doctor"] {
        let ran = run(&env, words, &[]);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(&format!("{name}: no line of it is understood")), "{words}: {said}");
    }
}

#[test]
fn a_log_of_prompts_is_no_session() {
    let env = env();
    let entry = "{\"sessionId\":\"aaaaaaaa-2222-4333-8444-555566667777\",\"messageId\":0,\"type\":\"user\",\"message\":\"hello\",\"timestamp\":\"2026-02-24T03:00:00.000Z\"}";
    env.write("home/.gemini/tmp/h/logs.json", format!("[\n  {entry}\n]"));
    let ran = run(&env, "tree", &[&env.path("home/.gemini/tmp/h/logs.json")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{}", ran.stderr);
    let ran = run(&env, "ls", &[]);
    assert!(ran.stderr.starts_with("no sessions yet: `subscope demo`"), "{}", ran.stderr);
    assert!(run(&env, "doctor", &[]).stdout.contains("none found"));
}
