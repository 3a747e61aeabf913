//! The program in a real terminal.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::env;
use subscope_testkit::env::{Terminal, TestEnv};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn demo_redraws_a_tree_in_place_and_leaves_the_terminal_usable() {
    let env = env();
    // A shell runs it, so that the test can type after it has ended.
    let script = format!(
        "{} demo --speed 50; echo ended with $?; read word; echo typed $word",
        env!("CARGO_BIN_EXE_subscope")
    );
    let shell = TestEnv::new("/bin/sh");
    let Some(terminal) = Terminal::start(&shell, 100, 30, &["-c", &script]) else { return };
    drop(env);
    let screen = terminal.wait_for_text(LIMIT, "ended with 0");
    for words in
        ["subscope watch", "subscope tree last", "subscope doctor", "8 completed", "Release readiness"]
    {
        assert!(screen.contains(words), "{words} in\n{screen}");
    }
    // Drawn over and over, and yet each agent is on the screen once.
    let drawn =
        screen.lines().filter(|line| line.contains("Release readiness") && line.contains('✓')).count();
    assert_eq!(drawn, 1, "{screen}");
    terminal.type_text("a word");
    terminal.send(&["Enter"]);
    let screen = terminal.wait_for_text(LIMIT, "typed a word");
    // What is typed is echoed, on a line of its own.
    assert!(screen.lines().any(|line| line == "a word"), "{screen}");
    assert_eq!(terminal.capture_with_escapes().matches("\u{1b}[?25l").count(), 0);
}

/// The demo's closing text, without line breaks.
const LAST_WORDS: &str = "That was a recording of Claude Code. With your own sessions: \
    subscope every session, live and past, in a terminal UI \
    subscope watch follow every live session on this machine, new ones too \
    subscope tree last the latest session; --detail full shows every call \
    subscope doctor what subscope finds on this machine";

#[test]
fn the_demos_last_words_are_never_broken_inside_a_word() {
    for width in [30, 40, 60, 80, 82, 100, 120] {
        let shell = TestEnv::new("/bin/sh");
        let script = format!("{} demo --speed 200; echo ended with $?", env!("CARGO_BIN_EXE_subscope"));
        let Some(terminal) = Terminal::start(&shell, width, 60, &["-c", &script]) else { return };
        let screen = terminal.wait_for_text(LIMIT, "ended with 0");
        // The terminal wraps in the middle of words, the program between them: then they are the same again when
        // joined.
        let from = screen.find("That was").unwrap_or_else(|| panic!("{width} columns:\n{screen}"));
        let words: Vec<&str> = screen[from..].split_whitespace().collect();
        assert_eq!(words.join(" "), format!("{LAST_WORDS} ended with 0"), "{width} columns:\n{screen}");
    }
}

#[test]
fn interrupt_ends_the_demo_and_leaves_the_terminal_usable() {
    let script =
        format!("{} demo; echo ended with $?; read word; echo typed $word", env!("CARGO_BIN_EXE_subscope"));
    let shell = TestEnv::new("/bin/sh");
    let Some(terminal) = Terminal::start(&shell, 80, 24, &["-c", &format!("trap : INT; {script}")]) else {
        return;
    };
    terminal.wait_for(LIMIT, |screen| screen.contains("Explore"));
    terminal.send(&["C-c"]);
    terminal.wait_for_text(LIMIT, "ended with 130");
    terminal.type_text("a word");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "typed a word");
}
