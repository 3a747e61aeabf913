//! Claude Code's dialects.
//!
//! [`transcript`] is the primary source: exact and complete, also for background and nested agents. [`stream`] is
//! what a wrapped run prints, [`hook`] what its hooks are given, [`meta`] the small files beside transcripts.
//! [`content`], [`tools`] and [`notice`] hold what these share: messages, tool calls and their results, and task
//! notifications; [`answer`] is what its hooks are answered, [`plain`] what the program prints for people, [`process`] what it notes of itself.

pub(crate) mod answer;
mod content;
pub mod hook;
pub mod meta;
mod notice;
pub mod plain;
pub mod process;
pub mod stream;
mod tools;
pub mod transcript;

pub(crate) use tools::digest;

use std::borrow::Cow;

use serde::Deserialize;

/// What a line of a live process says of its session.
#[derive(Deserialize)]
struct OfSession<'l> {
    #[serde(borrow, default)]
    session_id: Option<Cow<'l, str>>,
}

/// How many lines are looked at for one that names its session: almost every one does.
const LINES: usize = 8;

/// Returns the session that the first of these lines names.
pub(crate) fn session_of(lines: &[u8]) -> Option<String> {
    let named = |line: &[u8]| {
        let line: OfSession<'_> = serde_json::from_slice(line).ok()?;
        line.session_id.filter(|session| !session.is_empty()).map(Cow::into_owned)
    };
    lines.split(|byte| *byte == b'\n').take(LINES).find_map(named)
}

#[cfg(test)]
mod tests {
    use crate::Dialect;

    #[test]
    fn first_line_that_names_a_session_says_whose_all_are() {
        let cases: [(&str, Option<&str>); 6] = [
            ("{\"session_id\":\"s\",\"hook_event_name\":\"Stop\"}\n", Some("s")),
            ("{\"type\":\"control\"}\n\n{\"session_id\":\"t\"}\n{\"session_id\":\"u\"}\n", Some("t")),
            ("{\"session_id\":\"a\\u002fb\"}", Some("a/b")),
            ("{\"session_id\":\"\"}\n{\"session_id\":7}", None),
            ("not JSON", None),
            ("", None),
        ];
        for (lines, session) in cases {
            assert_eq!(Dialect::ClaudeHook.session_of(lines.as_bytes()).as_deref(), session, "{lines}");
            assert_eq!(Dialect::ClaudeStream.session_of(lines.as_bytes()).as_deref(), session, "{lines}");
            // A transcript may begin with lines that were copied from another.
            assert_eq!(Dialect::ClaudeTranscript.session_of(lines.as_bytes()), None, "{lines}");
        }
    }
}
