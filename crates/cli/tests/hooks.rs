//! `hooks` and `hook` with the real program: settings that come back byte for byte, events that arrive exactly once.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::Duration,
};

use subscope_collect::spool::{self, Spool, Spooled};
use subscope_decode::AskMoment;
use subscope_harness::claude_code::HOOK;
use subscope_testkit::{
    env::{Ran, TestEnv, run},
    fixtures, skip,
};

use common::{
    env, json,
    serving::{Serving, exchange, posting},
    told,
};

const INSTALL: [&str; 4] = ["hooks", "install", "--claude-version", "2.1.330"];
/// Seconds within which a hook must be over: far above its own limits, since a slow machine is no failure.
const PATIENCE: &str = "20";

fn settings(env: &TestEnv) -> PathBuf {
    env.home().join(".claude/settings.json")
}

fn install(env: &TestEnv, more: &[&str]) -> Ran {
    let before = fs::read_to_string(settings(env)).unwrap_or_default();
    let ran = env.run(&[&INSTALL, more].concat());
    let before = before.trim_start_matches('\u{feff}');
    // Claude Code reads no settings that are not JSON to the letter: that is said, and nothing else.
    let is_read = before.trim().is_empty() || serde_json::from_str::<serde_json::Value>(before).is_ok();
    assert_eq!(ran.stderr.contains("reads no settings from such a file"), !is_read, "{}", ran.stderr);
    assert_eq!((ran.code, ran.stderr.lines().count()), (Some(0), usize::from(!is_read)), "{}", ran.stdout);
    ran
}

