//! Recognizes files of programs whose sessions are not supported: an error names the program, and its sessions are not
//! shown as another's.
//!
//! By their documents and sources, 2026-11: only marks that are public, and no other program's.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Num, Str};

/// A program, and parts of paths below which it keeps its sessions.
struct Program {
    title: &'static str,
    /// Folders in a row, or the name of a file.
    paths: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program { title: "Kilo CLI", paths: &[".local/share/kilo", "kilo/storage"] },
    Program { title: "Kilo Code", paths: &["kilocode.kilo-code/tasks"] },
    Program { title: "Roo Code", paths: &["rooveterinaryinc.roo-cline/tasks"] },
    Program { title: CLINE, paths: &["ui_messages.json", "api_conversation_history.json"] },
    Program { title: "Cursor", paths: &[".cursor/projects", ".cursor/chats"] },
    Program { title: "Aider", paths: &[".aider.chat.history.md", ".aider.llm.history"] },
    Program { title: "Amp", paths: &["amp/threads"] },
    Program { title: "Goose", paths: &["goose/sessions"] },
    Program { title: "Kimi Code", paths: &[".kimi/sessions"] },
    Program { title: "Crush", paths: &[".crush/crush.db"] },
    Program { title: "Continue", paths: &[".continue/sessions"] },
    Program { title: PI, paths: &[".pi/agent/sessions"] },
];

const PI: &str = "pi";
const CLINE: &str = "Cline";

/// Returns the unsupported program whose file this seems to be, by its path and first bytes; `None` if neither matches.
pub fn unsupported_program(path: &Path, head: &[u8]) -> Option<&'static str> {
    let by_path = PROGRAMS.iter().find(|program| program.paths.iter().any(|marks| has_in_row(path, marks)));
    by_path.map(|program| program.title).or_else(|| by_content(head))
}

/// Whether a path is in the folder of a program that is a fork of another and keeps its sessions likewise.
pub(crate) fn is_of_fork(path: &Path) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "kilo")
}

fn has_in_row(path: &Path, marks: &str) -> bool {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let marks: Vec<&str> = marks.split('/').collect();
    parts.windows(marks.len()).any(|row| row == marks)
}

/// The fields by which first lines are known.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    version: Num,
    cwd: Str<'a>,
    ts: Num,
    say: Str<'a>,
    ask: Str<'a>,
}

fn by_content(head: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(head);
    let line = text.lines().next()?.trim();
    // A list of messages in one line: its first element.
    let first: Option<&RawValue> = line
        .strip_prefix('[')
        .and_then(|rest| serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>().next()?.ok());
    let object = first.map_or(line, RawValue::get);
    let marks: Marks<'_> = serde_json::from_str(object).ok()?;
    if marks.kind.is("session") && marks.version.0.is_some() && marks.cwd.filled().is_some() {
        return Some(PI);
    }
    let is_of_task = marks.say.filled().is_some() && marks.kind.is("say")
        || marks.ask.filled().is_some() && marks.kind.is("ask");
    (is_of_task && marks.ts.0.is_some()).then_some(CLINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bundle, classify, recognize};

    #[test]
    fn unsupported_programs_are_named_and_never_taken_for_a_harness() {
        let cases: [(&str, &str, &str); 8] = [
            ("/h/.local/share/kilo/opencode.db", "SQLite format 3", "Kilo CLI"),
            ("/h/x/globalStorage/tasks/1/ui_messages.json", "[]", "Cline"),
            ("/h/y/rooveterinaryinc.roo-cline/tasks/1/ui_messages.json", "[]", "Roo Code"),
            ("/x/messages.json", r#"[{"ts":1,"type":"say","say":"api_req_started","text":"{}"},"#, "Cline"),
            ("/x/a.jsonl", r#"{"type":"session","version":3,"id":"1","timestamp":"t","cwd":"/w"}"#, "pi"),
            ("/h/.kimi/sessions/a/b/wire.jsonl", r#"{"type":"metadata"}"#, "Kimi Code"),
            ("/h/.cursor/projects/p/agent-transcripts/s.jsonl", r#"{"role":"user","message":{}}"#, "Cursor"),
            ("/w/.aider.chat.history.md", "# aider chat", "Aider"),
        ];
        for (path, head, title) in cases {
            assert_eq!(unsupported_program(Path::new(path), head.as_bytes()), Some(title), "{path}");
            assert_eq!(recognize(head.as_bytes()), None, "{path}");
            assert!(
                classify(Path::new(path)).dialect.is_none() && bundle(Path::new(path)).is_none(),
                "{path}"
            );
        }
        for none in ["/h/.local/share/opencode/opencode.db", "/h/.codex/sessions", "/h/kilometers.jsonl"] {
            assert_eq!(unsupported_program(Path::new(none), b"{}"), None, "{none}");
        }
    }
}
