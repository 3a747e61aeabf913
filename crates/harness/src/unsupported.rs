//! Recognizes files of programs whose sessions are not supported: an error names the program, and its sessions are not
//! shown as another's.
//!
//! By their documents and sources, 2026-11: only marks that are public, and no other program's.

use std::{collections::HashMap, ffi::OsStr, path::Path, sync::LazyLock};

use memchr::memmem::{self, Finder};
use serde_json::value::RawValue;

use crate::{
    marks::{Marks, is_uuid_behind},
    paths::has_in_row,
    recognize::{WORDS, leading_fields, text_of},
};

/// A program, and parts of paths below which it keeps its sessions.
struct Program {
    title: &'static str,
    /// Folders in a row, the name of a file, or with a `*` the end of one.
    paths: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program { title: CURSOR, paths: &[".cursor/projects", ".cursor/chats"] },
    Program { title: "Aider", paths: &[".aider.chat.history.md", ".aider.llm.history"] },
    Program { title: AMP, paths: &["amp/threads"] },
    Program { title: "Goose", paths: &["goose/sessions"] },
    Program { title: KIMI_CLI, paths: &[".kimi/sessions"] },
    Program { title: "Continue", paths: &[".continue/sessions"] },
    Program { title: COMMAND_CODE, paths: &[".commandcode/projects"] },
    Program { title: DROID, paths: &[".factory/sessions", ".factory/projects"] },
    Program {
        title: "Antigravity",
        paths: &[".gemini/antigravity", ".gemini/antigravity-cli", ".antigravity"],
    },
    Program { title: "Grok CLI", paths: &[".grok"] },
    Program { title: "Mistral Vibe", paths: &[".vibe/logs"] },
    Program { title: "Hermes Agent", paths: &[".hermes"] },
    Program { title: "gptme", paths: &["gptme/logs"] },
];

/// A task that was copied or exported: its extension is known by the folder of tasks that it is in.
const CLINE: &str = "Cline or Roo Code outside of the folder of its tasks";
const CURSOR: &str = "Cursor";
const AMP: &str = "Amp";
const DROID: &str = "Factory Droid";
/// The older program of the vendor of Kimi Code.
const KIMI_CLI: &str = "kimi-cli";
const COMMAND_CODE: &str = "Command Code";
/// Programs that write lines like a harness's, with marks in some lines only.
const LOOKALIKES: &[&str] = &[COMMAND_CODE];

/// Returns the unsupported program whose file this seems to be, by its path and first bytes; `None` if neither matches.
pub fn unsupported_program(path: &Path, head: &[u8]) -> Option<&'static str> {
    by_path(path).or_else(|| program_by_content(head, &text_of(head), &WORDS.find_in(head)))
}

/// Whether a path is where an unsupported program keeps its sessions.
pub(crate) fn is_of_other(path: &Path) -> bool {
    by_path(path).is_some()
}

/// Places in [`PROGRAMS`] by the first folder or name of their paths, and those with an end of a name by `*`. Each file of a
/// folder that sessions share is asked for by each of them.
static BY_FIRST: LazyLock<HashMap<&str, Vec<usize>>> = LazyLock::new(|| {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, program) in PROGRAMS.iter().enumerate() {
        for marks in program.paths {
            let first = if marks.starts_with('*') { "*" } else { marks.split('/').next().unwrap_or(marks) };
            places.entry(first).or_default().push(place);
        }
    }
    places
});

fn by_path(path: &Path) -> Option<&'static str> {
    let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
    let places = parts.iter().chain(&["*"]).filter_map(|part| BY_FIRST.get(part)).flatten();
    let programs = places.filter_map(|place| Some((*place, PROGRAMS.get(*place)?)));
    let is_in =
        |(_, program): &(usize, &Program)| program.paths.iter().any(|marks| has_in_row(&parts, marks));
    programs.filter(is_in).min_by_key(|(place, _)| *place).map(|(_, program)| program.title)
}

/// Whether a path is where an unsupported program keeps sessions that only a few lines tell from those of a harness.
pub fn is_lookalike(path: &Path) -> bool {
    by_path(path).is_some_and(|title| LOOKALIKES.contains(&title))
}

