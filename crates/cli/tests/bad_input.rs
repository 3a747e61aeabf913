//! Invalid input: reported with file and line, the rest is processed, with the exit codes of the design, never a panic.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use common::{agents, env, json, run, run_with_stdin, told};
use serde_json::Value;
use subscope_testkit::{
    env::{TestEnv, run as run_command},
    fixtures::{self, recording},
    lines::{jsonl, stream, transcript},
};

/// A transcript of one agent with its file, copied so that it can be damaged.
fn session(env: &TestEnv) -> (PathBuf, PathBuf) {
    let recording = recording("2.1.330", "a-single");
    let projects = recording.projects();
    let copy = |file: &PathBuf| {
        let relative = file.strip_prefix(&projects).unwrap();
        env.write(&format!("work/{}", relative.display()), fixtures::bytes(file))
    };
    recording.metas().iter().for_each(|meta| drop(copy(meta)));
    (copy(&recording.mains()[0]), copy(&recording.agents()[0]))
}

fn damage(path: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let bytes = change(fs::read(path).unwrap());
    fs::write(path, bytes).unwrap();
}

fn tree(env: &TestEnv, target: &Path) -> (Value, String) {
    let ran = run(env, "tree --json", &[target]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    (json(&ran.stdout), ran.stderr)
}

/// The clean session's agents and calls.
fn clean(env: &TestEnv, main: &Path) -> Value {
    let (tree, stderr) = tree(env, main);
    assert_eq!(stderr, "");
    assert_eq!(tree["problems"], Value::Array(Vec::new()));
    tree
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    let env = env();
    let (main, agent) = session(&env);
    let expected = clean(&env, &main);
    for path in [&main, &agent] {
        damage(path, |bytes| {
            let text = String::from_utf8(bytes).unwrap().replace('\n', "\r\n");
            format!("\u{feff}{text}").into_bytes()
        });
    }
    assert_eq!(clean(&env, &main), expected);
    damage(&main, |bytes| [bytes.as_slice(), b"\r\n\n  \n\t\n"].concat());
    assert_eq!(clean(&env, &main), expected);
}

#[test]
fn cut_off_line_is_named_and_the_rest_is_kept() {
    let env = env();
    let (main, _) = session(&env);
    let expected = clean(&env, &main);
    let lines = fs::read_to_string(&main).unwrap().lines().count();
    damage(&main, |bytes| [bytes.as_slice(), b"{\"type\":\"assistant\",\"mess"].concat());
    let (cut, stderr) = tree(&env, &main);
    assert_eq!(agents(&cut), agents(&expected));
    let place = format!("{}:{}", main.file_name().unwrap().to_str().unwrap(), lines + 1);
    assert!(stderr.starts_with("warning: ") && stderr.contains(&place), "{stderr}");
    assert!(cut["problems"][0]["at"].as_str().unwrap().ends_with(&place), "{}", cut["problems"]);
    let strict = run(&env, "tree --json --strict", &[&main]);
    assert_eq!(strict.code, Some(3), "{}", strict.stderr);
    assert_eq!(agents(&json(&strict.stdout)), agents(&expected));
    let quiet = run(&env, "tree -q", &[&main]);
    assert_eq!(told(&quiet), (0, ""));
}

#[test]
fn damage_in_one_line_leaves_the_others() {
    let env = env();
    let (main, agent) = session(&env);
    let expected = clean(&env, &main);
    for (path, line) in [(&main, 9), (&agent, 3)] {
        damage(path, |bytes| {
            let mut lines: Vec<Vec<u8>> =
                bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            lines.insert(line, b"{\"type\":\"user\",\xff\xfe\x00\x1b[2J \"x\n".to_vec());
            lines.concat()
        });
    }
    let (damaged, stderr) = tree(&env, &main);
    assert_eq!(damaged["agents"], expected["agents"]);
    assert_eq!(damaged["summary"], expected["summary"]);
    for (path, line) in [(&main, 10), (&agent, 4)] {
        let place = format!("{}:{line}", path.file_name().unwrap().to_str().unwrap());
        assert!(stderr.contains(&place), "{place} in {stderr}");
    }
    assert_eq!(run(&env, "tree --strict", &[&main]).code, Some(3));
}

#[test]
fn flipped_bits_never_end_in_a_panic() {
    let env = env();
    let (main, agent) = session(&env);
    for (path, step) in [(&main, 1_499), (&agent, 1_201)] {
        damage(path, |mut bytes| {
            for at in (700..bytes.len()).step_by(step) {
                bytes[at] ^= 1 << (at % 8);
            }
            bytes
        });
    }
    for words in [
        "tree --json",
        "tree --detail full",
        "export --as execution",
        "export --as feed",
        "export --as trace",
    ] {
        let ran = run(&env, words, &[&main]);
        assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
    }
    let ran = run(&env, "tree --json", &[&main]);
    assert!(agents(&json(&ran.stdout)).len() >= 2, "{}", ran.stdout);
}

/// Runs the program with no more than that much address space.
fn run_within(env: &TestEnv, kibibytes: u64, words: &str, target: &Path) -> subscope_testkit::env::Ran {
    let mut command = env.command_of("/bin/sh");
    let script = format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_subscope")]).args(words.split_whitespace()).arg(target);
    run_command(command, b"")
}

#[test]
fn line_of_100_megabytes_is_survived_within_a_gigabyte() {
    let env = env();
    let path = env.path("work/long.jsonl");
    let mut file = BufWriter::new(fs::File::create(&path).unwrap());
    let before = jsonl([transcript::user("Go."), transcript::tool_use("Bash", "t1").after_ms(1)]);
    file.write_all(before.as_bytes()).unwrap();
    let long = transcript::tool_result("t1", "LONG").after_ms(2).line();
    let (head, tail) = long.split_once("LONG").unwrap();
    file.write_all(head.as_bytes()).unwrap();
    for _ in 0..100 {
        file.write_all(&[b'x'; 1_000_000]).unwrap();
    }
    let after = jsonl([
        transcript::tool_use("Read", "t2").after_ms(3),
        transcript::assistant("Done.").stop("end_turn").after_ms(4),
    ]);
    write!(file, "{tail}\n{after}").unwrap();
    drop(file);
    for words in ["tree --json", "export --as feed"] {
        let ran = run_within(&env, 1 << 20, words, &path);
        assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"));
        if words.starts_with("tree") {
            let tree = json(&ran.stdout);
            let calls: Vec<&str> = tree["agents"][0]["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|call| call["name"].as_str().unwrap())
                .collect();
            assert_eq!((calls, &tree["agents"][0]["status"]), (vec!["Bash", "Read"], &"completed".into()));
            let is_told = tree["problems"]
                .as_array()
                .unwrap()
                .iter()
                .any(|problem| problem["at"].as_str().unwrap().ends_with("long.jsonl:3"));
            let is_read = tree["agents"][0]["tools"][0]["status"] == "ok";
            assert!(is_told || is_read, "{}", tree["problems"]);
        }
    }
}

#[test]
fn binary_file_is_named_and_nothing_is_kept() {
    let env = env();
    let bytes: Vec<u8> =
        (0..200_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let path = env.write("work/picture.jsonl", [b"\x89PNG\r\n\x1a\n\0\0\0".as_slice(), &bytes].concat());
    for words in ["tree", "tree --json", "tree --strict", "export --as trace", "import"] {
        let ran = run(&env, words, &[&path]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains("picture.jsonl:1"), "{}", ran.stderr);
        assert!(ran.stderr.lines().count() < 30, "{}", ran.stderr);
    }
}

#[test]
fn text_that_is_no_recording_is_named_and_nothing_is_kept() {
    let env = env();
    let path = env.write("work/notes.txt", "dear diary\nnothing happened\n");
    let ran = run(&env, "tree", &[&path]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("notes.txt:1"), "{}", ran.stderr);
}

#[test]
fn agent_file_without_its_session_is_shown_as_what_it_is() {
    let env = env();
    let (main, agent) = session(&env);
    fs::remove_file(&main).unwrap();
    let (tree, _) = tree(&env, &agent);
    let rows = agents(&tree);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[1].1, "completed");
    // The meta file next to it still names the call; without it the agent's spawn call is unknown.
    fs::remove_file(agent.with_extension("meta.json")).unwrap();
    let ran = run(&env, "tree --json", &[&agent]);
    let tree = json(&ran.stdout);
    assert_eq!(
        (&tree["agents"][1]["parent_id"], &tree["agents"][1]["flags"][0]),
        (&Value::Null, &"orphan".into())
    );
}

#[test]
fn input_of_no_known_harness_is_named_with_its_line() {
    let env = env();
    let other = r#"{"type":"session","version":3,"id":"9","origin":"subagent","createdAt":2}"#;
    for text in ["{\"foo\":1}\n".to_owned(), format!("{other}\n")] {
        let target = env.write("work/x", text);
        let words = format!("nothing recognized in {}: line 1 is JSON of no known harness", target.display());
        for command in ["tree", "export --as trace"] {
            let ran = run(&env, command, &[&target]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{command}: {}", ran.stderr);
            assert!(ran.stderr.contains(&words), "{}", ran.stderr);
        }
        let strict = run(&env, "tree --strict", &[&target]);
        assert_eq!(strict.code, Some(3), "{}", strict.stderr);
        assert!(strict.stderr.contains("x:1: JSON of no known harness"), "{}", strict.stderr);
    }
}

#[test]
fn missing_and_empty_targets_are_failures_of_their_own_kind() {
    let env = env();
    let empty = env.write("work/empty.jsonl", "");
    fs::create_dir(env.path("work/folder")).unwrap();
    env.write("work/other/readme.md", "hello");
    for (target, words) in [
        (env.path("work/missing.jsonl"), "missing.jsonl"),
        (empty, "nothing in"),
        (env.path("work/folder"), "folder"),
        (env.path("work/other"), "other"),
    ] {
        for command in ["tree", "export --as trace"] {
            let ran = run(&env, command, &[&target]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{command} {words}: {}", ran.stderr);
            assert!(
                ran.stderr.starts_with("subscope: ") && ran.stderr.contains(words),
                "{words}: {}",
                ran.stderr
            );
        }
    }
    let ran = run_with_stdin(&env, "tree -", &[], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let ran = run(&env, "tree last", &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(ran.stderr, "subscope: no sessions yet\n");
}

#[test]
fn unreadable_file_is_named_and_the_rest_is_kept() {
    let env = env();
    let (main, agent) = session(&env);
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&agent).is_ok() {
        subscope_testkit::skip::not_here("this user may read every file");
        return;
    }
    let (tree, stderr) = tree(&env, &main);
    assert!(
        agents(&tree).len() == 2 && stderr.contains(agent.file_name().unwrap().to_str().unwrap()),
        "{stderr}"
    );
    fs::set_permissions(&main, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = run(&env, "tree", &[&main]);
    assert!(ran.code == Some(1) || ran.code == Some(3), "{}", ran.stderr);
}

#[test]
fn bad_usage_is_told_as_usage() {
    let env = env();
    let (main, _) = session(&env);
    for words in [
        "tree --at tomorrow",
        "tree --width 3",
        "tree --detail loud",
        "export",
        "export --as svg",
        "tree --dialect x",
        "demo --speed 0",
    ] {
        let ran = run(&env, words, &[&main]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words}: {}", ran.stderr);
    }
}

#[test]
fn stream_with_warnings_in_front_is_read() {
    let env = env();
    let text = format!(
        "npm warn deprecated\n{}",
        jsonl([stream::init(), stream::assistant("Hi."), stream::result("Hi.")])
    );
    let ran = run_with_stdin(&env, "tree --json -", &[], text.as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let tree = json(&ran.stdout);
    assert_eq!(
        (&tree["agents"][0]["status"], &tree["problems"][0]["at"]),
        (&"completed".into(), &"stdin:1".into())
    );
}
