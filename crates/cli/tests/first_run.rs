//! `subscope init`, completion of ids, `subscope statusline` and `subscope bug-report` with the real program.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, time::Duration};

use subscope_testkit::env::{Terminal, TestEnv};

use self::common::env;

const LIMIT: Duration = Duration::from_secs(60);
const SETTINGS: &str = "home/.claude/settings.json";

/// Runs the program; returns its exit code, stdout and stderr.
fn run(env: &TestEnv, words: &str) -> (i32, String, String) {
    let ran = common::run(env, words, &[]);
    (ran.code.unwrap_or(-1), ran.stdout, ran.stderr)
}

#[test]
fn init_prints_code_for_each_shell_and_leaves_the_prompt_if_asked() {
    let env = env();
    for shell in ["bash", "zsh", "fish"] {
        let (code, stdout, stderr) = run(&env, &format!("init {shell}"));
        assert_eq!((code, stderr.as_str()), (0, ""), "{shell}");
        assert!(
            stdout.contains("SUBSCOPE_COMPLETE") && stdout.contains("status --live"),
            "{shell}: {stdout}"
        );
        let (_, stdout, _) = run(&env, &format!("init {shell} --no-prompt"));
        assert!(stdout.contains("SUBSCOPE_COMPLETE") && !stdout.contains("status --live"), "{shell}");
    }
}

#[test]
fn bash_accepts_what_init_prints_and_completes_commands() {
    let env = env();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_subscope")).parent().unwrap();
    let script = "eval \"$(subscope init bash)\" && complete -p subscope && printf '%s' \"$PS1\"";
    let mut bash = env.command_of("bash");
    bash.args(["--norc", "-c", script]).env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let ran = bash.output().unwrap();
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(stdout.contains("complete") && stdout.contains("$(subscope_prompt)"), "{stdout}");
}

#[test]
fn what_init_prints_calls_the_program_by_its_path() {
    let env = env();
    let folder = env.path("tmp/it's here");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_subscope"), folder.join("subscope")).unwrap();
    // The name then means nothing.
    let script = "eval \"$(subscope init bash)\"; PATH=/usr/bin:/bin; subscope_prompt; echo \"code $?\"; \
        COMP_WORDS=(subscope unin); COMP_CWORD=1; COMP_TYPE=9; _clap_complete_subscope subscope unin \"\" 2> /dev/null; \
        echo \"${COMPREPLY[@]}\"";
    let mut bash = env.command_of("bash");
    bash.args(["--norc", "-c", script]).env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let ran = bash.output().unwrap();
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(stdout.ends_with("code 0\nuninstall\n"), "{stdout}{}", String::from_utf8_lossy(&ran.stderr));
}

/// Returns the candidates for the last word of a line, as bash asks for them.
fn candidates(env: &TestEnv, words: &[&str]) -> Vec<String> {
    let mut command = env.command();
    command.env("SUBSCOPE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_SPACE", "true");
    let ran = command.arg("--").args(words).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn ids_of_sessions_and_agents_are_completed_and_nothing_is_written() {
    let env = env();
    assert_eq!(candidates(&env, &["subscope", "tree", "la"]), ["last"]);
    assert!(fs::read_dir(env.path("data")).unwrap().next().is_none(), "completion writes nothing");

    let line = r#"{"type":"user","sessionId":"feed1234-0000-4000-8000-000000000000","uuid":"u1","timestamp":"2026-11-21T20:45:06Z","cwd":"/p","version":"2.1.330","message":{"role":"user","content":"Go."}}"#;
    env.write("home/.claude/projects/-p/feed1234-0000-4000-8000-000000000000.jsonl", format!("{line}\n"));
    assert_eq!(run(&env, "ls").0, 0);
    assert_eq!(candidates(&env, &["subscope", "tree", "feed"]), ["feed1234-0000-4000-8000-000000000000"]);
    assert!(candidates(&env, &["subscope", "sto"]).contains(&"stop".to_owned()));
    assert!(!candidates(&env, &["subscope", "hoo"]).contains(&"hook".to_owned()), "it is hidden");
}

/// An id that a shell would run.
const EVIL: &str = "S$(touch${IFS}PWNED)";

#[test]
fn nothing_that_bash_completes_is_run() {
    let env = env();
    let line = |session: &str, of: &str| {
        let line = r#"{"type":"user","sessionId":"SESSION","uuid":"OF","timestamp":"2026-11-20T09:00:00Z","cwd":"/p","version":"2.1.330","message":{"role":"user","content":"Go."}}"#;
        line.replace("SESSION", session).replace("OF", of) + "\n"
    };
    let projects = "home/.claude/projects/-p";
    env.write(&format!("{projects}/{EVIL}-file.jsonl"), line(&format!("{EVIL}-file"), "u1"));
    let good = "51111111-2222-4333-8444-555555555555";
    env.write(&format!("{projects}/{good}.jsonl"), line(&format!("{EVIL}-inner"), "u2"));
    let document = serde_json::json!({
        "schema_version": "ATIF-v1.6", "session_id": format!("{EVIL}-import"), "agent": {"name": "x", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "hi", "timestamp": "2026-11-20T09:00:00Z"}],
    });
    let document = env.write("t.json", document.to_string());
    assert_eq!(run(&env, &format!("import {}", document.display())).0, 0);
    let hook = serde_json::json!({
        "session_id": format!("{EVIL}-hook"), "transcript_path": "/x", "cwd": "/x", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1",
    });
    common::run_with_stdin(&env, "hook", &[], hook.to_string().as_bytes());
    // File names are offered, too.
    fs::write(env.work().join(format!("{EVIL} and more.jsonl")), "").unwrap();
    fs::write(env.work().join("~"), "").unwrap();
    assert_eq!(run(&env, "ls").0, 0);
    for shell in ["bash", "zsh", "fish"] {
        let mut command = env.command();
        command.env("SUBSCOPE_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_IFS", "\n");
        let ran = command.args(["--", "subscope", "show", "S"]).output().unwrap();
        assert!(ran.status.success() && ran.stdout.is_empty(), "{shell}: {ran:?}");
    }
    let shell = TestEnv::new("/bin/bash");
    let Some(terminal) = Terminal::start(&shell, 100, 50, &["--norc", "--noprofile", "-i"]) else { return };
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_subscope")).parent().unwrap();
    let settings: String = env
        .command()
        .get_envs()
        .filter_map(|(name, value)| Some(format!("export {}='{}'; ", name.to_str()?, value?.to_str()?)))
        .collect();
    let script = format!(
        "{settings}cd '{}'; PATH='{}:/usr/bin:/bin'; source <(subscope init bash --no-prompt); clear; echo ready\n",
        env.work().display(),
        folder.display()
    );
    let script = shell.write("settings.sh", script);
    terminal.type_text(&format!("source '{}'", script.display()));
    terminal.send(&["Enter"]);
    terminal.wait_for(LIMIT, |screen| screen.starts_with("ready"));
    for (number, verb) in ["tree", "export", "forget", "watch", "replay", "show", "stop"].iter().enumerate() {
        // The word after Tab is an argument of echo: what bash would run is run, and nothing else.
        terminal.type_text(&format!("subscope {verb} S"));
        terminal.send(&["Tab", "Home"]);
        terminal.type_text("echo ");
        terminal.send(&["End"]);
        terminal.type_text(&format!(" ; echo done {number}"));
        terminal.send(&["Enter"]);
        let screen =
            terminal.wait_for(LIMIT, |screen| screen.lines().any(|line| line == format!("done {number}")));
        assert!(!env.work().join("PWNED").exists(), "{verb}:\n{screen}");
        if *verb == "tree" {
            assert!(
                screen.contains(&format!("subscope tree {EVIL} and more.jsonl")),
                "a path is quoted:\n{screen}"
            );
        }
    }
}

