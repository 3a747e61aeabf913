//! The terminal UI over ten sessions at once, in a real terminal (tmux): sessions that need a person come first, with
//! the whole waiting call, and rows move only when their class changes.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::time::Duration;

use common::{env, serving::Serving};
use serde_json::json;
use subscope_testkit::{
    env::{Terminal, TestEnv},
    lines::{Line, hook},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(40);

/// Sessions at work.
const SESSIONS: usize = 10;

/// A command that no row has room for.
const COMMAND: &str = "rm -rf node_modules dist coverage && git clean -fdx packages/checkout packages/inventory \
    && npm ci --prefer-offline --no-audit --no-fund && npm run build -- --mode production --sourcemap the-end";

fn id(session: usize) -> String {
    format!("session-{session}")
}

fn post(serving: &Serving, session: usize, line: Line) {
    let line = line.session(&id(session)).set("cwd", format!("/home/user/project-{session}"));
    serving.post("/hooks/claude", "", line.line().as_bytes());
}

/// A call of a session's root.
fn call(event: &str, name: &str, command: &str) -> Line {
    hook(event).tool("Bash", name).set("tool_input", json!({ "command": command }))
}

/// A session asks a person before it runs [`COMMAND`].
fn ask(serving: &Serving, session: usize) {
    post(serving, session, call("PreToolUse", "asked", COMMAND));
    post(serving, session, call("PermissionRequest", "asked", COMMAND).without("tool_use_id"));
}

/// A hub with ten sessions at work, in the order of their numbers.
fn ten(env: &TestEnv) -> Serving {
    let serving = Serving::start(env, "");
    serving.has_read();
    for session in 0..SESSIONS {
        post(&serving, session, hook("SessionStart"));
        post(&serving, session, hook("UserPromptSubmit").set("prompt", format!("Task {session} of ten")));
        post(&serving, session, call("PreToolUse", "first", "npm test"));
    }
    serving
}

/// The numbers of the listed sessions from top to bottom, in the first columns of a screen without its footer.
fn listed(screen: &str, columns: usize) -> Vec<usize> {
    let number = |line: &str| {
        let left: String = line.chars().take(columns).collect();
        let (_, rest) = left.split_once("Task ")?;
        rest.split(' ').next()?.parse().ok()
    };
    let count = screen.lines().count();
    screen.lines().take(count.saturating_sub(1)).filter_map(number).collect()
}

/// The screen's rightmost panel without blanks: a wrapped text is whole in it.
fn joined(screen: &str) -> String {
    let panel = screen.lines().filter_map(|line| line.rsplit('│').next());
    panel.flat_map(str::chars).filter(|character| !character.is_whitespace()).collect()
}

#[test]
fn rows_keep_their_places_while_ten_sessions_work() {
    let env = env();
    let serving = ten(&env);
    let Some(terminal) = Terminal::start(&env, 120, 40, &[]) else { return };
    terminal.wait_for_text(LIMIT, "10 live");
    let in_order: Vec<usize> = (0..SESSIONS).collect();
    for (view, columns) in [("1", 28), ("0", 120)] {
        terminal.send(&[view]);
        terminal.wait_for(LIMIT, |screen| listed(screen, columns) == in_order);
        for step in 0..30 {
            let session = step * 7 % SESSIONS;
            let (name, command) = (format!("{view}-{step}"), format!("npm test {view} {step}"));
            post(&serving, session, call("PreToolUse", &name, &command));
            post(&serving, session, call("PostToolUse", &name, &command));
            assert_eq!(listed(&terminal.capture(), columns), in_order, "{}", terminal.capture());
        }
    }
    // A change of class moves one row, to the top, and nothing else.
    ask(&serving, 6);
    let moved = [6, 0, 1, 2, 3, 4, 5, 7, 8, 9];
    let screen = terminal.wait_for(LIMIT, |screen| listed(screen, 120) == moved);
    assert!(joined(&screen).contains(&joined(COMMAND)), "the whole command:\n{screen}");
    let of_six = screen.lines().find(|line| line.contains("Task 6")).unwrap();
    assert!(of_six.contains('◆') && of_six.contains("project-6"), "{screen}");
    drop(terminal);
    serving.end("-TERM");
}

#[test]
fn ui_opens_on_what_needs_a_person_and_leads_on_from_there() {
    let env = env();
    let serving = ten(&env);
    ask(&serving, 8);
    ask(&serving, 3);
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let Some(terminal) = Terminal::start(&env, width, height, &[]) else { return };
        // It began before the other that asks.
        let screen = terminal.wait_for(LIMIT, |screen| {
            screen.contains("2 wait for you")
                && screen.contains("Task 3")
                && joined(screen).contains("the-end")
        });
        assert!(joined(&screen).contains(&joined(COMMAND)), "the whole command:\n{screen}");
        assert_eq!(terminal.title(), "(2) subscope");
        terminal.send(&["a"]);
        terminal.wait_for_text(LIMIT, "2 of 2: project-8: Task 8 of ten");
        terminal.send(&["a"]);
        terminal.wait_for_text(LIMIT, "1 of 2: project-3: Task 3 of ten");
        terminal.send(&["q"]);
        terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(0));
    }
    serving.end("-TERM");
}

