//! `subscope jump` goes to the tmux pane of a session's process, and says where it is where it cannot go.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, thread, time::Duration};

use common::{env, json, run};
use serde_json::Value;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, Recording, recording},
    others::other_recordings,
    skip,
};

/// A tmux server with the sessions `work`, of three windows, and `other`.
struct Server<'e> {
    env: &'e TestEnv,
    socket: String,
}

impl<'e> Server<'e> {
    /// `None` where tmux is not installed. The last window of `work` runs a shell script, with the first one in front. A
    /// server that has just been ended may still have its socket: each has its own name.
    fn start(env: &'e TestEnv, name: &str, script: &str) -> Option<Self> {
        if !env.command_of("tmux").arg("-V").output().is_ok_and(|output| output.status.success()) {
            skip::missing_tool("tmux");
            return None;
        }
        let server = Self { env, socket: env.path(&format!("{name}.sock")).display().to_string() };
        server.tmux(&["-f", "/dev/null", "new-session", "-d", "-s", "work", "exec cat"]);
        server.tmux(&["new-window", "-t", "work", "exec cat"]);
        server.tmux(&["new-window", "-t", "work", script]);
        server.tmux(&["select-window", "-t", "work:0"]);
        server.tmux(&["new-session", "-d", "-s", "other", "exec cat"]);
        Some(server)
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = self.env.command_of("tmux");
        command.env("TERM", "xterm-256color").env_remove("TMUX").args(["-S", &self.socket]).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// The process of the last window.
    fn process(&self) -> String {
        self.tmux(&["display-message", "-p", "-t", "work:2", "#{pane_pid}"])
    }

    /// A client that shows `other`, in a terminal of another server.
    fn attach(&self) -> Server<'e> {
        let outer = Server { env: self.env, socket: format!("{}.outer", self.socket) };
        let attach = format!("env -u TMUX tmux -S '{}' attach -t other", self.socket);
        outer.tmux(&["-f", "/dev/null", "new-session", "-d", &attach]);
        while self.shown().is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        outer
    }

    /// What its clients show.
    fn shown(&self) -> String {
        self.tmux(&["list-clients", "-F", "#{session_name}:#{window_index}"])
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let mut command = self.env.command_of("tmux");
        // It may have ended already.
        let _ = command.args(["-S", &self.socket, "kill-server"]).output();
    }
}

/// Writes the note of a process of Claude Code.
fn note(env: &TestEnv, recording: &Recording, process: &str) {
    let session = recording.truth().session.id;
    let text = format!(
        r#"{{"pid":{process},"sessionId":"{session}","cwd":"/x","startedAt":4102444800000,"entrypoint":"cli"}}"#
    );
    let folder = env.home().join(".claude/sessions");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{process}.json")), text).unwrap();
}

fn jump(env: &TestEnv, word: &str) -> Value {
    json(&run(env, &format!("jump {word} --json"), &[]).success())
}

#[test]
fn session_in_tmux_is_shown_by_the_client_that_is_there() {
    let env = env();
    let recording = recording("2.1.330", "a-single");
    env.adopt(&recording);
    let id = recording.truth().session.id;
    let Some(server) = Server::start(&env, "tmux", "exec cat") else { return };
    // Without a process it is resumed.
    let resumed = jump(&env, &id);
    assert_eq!(
        (&resumed["outcome"], &resumed["process"]),
        (&"not_running".into(), &Value::Null),
        "{resumed}"
    );
    assert!(resumed["command"].as_str().unwrap().ends_with(&format!("&& claude --resume {id}")), "{resumed}");
    note(&env, &recording, &server.process());
    // Nothing shows it.
    let detached = jump(&env, &id);
    assert_eq!(
        (&detached["outcome"], &detached["place"]),
        (&"detached".into(), &"work:2.0".into()),
        "{detached}"
    );
    let command = format!("tmux -S {} attach-session -t work:2.0", server.socket);
    assert_eq!(detached["command"], command.as_str());
    let ran = run(&env, &format!("jump {id}"), &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains(&command), "{}", ran.stderr);
    let tree = json(&run(&env, &format!("tree {id} --json"), &[]).success());
    let agent = tree["agents"][1]["id"].as_str().unwrap().to_owned();
    // The only client is switched to it, from wherever it is.
    let outer = server.attach();
    assert_eq!(server.shown(), "other:0");
    for (word, from) in [
        (id.clone(), "other:0"),
        (format!("{id}/root"), "work:1"),
        ("last".to_owned(), "other:0"),
        (agent, "other:0"),
    ] {
        server.tmux(&[
            "switch-client",
            "-c",
            &server.tmux(&["list-clients", "-F", "#{client_name}"]),
            "-t",
            from,
        ]);
        let went = jump(&env, &word);
        assert_eq!(went["outcome"], "went", "{word}: {went}");
        assert_eq!(server.shown(), "work:2", "{word}: {went}");
    }
    assert_eq!(run(&env, &format!("jump {id}"), &[]).success(), "went to work:2.0 in tmux\n");
    // Nothing was typed.
    let typed = server.tmux(&["capture-pane", "-p", "-t", "work:2"]);
    assert_eq!(typed.trim(), "");
    drop(outer);
}

#[test]
fn process_that_writes_a_file_of_the_session_runs_it_and_readers_do_not() {
    let env = env();
    let recordings = other_recordings();
    let codex = recordings.iter().find(|one| one.folder.ends_with("v2_resume")).unwrap();
    let sessions = codex.folder.join("sessions");
    let file = fixtures::files_below(&sessions)
        .into_iter()
        .find(|file| file.extension().is_some_and(|end| end == "jsonl"))
        .unwrap();
    let file = env.write(
        &format!("home/.codex/sessions/{}", file.strip_prefix(&sessions).unwrap().display()),
        fixtures::bytes(&file),
    );
    let listed = json(&run(&env, "ls --json", &[]).success());
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    assert!(file.to_str().unwrap().contains(id), "{listed}");
    for (mode, outcome) in [("<", "not_running"), (">>", "detached")] {
        let Some(server) = Server::start(&env, outcome, &format!("exec cat 3{mode}'{}'", file.display()))
        else {
            return;
        };
        // The shell has to open it first.
        let open = format!("/proc/{}/fd/3", server.process());
        while fs::read_link(&open).ok().as_ref() != Some(&file) {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(jump(&env, id)["outcome"], outcome, "{mode}");
    }
}