#[test]
fn status_line_is_installed_and_the_file_restored_byte_for_byte() {
    for before in [
        None,
        Some("{}"),
        Some("{\r\n  // mine\r\n  \"model\": \"opus\"\r\n}\r\n"),
        Some(
            "\u{feff}{\"statusLine\": {\"type\": \"command\", \"command\": \"other\", \"padding\": 0}, \"x\": 1}",
        ),
    ] {
        let env = env();
        if let Some(before) = before {
            env.write(SETTINGS, before);
        }
        let replace = if before.is_some_and(|text| text.contains("other")) {
            let (code, _, stderr) = run(&env, "statusline install");
            assert!(code == 1 && stderr.contains("--replace"), "{stderr}");
            " --replace"
        } else {
            ""
        };
        assert_eq!(run(&env, &format!("statusline install{replace}")).0, 0);
        assert!(run(&env, "statusline install").1.contains("installed before"));
        assert!(run(&env, "statusline status").1.contains("of subscope is installed"));
        assert_eq!(run(&env, "statusline remove").0, 0);
        let file = env.path(SETTINGS);
        assert_eq!(fs::read_to_string(file).ok().as_deref(), before);
        assert!(run(&env, "statusline remove").1.contains("no status line of subscope"));
    }
}

#[test]
fn a_file_that_somebody_else_changed_keeps_the_change_and_gets_its_line_back() {
    let env = env();
    env.write(SETTINGS, "{\n  \"statusLine\": { \"type\": \"command\", \"command\": \"other\" }\n}\n");
    assert_eq!(run(&env, "statusline install --replace").0, 0);
    assert_eq!(run(&env, "hooks install --claude-version 2.1.330").0, 0);
    assert_eq!(run(&env, "statusline remove").0, 0);
    let text = fs::read_to_string(env.path(SETTINGS)).unwrap();
    assert!(
        text.contains("\"other\"") && text.contains("PreToolUse") && !text.contains("status --"),
        "{text}"
    );
}

#[test]
fn bug_report_has_no_secret_and_no_text_of_agents_and_overwrites_nothing() {
    let env = env();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB";
    env.write("config/subscope/config.toml", format!("prices = '/tmp/{secret}'\n"));
    env.write("home/.claude/projects/-p/s.jsonl", "{\"text\": \"whisper\"}\n");
    let (code, stdout, _) = run(&env, "bug-report -o report.txt");
    assert_eq!(code, 0);
    assert!(
        stdout.contains("## doctor") && stdout.contains("## version") && stdout.contains("prices ="),
        "{stdout}"
    );
    assert!(!stdout.contains(secret) && !stdout.contains("whisper"), "{stdout}");
    assert!(!stdout.contains(&*env.home().to_string_lossy()), "{stdout}");
    let (code, _, stderr) = run(&env, "bug-report -o report.txt");
    assert!(code == 1 && stderr.contains("report.txt"), "{stderr}");
}