/// A mark of a line: a word that it has, whose it is, and what is true of its fields.
type LineMark = (&'static str, &'static str, fn(&Marks<'_>) -> bool);

/// Marks of any line.
const LINE_MARKS: &[LineMark] = &[
    ("\"apiKeySource\"", CURSOR, |line| {
        line.opens_other_stream() && line.api_key.filled().is_some() && line.tools.is_none()
    }),
    ("\"tool_call\"", CURSOR, |line| {
        line.kind.is("tool_call") && line.tool_call.is_some() && line.call_id.filled().is_some()
    }),
    ("\"tool_call\"", DROID, |line| line.kind.is("tool_call") && line.tool_id.filled().is_some()),
    ("\"finalText\"", DROID, |line| line.kind.is("completion") && line.final_text.is_some()),
    ("\"tools\"", DROID, |line| {
        let has_its_tool = line.tools.is_some_and(|tools| tools.get().contains("\"Execute\""));
        line.opens_other_stream() && has_its_tool
    }),
    ("\"T-", AMP, |line| [&line.session_id, &line.id].into_iter().any(|id| is_uuid_behind("T-", id))),
    ("\"inputTokens\"", COMMAND_CODE, |line| {
        let is_answer = line.kind.is("message") && line.message.is_some() && line.model.filled().is_some();
        is_answer && line.usage.is_some_and(|usage| usage.get().contains("\"inputTokens\""))
    }),
    ("\"metadata\"", COMMAND_CODE, |line| {
        let has_no_type = line.kind.filled().is_none() && line.role.filled().is_some();
        let is_of_session = line.session.filled().is_some() && line.id.filled().is_some();
        has_no_type && is_of_session && line.metadata.is_some() && line.content.is_some()
    }),
];

/// Marks of the first line, or of a document.
const FIRST_MARKS: &[LineMark] = &[
    ("\"hello\"", KIMI_CLI, |line| line.kind.is("hello") && line.protocol_version.is_some()),
    ("\"session_start\"", DROID, |line| {
        line.kind.is("session_start") && line.id.filled().is_some() && line.cwd.filled().is_some()
    }),
    ("\"role\"", CURSOR, |line| {
        let has_no_type = line.kind.filled().is_none() && line.role.filled().is_some();
        has_no_type && line.message.is_some_and(|message| message.get().starts_with('{'))
    }),
    ("\"say\"", CLINE, |line| line.kind.is("say") && line.say.filled().is_some() && line.ts.0.is_some()),
    ("\"ask\"", CLINE, |line| line.kind.is("ask") && line.ask.filled().is_some() && line.ts.0.is_some()),
];

/// Words of the lines by which unsupported programs are known.
pub(crate) fn line_words() -> impl Iterator<Item = &'static [u8]> {
    LINE_MARKS.iter().map(|(word, ..)| word.as_bytes())
}

/// Returns the unsupported program that wrote a head, by its lines. `text` is the head as text, and `words` are those that
/// occur in it.
pub(crate) fn program_by_content(head: &[u8], text: &str, words: &[&Finder<'_>]) -> Option<&'static str> {
    let words: Vec<&Finder<'_>> =
        words.iter().copied().filter(|found| line_words().any(|word| word == found.needle())).collect();
    let marked = |line: &&[u8]| words.iter().any(|word| word.find(line).is_some());
    let lines = head.split(|byte| *byte == b'\n').take_while(|_| !words.is_empty());
    let by_line = lines.filter(marked).find_map(|line| program_of(line, LINE_MARKS));
    by_line.or_else(|| program_of(first_object(text)?.as_bytes(), FIRST_MARKS))
}

fn program_of(line: &[u8], table: &[LineMark]) -> Option<&'static str> {
    let text = text_of(line);
    let marks: Marks<'_> = serde_json::from_str(text.trim()).ok()?;
    let is_it = |(word, _, has): &&LineMark| memmem::find(line, word.as_bytes()).is_some() && has(&marks);
    table.iter().find(is_it).map(|(_, title, _)| *title)
}

/// Returns the first object of a source: its first line, the first element of a list, or a document on many lines as far
/// as it goes.
fn first_object(head: &str) -> Option<String> {
    let text = head.trim_start_matches('\u{feff}').trim_start();
    let text = text.strip_prefix('[').map_or(text, str::trim_start);
    text.starts_with('{').then_some(())?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    match values.next()? {
        Ok(value) => Some(value.get().to_owned()),
        Err(_) => leading_fields(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bundle, classify, recognize};

    #[test]
    fn unsupported_programs_are_named_and_never_taken_for_a_harness() {
        let uuid = "f9941a21-4765-47fc-8f80-c2f2e4cbe5b6";
        let amp = format!(r#"{{"type":"user","message":{{"role":"user"}},"session_id":"T-{uuid}"}}"#);
        let answer = r#"{"type":"message","timestamp":"t","message":{"role":"assistant","content":[]},"usage":{"inputTokens":1},"model":"m/n"}"#;
        let of_version_2 = r#"{"id":"m1","timestamp":"t","sessionId":"s","role":"user","content":[],"metadata":{"version":2}}"#;
        let cases: [(&str, &str, &str); 13] = [
            ("/x/q.jsonl", answer, "Command Code"),
            ("/x/q.jsonl", of_version_2, "Command Code"),
            ("/h/.commandcode/projects/w/f9941a21-4765-47fc-8f80-c2f2e4cbe5b6.jsonl", "{}", "Command Code"),
            ("/x/a.jsonl", &amp, "Amp"),
            (
                "/x/c.jsonl",
                r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/w","session_id":"s","permissionMode":"default"}"#,
                "Cursor",
            ),
            (
                "/x/c.jsonl",
                "{\"type\":\"user\",\"message\":{},\"session_id\":\"s\"}\n{\"type\":\"tool_call\",\"call_id\":\"c\",\"tool_call\":{}}",
                "Cursor",
            ),
            (
                "/x/d.jsonl",
                r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s","tools":["Read","Execute"],"model":"m"}"#,
                "Factory Droid",
            ),
            ("/x/d.jsonl", r#"{"type":"session_start","id":"1","cwd":"/w","version":2}"#, "Factory Droid"),
            ("/x/w.jsonl", r#"{"protocol_version":1,"type":"hello"}"#, "kimi-cli"),
            ("/x/messages.json", r#"[{"ts":1,"type":"say","say":"api_req_started","text":"{}"},"#, CLINE),
            ("/h/.kimi/sessions/a/b/wire.jsonl", r#"{"type":"metadata"}"#, "kimi-cli"),
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
        assert!(is_lookalike(Path::new("/h/.commandcode/projects/p/s.jsonl")));
        assert!(!is_lookalike(Path::new("/h/.claude/projects/p/s.jsonl")));
        for none in ["/h/.local/share/opencode/opencode.db", "/h/.codex/sessions", "/h/kilometers.jsonl"] {
            assert_eq!(unsupported_program(Path::new(none), b"{}"), None, "{none}");
        }
    }
}
