//! The terminal UI of the real program in a real terminal (tmux): keys, a live session that grows, other sizes, every
//! way to quit.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    process::Command,
    time::Duration,
};

use common::{env, run, serving::main_file};
use subscope_hub::clock;
use subscope_model::{iso8601, parse_rfc3339};
use subscope_testkit::{
    env::{Terminal, TestEnv},
    fixtures::{self, Recording, recording},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(40);

/// When `k-big` ended.
const BIG_ENDED_MS: i64 = 1_795_293_805_261;

/// The session of `k-big`, with eight agents.
fn big() -> (Recording, PathBuf) {
    let recording = recording("2.1.330", "k-big");
    let main = main_file(&recording);
    (recording, main)
}

/// A shell that prints the program's exit code and continues after it.
fn start<'e>(env: &'e TestEnv, shell: &'e TestEnv, size: (u16, u16), words: &str) -> Option<Terminal<'e>> {
    let variables = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"];
    let folders = ["home", "config", "data", "state", "run"];
    let set: Vec<String> = variables
        .iter()
        .zip(folders)
        .map(|(name, folder)| format!("export {name}={}", env.path(folder).display()))
        .collect();
    let script = format!(
        "{}; stty -g >before; {} {words}; echo ended with $?; stty -g >after; cmp before after && echo as before; read word; echo typed $word",
        set.join("; "),
        env!("CARGO_BIN_EXE_subscope")
    );
    Terminal::start(shell, size.0, size.1, &["-c", &format!("trap : INT; {script}")])
}

/// The terminal is as it was: no alternate screen, the cursor to be seen, lines of the shell.
fn is_given_back(terminal: &Terminal<'_>, code: i32) {
    terminal.wait_for_text(LIMIT, &format!("ended with {code}"));
    let screen = terminal.wait_for_text(LIMIT, "as before");
    assert!(!screen.contains("Agent Tree"), "{screen}");
    terminal.type_text("a word");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "typed a word");
}

#[test]
fn playback_is_driven_by_keys() {
    let (env, shell) = (env(), TestEnv::new("/bin/sh"));
    let (_, main) = big();
    let words = format!("replay {} --speed 16", main.display());
    let Some(terminal) = start(&env, &shell, (120, 40), &words) else { return };
    terminal.wait_for_text(LIMIT, "active)");
    terminal.wait_for_text(LIMIT, "21s of 21s");
    // Playback pauses at the end.
    let shown = ["‖", "Agent Tree (8)", "Release readiness", "replay"];
    terminal.wait_for(LIMIT, |screen| shown.iter().all(|words| screen.contains(words)));
    // Select, drill, back.
    terminal.send(&["Down", "Down"]);
    terminal.wait_for_text(LIMIT, "─ ✓ general-purpose: Pricing and discounts");
    terminal.send(&["t"]);
    terminal.wait_for_text(LIMIT, "detail: full");
    terminal.wait_for_text(LIMIT, "earlier calls");
    // Search.
    terminal.send(&["/"]);
    terminal.type_text("helper");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "with \"helper\"");
    terminal.send(&["n"]);
    terminal.wait_for_text(LIMIT, "─ ✓ Explore: Helper for details");
    // Timeline, feed, summary.
    terminal.send(&["w"]);
    terminal.wait_for_text(LIMIT, "waits for you");
    terminal.send(&["3"]);
    terminal.wait_for_text(LIMIT, "this session");
    terminal.send(&["4"]);
    terminal.wait_for_text(LIMIT, "agents by type");
    // Time: a tenth back, an event back, play.
    terminal.send(&["1", "{", "{", "{"]);
    terminal.wait_for_text(LIMIT, "active)");
    terminal.wait_for_text(LIMIT, "15s of 21s");
    // Smaller and larger while it plays.
    terminal.send(&["Space"]);
    terminal.resize(60, 20);
    terminal.wait_for(LIMIT, |screen| {
        screen.lines().all(|line| line.chars().count() <= 60) && screen.contains("quit")
    });
    terminal.resize(130, 45);
    terminal.wait_for_text(LIMIT, "21s of 21s");
    terminal.send(&["?"]);
    terminal.wait_for_text(LIMIT, "ask the agent to stop");
    terminal.send(&["q"]);
    terminal.wait_for(LIMIT, |screen| !screen.contains("ask the agent to stop"));
    terminal.send(&["q"]);
    is_given_back(&terminal, 0);
}

/// A line of a transcript as if it had been written so much later.
fn later(line: &str, by_ms: i64) -> String {
    const KEY: &str = "\"timestamp\":\"";
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(KEY) {
        let (before, after) = rest.split_at(at + KEY.len());
        let end = after.find('"').unwrap();
        out += before;
        out += &parse_rfc3339(&after[..end]).map_or(after[..end].to_owned(), |time| iso8601(time + by_ms));
        rest = &after[end..];
    }
    out + rest
}

/// Writes the next part of a session, as if it happened now: each of its files up to a share of its lines.
fn grow(env: &TestEnv, recording: &Recording, share: f64, written: &mut Vec<usize>) {
    let by_ms = clock::now_ms() - BIG_ENDED_MS;
    let files = recording.conversation();
    written.resize(files.len(), 0);
    for (path, done) in files.iter().zip(written) {
        let relative = path.strip_prefix(recording.projects()).unwrap();
        let target = env.home().join(".claude/projects").join(relative);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        if path.extension().is_some_and(|ending| ending == "json") {
            let running = fixtures::text(path).replace(",\"finished\":true", "");
            fs::write(&target, running).unwrap();
            continue;
        }
        let text = fixtures::text(path);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let until = (lines.len() as f64 * share).ceil() as usize;
        let mut file = OpenOptions::new().create(true).append(true).open(&target).unwrap();
        for line in &lines[*done..until.max(*done)] {
            file.write_all(later(line, by_ms).as_bytes()).unwrap();
        }
        *done = until.max(*done);
    }
}

