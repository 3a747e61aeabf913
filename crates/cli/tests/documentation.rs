//! Runs the commands in the `sh` blocks of the README and the book with the real program, over the recording of
//! `subscope demo`. A line that no test can run is in [`NOT_RUN`], with the reason.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use subscope_testkit::env::TestEnv;

use self::common::{env, serving::Serving};

/// How lines begin that are not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo ", "builds the project"),
    ("git clone", "needs the network"),
    ("cd subscope", "is in the clone"),
    ("sha256sum", "needs a release"),
    ("gh attestation", "needs a release"),
    ("docker compose", "needs Docker"),
    ("(umask 077;", "asks for a token on the terminal"),
    ("claude ", "needs the harness"),
    ("codex ", "needs the harness"),
    ("copilot ", "needs the harness"),
    ("gemini ", "needs the harness"),
    ("qwen ", "needs the harness"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "needs a program of a framework"),
    ("subscope run -- python", "needs a program of a framework"),
    ("subscope run claude", "needs the harness"),
    ("subscope run -- claude", "needs the harness"),
    ("subscope run -- codex", "needs the harness"),
    ("subscope run --render -- claude", "needs the harness"),
    ("subscope demo$", "plays for 21 seconds; tests of the demo play it faster"),
    ("subscope$", "opens the terminal UI"),
    ("subscope watch", "follows sessions until it is ended"),
    ("subscope serve --open", "opens a browser"),
    ("subscope serve --public-url", "serves until it is ended"),
    ("ssh ", "needs another machine"),
    ("subscope remote add", "changes the settings of the hub that the other lines ask"),
    ("subscope remote test", "needs another machine"),
    ("subscope serve &", "the test has started a hub"),
    ("SUBSCOPE_LOG=debug subscope serve", "serves until it is ended"),
    ("subscope jump", "needs a terminal of a session that runs"),
    ("subscope stop", "needs an agent that runs"),
    ("subscope answer", "needs an agent that waits"),
    ("subscope export last --as otlp --to", "needs a receiver"),
    ("subscope export --all --since -1d --as otlp --to", "needs a receiver"),
    ("curl -sN $U/api/v1/live", "follows the hub until it is ended"),
    ("curl -H \"Authorization", "needs the server of a team"),
    ("eval \"$(subscope init zsh)\"", "needs zsh"),
    ("subscope init fish", "needs fish"),
    ("subscope team", "needs the program subscope-team"),
    ("SUBSCOPE_CLICKHOUSE_PASSWORD", "needs ClickHouse"),
    ("subscope --team", "needs the server of a team"),
    ("SUBSCOPE_TEAM_URL", "needs the server of a team"),
    ("subscope forward --to", "needs the server of a team"),
];

/// Pages whose commands need a hub. Where a block has ended it, the next one gets another.
const WITH_HUB: [&str; 4] = ["http-api.md", "hub.md", "operate.md", "publish.md"];

/// Address of a hub in the documentation.
const ADDRESS: &str = "http://127.0.0.1:7337";

/// Least lines that are run; fewer means that blocks are not found.
const LEAST_LINES: usize = 110;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the README and the pages of the book, but for the page of all commands, which has no blocks of shell lines.
fn pages() -> Vec<PathBuf> {
    let book = fs::read_dir(root().join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = book.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// Returns the `sh` blocks of a page: their lines, with those joined that a backslash continues.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut block: Option<String> = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), &mut block) {
            (Some("sh"), None) => block = Some(String::new()),
            (Some(_), Some(text)) => {
                let text = std::mem::take(text).replace("\\\n", "");
                blocks.push(text.lines().map(str::to_owned).collect());
                block = None;
            }
            (None, Some(text)) => {
                let _ = writeln!(text, "{}", line.trim_start());
            }
            (Some(_) | None, None) => {}
        }
    }
    blocks
}

/// Returns the entry of [`NOT_RUN`] that a line has. An entry that ends in `$` is the whole command.
fn not_run(line: &str) -> Option<&'static str> {
    let command = line.split("  ").next().unwrap_or(line).trim_end();
    let has = |begin: &str| match begin.strip_suffix('$') {
        Some(whole) if !whole.ends_with('"') => command == whole,
        Some(_) | None => line.starts_with(begin),
    };
    NOT_RUN.iter().map(|(begin, _)| *begin).find(|begin| has(begin))
}

