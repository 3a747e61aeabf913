//! A second harness is a folder and a line of the registry: the real program finds, shows, indexes, searches and
//! follows the sessions of a made-up one that is registered by one call.

#![allow(clippy::unwrap_used)]

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::sync_channel,
    thread,
    time::Duration,
};

use serde_json::Value;
use subscope_hub::clock;
use subscope_model::iso8601;
use subscope_testkit::env::TestEnv;

const MAIN: &str = concat!(
    r#"{"say":"prompt","session":"s1","at":"2026-11-23T10:00:00Z","text":"Paint the fence"}"#,
    "\n",
    r#"{"say":"spawn","session":"s1","at":"2026-11-23T10:00:01Z","agent":"a1","text":"Mix the turquoise"}"#,
    "\n",
    r#"{"say":"end","session":"s1","at":"2026-11-23T10:00:09Z","agent":"a1","text":"Mixed"}"#,
    "\n",
);
const AGENT: &str = concat!(
    r#"{"say":"message","session":"s1","at":"2026-11-23T10:00:05Z","text":"Stirring counterclockwise"}"#,
    "\n",
);

/// The program that has the harness, in the folder of the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(format!("with_example{}", std::env::consts::EXE_SUFFIX))
}

/// An environment with one session of the harness; its main log.
fn with_session() -> (TestEnv, PathBuf) {
    let env = TestEnv::new(program());
    let folder = env.home().join(".example/2026/11/23");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("s1.exl"), MAIN).unwrap();
    fs::write(folder.join("s1.a1.exl"), AGENT).unwrap();
    (env, folder.join("s1.exl"))
}

#[test]
fn doctor_lists_it() {
    let (env, _) = with_session();
    let printed = env.run(&["doctor"]).stdout;
    assert!(printed.contains("Example's folder"), "{printed}");
    assert!(printed.contains("1 found"), "{printed}");
}

#[test]
fn tree_shows_its_session_by_path_and_by_id() {
    let (env, main) = with_session();
    for target in [main.to_str().unwrap(), "s1"] {
        let tree: Value = serde_json::from_str(&env.run(&["tree", target, "--json"]).success()).unwrap();
        assert_eq!(tree["session"]["harness"], "example", "{target}: {tree}");
        let agent = tree["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "a1").unwrap();
        assert_eq!((&agent["status"], &agent["parent_id"]), (&"completed".into(), &"root".into()), "{tree}");
    }
}

#[test]
fn index_and_search_find_its_words() {
    let (env, _) = with_session();
    let indexed: Value = serde_json::from_str(&env.run(&["index", "--json"]).success()).unwrap();
    assert_eq!((&indexed["files"], &indexed["sessions"]), (&2.into(), &1.into()), "{indexed}");
    assert!(env.run(&["ls"]).success().contains("Paint the fence"));
    for (word, agent) in [("counterclockwise", "a1"), ("fence", "root")] {
        let found = env.run(&["search", word, "--json"]).success();
        assert!(found.contains(word) && found.contains(agent), "{word}: {found}");
    }
}

#[test]
fn watch_shows_what_it_writes() {
    let (env, main) = with_session();
    let mut child =
        env.command().args(["watch"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (sender, lines) = sync_channel(1_000);
    let out = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let is_shown = (0..150).any(|number| {
        let at = iso8601(clock::now_ms());
        let line =
            format!(r#"{{"say":"message","session":"s1","at":"{at}","text":"Gate {number} is next"}}"#);
        writeln!(OpenOptions::new().append(true).open(&main).unwrap(), "{line}").unwrap();
        lines.recv_timeout(Duration::from_millis(200)).is_ok_and(|line| line.contains(" is next"))
            || lines.try_iter().any(|line| line.contains(" is next"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_shown);
}
