//! The command at a terminal: its keys, its signals, its screen.

use subscope_testkit::env::Terminal;

use super::*;

/// Runs a script that has the program as `$S`, by a shell with job control.
fn shell(script: &str) -> (TestEnv, String) {
    let script = format!("S={}; export SUBSCOPE_NO_AUTOSTART=1; {script}", env!("CARGO_BIN_EXE_subscope"));
    (TestEnv::new("/bin/bash"), script)
}

#[test]
fn a_command_reads_keys_and_the_terminal_is_the_shells_again_afterwards() {
    let (env, script) = shell(
        "$S run --no-store -- sh -c 'read word; echo got $word; exit 6'; echo code $?; read word; echo then $word",
    );
    let Some(terminal) = Terminal::start(&env, 80, 24, &["-c", &script]) else { return };
    terminal.type_text("one");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "code 6");
    terminal.type_text("two");
    terminal.send(&["Enter"]);
    let screen = terminal.wait_for_text(LIMIT, "then two");
    assert!(screen.contains("got one"), "{screen}");
}

#[test]
fn interrupt_is_the_commands_and_ends_iterations() {
    let (env, script) = shell(
        "trap : INT; $S run --no-store --iterations 3 -- sh -c 'echo ready; exec sleep 600'; echo code $?; read word; echo then $word",
    );
    let Some(terminal) = Terminal::start(&env, 100, 24, &["-c", &script]) else { return };
    terminal.wait_for_text(LIMIT, "ready");
    terminal.send(&["C-c"]);
    let screen = terminal.wait_for_text(LIMIT, "code 130");
    assert_eq!(screen.matches("ready").count(), 1, "{screen}");
    terminal.type_text("x");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "then x");
}

#[test]
fn stopping_and_going_on_are_one_job_for_the_shell() {
    let (env, _) = shell("");
    let Some(terminal) = Terminal::start(&env, 100, 24, &["--norc", "-i"]) else { return };
    terminal.type_text(&format!("PS1='ready$ '; S={}", env!("CARGO_BIN_EXE_subscope")));
    terminal.send(&["Enter"]);
    terminal.wait_for(LIMIT, |screen| screen.lines().any(|line| line == "ready$"));
    terminal.type_text("$S run --no-store -- sh -c 'echo one; read w; echo got $w'; echo code $?");
    terminal.send(&["Enter"]);
    terminal.wait_for(LIMIT, |screen| screen.lines().any(|line| line == "one"));
    terminal.send(&["C-z"]);
    terminal.wait_for_text(LIMIT, "Stopped");
    terminal.type_text("echo shell $((40+2))");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "shell 42");
    terminal.type_text("fg");
    terminal.send(&["Enter"]);
    terminal.wait_for(LIMIT, |screen| screen.lines().any(|line| line.starts_with("$S run")));
    terminal.type_text("word");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "got word");
}

#[test]
fn a_pager_behind_it_and_a_command_that_asks_share_the_terminal() {
    let (env, _) = shell("");
    // An interactive shell lets the system stop a background job that reads; other shells may ignore that signal.
    let Some(terminal) = Terminal::start(&env, 100, 24, &["--norc", "-i"]) else { return };
    terminal.type_text(&format!("PS1='ready$ '; S={}", env!("CARGO_BIN_EXE_subscope")));
    terminal.send(&["Enter"]);
    terminal.wait_for(LIMIT, |screen| screen.lines().any(|line| line == "ready$"));
    terminal.type_text("$S run --no-store -- sh -c 'read word; echo got $word' | cat; echo done $((1+1))");
    terminal.send(&["Enter"]);
    terminal.type_text("late");
    terminal.send(&["Enter"]);
    terminal.wait_for_text(LIMIT, "got late");
    terminal.wait_for_text(LIMIT, "done 2");
}

#[test]
fn a_command_prints_to_the_terminal_itself_unless_something_else_is_to_have_it() {
    let (env, script) = shell(
        "tell='test -t 1 && echo a terminal || echo a pipe; stty size'; $S run --no-store -- sh -c \"$tell; read w; $tell\"; \
         $S run --no-store -- sh -c \"$tell\" | cat; $S run --no-store --render -- sh -c 'test -t 1 || echo rendered >&2'; \
         $S run --no-store --iterations 1 -q -- sh -c \"$tell\"; echo done",
    );
    let Some(terminal) = Terminal::start(&env, 80, 24, &["-c", &script]) else { return };
    terminal.wait_for_text(LIMIT, "a terminal\n24 80");
    terminal.resize(70, 20);
    terminal.send(&["Enter"]);
    let screen = terminal.wait_for_text(LIMIT, "done");
    let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    let [shown, resized, piped] = [["a terminal", "24 80"], ["a terminal", "20 70"], ["a pipe", "20 70"]];
    let wanted = [&shown[..], &resized, &piped, &["rendered"], &piped, &["done"]].concat();
    assert_eq!(lines, wanted, "{screen}");
}

