//! Finds the lines of a stream that change the state of agents.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::CallPart;

/// Type of the line that opens a session.
pub(super) const OPENS: &str = "\"init\"";
/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &[
    OPENS,
    "\"result\"",
    "\"task_started\"",
    "\"task_updated\"",
    "\"task_notification\"",
    "\"TaskStop\"",
    "\"SendMessage\"",
];
/// Words of lines that start agents: the tools' names.
pub(super) const SPAWNS: &[&str] = &["\"Agent\"", "\"Task\""];
/// The word of lines with results of calls.
pub(super) const RESULT: &str = "\"tool_result\"";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: Cow<'a, str>,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    tool_use_id: Cow<'a, str>,
}

/// Gives the tool calls and results of one line.
pub(super) fn calls(line: &[u8], each: &mut dyn FnMut(CallPart<'_>)) {
    let Ok(Line { message }) = serde_json::from_slice::<Line<'_>>(line) else { return };
    for block in message.content {
        let Ok(block) = serde_json::from_str::<Block<'_>>(block.get()) else { continue };
        if block.kind == "tool_use" {
            each(CallPart::Begin { id: &block.id, tool: &block.name });
        }
        each(CallPart::End { id: &block.tool_use_id });
    }
}

#[cfg(test)]
mod tests {
    use subscope_decode::LifecycleFilter;

    use crate::claude_code::STREAM;

    const SPAWN: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Agent","input":{}}]},"session_id":"s"}"#;

    #[test]
    fn starts_endings_and_reports_are_held_and_other_calls_are_not() {
        let mut filter = LifecycleFilter::new(STREAM);
        assert_eq!(filter.learn(format!("{SPAWN}\n").as_bytes()), None);
        assert!(filter.holds(SPAWN.as_bytes()));
        for line in [
            r#"{"type":"user","message":{"content":[{"tool_use_id":"t1","type":"tool_result","content":"done"}]}}"#,
            r#"{"type":"system","subtype": "task_notification","task_id":"a"}"#,
            r#"{"type":"system","subtype":"task_started","task_id":"a"}"#,
            r#"{"duration_ms":1,"type": "result","subtype":"success"}"#,
        ] {
            assert!(filter.holds(line.as_bytes()), "{line}");
        }
        for line in [
            r#"{"type":"user","message":{"content":[{"tool_use_id":"t2","type":"tool_result","content":"done"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Read","input":{}}]}}"#,
            r#"{"type":"system","subtype":"task_progress","task_id":"a"}"#,
            "not json",
        ] {
            assert!(!filter.holds(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn the_last_session_that_is_opened_is_learned() {
        let mut filter = LifecycleFilter::new(STREAM);
        let lines = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"a\"}\n{}\n{\"subtype\":\"init\",\"session_id\":\"b\"}\n{}\n";
        assert_eq!(filter.learn(lines.as_bytes()).as_deref(), Some("b"));
    }
}
