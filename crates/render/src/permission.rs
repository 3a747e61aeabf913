//! A permission request in words: the whole call, so that a person knows what is allowed, or all that it asks.

use serde_json::{Map, Value};
use subscope_model::{AgentQuestion, PermissionRequest};

use crate::{safe, style::Charset};

/// Returns all arguments of the call, a line each, or its questions with what they offer; further lines of a text are
/// indented below it. No argument is left out, and hidden characters are shown.
pub fn request_lines(request: &PermissionRequest, charset: Charset) -> Vec<String> {
    if !request.questions.is_empty() {
        let lines = request.questions.iter().zip(1..);
        return lines.flat_map(|(asked, number)| question_lines(asked, number, charset)).collect();
    }
    let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(&request.arguments) else {
        return indented("", &request.arguments, charset);
    };
    let lines = arguments.iter().flat_map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        indented(&format!("{}: ", safe::line(name, charset)), &text, charset)
    });
    lines.collect()
}

/// Returns a question with its number, how to answer it, and its options.
fn question_lines(asked: &AgentQuestion, number: usize, charset: Charset) -> Vec<String> {
    let how = match (asked.options.is_empty(), asked.multi_select) {
        (true, _) => "",
        (false, true) => " (any of these, or other words)",
        (false, false) => " (one of these, or other words)",
    };
    let mut lines = indented(&format!("{number}. "), &format!("{}{how}", asked.question), charset);
    for option in &asked.options {
        let text = option.description.as_ref().map_or_else(String::new, |text| format!(": {text}"));
        lines.extend(indented("   - ", &format!("{}{text}", option.label), charset));
    }
    lines
}

/// Returns the lines of a text, the first behind `head`.
fn indented(head: &str, text: &str, charset: Charset) -> Vec<String> {
    let safe = safe::lines(text, charset);
    let mut lines = safe.split('\n');
    let first = format!("{head}{}", lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("  {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use subscope_model::{AgentId, QuestionOption, SessionId, Text};

    use super::*;

    fn lines(arguments: &str) -> Vec<String> {
        let request = PermissionRequest {
            id: Text::default(),
            session_id: SessionId::from("s"),
            agent_id: AgentId::ROOT.into(),
            tool: "Bash".into(),
            arguments: arguments.into(),
            questions: Vec::new(),
            cwd: None,
            asked_at_ms: 0,
            until_ms: 0,
        };
        request_lines(&request, Charset::Unicode)
    }

    #[test]
    fn questions_are_shown_with_what_they_offer() {
        let option = |label: &str, description: Option<&str>| QuestionOption {
            label: label.into(),
            description: description.map(Into::into),
        };
        let asked = AgentQuestion {
            question: "Which parts?\nName all.".into(),
            header: Some("Parts".into()),
            options: vec![option("Door", Some("of oak")), option("Wall\u{202e}", None)],
            multi_select: true,
        };
        assert_eq!(
            question_lines(&asked, 2, Charset::Unicode),
            [
                "2. Which parts?",
                "  Name all. (any of these, or other words)",
                "   - Door: of oak",
                "   - Wall⟨U+202E⟩"
            ]
        );
    }

    #[test]
    fn whole_call_is_shown() {
        let long = "x".repeat(5_000);
        let all =
            lines(&format!(r#"{{"command":"git tag v1\nrm -rf {long}","description":"Tag","n":[1, 2]}}"#));
        assert_eq!(all, ["command: git tag v1", &format!("  rm -rf {long}"), "description: Tag", "n: [1,2]"]);
        assert_eq!(lines("[1,\n2]"), ["[1,", "  2]"]);
    }

    #[test]
    fn nothing_in_it_is_hidden_or_obeyed() {
        for hidden in ["\u{202e}", "\u{200b}", "\u{1b}[8m", "\r"] {
            let text =
                lines(&serde_json::json!({ "command": format!("ls{hidden}rm") }).to_string()).join("\n");
            assert!(!text.contains(hidden) && text != "command: lsrm", "{text:?}");
        }
    }
}