#[test]
fn nothing_is_printed_while_somebody_draws_on_the_terminal() {
    let (env, script) = shell(
        "post=\"$S publish --name worker --run-id r1 --type\"; \
         told=\"$post subagent_start; $post tool_call --tool Read --call-id c1 --payload '{}'; $post subagent_end\"; \
         $S run --no-store -- sh -c \"stty -icanon; $told\"; stty sane; echo between; $S run --no-store -- sh -c \"$told\"; echo done",
    );
    let Some(terminal) = Terminal::start(&env, 100, 24, &["-c", &script]) else { return };
    let screen = terminal.wait_for_text(LIMIT, "done");
    let (drawn, lines) = screen.split_once("between").unwrap();
    assert!(!drawn.contains("worker") && drawn.contains("events were not shown"), "{screen}");
    assert!(
        lines.contains("▶ worker") && lines.contains("✓ worker") && !lines.contains("not shown"),
        "{screen}"
    );
}

#[test]
fn an_interactive_harness_keeps_its_screen_and_tells_by_hooks() {
    let (env, _) = shell("");
    // It runs the hook that it was given, as the real one does.
    let script = "#!/bin/bash\n[ \"$1\" = --version ] && { echo '2.1.330 (Claude Code)'; exit; }\n\
        test -t 1 && echo a terminal; stty size; until [ -S $XDG_DATA_HOME/subscope/hub.sock ]; do sleep 0.02; done; hook=${2#*\\\"command\\\":\\\"}; hook=${hook%%\\\"*}\n\
        echo '{\"session_id\":\"5e55\",\"hook_event_name\":\"SubagentStart\",\"agent_id\":\"a1\",\"agent_type\":\"Explore\",\"prompt_id\":\"p\"}' | $hook; echo hook $?\n\
        read word; echo got $word\n";
    let program = env.write("bin/claude", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "S={}; $S run -- {}; echo code $?; $S tree 5e55; $S ls --json",
        env!("CARGO_BIN_EXE_subscope"),
        program.display()
    );
    let Some(terminal) = Terminal::start(&env, 90, 30, &["-c", &script]) else { return };
    terminal.wait_for_text(LIMIT, "hook 0");
    terminal.type_text("word");
    terminal.send(&["Enter"]);
    let screen = terminal.wait_for_text(LIMIT, "subscope.sessions/1");
    assert!(screen.starts_with("a terminal\n30 90\nhook 0\n"), "{screen}");
    assert!(screen.contains("got word\ncode 0"), "{screen}");
    assert!(screen.contains("\"id\":\"5e55\""), "{screen}");
}

#[test]
fn sessions_of_an_interactive_harness_end_with_its_process() {
    let (env, _) = shell("");
    // It notes its session and runs the hook, as the real one does, and is killed in the middle of a turn.
    let script = "#!/bin/bash\n[ \"$1\" = --version ] && { echo '2.1.330 (Claude Code)'; exit; }\n\
        mkdir -p $HOME/.claude/sessions; now=$(date +%s%3N)\n\
        echo \"{\\\"pid\\\":$$,\\\"sessionId\\\":\\\"5e55\\\",\\\"startedAt\\\":$now,\\\"entrypoint\\\":\\\"cli\\\"}\" >$HOME/.claude/sessions/$$.json\n\
        until [ -S $XDG_DATA_HOME/subscope/hub.sock ]; do sleep 0.02; done; hook=${2#*\\\"command\\\":\\\"}; hook=${hook%%\\\"*}\n\
        tell() { echo '{\"session_id\":\"5e55\",\"prompt_id\":\"p\",\"hook_event_name\":'\"$1}\" | $hook; }\n\
        tell '\"SessionStart\",\"source\":\"startup\"'; tell '\"UserPromptSubmit\",\"prompt\":\"Look\"'\n\
        tell '\"SubagentStart\",\"agent_id\":\"a1\",\"agent_type\":\"Explore\"'\n\
        sleep 0.5; kill -KILL $$\n";
    let program = env.write("bin/claude", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "S={}; $S run -- {}; echo code $?; $S tree 5e55 --json >tree.json; echo done",
        env!("CARGO_BIN_EXE_subscope"),
        program.display()
    );
    let Some(terminal) = Terminal::start(&env, 90, 30, &["-c", &script]) else { return };
    let screen = terminal.wait_for_text(LIMIT, "done");
    assert!(screen.contains("code 137"), "{screen}");
    let tree = json(&fs::read_to_string(env.path("work/tree.json")).unwrap());
    let ends: Vec<_> =
        tree["agents"].as_array().unwrap().iter().map(|row| (&row["status"], &row["evidence"])).collect();
    let lost = "its process ended: signal 9";
    assert_eq!(ends, [(&"stopped".into(), &"signal 9".into()), (&"lost".into(), &lost.into())], "{tree}");
}
