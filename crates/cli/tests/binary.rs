//! The real program in an environment of its own: exit codes, what goes to stdout, what to stderr.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

struct TestEnv {
    home: TempDir,
}

impl TestEnv {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_subscope"));
        command.env_clear().env("HOME", self.path()).env("TZ", "UTC").current_dir(self.path());
        command.args(line.split_whitespace());
        command
    }

    fn run(&self, line: &str) -> (i32, String, String) {
        told(&self.command(line).stdin(Stdio::null()).output().unwrap())
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A checkpoint of one agent whose report tries to clear the screen.
const CHECKPOINT: &str = r#"{
  "version": "1.0.0",
  "subagentTraces": [
    {"subagentId": "a1", "subagentType": "Explore", "parentToolCallId": "t1", "prompt": "look", "startTime": 1000,
     "endTime": 3000, "success": true, "result": "done \u001b[2J now"}
  ]
}
"#;

#[test]
fn import_checkpoint_prints_its_tree() {
    let env = TestEnv::new();
    env.write("c/checkpoint.json", CHECKPOINT);
    for target in ["c", "c/checkpoint.json"] {
        let (code, stdout, stderr) = env.run(&format!("import --dry-run {target}"));
        assert_eq!((code, stderr.as_str()), (0, ""), "{target}");
        assert!(
            stdout.contains("Explore") && stdout.contains("␛[2J") && !stdout.contains('\u{1b}'),
            "{stdout}"
        );
    }
    let (code, stdout, _) = env.run("import --dry-run c --detail off");
    assert_eq!((code, stdout.as_str()), (0, ""));
    let (code, stdout, _) = env.run("import --dry-run c --json");
    let tree: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &tree["schema"], &tree["summary"]["completed"]),
        (0, &"subscope.tree/1".into(), &1.into())
    );
}

#[test]
fn detail_comes_from_the_project_unless_a_flag_says_otherwise() {
    let env = TestEnv::new();
    env.write("c/checkpoint.json", CHECKPOINT);
    env.write(".config/subscope/config.toml", "subagent_tracing_detail = 'full'\n");
    env.write(".subscope/config.toml", "subagent_tracing_detail = 'off'\n");
    assert_eq!(env.run("import --dry-run c"), (0, String::new(), String::new()));
    assert!(env.run("import --dry-run c --detail minimal").1.contains("Explore"));
    env.write(".subscope/config.toml", "subagent_tracing_detail = 'loud'\n");
    let (code, stdout, stderr) = env.run("import --dry-run c");
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(
        stderr.contains("config.toml:1: subagent_tracing_detail")
            && stderr.contains("off, minimal, moderate, full")
    );
}

#[test]
fn unknown_settings_are_warnings_that_quiet_silences() {
    let env = TestEnv::new();
    env.write("c/checkpoint.json", CHECKPOINT);
    env.write(".subscope/config.toml", "kolor = 'never'\n");
    let (code, _, stderr) = env.run("import --dry-run c");
    assert!(
        code == 0 && stderr.starts_with("warning: ") && stderr.contains(":1: there is no setting"),
        "{stderr}"
    );
    assert_eq!(env.run("import --dry-run c -q").2, "");
}

#[test]
fn exit_codes_tell_missing_from_usage_from_bad_input() {
    let env = TestEnv::new();
    env.write("v/checkpoint.json", r#"{"version":"2.0.0"}"#);
    env.write("cut.json", "{\n\"version\": \"1.0.0\",\n\"subagentTraces\": [");
    for (line, code, told) in [
        ("import none/checkpoint.json", 1, "cannot read none/checkpoint.json\n  caused by: "),
        ("import c --detail loud", 2, "off, minimal, moderate, full"),
        ("import", 2, "FILE"),
        ("nonsense", 2, "unrecognized subcommand"),
        ("import v", 3, "version \"2.0.0\" is not supported"),
        ("import cut.json", 3, "cut.json:3"),
        (
            "import v --config none.toml",
            1,
            "the settings file none.toml does not exist\nhint: --config names it",
        ),
    ] {
        let (given, stdout, stderr) = env.run(line);
        assert_eq!((given, stdout.as_str()), (code, ""), "{line}: {stderr}");
        assert!(stderr.contains(told), "{line}: {stderr}");
    }
}

#[test]
fn problems_are_warnings_and_failures_under_strict() {
    let env = TestEnv::new();
    env.write(
        "c/checkpoint.json",
        &CHECKPOINT.replace("\"prompt\"", "\"parentSubagentId\": \"gone\", \"prompt\""),
    );
    let (code, stdout, stderr) = env.run("import --dry-run c");
    assert!(
        code == 0 && stdout.contains("Explore") && stderr.starts_with("warning: checkpoint.json: "),
        "{stderr}"
    );
    let (code, stdout, stderr) = env.run("import --dry-run c --strict -q");
    assert!(code == 3 && stdout.contains("Explore"));
    assert_eq!(stderr, "subscope: 1 problem in the input, and --strict is given\n");
}

#[test]
fn closed_pipe_ends_quietly() {
    let env = TestEnv::new();
    let mut child =
        env.command("completions bash").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn doctor_fails_where_something_is_broken() {
    let env = TestEnv::new();
    let line = "{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\",\"parentUuid\":null}\n";
    env.write(".claude/projects/-p/s.jsonl", line);
    let (code, stdout, stderr) = env.run("doctor");
    assert!(
        code == 0
            && stderr.is_empty()
            && stdout.contains("1 found")
            && stdout.contains("it follows 1 session"),
        "{stdout}"
    );
    env.write(".config/subscope/config.toml", "ascii = 'x'\n");
    let (code, stdout, stderr) = env.run("doctor --json");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &report["ok"], stderr.as_str()), (1, &false.into(), "subscope: 1 check failed\n"));
    let states = report["checks"].as_array().unwrap().iter().filter(|check| check["state"] == "failure");
    assert_eq!(states.map(|check| check["name"].as_str().unwrap()).collect::<Vec<_>>(), ["settings"]);
}

