//! Many sessions at once: neither memory nor waits grow with their number, during ingestion and at the next start.
//!
//! A fair number runs with the other tests; `SUBSCOPE_SESSIONS` names another.

use std::{fs, net::TcpStream, thread, time::Duration};

use subscope_hub::clock;
use subscope_testkit::random::Random;

use crate::common::{
    env,
    serving::{LIMIT, Serving, exchange, posting},
};

/// How much memory a start may take.
const MOST_KB: u64 = 300_000;

fn sessions() -> usize {
    std::env::var("SUBSCOPE_SESSIONS").map_or(2_000, |count| count.parse().unwrap())
}

fn line(number: usize) -> String {
    format!(
        r#"{{"session_id":"s{number:06}","hook_event_name":"SessionStart","source":"startup","cwd":"/x"}}"#
    ) + "\n"
}

/// Peak memory of a process, if known.
fn peak_kb(serving: &Serving) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", serving.child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Kills the hub, and waits until the next one has loaded a number of sessions.
fn is_taken_up_again(env: &subscope_testkit::env::TestEnv, mut serving: Serving, count: usize) {
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let serving = Serving::start(env, "");
    let began = clock::tick();
    while serving.json("/healthz")["is_reading"] == true {
        assert!(began.elapsed() < LIMIT * 20, "it reads and reads");
        if let Some(peak) = peak_kb(&serving) {
            assert!(peak < MOST_KB, "{peak} kB for {count} sessions");
        }
        thread::sleep(Duration::from_millis(50));
    }
    let last = format!("s{:06}", count - 1);
    for session in ["s000000", last.as_str()] {
        let log = serving.json(&format!("/api/v1/sessions/{session}/events?limit=100"));
        let starts = log["events"].as_array().unwrap().iter();
        let starts = starts.filter(|event| event["source"] == "claude.hook").count();
        assert_eq!(starts, 1, "{log}");
        assert!(serving.tree(session).is_some());
    }
    if let Some(peak) = peak_kb(&serving) {
        assert!(peak < MOST_KB, "{peak} kB for {count} sessions");
        println!("{count} sessions: a start takes {peak} kB");
    }
}

#[test]
fn body_of_many_sessions_lets_others_pass_and_costs_the_next_start_little() {
    let (env, count) = (env(), sessions());
    let serving = Serving::start(&env, "");
    let body: String = (0..count).map(line).collect();
    let request = posting(&serving.address, "/api/v1/ingest/claude.hook?source=many", "", body.as_bytes());
    let stream = TcpStream::connect(&serving.address).unwrap();
    let poster = thread::spawn(move || exchange(stream, &request));
    // The first of them are there before the last are ingested, and queries are answered meanwhile.
    let began = clock::tick();
    while serving.tree("s000000").is_none() {
        assert!(began.elapsed() < LIMIT, "nothing is taken");
    }
    assert!(!poster.is_finished(), "everybody waits for the whole body");
    let (status, answer) = poster.join().unwrap();
    assert_eq!(status, 200, "{answer}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["lines"], answer["sessions"].as_array().unwrap().len()), (&count.into(), count));
    is_taken_up_again(&env, serving, count);
}

/// One session whose input is far more than fits: it is read in parts, and none of it is left out.
#[test]
fn session_with_more_input_than_memory_is_loaded_whole() {
    const CALLS: usize = 2_400;
    let env = env();
    let serving = Serving::start(&env, "");
    let mut random = Random::new(1);
    let mut call = |number: usize| {
        // Random marks hardly compress, and are no words for the full text: some 75 MB are stored.
        let marks = |bits: u64| {
            (0..12).map(move |mark| {
                char::from(b"!#$%&()*+,-./:;<=>?@[]^_{|}~'`!#$"[(bits >> (mark * 5) & 31) as usize])
            })
        };
        let text: String = (0..4_000).flat_map(|_| marks(random.next())).collect();
        format!(
            r#"{{"session_id":"big","hook_event_name":"PreToolUse","tool_name":"Write","tool_use_id":"c{number}","tool_input":{{"file_path":"/x","content":"{text}"}},"cwd":"/x"}}"#
        ) + "\n"
    };
    for first in (0..CALLS).step_by(50) {
        let body: String = (first..first + 50).map(&mut call).collect();
        serving.post("/api/v1/ingest/claude.hook?source=big", "", body.as_bytes());
    }
    let calls = |serving: &Serving| serving.tree("big").map(|tree| tree["summary"]["tool_calls"].clone());
    assert_eq!(calls(&serving), Some(CALLS.into()));
    let mut serving = serving;
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let serving = Serving::start(&env, "");
    serving.post("/hooks/claude", "", call(CALLS).as_bytes());
    assert_eq!(calls(&serving), Some((CALLS + 1).into()));
    if let Some(peak) = peak_kb(&serving) {
        assert!(peak < MOST_KB, "{peak} kB");
        println!("a session with 100 MB of input: a start takes {peak} kB");
    }
}

#[test]
fn many_sessions_of_a_body_each_cost_the_next_start_little() {
    let (env, count) = (env(), sessions());
    let serving = Serving::start(&env, "");
    for number in 0..count {
        serving.post("/hooks/claude", "", line(number).as_bytes());
    }
    is_taken_up_again(&env, serving, count);
}
