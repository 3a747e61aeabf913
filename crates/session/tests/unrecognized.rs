//! Input of no known harness is a problem with its place, and what a program publishes follows no vendor's rules.

use serde_json::json;
use subscope_decode::UNRECOGNIZED;
use subscope_model::{Flag, Problem};
use subscope_session::{SessionRouter, SourceSpec};
use subscope_testkit::{
    lines::{events as posted, stream},
    sessions::{LATER, Part, options, read, tree, tree_at},
};

/// The problems of sources that name no session; there is to be no session.
fn rejected(bytes: &str) -> Vec<Problem> {
    let router = read(&[Part::new("x", bytes)], options(false));
    assert_eq!(router.sessions().count(), 0);
    router.unassigned_problems().to_vec()
}

fn unrecognized(at: &str) -> Problem {
    Problem { at: at.to_owned(), what: UNRECOGNIZED.to_owned() }
}

#[test]
fn json_of_no_harness_is_one_problem_at_its_first_line() {
    assert_eq!(rejected("{\"foo\":1}\n{\"foo\":2}\n"), [unrecognized("x:1")]);
    assert_eq!(rejected("{\"foo\":1}"), [unrecognized("x:1")]);
    // The head of a program that is not known; that of pi has a working folder, and other lines behind it.
    let other = concat!(
        r#"{"type":"session","version":3,"id":"9","origin":"subagent","createdAt":2}"#,
        "\n",
        r#"{"type":"turn/start","seq":21,"time":5,"data":{"turn":2}}"#,
        "\n",
    );
    assert_eq!(rejected(other), [unrecognized("x:1")]);
}

#[test]
fn text_is_a_problem_at_each_line() {
    let places: Vec<String> = rejected("one\ntwo\n").into_iter().map(|problem| problem.at).collect();
    assert_eq!(places, ["x:1", "x:2"]);
}

#[test]
fn stream_behind_much_of_something_else_is_read_and_keeps_its_lines() {
    let noise = "{\"log\":\"starting\"}\n".repeat(5_000);
    let lines =
        [stream::init(), stream::user("Go.")].map(|line| line.line().trim_end().to_owned()).join("\n");
    let mut router = SessionRouter::new(options(false));
    let source = router.open(SourceSpec { label: "x".to_owned(), ..SourceSpec::default() });
    for chunk in format!("{noise}{lines}\nhalf").as_bytes().chunks(1_000) {
        router.push(source, chunk);
    }
    router.flush(source);
    let tree = tree_at(&router, LATER);
    let places: Vec<&str> = tree.problems.iter().map(|problem| problem.at.as_str()).collect();
    assert_eq!(places, ["x:1", "x:5003"], "{:?}", tree.problems);
}

#[test]
fn published_subagent_with_the_prompt_of_a_warm_up_is_none() {
    let start = posted::start("worker", "r1").session("s").set("payload", json!("Warmup"));
    let tree = tree(&[Part::of("x", [start])]);
    let agent = tree.agents.iter().find(|agent| agent.id.as_str() == "r1").unwrap();
    assert_eq!((agent.depth, agent.parent_id.as_ref().map(|id| id.as_str())), (1, Some("root")));
    assert!(!agent.flags.contains(&Flag::Warmup), "{:?}", agent.flags);
}
