//! Text of agents is untrusted: no command may pass its control sequences to the terminal.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;

use common::{env, json, json_lines, run, run_with_stdin};
use serde_json::json;
use subscope_testkit::{
    env::{Ran, TestEnv},
    fixtures::{self, recording},
    lines::{Line, hook, jsonl, spawn_input, spawn_result, stream, transcript},
};

/// Clears the screen, sets the title, writes to the clipboard, turns the writing direction, is a C1 escape, rings,
/// overwrites the line, hides in a tag, and ends the text early.
const EVIL: &str = "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}]52;c;b3duZWQ=\u{1b}\\\u{202e}\u{2066}\u{200f}\u{61c}\u{9b}31m\u{85}\r\u{8}\u{7f}\u{2028}\u{200b}\u{feff}\u{e0041}\u{0}y";

/// Whether a terminal would do anything but show the character.
fn steers(character: char) -> bool {
    match character {
        '\n' => false,
        character if character.is_control() => true,
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => true,
        '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// Takes our own colors away: `ESC [ digits and ; m`.
fn without_colors(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, escape) = rest.split_at(at);
        out += before;
        let body = escape[2..].trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        rest = match body.strip_prefix('m') {
            Some(after) => after,
            None => {
                out += "\u{1b}[";
                &escape[2..]
            }
        };
    }
    out + rest
}

fn assert_harmless(what: &str, text: &str) {
    let line = text.lines().find(|line| line.chars().any(steers));
    assert!(line.is_none() && !text.chars().any(steers), "{what}: {line:?}");
}

/// Runs every command that shows text of agents over the given targets.
fn show_all(env: &TestEnv, targets: &[PathBuf]) {
    let paths: Vec<_> = targets.iter().map(PathBuf::as_path).collect();
    let check = |words: &str, ran: &Ran| {
        assert!(ran.code == Some(0), "{words}: {ran:?}");
        assert_harmless(&format!("{words} stdout"), &without_colors(&ran.stdout));
        assert_harmless(&format!("{words} stderr"), &ran.stderr);
    };
    for detail in ["off", "minimal", "moderate", "full"] {
        for how in ["", "--flat", "--ascii", "--color always", "--width 40", "-v"] {
            let words = format!("tree --detail {detail} {how}");
            check(&words, &run(env, &words, &paths));
        }
    }
    let ran = run(env, "tree --json", &paths);
    assert_eq!(json(&ran.stdout)["schema"], "subscope.tree/1");
    assert_harmless("tree --json stdout", &ran.stdout);
    assert_harmless("tree --json stderr", &ran.stderr);
    for form in ["trace", "execution", "feed", "feed --shape uap"] {
        let words = format!("export --as {form}");
        let ran = run(env, &words, &paths);
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        if form.starts_with("feed") {
            assert!(!json_lines(&ran.stdout).is_empty(), "{words}");
        } else {
            json(&ran.stdout);
        }
        assert_harmless(&format!("{words} stdout"), &ran.stdout);
        assert_harmless(&words, &ran.stderr);
    }
    let saved = env.path("work/saved");
    let words = format!("export --as checkpoint -o {}", saved.display());
    check(&words, &run(env, &words, &paths));
    for detail in ["minimal", "moderate", "full"] {
        let words = format!("import --dry-run --detail {detail}");
        check(&words, &run(env, &words, &[&saved]));
    }
}

/// Watches each source through a pipe, to its end.
fn watch_all(env: &TestEnv, sources: &[PathBuf]) {
    for source in sources {
        let bytes = fixtures::bytes(source);
        for how in ["", "--verbose", "--verbose --full", "--color always --verbose", "--ascii"] {
            let words = format!("watch {how} -");
            let ran = run_with_stdin(env, &words, &[], &bytes);
            assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
            assert_harmless(&format!("{words} {} stdout", source.display()), &without_colors(&ran.stdout));
            assert_harmless(&format!("{words} stderr"), &ran.stderr);
            assert!(!ran.stdout.is_empty(), "{words} {}", source.display());
        }
        let ran = run_with_stdin(env, "watch --json -", &[], &bytes);
        assert!(json_lines(&ran.stdout).iter().all(|event| event["schema"] == "subscope.event/1"));
        assert_harmless("watch --json", &ran.stdout);
    }
}

#[test]
fn recorded_hostile_output_is_harmless_in_every_command() {
    let recording = recording("2.1.330", "l-hostile-output");
    let env = env();
    let sources = [recording.mains(), recording.streams(), vec![recording.hooks()]];
    for targets in &sources {
        show_all(&env, targets);
        watch_all(&env, targets);
    }
    show_all(&env, &sources.concat());
}

