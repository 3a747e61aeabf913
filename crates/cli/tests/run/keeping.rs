//! Forwarding of events if the hub is slow or gone.

use subscope_collect::spool::{self, Spool};

use super::{
    posting::{Posting, event, tell_one},
    *,
};
use crate::common::serving::Serving;

pub(super) fn send(signal: &str, serving: &Serving) {
    let id = serving.child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    let began = clock::tick();
    let is_stopped = || {
        let state = Command::new("ps").args(["-o", "state=", "-p", &id]).output().unwrap().stdout;
        state.trim_ascii().starts_with(b"T")
    };
    while is_stopped() != (signal == "-STOP") {
        assert!(began.elapsed() < LIMIT, "{signal} comes to nothing");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How many things wait in the spool.
fn waiting(env: &TestEnv) -> usize {
    Spool::open(&spool::folder(&env.path("data/subscope"))).unwrap().len()
}

/// Waits until the hub has drained the spool.
pub(super) fn taken(env: &TestEnv) {
    let began = clock::tick();
    while waiting(env) > 0 {
        assert!(began.elapsed() < LIMIT, "it takes nothing in");
        thread::sleep(Duration::from_millis(5));
    }
}

fn only_session(serving: &Serving) -> String {
    let rows = serving.json("/api/v1/sessions");
    let rows = rows["sessions"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_event_that_the_hub_does_not_keep_in_time_is_spooled_before_it_is_acknowledged() {
    let env = env();
    let serving = Serving::start(&env, "");
    let mut posting = Posting::start(&env, "", None);
    assert_eq!(posting.post(&event("r0", "subagent_start", serde_json::json!({}))).0, 200);
    assert_eq!(waiting(&env), 0, "the hub has it");
    send("-STOP", &serving);
    tell_one(&posting);
    assert!(waiting(&env) > 0);
    // Lines that it has not stored by now are lost.
    posting.child.kill().unwrap();
    posting.child.wait().unwrap();
    send("-CONT", &serving);
    taken(&env);
    let session = only_session(&serving);
    let tree = serving.tree(&session).unwrap();
    let found: Vec<_> = agents(&tree).into_iter().filter(|(id, _)| id != "root").collect();
    let expected = [("r0", "running"), ("r1", "completed"), ("r2", "failed")];
    assert_eq!(found, expected.map(|(id, status)| (id.to_owned(), status.to_owned())));
    let events = serving.json(&format!("/api/v1/sessions/{session}/events"));
    let kinds = |kind: &str| {
        events["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count()
    };
    assert_eq!((kinds("tool.pre"), kinds("tool.post")), (1, 1), "{events}");
    fs::write(&posting.go, "").unwrap();
    serving.end("-TERM");
}

#[test]
fn an_event_that_nobody_can_keep_is_refused() {
    let env = env();
    let serving = Serving::start(&env, "");
    let posting = Posting::start(&env, "", None);
    env.write("data/subscope/spool", "in the way");
    send("-STOP", &serving);
    let (status, answer) = posting.post(&event("r1", "subagent_start", serde_json::json!({})));
    assert!(status == 503 && answer.contains("cannot be spooled"), "{status} {answer}");
    send("-CONT", &serving);
    // It may be stored by now; in any case the hub accepts later input.
    assert_eq!(posting.post(&event("r2", "subagent_start", serde_json::json!({}))).0, 200);
    posting.end();
    serving.end("-TERM");
}

#[test]
fn what_a_command_prints_while_the_hub_is_stuck_reaches_it_later() {
    let env = env();
    let serving = Serving::start(&env, "");
    let file = printed(&env, "c-nested-text");
    send("-STOP", &serving);
    let ran = run(&env, "", &["cat", file.to_str().unwrap()]);
    assert_eq!(ran.stdout.as_bytes(), stream("c-nested-text"));
    assert!(ran.stderr.contains("lines are spooled") && !ran.stderr.contains("not kept"), "{}", ran.stderr);
    send("-CONT", &serving);
    taken(&env);
    let direct = json(&env.run_with_stdin(&["tree", "-", "--json"], &stream("c-nested-text")).success());
    assert_eq!(agents(&serving.tree(&only_session(&serving)).unwrap()), agents(&direct));
    serving.end("-TERM");
}
