//! Programs that number the calls of each run from one: equal call ids of different runs are different calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::read_dir,
};

use serde_json::{Value, json as value};

use super::{
    posting::{Posting, event},
    *,
};
use crate::common::serving::{Serving, exchange, posting};

/// How many programs post at once, and how many calls each makes.
const WRITERS: usize = 50;
const CALLS: usize = 100;

/// All calls of one program, each begun and ended, as it posts them.
fn events_of(who: usize) -> Vec<Value> {
    let run = format!("r{who}");
    let mut events = vec![event(&run, "subagent_start", value!({}))];
    for number in 0..CALLS {
        let call = |payload: String| value!({"toolName": "t", "toolCallId": format!("c{number}"), "payload": payload});
        events.push(event(&run, "tool_call", call(format!("asks {who}.{number}"))));
        events.push(event(&run, "tool_result", call(format!("told {who}.{number}"))));
    }
    events.push(event(&run, "subagent_end", value!({})));
    events
}

/// Has all programs post at once, each over one connection at a time and in its own order; into one session, or each
/// into its own.
fn post_all(address: &str, session: Option<&str>) {
    thread::scope(|scope| {
        for who in 0..WRITERS {
            scope.spawn(move || {
                for mut event in events_of(who) {
                    if let Some(session) = session {
                        event["sessionId"] = session.into();
                    }
                    let stream = std::net::TcpStream::connect(address).unwrap();
                    stream.set_read_timeout(Some(LIMIT)).unwrap();
                    let body = event.to_string();
                    let (status, answer) =
                        exchange(stream, &posting(address, "/subagent-events", "", body.as_bytes()));
                    assert_eq!(status, 200, "{answer}");
                }
            });
        }
    });
}

/// How many completed calls each agent of some trees has; the root has none.
fn calls_by_agent(trees: &[Value]) -> BTreeMap<String, usize> {
    let mut ids = BTreeSet::new();
    let mut calls = BTreeMap::new();
    for tree in trees {
        for agent in tree["agents"].as_array().unwrap().iter().filter(|agent| agent["id"] != "root") {
            let tools = agent["tools"].as_array().unwrap();
            assert!(tools.iter().all(|tool| tool["status"] == "ok" && tool["basis"] == "wire"), "{agent}");
            ids.extend(tools.iter().map(|tool| (tree["session"]["id"].to_string(), tool["id"].to_string())));
            calls.insert(agent["id"].as_str().unwrap().to_owned(), tools.len());
        }
    }
    assert_eq!(ids.len(), WRITERS * CALLS, "each call has an id of its own in its session");
    calls
}

/// Expected result of [`calls_by_agent`].
fn expected() -> BTreeMap<String, usize> {
    (0..WRITERS).map(|who| (format!("r{who}"), CALLS)).collect()
}

/// Waits until a number of subagents have ended: rows are derived shortly after ingestion.
fn whole(mut trees: impl FnMut() -> Vec<Value>, agents: usize) -> Vec<Value> {
    let began = clock::tick();
    loop {
        let trees = trees();
        let ended: u64 = trees.iter().filter_map(|tree| tree["summary"]["completed"].as_u64()).sum();
        if ended == agents as u64 {
            return trees;
        }
        assert!(began.elapsed() < LIMIT, "{ended} agents have ended");
        thread::sleep(Duration::from_millis(20));
    }
}

fn tree_of(env: &TestEnv, target: &str) -> Value {
    json(&env.run(&["tree", target, "--json"]).success())
}

/// The calls that were begun, and the results, with the agent that each printed block names.
fn printed_calls(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut printed = (BTreeSet::new(), BTreeSet::new());
    for block in text.split("#### ") {
        // A line of its own: heartbeats name the call that an agent is at.
        for (word, seen) in [("\nasks ", &mut printed.0), ("\ntold ", &mut printed.1)] {
            let Some((_, rest)) = block.split_once(word) else { continue };
            let call = rest.split(|letter: char| letter != '.' && !letter.is_ascii_digit()).next().unwrap();
            let who = call.split('.').next().unwrap();
            assert!(block.contains(&format!("name of r{who}")), "{call} is blamed on another:\n{block}");
            assert!(seen.insert(call.to_owned()), "{call} is printed twice");
        }
    }
    printed
}

