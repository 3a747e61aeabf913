//! Cost of one hook for the agent that waits for it, compared with a process that does nothing.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use subscope_testkit::figures::{Row, now, percentile};

use crate::{bare, client::millis, server::Server};

const NOTHING: &str = "/bin/true";
/// A payload of the usual size.
const PAYLOAD_BYTES: usize = 2000;

/// Rounds, and those before them that find cold caches.
const ROUNDS: usize = 300;
const COLD: usize = 10;

/// Hooks of a hub that does not answer.
const STOPPED_ROUNDS: usize = 100;

/// Times a hook with a hub and one without, over an empty process, in turns; then hooks of a hub that was stopped by
/// SIGSTOP. Budgets: 1 ms median, 10 ms for one in a hundred; 5 ms from the second hook of a stopped hub on.
pub(crate) fn cost() -> Vec<Row> {
    let program = Path::new(env!("CARGO_BIN_EXE_subscope"));
    let (up, down) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let payload = down.path().join("payload.json");
    let filler = "x".repeat(PAYLOAD_BYTES);
    let text = format!(
        r#"{{"session_id":"s","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Bash","tool_input":{{"command":"{filler}"}}}}"#
    );
    fs::write(&payload, text).expect("a payload");
    let _server = Server::subscope(up.path());
    let itself = std::env::current_exe().expect("this program");
    let run = |program: &Path, home: &Path| {
        let mut command = Command::new(program);
        let stdin = File::open(&payload).expect("the payload is there");
        command.arg(if program == itself { bare::HOOK } else { "hook" }).env_clear().env("HOME", home);
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        let began = now();
        let status = command.status().expect("the program starts");
        let took = millis(began, now());
        assert!(status.success(), "{} failed", program.display());
        took
    };
    let nothing = Path::new(NOTHING);
    let (mut delivered, mut spooled, mut same, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS + COLD {
        let (first, with, second, without, other) = (
            run(nothing, down.path()),
            run(program, up.path()),
            run(nothing, down.path()),
            run(program, down.path()),
            run(&itself, up.path()),
        );
        if round >= COLD {
            delivered.push(with - first);
            spooled.push(without - second);
            same.push(second - first);
            bare.push(other - second);
        }
    }
    let stopped_home = tempfile::tempdir().expect("a folder");
    let stopped = Server::subscope(stopped_home.path());
    stopped.signal("-STOP");
    let first_stopped = vec![run(program, stopped_home.path()) - run(nothing, down.path())];
    let later_stopped =
        (0..STOPPED_ROUNDS).map(|_| run(program, stopped_home.path()) - run(nothing, down.path())).collect();
    stopped.signal("-CONT");
    let row = |figure: &str, values, budget| Row {
        question: "`hook`, what an agent waits for".to_owned(),
        figure: format!("{figure} − `{NOTHING}`"),
        values,
        unit: " ms",
        budget,
        is_floor: false,
    };
    let tail = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        vec![percentile(&sorted, 99)]
    };
    let tails = [tail(&delivered), tail(&spooled)];
    let [delivered_p99, left] = tails;
    vec![
        row("wall, delivered", delivered, Some(1.0)),
        row("99th percentile, delivered", delivered_p99, Some(10.0)),
        row("wall, spooled", spooled, Some(1.0)),
        row("99th percentile, spooled", left, Some(10.0)),
        row("the first, the hub stopped by SIGSTOP", first_stopped, None),
        row("the second and later, the hub stopped by SIGSTOP", later_stopped, Some(5.0)),
        row("a client that does nothing but post to the same hub", bare, None),
        row(&format!("A/A: `{NOTHING}`"), same, None),
    ]
}
