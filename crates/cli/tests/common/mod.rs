//! Helpers shared by tests of the real program.

#![allow(clippy::unwrap_used, dead_code, reason = "each test program uses its own part of this module")]

pub(crate) mod receiver;
pub(crate) mod serving;

use std::path::Path;

use serde_json::Value;
use subscope_testkit::env::{Ran, TestEnv};

/// An environment for the program under test.
pub(crate) fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_subscope"))
}

/// Runs the program with words and paths.
pub(crate) fn run(env: &TestEnv, words: &str, paths: &[&Path]) -> Ran {
    run_with_stdin(env, words, paths, b"")
}

/// The same with bytes on standard input.
pub(crate) fn run_with_stdin(env: &TestEnv, words: &str, paths: &[&Path], stdin: &[u8]) -> Ran {
    let paths: Vec<String> = paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    let arguments: Vec<&str> = words.split_whitespace().chain(paths.iter().map(String::as_str)).collect();
    let ran = env.run_with_stdin(&arguments, stdin);
    assert!(!ran.stderr.contains("panicked"), "{words}: {}", ran.stderr);
    ran
}

/// Returns the exit code and all of stderr.
pub(crate) fn told(ran: &Ran) -> (i32, &str) {
    (ran.code.unwrap_or(-1), ran.stderr.as_str())
}

/// Reads one JSON value.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Reads JSON values, one per line.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// The ids and statuses of a tree's agents.
pub(crate) fn agents(tree: &Value) -> Vec<(String, String)> {
    let rows = tree["agents"].as_array().unwrap().iter();
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row["status"].as_str().unwrap().to_owned()))
        .collect()
}

/// The lines of `ls --json`, but for when each was kept, which is the machine's business.
#[allow(dead_code, reason = "not all tests list")]
pub(crate) fn listed(mut answer: Value) -> Vec<Value> {
    let rows = answer["sessions"].as_array_mut().unwrap();
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        row.shift_remove("kept_at_ms");
    }
    std::mem::take(rows)
}