/// Makes a home in which the documentation's commands work: the program, the recorded session, and the files that
/// examples name.
fn home() -> TestEnv {
    let env = env();
    fs::create_dir_all(env.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_subscope"), env.path("bin/subscope")).unwrap();
    let written = env.path("home/.claude");
    env.run(&["demo", "--write", written.to_str().unwrap()]).success();
    let transcript =
        fs::read(written.join("projects/demo/aa151f21-dc72-4b46-a219-81097bbb7400.jsonl")).unwrap();
    env.write("work/session.jsonl", transcript);
    let backup = env.path("home/backup");
    fs::create_dir_all(&backup).unwrap();
    env.run(&["demo", "--write", backup.join(".claude").to_str().unwrap()]).success();
    let stream = fs::read(root().join("fixtures/claude-code/2.1.330/a-single/stream.jsonl")).unwrap();
    env.write("work/stream.jsonl", stream);
    let agent = env.write("work/agent.sh", "#!/bin/sh\ncat stream.jsonl\n");
    fs::set_permissions(agent, fs::Permissions::from_mode(0o755)).unwrap();
    let feed = bash(&env).arg("subscope export last --as feed -o feed.jsonl").status().unwrap();
    assert!(feed.success());
    env.write("home/.local/state/subscope/hub.log", "");
    env
}

/// A shell in which the places of files are those that the documentation names.
fn bash(env: &TestEnv) -> Command {
    let mut bash = env.command_of("bash");
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        bash.env_remove(name);
    }
    bash.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    bash.args(["--norc", "-c"]);
    bash
}

/// Runs the blocks of a page one after another; returns the number of lines, and what failed.
fn run_page(name: &str, text: &str, used: &mut BTreeSet<&'static str>) -> (usize, Vec<String>) {
    let (mut count, mut failed) = (0, Vec::new());
    let home = home();
    if name == "operate.md" {
        home.write("home/.config/subscope/config.toml", "");
    }
    let mut hub: Option<Serving> = None;
    // Variables of a block are those of the blocks below it.
    let mut before = String::new();
    for block in blocks(text) {
        if WITH_HUB.contains(&name) && hub.as_mut().is_none_or(|hub| hub.child.try_wait().unwrap().is_some())
        {
            let mut command = home.command();
            command.args(["serve", "--listen", "127.0.0.1:0"]);
            for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
                command.env_remove(name);
            }
            let serving = Serving::start_as(command);
            serving.has_read();
            hub = Some(serving);
        }
        let mut script = before.clone();
        for line in block.iter().filter(|line| !line.is_empty()) {
            if let Some(begin) = not_run(line) {
                used.insert(begin);
                continue;
            }
            count += 1;
            let _ = writeln!(script, "{line}");
            let is_setting = line.starts_with("export ")
                || line.split(['=', ' ']).next().is_some_and(|name| {
                    !name.is_empty()
                        && name.chars().all(|letter| letter.is_ascii_uppercase())
                        && line.contains('=')
                });
            if is_setting {
                let _ = writeln!(before, "{line}");
            }
        }
        let address = hub.as_ref().map_or(ADDRESS.to_owned(), |hub| format!("http://{}", hub.address));
        let script = format!("set -eo pipefail\n{}", script.replace(ADDRESS, &address));
        let ran = bash(&home).arg(&script).output().unwrap();
        if script.contains("serve --stop")
            && let Some(mut stopped) = hub.take()
        {
            // It answers no more, and is gone a moment later.
            stopped.child.wait().unwrap();
        }
        let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        if !ran.status.success() || stderr.contains("panicked") {
            let stdout: String = stdout.chars().take(2000).collect();
            failed.push(format!(
                "{name}: {}\n{script}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
                ran.status
            ));
        }
    }
    if let Some(mut hub) = hub {
        // It may have ended by a line of the page.
        let _ = hub.child.kill();
        hub.child.wait().unwrap();
    }
    (count, failed)
}

#[test]
fn every_command_in_a_shell_block_runs() {
    if !Path::new("/usr/bin/curl").exists() {
        return subscope_testkit::skip::missing_tool("curl");
    }
    let (mut count, mut failed, mut used) = (0, Vec::new(), BTreeSet::new());
    for path in pages() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        if blocks(&text).is_empty() {
            continue;
        }
        let (lines, wrong) = run_page(&name, &text, &mut used);
        count += lines;
        failed.extend(wrong);
    }
    println!("{count} lines of the documentation were run");
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(count >= LEAST_LINES, "only {count} lines were run");
    let unused: Vec<&str> =
        NOT_RUN.iter().map(|(begin, _)| *begin).filter(|begin| !used.contains(begin)).collect();
    assert!(unused.is_empty(), "no line begins so any more: {unused:?}");
}

#[test]
fn blocks_and_lines_that_are_not_run_are_found() {
    let page = "a\n```sh\nsubscope ls  # all\n  subscope tree \\\n  last\n```\n```toml\nx = 1\n```\n1. b\n   ```sh\n   subscope\n   ```\n";
    assert_eq!(blocks(page), [vec!["subscope ls  # all", "subscope tree last"], vec!["subscope"]]);
    assert_eq!(not_run("subscope   # every session"), Some("subscope$"));
    assert_eq!(not_run("subscope demo --write x"), None);
    assert_eq!(not_run("subscope ls"), None);
}