#[test]
fn alerts_name_project_and_session() {
    let env = env();
    let serving = ten(&env);
    let Some(terminal) = Terminal::start(&env, 120, 40, &[]) else { return };
    terminal.wait_for_text(LIMIT, "10 live");
    // A session that the person chose stays selected.
    terminal.send(&["j"]);
    terminal.wait_for_text(LIMIT, "Task  Task 0 of ten");
    post(&serving, 5, call("PostToolUse", "first", "npm test"));
    post(&serving, 5, hook("Stop"));
    terminal.wait_for(LIMIT, |screen| {
        screen.contains("✓ project-5: Task 5 of ten") && screen.contains("main has finished")
    });
    // It is counted until the user marks it as read.
    terminal.wait_for_text(LIMIT, "✓ 1 finished");
    ask(&serving, 2);
    let words = "◆ project-2: Task 2 of ten";
    terminal.wait_for(LIMIT, |screen| screen.contains(words) && screen.contains("waits for your permission"));
    // It stays in the footer, with its call, until the user goes there.
    terminal.send(&["Escape"]);
    terminal.wait_for(LIMIT, |screen| {
        let footer = screen.lines().last().unwrap_or_default();
        footer.contains(words) && footer.contains("rm -rf node_modules")
    });
    terminal.send(&["a"]);
    terminal.wait_for_text(LIMIT, "1 of 2: project-2");
    terminal.send(&["a"]);
    let screen = terminal.wait_for_text(LIMIT, "2 of 2: project-5: Task 5 of ten, main has finished");
    assert!(screen.contains("✓ 1 finished"), "{screen}");
    terminal.send(&["u"]);
    terminal.wait_for(LIMIT, |screen| !screen.contains("1 finished"));
    drop(terminal);
    serving.end("-TERM");
}

#[test]
fn reports_over_all_sessions_are_a_key_away() {
    let env = env();
    let serving = ten(&env);
    let here = env.work().display().to_string();
    for event in ["SessionStart", "UserPromptSubmit"] {
        let line = hook(event).session("here").set("cwd", here.clone()).set("prompt", "Task here");
        serving.post("/hooks/claude", "", line.line().as_bytes());
    }
    env.run(&["run", "--iterations", "2", "--", "sh", "-c", "exit 0"]).success();
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let Some(terminal) = Terminal::start(&env, width, height, &[]) else { return };
        terminal.wait_for_text(LIMIT, "11 live");
        terminal.send(&["5"]);
        let screen = terminal.wait_for_text(LIMIT, "by day");
        assert!(screen.contains("11 sessions") && screen.contains("by type"), "{screen}");
        terminal.send(&["F"]);
        terminal.wait_for_text(LIMIT, "by day");
        // Two sessions of the list are marked and compared.
        terminal.send(&["0", "Home", "m", "Down", "m"]);
        terminal.wait_for(LIMIT, |screen| screen.contains("◐A") && screen.contains("◐B"));
        terminal.send(&["6"]);
        let screen = terminal.wait_for_text(LIMIT, "B - A");
        assert!(
            screen.contains("A  project-0: Task 0") && screen.contains("B  project-1: Task 1"),
            "{screen}"
        );
        terminal.send(&["7"]);
        terminal.wait_for(LIMIT, |screen| {
            ["1/2", "2/2"].iter().all(|number| {
                screen.lines().any(|line| line.contains(number) && line.trim_start().starts_with('✓'))
            })
        });
        terminal.send(&["q"]);
        terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(0));
    }
    serving.end("-TERM");
}

#[test]
fn palette_and_search_lead_to_sessions() {
    let env = env();
    let serving = ten(&env);
    for (width, height) in [(80, 24), (120, 40)] {
        let Some(terminal) = Terminal::start(&env, width, height, &[]) else { return };
        terminal.wait_for_text(LIMIT, "10 live");
        terminal.send(&[":"]);
        terminal.type_text("task 7");
        terminal.wait_for_text(LIMIT, "session   ◐ project-7: Task 7 of ten");
        terminal.send(&["Enter"]);
        terminal.wait_for_text(LIMIT, "Task  Task 7 of ten");
        terminal.send(&[":"]);
        terminal.type_text("stats");
        terminal.send(&["Enter"]);
        terminal.wait_for_text(LIMIT, "by day");
        // The full text, with filters.
        terminal.send(&[":"]);
        terminal.type_text("npm test");
        terminal.wait_for_text(LIMIT, "search all history for “npm test”");
        terminal.send(&["Enter"]);
        let screen = terminal.wait_for_text(LIMIT, "passages with “npm test”");
        assert!(screen.contains("[ ] tool input 10") && screen.contains("project-9: Task 9"), "{screen}");
        // Apart: Escape and a letter at once are one key.
        terminal.send(&["Escape"]);
        terminal.wait_for(LIMIT, |screen| !screen.contains("passages with"));
        terminal.send(&["q"]);
        terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(0));
    }
    serving.end("-TERM");
}