fn evil_transcript(env: &TestEnv) -> PathBuf {
    let call = transcript::tool_use("Agent", "t1").input(spawn_input(EVIL, EVIL, EVIL)).after_ms(1);
    let of = |line: Line, ms: i64| line.agent("a1").after_ms(ms);
    let main = jsonl([
        transcript::user(EVIL).set("cwd", EVIL).set("version", EVIL).set("gitBranch", EVIL),
        call.model(EVIL),
        transcript::tool_use(EVIL, EVIL).input(json!({"command": EVIL, EVIL: EVIL})).after_ms(2),
        transcript::tool_result(EVIL, EVIL).failed().after_ms(3),
        transcript::tool_result("t1", EVIL).harness_result(spawn_result("a1", EVIL)).after_ms(90),
        transcript::thinking(EVIL).after_ms(91),
        transcript::assistant(EVIL).stop("end_turn").after_ms(92),
    ]);
    let agent = jsonl([
        of(transcript::user(EVIL), 10),
        of(transcript::tool_use("Read", "r1").input(json!({"file_path": format!("/tmp/{EVIL}")})), 11),
        of(transcript::tool_result("r1", EVIL), 12),
        of(transcript::tool_use("Edit", "r2").input(json!({"file_path": EVIL, "old_string": EVIL})), 13),
        of(transcript::tool_result("r2", EVIL).failed(), 14),
        of(transcript::assistant(EVIL).stop("end_turn"), 15),
    ]);
    let broken =
        format!("{{\"type\":\"user\",\"{EVIL}\": broken\n{}\n", json!({"type": EVIL, "subtype": EVIL}));
    let path = env.write("work/session-1.jsonl", main + &broken);
    env.write("work/session-1/subagents/agent-a1.jsonl", agent);
    env.write(
        "work/session-1/subagents/agent-a1.meta.json",
        transcript::meta(EVIL, "t1").set("description", EVIL).set("name", EVIL).line(),
    );
    path
}

fn evil_stream(env: &TestEnv) -> PathBuf {
    let text = jsonl([
        stream::init().set("cwd", EVIL).set("model", EVIL).set("claude_code_version", EVIL),
        stream::tool_use("Task", "t1").input(spawn_input(EVIL, EVIL, EVIL)),
        stream::task_started(EVIL, "t1")
            .set("description", EVIL)
            .set("subagent_type", EVIL)
            .set("prompt", EVIL),
        stream::task_progress(EVIL, EVIL, EVIL),
        stream::tool_use(EVIL, EVIL).under("t1").agent(EVIL).agent_type(EVIL).input(json!({"pattern": EVIL})),
        stream::tool_result(EVIL, EVIL).under("t1").agent(EVIL).failed(),
        stream::task_notification(EVIL, "t1", "failed").set("summary", EVIL).set("error", EVIL),
        stream::system("api_retry").set("error", EVIL).set("attempt", 1).set("max_retries", 3),
        stream::tool_result("t1", EVIL).failed(),
        stream::result(EVIL).set("is_error", true).set("subtype", EVIL),
    ]);
    env.write(&format!("work/{}.jsonl", EVIL.replace(['\0', '/'], "")), text + &format!("not json {EVIL}\n"))
}

fn evil_hooks(env: &TestEnv) -> PathBuf {
    let text = jsonl([
        hook("SessionStart").set("cwd", EVIL).set("source", EVIL),
        hook("UserPromptSubmit").set("prompt", EVIL),
        hook("PreToolUse").tool("Agent", "t1").set("tool_input", spawn_input(EVIL, EVIL, EVIL)),
        hook("SubagentStart").agent_type(EVIL).agent(EVIL),
        hook("PreToolUse").tool(EVIL, EVIL).agent(EVIL).set("tool_input", json!({"url": EVIL})),
        hook("PermissionRequest").tool(EVIL, EVIL).agent(EVIL).set("tool_input", json!({"url": EVIL})),
        hook("PostToolUseFailure").tool(EVIL, EVIL).agent(EVIL).set("error", EVIL),
        hook("Notification").set("message", EVIL).set("title", EVIL),
        hook(EVIL).set(EVIL, EVIL),
        hook("SubagentStop").agent_type(EVIL).agent(EVIL).set("last_assistant_message", EVIL),
        hook("SubagentStop").agent_type("").agent("ghost").set("last_assistant_message", EVIL),
        hook("Stop").set("last_assistant_message", EVIL),
    ]);
    env.write("work/hooks.jsonl", text)
}

#[test]
fn worse_than_recorded_is_harmless_in_every_command() {
    for make in [evil_transcript, evil_stream, evil_hooks] {
        let env = env();
        let target = [make(&env)];
        show_all(&env, &target);
        watch_all(&env, &target);
    }
}

#[test]
fn hostile_ids_and_names_in_errors_are_harmless() {
    let env = env();
    let file = evil_stream(&env);
    let name = EVIL.replace('\0', "");
    for words in [
        vec!["tree", &name],
        vec!["tree", "--agent", &name, file.to_str().unwrap()],
        vec!["export", "--as", "trace", "-o", &name, "missing.jsonl"],
        vec!["import", &name],
        vec!["watch", &name],
        vec!["--config", &name, "tree", "x"],
    ] {
        let ran = env.run(&words);
        assert!(ran.code.is_some_and(|code| code == 1 || code == 2), "{words:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{words:?}");
        assert_harmless(&format!("{words:?}"), &ran.stderr);
    }
}

#[test]
fn demo_is_harmless_as_plain_text() {
    let ran = run(&env(), "demo --plain --speed 10000", &[]);
    assert_harmless("demo", &ran.stdout);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}
