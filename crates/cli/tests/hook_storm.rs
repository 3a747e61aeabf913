//! Two hundred concurrent hooks against the real hub: running, missing, and killed in between. Each event is stored
//! exactly once.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use common::{
    env,
    serving::{LIMIT, Serving},
};
use subscope_hub::clock;
use subscope_testkit::env::TestEnv;

const HOOKS: usize = 200;

/// Starts a hook with its payload, without waiting for it.
fn start(env: &TestEnv, number: usize) -> Child {
    let mut command = env.command();
    command.arg("hook").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let payload = format!(r#"{{"session_id":"s","hook_event_name":"SessionStart","source":"n{number}"}}"#);
    child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    child
}

fn ended(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), vec![], vec![]));
}

/// How often each event is in the log once all are there, which is when the spool has been ingested.
fn all_are_there_once(serving: &Serving) {
    let began = clock::tick();
    loop {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        let (status, body) = serving.get("/api/v1/sessions/s/events?limit=10000");
        if status == 200 {
            let log = common::json(&body);
            let names =
                log["events"].as_array().unwrap().iter().filter_map(|it| it["data"]["reason"].as_str());
            names.for_each(|name| *found.entry(name.to_owned()).or_default() += 1);
        }
        assert!(found.values().all(|count| *count == 1), "{found:?}");
        if found.len() == HOOKS {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{} of {HOOKS}", found.len());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn two_hundred_hooks_arrive_once_with_a_hub() {
    let env = env();
    let serving = Serving::start(&env, "");
    let hooks: Vec<Child> = (0..HOOKS).map(|number| start(&env, number)).collect();
    hooks.into_iter().for_each(ended);
    all_are_there_once(&serving);
    serving.end("-TERM");
}

#[test]
fn two_hundred_hooks_arrive_once_by_the_next_hub() {
    let env = env();
    let hooks: Vec<Child> = (0..HOOKS).map(|number| start(&env, number)).collect();
    hooks.into_iter().for_each(ended);
    let serving = Serving::start(&env, "");
    all_are_there_once(&serving);
    serving.end("-TERM");
}

#[test]
fn two_hundred_hooks_arrive_once_when_their_hub_is_killed() {
    let env = env();
    let mut serving = Serving::start(&env, "");
    let mut hooks: Vec<Child> = (0..HOOKS / 2).map(|number| start(&env, number)).collect();
    serving.child.kill().unwrap();
    hooks.extend((HOOKS / 2..HOOKS).map(|number| start(&env, number)));
    serving.child.wait().unwrap();
    hooks.into_iter().for_each(ended);
    let serving = Serving::start(&env, "");
    all_are_there_once(&serving);
    serving.end("-TERM");
}
