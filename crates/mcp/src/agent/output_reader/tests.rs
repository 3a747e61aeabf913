//! Tests of the reader with input split anywhere.

use std::sync::atomic::{AtomicI64, Ordering};

use super::*;

fn run() -> RunIdentity {
    RunIdentity { name: "worker".into(), id: "r".into(), session: None, parent: None, depth: 1 }
}

/// Feeds a text in chunks; returns the published events and the result.
fn read(text: &str, size: usize) -> (Vec<String>, OutputResult) {
    let mut output = OutputReader::new(run(), None, || 1_000);
    let mut said = Vec::new();
    for piece in text.as_bytes().chunks(size) {
        said.extend(output.push(piece));
    }
    let (last, seen) = output.end();
    said.extend(last);
    let word = |said: OutputEvent| format!("{} {}", said.event.kind, said.event.payload.unwrap_or_default());
    (said.into_iter().map(word).collect(), seen)
}

const STREAM: &str = concat!(
    r#"{"type":"assistant","session_id":"s","message":{"id":"m1","content":[{"type":"text","text":"One."},{"type":"tool_use","id":"t1","name":"Read","input":{"a":1}}]}}"#,
    "\n",
    r#"{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x","is_error":true}]}}"#,
    "\n",
    r#"{"type":"assistant","session_id":"s","message":{"id":"m2","content":[{"type":"text","text":"Two."}]}}"#,
    "\n",
    r#"{"type":"assistant","session_id":"s","message":{"id":"m2","content":[{"type":"text","text":"Three."}]}}"#,
    "\n",
);

#[test]
fn stream_says_the_same_however_it_is_cut() {
    let whole = read(STREAM, STREAM.len());
    assert_eq!(whole.0, ["tool_call {\"a\":1}", "tool_result x"]);
    for size in [1, 7, 64, 200] {
        let cut = read(STREAM, size);
        assert_eq!(cut.0, whole.0, "{size}");
        assert_eq!(cut.1.text, whole.1.text);
    }
}

#[test]
fn nothing_is_lost_where_concluding_is_slow() {
    static CLOCK: AtomicI64 = AtomicI64::new(0);
    // Deriving once takes as long as reading many lines.
    let mut output = OutputReader::new(run(), None, || CLOCK.fetch_add(50, Ordering::Relaxed));
    let (mut pushed, mut said) = (Vec::new(), Vec::new());
    for place in 0..200 {
        let line = format!(
            "{{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{{\"id\":\"m{place}\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"t{place}\",\"name\":\"Read\",\"input\":{{}}}}]}}}}\n"
        );
        let now = output.push(line.as_bytes());
        pushed.push(now.len());
        said.extend(now);
    }
    assert!(pushed.iter().filter(|count| **count == 0).count() >= 100, "{pushed:?}");
    said.extend(output.end().0);
    let ids: Vec<String> = said.into_iter().filter_map(|said| said.event.tool_call_id).collect();
    assert_eq!(ids, (0..200).map(|place| format!("t{place}")).collect::<Vec<_>>());
}

#[test]
fn answer_is_the_last_message_where_no_result_tells_it() {
    let (_, seen) = read(STREAM, 100);
    assert!(seen.text.ends_with("Three."), "{seen:?}");
    assert!(!seen.text.contains("One."), "{seen:?}");
    let result = r#"{"type":"result","session_id":"s","is_error":false,"result":"All of it."}"#;
    assert_eq!(read(&format!("{STREAM}{result}"), 100).1.text, "All of it.");
    assert_eq!(read(result, 100).1.text, "All of it.");
}

#[test]
fn text_stays_text_and_a_long_one_keeps_its_end() {
    assert_eq!(read("Just words.\n", 3).1.text, "Just words.");
    assert_eq!(read("", 1).1.text, "");
    let long = "word ".repeat(ANSWER_BYTES / 2);
    let (said, seen) = read(&long, 4096);
    assert!(said.is_empty() && seen.text.len() < ANSWER_BYTES + 100, "{}", seen.text.len());
    assert!(seen.text.contains("bytes before this are left out") && seen.text.ends_with("word"));
}

#[test]
fn payload_that_listeners_would_refuse_is_cut() {
    let long = "ü".repeat(PAYLOAD_BYTES);
    let cut = truncate_payload(long);
    assert!(
        cut.len() < PAYLOAD_BYTES + 100 && cut.ends_with(&format!("({PAYLOAD_BYTES} bytes left out)")),
        "{}",
        cut.len()
    );
}

#[test]
fn final_answer_is_known_by_its_name_alone() {
    for (name, expected) in [
        ("final_answer", true),
        ("mcp__shop__final_answer", true),
        ("my_final_answer", false),
        ("final_answers", false),
    ] {
        assert_eq!(is_final_answer(name), expected, "{name}");
    }
}