#[test]
fn equal_call_ids_of_fifty_published_runs_stay_each_runs_own_under_run() {
    let env = env();
    let serving = Serving::start(&env, "");
    let log = env.path("work/log");
    let options = format!("--verbose --full --log-dir {}", log.display());
    let mut posting = Posting::start(&env, &options, None);
    let errors = posting.child.stderr.take().unwrap();
    let reading = thread::spawn(move || std::io::read_to_string(errors).unwrap());
    post_all(&posting.address, None);
    fs::write(&posting.go, "").unwrap();
    let text = reading.join().unwrap();
    assert_eq!(posting.child.wait().unwrap().code(), Some(5), "{text}");

    let (begun, ended) = printed_calls(&text);
    assert_eq!((begun.len(), ended.len()), (WRITERS * CALLS, WRITERS * CALLS));

    let trace = read_dir(&log)
        .unwrap()
        .map(|iteration| iteration.unwrap().path().join("trace.json"))
        .find(|trace| trace.exists())
        .unwrap();
    let mut traced = BTreeMap::new();
    for event in json(&fs::read_to_string(trace).unwrap())["events"].as_array().unwrap() {
        let calls: &mut usize = traced.entry(event["id"].as_str().unwrap().to_owned()).or_default();
        *calls += usize::from(event["type"] == "progress");
    }
    assert_eq!(traced, expected());

    let rows = serving.json("/api/v1/sessions");
    let session = rows["sessions"][0]["id"].as_str().unwrap().to_owned();
    let tree = whole(|| serving.tree(&session).into_iter().collect(), WRITERS);
    assert_eq!(calls_by_agent(&tree), expected());
    assert_eq!(serving.json("/api/v1/sessions")["sessions"][0]["tool_calls"], WRITERS * CALLS);
}

#[test]
fn equal_call_ids_of_fifty_published_runs_stay_each_runs_own_under_serve() {
    let env = env();
    let serving = Serving::start(&env, "");
    post_all(&serving.address, None);
    let trees = || (0..WRITERS).filter_map(|who| serving.tree(&format!("events:r{who}"))).collect();
    assert_eq!(calls_by_agent(&whole(trees, WRITERS)), expected());
}

#[test]
fn equal_call_ids_of_fifty_published_runs_stay_each_runs_own_in_one_session_under_serve() {
    let env = env();
    let serving = Serving::start(&env, "");
    post_all(&serving.address, Some("together"));
    let tree = whole(|| serving.tree("together").into_iter().collect(), WRITERS);
    assert_eq!(calls_by_agent(&tree), expected());
    assert_eq!(serving.json("/api/v1/sessions")["sessions"][0]["tool_calls"], WRITERS * CALLS);
    // Each call has its own agent in the trace, too.
    let trace = json(&env.run(&["export", "together", "--as", "execution"]).success());
    for run in trace.as_array().unwrap() {
        let calls = run["toolExecutions"].as_array().unwrap();
        let who = run["subagentId"].as_str().unwrap().trim_start_matches('r');
        assert_eq!(calls.len(), CALLS, "{who}");
        let is_own = |call: &Value| call["result"].as_str().unwrap().starts_with(&format!("told {who}."));
        assert!(calls.iter().all(is_own), "{who}");
    }
}

#[test]
fn equal_call_ids_of_fifty_published_runs_stay_each_runs_own_in_a_file() {
    let env = env();
    let all: Vec<Vec<Value>> = (0..WRITERS).map(events_of).collect();
    let mut lines = String::new();
    // One event of each in turn: that is how they come when all post at once.
    for number in 0..all[0].len() {
        all.iter().for_each(|events| lines += &format!("{}\n", events[number]));
    }
    let file = env.write("work/events.jsonl", lines);
    assert_eq!(calls_by_agent(&[tree_of(&env, file.to_str().unwrap())]), expected());
}
