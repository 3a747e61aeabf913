//! Output that cannot be written, and a run that is killed: the command ends as it would without us.

use std::{io::BufRead, process::Child};

use super::*;

/// A file of which each write fails with "No space left on device" (Linux, `full(4)`).
#[cfg(target_os = "linux")]
fn full() -> Stdio {
    Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
}

/// A pipe whose reader has left.
fn left() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

/// Runs it with this stdout; returns exit code and stderr.
fn run_into(env: &TestEnv, stdout: Stdio, words: &[&str]) -> (Option<i32>, String) {
    let mut command = env.command();
    command.arg("run").args(words).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    let ran = command.spawn().unwrap().wait_with_output().unwrap();
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_of_the_run() {
    let env = env();
    let file = printed(&env, "b-parallel");
    let file = file.to_str().unwrap();
    for words in [
        &["--no-store", "--", "echo", "short"][..],
        &["--no-store", "--", "yes"],
        &["--no-store", "--", "sh", "-c", "yes; exit $?"],
        &["--no-store", "--json", "--", "cat", file],
        &["--no-store", "--render", "--", "cat", file],
        &["--no-store", "--until-success", "--", "echo", "once"],
    ] {
        let (code, errors) = run_into(&env, full(), words);
        assert_eq!(code, Some(1), "{words:?} {errors}");
        assert_eq!(errors.matches("cannot write to stdout").count(), 1, "{words:?} {errors}");
        assert!(errors.contains("No space left"), "{errors}");
    }
    let (code, _) = run_into(&env, full(), &["--no-store", "--", "sh", "-c", "echo told; exit 7"]);
    assert_eq!(code, Some(7), "a reason of its own is the command's");
}

#[test]
fn a_reader_that_left_ends_a_command_that_prints_little_too() {
    let env = env();
    for words in
        [&["--no-store", "--", "echo", "short"][..], &["--no-store", "--until-success", "--", "echo", "once"]]
    {
        let (code, errors) = run_into(&env, left(), words);
        assert_eq!(code, Some(128 + 13), "{words:?}");
        assert_eq!(
            (errors.matches("write").count(), errors.matches("iteration ").count() < 2),
            (0, true),
            "{errors}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn blocks_and_messages_that_cannot_be_written_end_no_command() {
    let env = env();
    let file = printed(&env, "b-parallel");
    let script = format!("cat {}; exit 6", file.display());
    for options in ["--no-store", "--no-store --json"] {
        for stderr in [full(), left()] {
            let mut command = env.command();
            command.arg("run").args(options.split(' ')).args(["--", "sh", "-c", &script]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
            let ran = command.spawn().unwrap().wait_with_output().unwrap();
            assert_eq!((ran.status.code(), ran.stdout), (Some(6), stream("b-parallel")), "{options}");
        }
    }
    // Recorded, what it says on stderr passes through us: it is not ended by that either.
    let mut command = env.command();
    let script = "yes told | head -c 1000000 >&2 || exit 9; exit 6";
    command.args(["run", "--no-store", "--iterations", "1", "--", "sh", "-c", script]);
    let ran = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    assert_eq!(ran.wait_with_output().unwrap().status.code(), Some(6));
}

fn is_running(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
}

/// Starts a run and reads the ids of processes that its command prints, one per line.
fn start(env: &TestEnv, script: &str, count: usize) -> (Child, Vec<String>) {
    let mut command = env.command();
    command.args(["run", "--no-store", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let pids = lines.take(count).map(Result::unwrap).collect();
    (child, pids)
}

#[test]
fn a_command_ends_with_all_of_its_group_when_its_run_is_killed() {
    let env = env();
    let (mut child, pids) = start(&env, "echo $$; sleep 300 & echo $!; trap '' TERM; wait; sleep 300", 2);
    assert!(pids.iter().all(|pid| is_running(pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    let began = clock::tick();
    while pids.iter().any(|pid| is_running(pid)) {
        assert!(began.elapsed() < LIMIT, "{pids:?} go on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_command_leaves_behind_goes_on_when_its_run_has_ended() {
    let env = env();
    let (mut child, pids) = start(&env, "sleep 300 2>/dev/null >&2 & echo $!", 1);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(is_running(&pids[0]));
    assert!(Command::new("kill").arg(&pids[0]).status().unwrap().success());
}
