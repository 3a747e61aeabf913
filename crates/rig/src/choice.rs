//! Chooses the actor and step that answer a request.

use serde_json::Value;

use crate::scenario::{Actor, Scenario};

/// Returns the actor that answers these messages, and the number of its step; `None` if no actor's `match` occurs in
/// them.
pub(crate) fn choose<'s>(scenario: &'s Scenario, messages: &[Value]) -> Option<(&'s Actor, usize)> {
    for (at, message) in messages.iter().enumerate().rev() {
        // What the harness adds in the middle of a conversation has come as a message of the system too (2.1.330).
        if !matches!(role(message), "user" | "system") {
            continue;
        }
        for text in texts(message).into_iter().rev() {
            let matching = scenario.actors.iter().filter(|actor| text.contains(&actor.matches));
            if let Some(actor) = matching.max_by_key(|actor| actor.matches.len()) {
                let behind = messages.iter().skip(at + 1);
                return Some((actor, behind.filter(|message| role(message) == "assistant").count()));
            }
        }
    }
    None
}

/// Returns all texts sent to an agent in order, including tool results and what its harness adds.
pub(crate) fn everything_read(messages: &[Value]) -> String {
    let mut all = Vec::new();
    for message in messages.iter().filter(|message| role(message) != "assistant") {
        all.extend(texts(message));
        let blocks = message["content"].as_array().into_iter().flatten();
        for result in blocks.filter(|block| block["type"] == "tool_result") {
            all.extend(texts(result));
        }
    }
    all.join("\n")
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

/// The texts of a message or of a tool's result: its content is one text, or blocks.
pub(crate) fn texts(message: &Value) -> Vec<&str> {
    match (message["content"].as_str(), message["content"].as_array()) {
        (Some(text), _) => vec![text],
        (None, blocks) => blocks.into_iter().flatten().filter_map(|block| block["text"].as_str()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario() -> Scenario {
        let actors = ["main:Ask", "reader:Read the file", "reader-of-b:Read the file b"];
        let actors = actors.map(|actor| {
            let (id, matches) = actor.split_once(':').unwrap();
            json!({"id": id, "match": matches, "step": []})
        });
        let script = json!({"name": "", "about": "", "prompt": "", "ends_with": "", "actor": actors});
        serde_json::from_value(script).unwrap()
    }

    fn chosen(messages: &Value) -> Option<(String, usize)> {
        let scenario = scenario();
        choose(&scenario, messages.as_array().unwrap()).map(|(actor, step)| (actor.id.clone(), step))
    }

    #[test]
    fn takes_the_longest_match_in_the_newest_text() {
        let read = json!([{"role": "user", "content": [{"type": "text", "text": "Read the file b now"}]}]);
        assert_eq!(chosen(&read), Some(("reader-of-b".into(), 0)));
        let both = json!([{"role": "user", "content": "Ask"}, {"role": "assistant", "content": "x"},
            {"role": "user", "content": "Read the file"}]);
        assert_eq!(chosen(&both), Some(("reader".into(), 0)));
    }

    #[test]
    fn counts_the_models_messages_behind_that_text() {
        let result = json!([{"type": "tool_result", "content": "Read the file"}]);
        let going = json!([{"role": "user", "content": "Ask"}, {"role": "assistant", "content": []},
            {"role": "user", "content": result}, {"role": "assistant", "content": []}]);
        assert_eq!(chosen(&going), Some(("main".into(), 2)), "a tool's result is nobody's prompt");
    }

    #[test]
    fn chooses_nobody_where_nobody_is_meant() {
        assert_eq!(chosen(&json!([{"role": "assistant", "content": "Ask"}])), None);
        assert_eq!(chosen(&json!([])), None);
    }

    #[test]
    fn reads_texts_and_results() {
        let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "c"}]}]},
            {"role": "system", "content": "d"}]);
        assert_eq!(everything_read(messages.as_array().unwrap()), "a\nc\nd");
    }
}