#[test]
fn config_shows_what_holds_even_where_something_is_wrong() {
    let env = TestEnv::new();
    env.write(".config/subscope/config.toml", "ascii = 3\ncolor = 'never'\n");
    let (code, stdout, stderr) = env.run("config");
    assert!(
        code == 2
            && stdout.contains("color = \"never\"")
            && stderr.contains(":1: ascii: must be true or false")
    );
    let (code, stdout, _) = env.run("config path --json");
    let places: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &places["files"][0]["exists"]), (0, &true.into()));
}

#[test]
fn config_is_created_changed_and_read_back() {
    let env = TestEnv::new();
    let file = env.path().join(".config/subscope/config.toml");
    assert_eq!(env.run("config init").0, 0);
    let all = fs::read_to_string(&file).unwrap();
    assert_eq!(env.run("config init").0, 1);
    assert_eq!(env.run("config set watch.stall 5m").0, 0);
    assert_eq!(env.run("config set store.keep_days 30").0, 0);
    assert_eq!(env.run(r#"config set team.exclude ["~/a/*","~/b"]"#).0, 0);
    assert_eq!(env.run("config set code_tools run,eval").0, 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\nstall = \"5m\"\n") && text.contains("\nkeep_days = 30\n"), "{text}");
    assert!(text.contains("\nexclude = [\"~/a/*\", \"~/b\"]\n"), "{text}");
    assert!(text.contains("code_tools = [\"run\", \"eval\"]\n"), "{text}");
    assert!(all.lines().all(|line| text.contains(line)), "{text}");
    // What it prints is a file of settings.
    let (code, shown, _) = env.run("config");
    env.write("again.toml", &shown);
    let (again, shown_again, stderr) = env.run("config --config again.toml");
    let settings = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  # ").next().unwrap().trim().to_owned()).collect()
    };
    assert_eq!((code, again, stderr.as_str()), (0, 0, ""));
    assert_eq!(settings(&shown_again), settings(&shown));
    for (line, told) in [
        ("config set watch.stal 5m", "there is no setting \"watch.stal\"; did you mean watch.stall?"),
        ("config set watch.stall soon", "watch.stall: \"soon\" is not a duration"),
        ("config set team.exclude [~/a]", "team.exclude: must be a list of texts"),
    ] {
        let (code, _, stderr) = env.run(line);
        assert!(code == 2 && stderr.contains(told), "{stderr}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn misspelt_variables_are_warned_of() {
    let env = TestEnv::new();
    let shown = |name: &str| told(&env.command("config").env(name, "5m").output().unwrap()).2;
    assert_eq!(
        shown("SUBSCOPE_WATCH_STAL"),
        "warning: there is no variable SUBSCOPE_WATCH_STAL; it is ignored; did you mean SUBSCOPE_WATCH_STALL?\n"
    );
    assert!(shown("SUBSCOPE_DATADIR").contains("did you mean SUBSCOPE_DATA_DIR?"));
    assert_eq!(shown("SUBSCOPE_WATCH_STALL") + &shown("SUBSCOPE_BANANA") + &shown("SUBSCOPE_LOG"), "");
}

#[test]
fn completions_and_manual_are_made_for_every_command() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, stdout, _) = env.run(&format!("completions {shell}"));
        assert!(code == 0 && stdout.contains("doctor"), "{shell}");
        // Only installed hooks run it.
        let offers = stdout.contains("Send one event from stdin") || stdout.contains("hooks hook ");
        assert!(!offers, "{shell}");
    }
    assert!(env.run("man").1.contains("subscope\\-tree"));
    assert_eq!(env.run("man --dir pages").0, 0);
    assert!(env.path().join("pages/subscope-watch.1").is_file());
}