fn remove(env: &TestEnv) -> String {
    env.run(&["hooks", "remove"]).success()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Settings as people have them.
const ODD: [&str; 14] = [
    "",
    "\n\n",
    "{}",
    "{ }\n",
    "{\"model\":\"opus\",\"x\":[1,2 ,3]}",
    "{\n\t\"env\": {\n\t\t\"KEY\": \"s3cret\"\n\t}\n}",
    "{\r\n  \"model\": \"opus\", // mine\r\n  /* kept */\r\n  \"y\": 1\r\n}\r\n",
    "// top\n{\n  \"a\": 1,\n}\n\n\n// bottom",
    "\u{feff}{\n  \"a\": 1\n}\n",
    "// only a comment",
    "{\n  \"hooks\": {}\n}\n",
    "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n",
    "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"matcher\": \"Bash\", \"hooks\": [ { \"type\": \"command\", \"command\": \"lint\" } ] }\n    ],\n    \"Stop\": [{\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}]\n  },\n  \"a\": \"caf\u{e9} \\u00e9\"\n}\n",
    "{\n      \"deep\":   {\"a\" :{ }}\n ,\"b\":[\n]}",
];

#[test]
fn remove_restores_every_byte() {
    for text in ODD {
        let env = env();
        let path = env.write("home/.claude/settings.json", text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        install(&env, &[]);
        let once = read(&path);
        assert_ne!(once, text);
        let inode = fs::metadata(&path).unwrap().ino();
        assert!(install(&env, &[]).stdout.contains("installed already"), "{text:?}");
        assert_eq!((read(&path), fs::metadata(&path).unwrap().ino()), (once, inode), "{text:?}");
        assert!(remove(&env).contains("the file is restored"));
        assert_eq!(read(&path), text);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(remove(&env).contains("no hooks of subscope"));
        assert_eq!(read(&path), text);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}

#[test]
fn remove_restores_every_byte_after_several_installations() {
    let env = env();
    let path = env.write("home/.claude/settings.json", ODD[5]);
    install(&env, &[]);
    install(&env, &["--http"]);
    install(&env, &["--http", "--url", "http://localhost:9/"]);
    assert!(read(&path).contains("http://localhost:9/hooks/claude") && !read(&path).contains(":7337"));
    remove(&env);
    assert_eq!(read(&path), ODD[5]);
    let kept = fs::read_dir(env.path("state/subscope/hooks")).unwrap().count();
    assert_eq!(kept, 0, "settings may hold keys: nothing of them stays behind");
}

#[test]
fn telemetry_is_pointed_here_shown_and_removed_to_the_byte() {
    for odd in ODD {
        let env = env();
        fs::create_dir_all(settings(&env).parent().unwrap()).unwrap();
        fs::write(settings(&env), odd).unwrap();
        install(&env, &["--otel", "--url", "http://127.0.0.1:7999/"]);
        let status = json(&env.run(&["hooks", "status", "--json", "--scope", "user"]).success());
        assert_eq!(status["scopes"][0]["otel"], "http://127.0.0.1:7999", "{odd:?}");
        assert!(env.run(&["hooks", "status"]).success().contains("OpenTelemetry to http://127.0.0.1:7999"));
        let installed = read(&settings(&env));
        assert!(
            installed.contains("\"OTEL_EXPORTER_OTLP_ENDPOINT\": \"http://127.0.0.1:7999\""),
            "{installed}"
        );
        install(&env, &["--otel", "--url", "http://127.0.0.1:7999"]);
        assert_eq!(read(&settings(&env)), installed, "{odd:?}");
        remove(&env);
        assert_eq!(read(&settings(&env)), odd);
        // A file that changed since loses what is ours, and nothing else.
        install(&env, &["--otel"]);
        let changed = read(&settings(&env)) + "\n";
        fs::write(settings(&env), &changed).unwrap();
        remove(&env);
        let left = read(&settings(&env));
        assert!(!left.contains("OTEL_") && !left.contains("CLAUDE_CODE_ENABLE_TELEMETRY"), "{left}");
        assert_eq!(left.contains("s3cret"), odd.contains("s3cret"));
        let status = json(&env.run(&["hooks", "status", "--json", "--scope", "user"]).success());
        assert!(status["scopes"][0]["otel"].is_null());
    }
}

#[test]
fn telemetry_that_goes_elsewhere_is_left_alone() {
    let env = env();
    fs::create_dir_all(settings(&env).parent().unwrap()).unwrap();
    for (text, what) in [
        (r#"{"env":{"OTEL_EXPORTER_OTLP_ENDPOINT":"https://collector.example"}}"#, "collector.example"),
        (r#"{"env":[1]}"#, "cannot be changed"),
    ] {
        fs::write(settings(&env), text).unwrap();
        let ran = env.run(&[&INSTALL[..], &["--otel"]].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        assert_eq!(read(&settings(&env)), text);
    }
    let ran = env.run(&["hooks", "install", "--harness", "codex", "--otel"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn an_installation_that_fails_leaves_file_and_memory() {
    let env = env();
    let path = env.write("home/.claude/settings.json", ODD[5]);
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o444);
    assert_eq!(env.run(&INSTALL).code, Some(1));
    mode(0o644);
    install(&env, &[]);
    mode(0o444);
    let before = read(&path);
    let ran = env.run(&[&INSTALL, ["--http"].as_slice()].concat());
    assert!(ran.code == Some(1) && ran.stderr.contains("read-only"), "{}", ran.stderr);
    assert_eq!(read(&path), before);
    mode(0o644);
    assert!(remove(&env).contains("the file is restored"));
    assert_eq!(read(&path), ODD[5]);
}

#[test]
fn a_file_that_was_not_there_goes_again_with_its_folder() {
    let env = env();
    install(&env, &[]);
    assert!(settings(&env).exists());
    remove(&env);
    assert!(!env.home().join(".claude").exists());
    fs::create_dir(env.home().join(".claude")).unwrap();
    install(&env, &[]);
    env.write("home/.claude/history", "mine");
    remove(&env);
    assert!(!settings(&env).exists() && env.home().join(".claude/history").exists());
}

/// A harness with hooks other than Claude Code: its name, its settings below HOME, and payloads of a recording.
const OTHERS: [(&str, &str, &str); 4] = [
    ("codex", ".codex/hooks.json", "codex/0.169.0/v2_two_parallel/hooks.jsonl"),
    ("copilot", ".copilot/hooks/subscope.json", "copilot/1.0.102/nested/hooks.jsonl"),
    ("gemini", ".gemini/settings.json", "gemini/0.61.0/two_parallel/hooks.jsonl"),
    ("qwen", ".qwen/settings.json", "qwen/0.24.4/hooks/hooks.jsonl"),
];

#[test]
fn hooks_of_every_harness_are_installed_shown_and_removed() {
    for (harness, file, _) in OTHERS {
        let chosen = ["--harness", harness];
        let mut texts: Vec<Option<&str>> = ODD.into_iter().map(Some).collect();
        texts.push(None);
        for text in texts {
            let env = env();
            let path = env.home().join(file);
            if let Some(text) = text {
                env.write(&format!("home/{file}"), text);
            }
            let ran = env.run(&[["hooks", "install"], chosen].concat());
            assert_eq!(ran.code, Some(0), "{harness} {text:?}: {}", ran.stderr);
            let once = read(&path);
            let again = env.run(&[["hooks", "install"], chosen].concat());
            assert!(again.stdout.contains("already"), "{}", again.stdout);
            assert_eq!(read(&path), once);
            let status = json(&env.run(&["hooks", "status", "--json"]).success());
            let rows = status["scopes"].as_array().unwrap();
            let row = rows.iter().find(|row| row["harness"] == harness && row["scope"] == "user").unwrap();
            assert_eq!(row["installed"], true, "{harness} {text:?}");
            assert_eq!(rows[0]["harness"], "claude-code");
            let recorded: Vec<_> =
                fs::read_dir(env.path("state/subscope/hooks")).unwrap().flatten().collect();
            assert!(recorded.iter().all(|one| !read(&one.path()).contains("s3cret")), "{harness} {text:?}");
            assert_eq!(recorded.len(), 1);
            env.run(&[["hooks", "remove"], chosen].concat()).success();
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), text, "{harness}");
        }
    }
}

/// Also where a plugin and the settings of a project deliver each of them as well.
#[test]
fn payloads_of_every_harness_give_the_tree_of_their_recording() {
    for ((harness, file, recorded), hooks) in OTHERS.into_iter().flat_map(|row| [(row, 1), (row, 3)]) {
        let env = env();
        env.run(&["hooks", "install", "--harness", harness]).success();
        let settings = json(&read(&env.home().join(file)));
        let recorded = fixtures::root().join(recorded);
        let (mut taken, mut recorded_of_ours) = (0, String::new());
        // The first payloads come before the hub does.
        let mut hub = None;
        for line in fixtures::text(&recorded).lines() {
            let payload = json(line);
            let (event, body) = match payload["_event"].as_str() {
                Some(event) => (event, payload["in"].to_string()),
                None => (payload["hook_event_name"].as_str().unwrap(), line.to_owned()),
            };
            let list = &settings["hooks"][event][0];
            let hook = if list["hooks"].is_array() { &list["hooks"][0] } else { list };
            let Some(installed) = hook["command"].as_str().or(hook["bash"].as_str()) else { continue };
            let plugin = format!("{installed} --plugin");
            for command in [installed, plugin.as_str(), installed].into_iter().take(hooks) {
                let mut hook = env.command_of("/bin/sh");
                hook.args(["-c", command]);
                assert_eq!(told(&run(hook, body.as_bytes())), (0, ""), "{harness} {event}");
            }
            taken += 1;
            if taken == 3 {
                hub = Some(Serving::start(&env, ""));
                while !spooled(&env).is_empty() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            recorded_of_ours.push_str(line);
            recorded_of_ours.push('\n');
        }
        assert!(taken > 5 && spooled(&env).is_empty(), "{harness}: {taken} payloads");
        let alone = env.write("alone.jsonl", recorded_of_ours);
        let rows = |target: &str| {
            let tree = json(&env.run(&["tree", target, "--json"]).success());
            let row = |row: &serde_json::Value| {
                ["id", "parent_id", "spawned_by", "type", "status", "tool_calls", "tool_errors"]
                    .map(|field| row[field].clone())
            };
            let mut rows: Vec<_> = tree["agents"].as_array().unwrap().iter().map(row).collect();
            rows.sort_by_key(|row| row[0].to_string());
            (tree["session"]["id"].clone(), tree["session"]["harness"].clone(), rows)
        };
        let kinds = |target: &str| {
            let feed = env.run(&["export", "--as", "feed", target]).success();
            let kinds = feed.lines().map(|line| json(line)["kind"].to_string());
            kinds.fold(BTreeMap::new(), |mut counts, kind| {
                *counts.entry(kind).or_insert(0) += 1;
                counts
            })
        };
        let expected = rows(alone.to_str().unwrap());
        assert_eq!(expected.1, harness);
        assert_eq!(kinds("last"), kinds(alone.to_str().unwrap()), "{harness}, {hooks} hooks");
        assert_eq!(rows("last"), expected, "{harness}");
        // After a restart the hub has what it acknowledged.
        drop(hub);
        let _hub = Serving::start(&env, "");
        assert_eq!(rows("last"), expected, "{harness}");
    }
}

/// `install`, `status` and `doctor` know what else delivers events, and what keeps installed hooks from doing so.
#[test]
fn plugins_and_hooks_that_do_nothing_are_known() {
    let listed = r#"{"enabledPlugins": {"subscope@subscope": true}}"#;
    let extension = r#"{"name": "subscope", "version": "0.1.0"}"#;
    for (harness, plugin, text, enabled) in [
        ("claude-code", ".claude/settings.json", listed, true),
        (
            "claude-code",
            ".claude/settings.json",
            r#"{"enabledPlugins": {"subscope@subscope": false}}"#,
            false,
        ),
        ("copilot", ".copilot/settings.json", listed, true),
        ("codex", ".codex/config.toml", "[plugins.\"subscope@subscope\"]\nenabled = true\n", true),
        ("gemini", ".gemini/extensions/subscope/gemini-extension.json", extension, true),
        ("qwen", ".qwen/extensions/subscope/qwen-extension.json", extension, true),
    ] {
        let env = env();
        let install = ["hooks", "install", "--harness", harness, "--claude-version", "2.1.330"];
        // Hooks that were there first.
        env.run(&install).success();
        let installed: Vec<_> =
            OTHERS.iter().find(|row| row.0 == harness).map(|row| row.1).into_iter().collect();
        let file = env.home().join(installed.first().unwrap_or(&".claude/settings.json"));
        let both = read(&file);
        let with_plugin = match harness {
            "claude-code" => both.replacen('{', &format!("{},", &text[..text.len() - 1]), 1),
            _ => both.clone(),
        };
        fs::write(&file, &with_plugin).unwrap();
        if harness != "claude-code" {
            env.write(&format!("home/{plugin}"), text);
        }
        let status = || json(&env.run(&["hooks", "status", "--json", "--harness", harness]).success());
        let doctor = || env.run(&["doctor"]).stdout;
        let row = &status()["plugins"][0];
        assert_eq!(
            (row["harness"].as_str(), row["enabled"].as_bool()),
            (Some(harness), Some(enabled)),
            "{row}"
        );
        assert_eq!(row["path"], env.home().join(plugin).to_str().unwrap());
        assert_eq!(doctor().contains("runs each hook twice"), enabled, "{harness}");
        env.run(&["hooks", "remove", "--harness", harness]).success();
        assert!(!doctor().contains("runs each hook twice"), "{harness}");
        let ran = env.run(&install);
        let before = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(ran.stdout.contains("no hooks were added"), enabled, "{harness}: {ran:?}");
        assert_eq!(before.contains("subscope hook"), !enabled, "{harness}");
    }
    let env = env();
    env.write("home/.gemini/extensions/subscope/gemini-extension.json", extension);
    let off = format!("{{\"subscope\": {{\"overrides\": [\"!{}/*\"]}}}}", env.home().display());
    env.write("home/.gemini/extensions/extension-enablement.json", off);
    let status = json(&env.run(&["hooks", "status", "--json", "--harness", "gemini"]).success());
    assert_eq!(status["plugins"][0]["enabled"], false);
    env.run(&["hooks", "install", "--harness", "codex"]).success();
    let file = env.home().join(".codex/hooks.json");
    let status =
        || json(&env.run(&["hooks", "status", "--json", "--harness", "codex"]).success())["scopes"][0].take();
    assert_eq!(status()["untrusted"].as_array().unwrap().len(), 9);
    assert_eq!(status()["gone"], serde_json::json!([]));
    assert!(env.run(&["doctor"]).stdout.contains("Codex skips the hooks of"));
    fs::write(&file, read(&file).replace(env!("CARGO_BIN_EXE_subscope"), "/gone/subscope")).unwrap();
    assert_eq!(status()["gone"], serde_json::json!(["/gone/subscope"]));
    assert!(env.run(&["doctor"]).stdout.contains("run /gone/subscope, which does not exist"));
}

/// A plugin's hook leaves an event to a hook of the user's settings, and to nothing else.
#[test]
fn hook_of_a_plugin_delivers_what_the_settings_do_not() {
    let claude_code = ("claude-code", ".claude/settings.json", "");
    for (harness, file, _) in OTHERS.into_iter().chain([claude_code]) {
        let env = env();
        env.run(&["hooks", "install", "--harness", harness, "--claude-version", "2.1.330"]).success();
        let path = env.home().join(file);
        let installed = read(&path);
        let switch = if harness == "gemini" {
            "{\"hooksConfig\": {\"enabled\": false},"
        } else {
            "{\"disableAllHooks\": true,"
        };
        let event = json(&installed)["hooks"].as_object().unwrap().keys().next().unwrap().clone();
        let program = env!("CARGO_BIN_EXE_subscope");
        for (settings, is_left) in [
            // Codex runs it only if it is trusted.
            (installed.clone(), harness != "codex"),
            (installed.replace(&format!("{event:?}"), "\"SomethingElse\""), false),
            (installed.replace(program, "/gone/subscope"), false),
            (installed.replacen('{', switch, 1), false),
            ("{".to_owned(), false),
        ] {
            fs::write(&path, &settings).unwrap();
            let mut command = env.command();
            command.args(["hook", "--harness", harness, "--event", &event, "--plugin"]);
            assert_eq!(told(&run(command, b"{\"session_id\": \"s\"}")), (0, ""), "{harness}");
            assert_eq!(spooled(&env).is_empty(), is_left, "{harness} {settings}");
            let _ = fs::remove_dir_all(spool::folder(&env.path("data/subscope")));
        }
    }
}

/// Programs that read the plugins of Claude Code run a command that names no harness. Variables that their agents' processes
/// inherit do not name the caller: an agent may start another harness.
#[test]
fn the_caller_of_a_hook_that_names_none_is_known() {
    let ended = |harness: &str, path: &str| {
        let line = |event: &str| {
            format!(
                r#"{{"session_id":"own","hook_event_name":"{event}","cwd":"/x","transcript_path":"{path}"}}"#
            )
        };
        (harness.to_owned(), ["SessionStart", "Stop", "SessionEnd"].map(line).join("\n"))
    };
    let rollout = "/h/rollout-2026-11-21T20-33-54-01a1ffd0-c380-7df3-9146-df0895c2f7be.jsonl";
    let recorded = fixtures::text(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hooks/claude-plugin-in-copilot.jsonl"),
    );
    for ((harness, payloads), variables, agents) in [
        (("copilot".to_owned(), recorded), &[("COPILOT_CLI", "1"), ("COPILOT_PROJECT_DIR", "/x")][..], 2),
        (
            ended("qwen", "/x/chats/own.jsonl"),
            &[("QWEN_CODE_SESSION_ID", "own"), ("GEMINI_SESSION_ID", "own")],
            1,
        ),
        (ended("codex", rollout), &[], 1),
        (ended("claude-code", "/x/own.jsonl"), &[], 1),
        (
            ended("claude-code", "/x/own.jsonl"),
            &[("COPILOT_CLI", "1"), ("QWEN_CODE_SESSION_ID", "of-its-parent")],
            1,
        ),
    ] {
        let env = env();
        let _hub = Serving::start(&env, "");
        for payload in payloads.lines() {
            let mut command = env.command();
            command.args(["hook", "--plugin"]).envs(variables.iter().copied());
            assert_eq!(told(&run(command, payload.as_bytes())), (0, ""), "{harness}");
        }
        let rows = json(&env.run(&["ls", "--json"]).success());
        let rows: Vec<_> = rows["sessions"].as_array().unwrap().iter().collect();
        assert_eq!(
            (rows.len(), &rows[0]["harness"]),
            (1, &harness.as_str().into()),
            "{variables:?} {rows:?}"
        );
        assert_eq!(rows[0]["status"], "ended", "{rows:?}");
        let tree = json(&env.run(&["tree", "last", "--json"]).success());
        let found = tree["agents"].as_array().unwrap();
        assert_eq!(found.len(), agents, "{tree:#}");
        assert!(found.iter().all(|agent| agent["status"] == "completed"), "{tree:#}");
        assert_eq!(tree["problems"].as_array().unwrap().len(), 0, "{tree:#}");
    }
}

#[test]
fn all_means_the_harnesses_with_a_folder_here() {
    let env = env();
    let ran = env.run(&["hooks", "install", "--harness", "all"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    fs::create_dir_all(env.home().join(".codex")).unwrap();
    fs::create_dir_all(env.home().join(".gemini")).unwrap();
    env.run(&["hooks", "install", "--harness", "all"]).success();
    let status = json(&env.run(&["hooks", "status", "--scope", "user", "--json"]).success());
    let rows = status["scopes"].as_array().unwrap().iter();
    let rows: Vec<_> = rows.map(|row| (row["harness"].clone(), row["installed"].clone())).collect();
    let expected = [("claude-code", false), ("codex", true), ("gemini", true)];
    assert_eq!(rows, expected.map(|(harness, installed)| (harness.into(), installed.into())));
    env.run(&["hooks", "remove", "--harness", "all"]).success();
    assert!(!env.home().join(".codex/hooks.json").exists());
    let refused = env.run(&["hooks", "install", "--harness", "codex", "--http"]);
    assert!(refused.stderr.contains("Codex has no HTTP hooks"), "{}", refused.stderr);
    let refused = env.run(&["hooks", "install", "--harness", "codex", "--scope", "local"]);
    assert!(refused.stderr.contains("for one machine alone"), "{}", refused.stderr);
}

#[test]
fn changed_settings_lose_our_hooks_and_nothing_else() {
    // A brace that shares its line gets one of its own.
    for text in ODD.into_iter().filter(|text| text.lines().count() > 2 && text.lines().last() == Some("}")) {
        let env = env();
        let path = env.write("home/.claude/settings.json", text);
        install(&env, &[]);
        let changed = read(&path).replacen('{', "{ \"added\": true,", 1);
        fs::write(&path, &changed).unwrap();
        assert!(remove(&env).contains("everything else"));
        let after = read(&path);
        assert!(after.contains("\"added\": true") && !after.contains("subscope"), "{after}");
        for line in text.lines().skip(1).map(|line| line.trim_end_matches([',', '\r'])) {
            assert!(after.contains(line), "{line:?} in {after}");
        }
    }
}

#[test]
fn doctor_names_settings_that_cannot_be_read() {
    let env = env();
    let path = env.write("home/.claude/settings.json", "{ \"hooks\": ");
    let doctor = env.run(&["doctor"]).stdout;
    let says = doctor
        .lines()
        .find(|line| line.contains("hooks of Claude Code"))
        .unwrap_or_else(|| panic!("{doctor}"));
    assert!(says.contains(path.to_str().unwrap()), "{says}");
}

#[test]
fn hooks_of_another_version_are_reported_until_they_are_installed_again() {
    for (harness, install, limit) in [
        ("claude-code", &INSTALL[..], "\"timeout\": 330"),
        ("opencode", &["hooks", "install", "--harness", "opencode"], "const PERSON_PATIENCE = 330_000;"),
    ] {
        let env = env();
        env.run(install).success();
        let outdated = || {
            let status = env.run(&["hooks", "status", "--harness", harness, "--json"]).success();
            let row = json(&status)["scopes"][0].take();
            assert_eq!(row["installed"], true);
            (row["outdated"].as_bool().unwrap(), PathBuf::from(row["path"].as_str().unwrap()))
        };
        let (is_outdated, file) = outdated();
        assert!(!is_outdated, "{harness}");
        let before = read(&file);
        assert!(before.contains(limit), "{before}");
        fs::write(&file, before.replace(limit, &limit.replace("330", "5"))).unwrap();
        assert!(outdated().0, "{harness}");
        let text = env.run(&["hooks", "status", "--harness", harness]).success();
        assert!(text.contains("not as this version writes them"), "{text}");
        let doctor = env.run(&["doctor"]).stdout;
        let says = format!("subscope hooks install --harness {harness} --scope user");
        assert!(doctor.contains("are not as this version writes them") && doctor.contains(&says), "{doctor}");
        env.run(install).success();
        assert!(!env.run(&["doctor"]).stdout.contains("not as this version writes them"));
        assert_eq!((outdated().0, read(&file)), (false, before), "{harness}");
    }
}

#[test]
fn links_are_followed_and_stay() {
    let env = env();
    let target = env.write("dotfiles/claude.json", ODD[4]);
    fs::create_dir(env.home().join(".claude")).unwrap();
    symlink("../../dotfiles/claude.json", settings(&env)).unwrap();
    install(&env, &[]);
    assert!(read(&target).contains("SubagentStart"));
    remove(&env);
    assert_eq!(read(&target), ODD[4]);
    fs::remove_file(&target).unwrap();
    install(&env, &[]);
    assert!(target.exists(), "a link to nothing yet");
    remove(&env);
    assert!(!target.exists() && fs::symlink_metadata(settings(&env)).unwrap().is_symlink());
}

#[test]
fn settings_that_are_no_object_stay_as_they_are() {
    for (text, line) in [("{\n  \"a\": 1\n  \"b\": 2\n}", 2), ("[]", 1), ("{\"hooks\": 1}", 1), ("\n\n{", 3)]
    {
        let env = env();
        let path = env.write("home/.claude/settings.json", text);
        for words in [INSTALL.as_slice(), &["hooks", "remove"], &["hooks", "status"]] {
            let ran = env.run(words);
            let (code, stderr) = told(&ran);
            assert!(code == 3 && stderr.contains(&format!("settings.json:{line}: ")), "{words:?}: {stderr}");
        }
        assert_eq!(read(&path), text);
    }
    let env = env();
    env.write("home/.claude/settings.json", [b'{', 0xff, b'}']);
    assert_eq!(env.run(&INSTALL).code, Some(3));
}

#[test]
fn scopes_are_files_of_their_own() {
    let env = env();
    for (scope, path) in [
        ("user", settings(&env)),
        ("project", env.work().join(".claude/settings.json")),
        ("local", env.work().join(".claude/settings.local.json")),
    ] {
        assert!(!path.exists());
        let ran = env.run(&[&INSTALL, ["--scope", scope].as_slice()].concat());
        assert_eq!(
            ran.stderr.contains("--scope local is for you alone"),
            scope == "project",
            "{}",
            ran.stderr
        );
        let status = json(&env.run(&["hooks", "status", "--scope", scope, "--json"]).success());
        assert_eq!(status["scopes"][0]["path"], path.to_str().unwrap());
        assert_eq!(status["scopes"][0]["hooks"].as_array().unwrap().len(), 18);
    }
    let mut command = env.command();
    command.args(INSTALL).env("CLAUDE_CONFIG_DIR", env.path("elsewhere"));
    run(command, b"").success();
    assert!(env.path("elsewhere/settings.json").exists());
}

#[test]
fn installed_command_runs_this_program_through_sh() {
    let env = env();
    install(&env, &["--store", env.path("my data").to_str().unwrap()]);
    let value = json(&read(&settings(&env)));
    let hook = &value["hooks"]["SubagentStop"][0]["hooks"][0];
    assert_eq!((&hook["type"], &hook["timeout"]), (&"command".into(), &5.into()));
    let mut command = env.command_of("/bin/sh");
    command.args(["-c", hook["command"].as_str().unwrap()]);
    assert_eq!(told(&run(command, b"{\"hook_event_name\":\"SubagentStop\"}")), (0, ""));
    assert_eq!(Spool::open(&env.path("my data/spool")).unwrap().len(), 1);
    assert!(install(&env, &["--store", env.path("my data").to_str().unwrap()]).stdout.contains("already"));
}

#[test]
fn http_hooks_post_all_but_the_start_of_a_session() {
    let env = env();
    install(&env, &["--http"]);
    let value = json(&read(&settings(&env)));
    let hook = |event: &str| value["hooks"][event][0]["hooks"][0].clone();
    assert_eq!(hook("PreToolUse")["url"], "http://127.0.0.1:7337/hooks/claude");
    assert_eq!(hook("SessionStart")["type"], "command");
    let ran = env.run(&[&INSTALL, ["--http", "--url", "https://example.org"].as_slice()].concat());
    assert!(ran.code == Some(0) && ran.stderr.contains("not of this machine"), "{}", ran.stderr);
    assert_eq!(env.run(&["hooks", "install", "--http", "--claude-version", "2.1.50"]).code, Some(1));
    assert_eq!(env.run(&["hooks", "install", "--http", "--url", "nowhere"]).code, Some(2));
    assert_eq!(env.run(&["hooks", "install", "--claude-version", "new"]).code, Some(2));
}

#[test]
fn http_hooks_send_the_token_that_a_hub_asks_for() {
    let env = env();
    let serving = Serving::start(&env, "--token-file token");
    let url = format!("http://{}", serving.address);
    let ran = env.run(&[&INSTALL, ["--http", "--url", &url, "--with-token"].as_slice()].concat());
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("SUBSCOPE_TOKEN"), "{}", ran.stderr);
    let entry = json(&read(&settings(&env)))["hooks"]["PreToolUse"][0]["hooks"][0].clone();
    assert_eq!(entry["allowedEnvVars"], serde_json::json!(["SUBSCOPE_TOKEN"]));
    // Claude Code puts in the variables that are listed; one that is not set is empty.
    let token = fs::read_to_string(env.path("work/token")).unwrap();
    for (value, status) in [(token.trim(), 200), ("", 401)] {
        let headers = entry["headers"].as_object().unwrap().iter();
        let headers = headers.map(|(name, text)| format!("{name}: {}\r\n", text.as_str().unwrap()));
        let headers = headers.collect::<String>().replace("$SUBSCOPE_TOKEN", value);
        let body = br#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"1","tool_input":{}}"#;
        let request = posting(&serving.address, "/hooks/claude", &headers, body);
        assert_eq!(exchange(serving.connect(), &request).0, status);
    }
    // Installing without it takes it away.
    install(&env, &["--http", "--url", &url]);
    assert!(!read(&settings(&env)).contains("SUBSCOPE_TOKEN"));
    serving.end("-TERM");
}

#[test]
fn events_are_those_that_the_version_of_claude_code_knows() {
    let events = |env: &TestEnv| -> Vec<String> {
        let value = json(&read(&settings(env)));
        value["hooks"].as_object().unwrap().keys().cloned().collect()
    };
    let env = env();
    let ran = env.run(&["hooks", "install"]);
    assert!(
        ran.code == Some(0) && ran.stderr.contains("no version of Claude Code was found"),
        "{}",
        ran.stderr
    );
    let safe = events(&env);
    // Written by a shell, so that no other test's child holds it open for writing while it is started.
    let script = "mkdir -p $HOME/.local/bin; cd $HOME/.local/bin; echo '#!/bin/sh\necho \"1.0.128 (Claude Code)\"' > claude; chmod +x claude";
    let mut shell = env.command_of("/bin/sh");
    shell.args(["-c", script]);
    run(shell, b"").success();
    assert_eq!(told(&env.run(&["hooks", "install"])), (0, ""));
    assert_eq!(events(&env), safe);
    assert_eq!(
        events(&env),
        [
            "SessionStart",
            "SessionEnd",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "SubagentStop",
            "Stop",
            "PreCompact",
            "Notification"
        ],
        "what this version does not know is taken out again"
    );
    remove(&env);
    assert!(!settings(&env).exists());
}

#[test]
fn status_tells_settings_hub_and_spool() {
    let env = env();
    let status = |env: &TestEnv| json(&env.run(&["hooks", "status", "--json"]).success());
    let before = status(&env);
    assert_eq!(before["schema"], "subscope.hooks/1");
    assert_eq!(before["scopes"].as_array().unwrap().len(), 3);
    assert_eq!(before["scopes"][0]["installed"], false);
    assert_eq!((&before["hub"]["answers"], &before["spool"]["waiting"]), (&false.into(), &0.into()));
    install(&env, &[]);
    hook(&env, b"{}");
    let _hub = Hub::start(&env, Answer::Hang);
    let after = status(&env);
    assert_eq!((&after["hub"]["answers"], &after["spool"]["waiting"]), (&true.into(), &1.into()));
    assert_eq!(after["scopes"][0]["hooks"][0]["kind"], "command");
    assert_eq!(after["scopes"][0]["disabled"], false);
    let text = env.run(&["hooks", "status"]).success();
    assert!(
        text.contains("18 events") && text.contains("SubagentStart") && text.contains("1 event waits"),
        "{text}"
    );
}

/// How a hub of these tests answers.
#[derive(Clone, Copy)]
enum Answer {
    With(&'static str),
    /// Takes the connection and stays silent.
    Hang,
}

const OK: Answer = Answer::With("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");

/// A request.
struct Taken {
    head: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Hub {
    taken: Receiver<Taken>,
    count: Arc<AtomicUsize>,
}

fn data(env: &TestEnv) -> PathBuf {
    env.path("data/subscope")
}

impl Hub {
    fn start(env: &TestEnv, answer: Answer) -> Self {
        fs::create_dir_all(data(env)).unwrap();
        fs::set_permissions(data(env), fs::Permissions::from_mode(0o700)).unwrap();
        let listener = UnixListener::bind(data(env).join("hub.sock")).unwrap();
        let (told, taken) = sync_channel(1000);
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A probe of the socket sends nothing.
                let Some(request) = read_request(&stream) else { continue };
                // Sent to the test before the answer: a hook that has ended is already counted.
                counter.fetch_add(1, Ordering::SeqCst);
                told.send(request).unwrap();
                match answer {
                    Answer::Hang => held.push(stream),
                    // The hook may have given up meanwhile.
                    Answer::With(text) => drop(stream.write_all(text.as_bytes())),
                }
            }
        });
        Self { taken, count }
    }
}

fn read_request(stream: &UnixStream) -> Option<Taken> {
    let mut reader = BufReader::new(stream);
    let mut head = BTreeMap::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    assert_eq!(line, "POST /hooks/claude HTTP/1.1\r\n");
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        head.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; head["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    Some(Taken { head, body })
}

/// Runs the hook; it must be silent on stderr and end with 0 whatever happens.
fn hook(env: &TestEnv, payload: &[u8]) -> String {
    let mut command = env.command_of("/usr/bin/timeout");
    command.args([PATIENCE, env!("CARGO_BIN_EXE_subscope"), "hook"]);
    let ran = run(command, payload);
    assert_eq!(told(&ran), (0, ""));
    ran.stdout
}

fn spooled(env: &TestEnv) -> Vec<Spooled> {
    Spool::open(&spool::folder(&data(env))).unwrap().iter().map(Result::unwrap).collect()
}

#[test]
fn hook_hands_its_payload_to_the_hub_once_and_prints_the_decision() {
    let env = env();
    let stop = HOOK.stop_answer(AskMoment::BeforeCall, Some("2.1.330")).unwrap().json;
    let decision = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{stop}", stop.len());
    let hub = Hub::start(&env, Answer::With(decision.leak()));
    let payload =
        format!("{{\"hook_event_name\":\"PreToolUse\",\"tool_input\":\"{}\"}}", "x".repeat(300_000));
    assert_eq!(hook(&env, payload.as_bytes()), stop);
    let taken = hub.taken.recv().unwrap();
    assert_eq!(taken.body, payload.as_bytes());
    assert_eq!(taken.head["content-type"], "application/json");
    let delivery: spool::Delivery = taken.head["x-subscope-delivery"].parse().unwrap();
    assert_eq!(taken.head["x-subscope-received-ms"], delivery.received_ms().to_string());
    assert_eq!((hub.count.load(Ordering::SeqCst), spooled(&env).len()), (1, 0));
}

#[test]
fn hook_prints_nothing_but_its_harness_s_stop_answer() {
    let stop = HOOK.stop_answer(AskMoment::AfterCall, None).unwrap().json;
    let (spaced, other) = (format!(" {stop} "), stop.replace("Stopped", "Slopped"));
    for (body, printed) in [
        ("", ""),
        ("hello", ""),
        (" {} ", ""),
        (r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#, ""),
        (r#"{"continue":false}"#, ""),
        (r#"{"behavior":"deny","message":"Stopped by the user, with subscope.","interrupt":true}"#, ""),
        (&other, ""),
        (&spaced, &stop),
    ] {
        let env = env();
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let hub = Hub::start(&env, Answer::With(text.leak()));
        assert_eq!(hook(&env, b"{}"), printed);
        assert_eq!((hub.taken.recv().unwrap().body, spooled(&env).len()), (b"{}".to_vec(), 0));
    }
}

#[test]
fn folder_of_another_user_is_not_used() {
    let env = env();
    let allow = "HTTP/1.1 200 OK\r\ncontent-length: 78\r\n\r\n{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"allow\"}}";
    let hub = Hub::start(&env, Answer::With(allow));
    // Only root can give a folder away.
    if chown(data(&env), Some(65_534), Some(65_534)).is_err() {
        return skip::not_here("not as root: no folder can be given to another user");
    }
    assert_eq!(hook(&env, b"{}"), "");
    assert_eq!((hub.count.load(Ordering::SeqCst), spooled(&env).len()), (0, 0), "he gets nothing");
    for command in ["ls", "search x", "index", "forget x"] {
        let ran = env.run(&command.split(' ').collect::<Vec<_>>());
        assert!(
            ran.code == Some(1) && ran.stderr.contains("belongs to another user"),
            "{command}: {}",
            ran.stderr
        );
    }
    chown(data(&env), Some(0), Some(0)).unwrap();
    chown(data(&env).join("hub.sock"), Some(65_534), Some(65_534)).unwrap();
    assert_eq!((hook(&env, b"{}").as_str(), hub.count.load(Ordering::SeqCst)), ("", 0), "the socket is his");
    assert_eq!(spooled(&env).len(), 1);
}

#[test]
fn payload_of_an_unknown_harness_is_kept_and_reported() {
    let env = env();
    let options = |harness: &str| {
        let mut command = env.command_of(env!("CARGO_BIN_EXE_subscope"));
        command.args(["hook", "--harness", harness]);
        command
    };
    for harness in ["claude", "claude", "x\u{1b}[2J\n../y"] {
        let ran = run(options(harness), b"{\"n\":1}");
        assert_eq!((told(&ran), ran.stdout.as_str()), ((0, ""), ""));
    }
    assert_eq!(spooled(&env).len(), 0, "no hub takes them");
    let Ran { code, stdout: status, stderr, .. } = env.run(&["hooks", "status"]);
    assert_eq!(code, Some(1));
    let says = "3 events kept of a hook whose --harness is \"claude\": no harness with hooks has this name";
    assert!(status.contains(says) && stderr.contains("hint: write --harness "), "{status}{stderr}");
    let report: serde_json::Value =
        serde_json::from_str(&env.run(&["hooks", "status", "--json"]).stdout).unwrap();
    assert_eq!(report["spool"]["unknown"]["claude"], 2);
    let doctor = env.run(&["doctor"]);
    assert!(
        doctor.code == Some(1) && doctor.stdout.contains("whose --harness is \"claude\""),
        "{}",
        doctor.stdout
    );
    assert!(!doctor.stdout.contains('\u{1b}') && !status.contains('\u{1b}'));
    let kept: Vec<_> =
        fs::read_dir(spool::folder(&data(&env))).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(kept.len() == 3 && kept.iter().all(|file| fs::read(file).unwrap().ends_with(b"\n{\"n\":1}")));
}

#[test]
fn hook_spools_where_no_hub_takes_its_payload() {
    let refusals = [
        None,
        Some(Answer::Hang),
        Some(Answer::With("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}")),
        Some(Answer::With("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"cut\":")),
        Some(Answer::With("")),
    ];
    for answer in refusals {
        let env = env();
        let hub = answer.map(|answer| Hub::start(&env, answer));
        assert_eq!(hook(&env, b"{\"n\":1}"), "");
        let waiting = spooled(&env);
        assert_eq!((waiting.len(), waiting[0].body.as_slice()), (1, b"{\"n\":1}".as_slice()));
        if let Some(hub) = hub {
            let id = hub.taken.recv().unwrap().head["x-subscope-delivery"].clone();
            assert_eq!(id, waiting[0].delivery.to_string(), "by its id the hub knows it again");
        }
    }
}

#[test]
fn hook_spools_where_the_socket_is_stale_deaf_or_not_to_be_trusted() {
    let env = env();
    fs::create_dir_all(data(&env)).unwrap();
    let listener = UnixListener::bind(data(&env).join("hub.sock")).unwrap();
    // The server never accepts: the system connects the hooks, and they wait until they time out.
    let waiting: Vec<Child> = (0..20).map(|_| start(&env, b"{}")).collect();
    waiting.into_iter().for_each(ended);
    assert_eq!(spooled(&env).len(), 20);
    drop(listener);
    hook(&env, b"{}");
    assert_eq!(spooled(&env).len(), 21);
    fs::remove_file(data(&env).join("hub.sock")).unwrap();
    let hub = Hub::start(&env, OK);
    fs::set_permissions(data(&env), fs::Permissions::from_mode(0o777)).unwrap();
    hook(&env, b"{}");
    assert_eq!((spooled(&env).len(), hub.count.load(Ordering::SeqCst)), (22, 0));
}

#[test]
fn hook_is_silent_where_it_can_do_nothing() {
    let env = env();
    hook(&env, b"");
    assert!(!data(&env).exists(), "nothing to keep");
    env.write("data/subscope", "a file in the way, as good as a full disk");
    hook(&env, b"{}");
    let mut command = env.command();
    command.args(["hook", "--nonsense"]).env_clear();
    assert_eq!(told(&run(command, b"{}")), (0, ""), "no home");
    for words in [&["-q", "hook"][..], &["hook", "--store"], &["hook", "--help"]] {
        assert_eq!(told(&env.run_with_stdin(words, b"{}")), (0, ""));
    }
}

#[test]
fn hook_does_not_wait_for_an_input_without_end() {
    let env = env();
    let mut command = env.command_of("/usr/bin/timeout");
    command.args([PATIENCE, env!("CARGO_BIN_EXE_subscope"), "hook"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"whole\":1}").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(spooled(&env)[0].body, b"{\"whole\":1}", "what came is kept");
    drop(stdin);
}

#[test]
fn spool_gives_events_in_the_order_in_which_they_came() {
    let env = env();
    for number in 0..5 {
        hook(&env, format!("{{\"n\":{number}}}").as_bytes());
    }
    let bodies: Vec<String> =
        spooled(&env).into_iter().map(|one| String::from_utf8(one.body).unwrap()).collect();
    assert_eq!(bodies, [0, 1, 2, 3, 4].map(|number| format!("{{\"n\":{number}}}")));
}

fn start(env: &TestEnv, payload: &[u8]) -> Child {
    let mut command = env.command();
    command.arg("hook").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload).unwrap();
    child
}

fn ended(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), vec![], vec![]));
}

#[test]
fn two_hundred_hooks_at_once_all_arrive_exactly_once() {
    let env = env();
    // The hub comes when half of them have begun.
    let mut children: Vec<Child> =
        (0..100).map(|number| start(&env, format!("{{\"n\":{number}}}").as_bytes())).collect();
    let hub = Hub::start(&env, OK);
    children.extend((100..200).map(|number| start(&env, format!("{{\"n\":{number}}}").as_bytes())));
    children.into_iter().for_each(ended);
    let mut arrived = BTreeMap::new();
    let delivered = hub.taken.try_iter().map(|taken| (taken.head["x-subscope-delivery"].clone(), taken.body));
    let waiting = spooled(&env).into_iter().map(|one| (one.delivery.to_string(), one.body));
    for (id, body) in delivered.chain(waiting) {
        // One that was taken but not answered in time is spooled, too: under the same id, with the same body.
        let known = arrived.insert(id, body.clone());
        assert!(known.is_none_or(|known| known == body));
    }
    let mut bodies: Vec<String> =
        arrived.into_values().map(|body| String::from_utf8(body).unwrap()).collect();
    bodies.sort_unstable();
    let mut expected: Vec<String> = (0..200).map(|number| format!("{{\"n\":{number}}}")).collect();
    expected.sort_unstable();
    assert_eq!(bodies, expected);
}
