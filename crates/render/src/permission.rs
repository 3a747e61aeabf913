//! A permission request in words: the whole call, so that a person knows what is allowed.

use serde_json::{Map, Value};
use subscope_model::PermissionRequest;

use crate::{safe, style::Charset};

/// Returns all arguments of the call, a line each; further lines of a text are indented below it. Nothing is left out, and
/// hidden characters are shown.
pub fn argument_lines(request: &PermissionRequest, charset: Charset) -> Vec<String> {
    let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(&request.arguments) else {
        return indented("", &request.arguments, charset);
    };
    let lines = arguments.iter().flat_map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        indented(&format!("{}: ", safe::line(name, charset)), &text, charset)
    });
    lines.collect()
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
    use subscope_model::{AgentId, SessionId, Text};

    use super::*;

    fn lines(arguments: &str) -> Vec<String> {
        let request = PermissionRequest {
            id: Text::default(),
            session_id: SessionId::from("s"),
            agent_id: AgentId::ROOT.into(),
            tool: "Bash".into(),
            arguments: arguments.into(),
            cwd: None,
            asked_at_ms: 0,
            until_ms: 0,
        };
        argument_lines(&request, Charset::Unicode)
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