#[test]
fn session_that_grows_is_followed_and_past_ones_are_listed() {
    let (env, shell) = (env(), TestEnv::new("/bin/sh"));
    env.adopt(&recording("2.1.330", "e-tool-failures"));
    let (big, mut written) = (recording("2.1.330", "k-big"), Vec::new());
    let Some(terminal) = start(&env, &shell, (120, 40), "") else { return };
    terminal.wait_for_text(LIMIT, "Sessions 1");
    grow(&env, &big, 0.3, &mut written);
    terminal.wait_for_text(LIMIT, "Sessions 2");
    terminal.wait_for_text(LIMIT, "Do a full release survey");
    grow(&env, &big, 1.0, &mut written);
    let screen = terminal.wait_for_text(LIMIT, "Agent Tree (8)");
    assert!(screen.contains("Release readiness"), "{screen}");
    // What was chosen is kept for the next time.
    terminal.send(&["t"]);
    terminal.wait_for_text(LIMIT, "detail: full");
    terminal.wait_for(LIMIT, |_| {
        fs::read_to_string(env.path("config/subscope/config.toml"))
            .is_ok_and(|text| text.contains("\"full\""))
    });
    // All sessions: the first search indexes the existing files.
    terminal.send(&["/", "Tab"]);
    terminal.type_text("whole cents");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "passages with “whole cents”");
    terminal.send(&["Enter"]);
    terminal.wait_for(LIMIT, |screen| !screen.contains("passages with"));
    terminal.send(&["s"]);
    terminal.wait_for(LIMIT, |screen| {
        screen.contains("only subagents can be stopped") || screen.contains("it has ended already")
    });
    terminal.send(&["C-c"]);
    is_given_back(&terminal, 0);
}

#[test]
fn signal_gives_the_terminal_back() {
    for (words, is_live) in [("", true), ("replay", false)] {
        let (env, shell) = (env(), TestEnv::new("/bin/sh"));
        let (_, main) = big();
        let words = if is_live { words.to_owned() } else { format!("{words} {}", main.display()) };
        let Some(terminal) = start(&env, &shell, (100, 30), &words) else { return };
        terminal.wait_for_text(LIMIT, if is_live { "Nothing to see yet" } else { "active)" });
        let own = process_of(&env, &words);
        assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
        is_given_back(&terminal, 143);
    }
}

#[test]
fn without_a_session_the_demo_plays_inside_and_leads_back() {
    let (env, shell) = (env(), TestEnv::new("/bin/sh"));
    let Some(terminal) = start(&env, &shell, (120, 40), "") else { return };
    terminal.wait_for_text(LIMIT, "plays a recorded session here");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "Cart and its tests");
    // Its views ask for what is in the recording's files.
    terminal.send(&["L", "v"]);
    terminal.wait_for_text(LIMIT, "cart.test.js");
    terminal.send(&["q"]);
    terminal.wait_for_text(LIMIT, "Nothing to see yet");
    terminal.send(&["q"]);
    is_given_back(&terminal, 0);
    // Nothing of it is kept.
    assert!(!run(&env, "ls", &[]).stdout.contains("release survey"));
}

/// The process of the program with these arguments in that environment.
fn process_of(env: &TestEnv, words: &str) -> String {
    let pattern = format!("{} {words}", env!("CARGO_BIN_EXE_subscope"));
    let listed = Command::new("pgrep").args(["-f", "-x", pattern.trim_end()]).output().unwrap();
    let processes = String::from_utf8(listed.stdout).unwrap();
    let own = processes.split_whitespace().find(|process| {
        let variables = fs::read_to_string(format!("/proc/{process}/environ")).unwrap_or_default();
        variables.contains(&*env.path("home").to_string_lossy())
    });
    own.unwrap().to_owned()
}

#[test]
fn terminal_that_goes_takes_the_program_with_it() {
    let (env, shell) = (env(), TestEnv::new("/bin/sh"));
    let (_, main) = big();
    let words = format!("replay --step {}", main.display());
    let Some(terminal) = start(&env, &shell, (100, 30), &words) else { return };
    terminal.wait_for_text(LIMIT, "0ms of 21s");
    let own = process_of(&env, &words);
    drop(terminal);
    let began = clock::tick();
    while fs::metadata(format!("/proc/{own}")).is_ok() {
        assert!(began.elapsed() < LIMIT, "it goes on without a terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_a_terminal_there_is_help_and_plain_playback() {
    let env = env();
    let ran = run(&env, "", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("Usage: subscope"), "{}", ran.stderr);
    let ran = run(&env, "--plain tree last", &[]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--plain comes after the command"), "{}", ran.stderr);
    let (_, main) = big();
    let told = run(&env, "replay --speed 20", &[&main]).success();
    for line in [
        "shop: Explore: Cart and its tests started",
        "completed after 9s, 19 tool calls",
        "shop: main completed",
    ] {
        assert!(told.contains(line), "{line} in\n{told}");
    }
    assert!(!told.contains('\u{1b}'), "{told}");
    let ran = run(&env, "replay -", &[]);
    assert!(ran.code == Some(2) && ran.stderr.contains("stdin cannot be played back"), "{}", ran.stderr);
}
