//! Finds the lines of a stream that change the state of agents, for callers that cannot read everything and must not
//! miss these.
//!
//! It searches for words and parses few lines, so that it keeps up with any child process. It accepts false positives,
//! but misses no line: a word may also occur in an agent's text.

use std::collections::HashSet;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value;

use crate::{CallPart, Dialect, Lifecycle, dialect::ReadCalls, lenient::Str};

/// Most calls that are remembered: far more than one run has agents.
const MAX_SPAWN_CALLS: usize = 100_000;
/// Texts of lines from this length on are shortened, in bytes.
const LONG_LINE: usize = 16 << 10;
/// The length of a shortened text, in bytes: the first words of an ending matter most.
const SHORT_TEXT: usize = 1_000;

/// Finds the lines of one stream that change the state of agents.
#[derive(Debug, Default)]
pub struct LifecycleFilter {
    words: Vec<Finder<'static>>,
    /// Type of the line that opens a session.
    opens: Option<Finder<'static>>,
    spawns: Option<Spawns>,
}

/// Finds calls that start agents, and their results.
#[derive(Debug)]
struct Spawns {
    /// Names of tools in quotes.
    words: Vec<Finder<'static>>,
    result_word: Finder<'static>,
    read: ReadCalls,
    /// The ids of the calls that were seen.
    calls: HashSet<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SessionOf<'a> {
    session_id: Str<'a>,
    #[serde(rename = "sessionId")]
    session_id_camel: Str<'a>,
}

/// Returns the session that a line names.
pub fn session_of(line: &[u8]) -> Option<String> {
    let names: SessionOf<'_> = serde_json::from_slice(line).ok()?;
    let name = names.session_id.filled().or(names.session_id_camel.filled())?;
    Some(name.to_owned())
}

fn finders(words: &[&'static str]) -> Vec<Finder<'static>> {
    words.iter().map(|word| Finder::new(*word)).collect()
}

impl Spawns {
    /// Notes the calls of these lines that start agents.
    fn learn(&mut self, lines: &[u8]) {
        let Self { words, read, calls, .. } = self;
        for word in words {
            let mut from = 0;
            while let Some(at) = lines.get(from..).and_then(|rest| word.find(rest)) {
                let line = line_at(lines, from + at);
                from = line.end;
                read(lines.get(line).unwrap_or_default(), &mut |part| {
                    if let CallPart::Begin { id, tool } = part
                        && is_quoted(word.needle(), tool)
                        && calls.len() < MAX_SPAWN_CALLS
                    {
                        calls.insert(id.to_owned());
                    }
                });
            }
        }
    }

    /// Whether a line may start an agent, or is the result of a call that started one.
    fn holds(&self, line: &[u8]) -> bool {
        self.words.iter().any(|word| word.find(line).is_some()) || self.is_report(line)
    }

    fn is_report(&self, line: &[u8]) -> bool {
        if self.calls.is_empty() || self.result_word.find(line).is_none() {
            return false;
        }
        let mut is_report = false;
        (self.read)(line, &mut |part| {
            if let CallPart::End { id } = part {
                is_report |= self.calls.contains(id);
            }
        });
        is_report
    }
}

impl LifecycleFilter {
    /// A filter for a stream of that dialect.
    pub fn new(dialect: Dialect) -> Self {
        let Lifecycle { changes, opens, spawns } = dialect.lifecycle();
        Self {
            words: finders(changes),
            opens: opens.map(Finder::new),
            spawns: spawns.map(|spawns| Spawns {
                words: finders(spawns.words),
                result_word: Finder::new(spawns.result_word),
                read: spawns.calls,
                calls: HashSet::new(),
            }),
        }
    }

    /// Notes the calls of these lines that start agents, and returns the last session that one of the lines opens.
    pub fn learn(&mut self, lines: &[u8]) -> Option<String> {
        if let Some(spawns) = &mut self.spawns {
            spawns.learn(lines);
        }
        let opens = self.opens.as_ref()?;
        let at = memchr::memmem::rfind(lines, opens.needle())?;
        session_of(lines.get(line_at(lines, at))?)
    }

    /// Whether a line changes the state of agents.
    pub fn holds(&self, line: &[u8]) -> bool {
        self.words.iter().any(|word| word.find(line).is_some())
            || self.spawns.as_ref().is_some_and(|spawns| spawns.holds(line))
    }

    /// Appends a line with long texts cut to `out`. Returns false if the line is not JSON.
    pub fn shorten(&self, line: &[u8], out: &mut Vec<u8>) -> bool {
        if line.len() <= LONG_LINE {
            out.extend_from_slice(line);
            return true;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return false };
        let mut rest = vec![&mut value];
        while let Some(value) = rest.pop() {
            match value {
                Value::String(text) if text.len() > SHORT_TEXT => {
                    let cut = (0..=SHORT_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                    let lost = text.len() - cut;
                    text.truncate(cut);
                    *text += &format!("… ({lost} bytes cut)");
                }
                Value::Array(items) => rest.extend(items),
                Value::Object(fields) => rest.extend(fields.values_mut()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        out.extend_from_slice(value.to_string().as_bytes());
        out.push(b'\n');
        true
    }
}

/// Whether a word is this text in quotes.
fn is_quoted(word: &[u8], text: &str) -> bool {
    word.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(text.as_bytes())
}

fn line_at(lines: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = memchr::memrchr(b'\n', lines.get(..at).unwrap_or_default()).map_or(0, |end| end + 1);
    let end = memchr::memchr(b'\n', lines.get(at..).unwrap_or_default()).map_or(lines.len(), |end| at + end);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SUBAGENT_EVENTS;

    #[test]
    fn starts_and_endings_are_held_and_other_lines_are_not() {
        let filter = LifecycleFilter::new(SUBAGENT_EVENTS);
        assert!(filter.holds(br#"{"type":"subagent_start","subagentRunId":"r"}"#));
        assert!(!filter.holds(br#"{"type":"tool_call","subagentRunId":"r"}"#));
        assert!(!LifecycleFilter::default().holds(br#"{"type":"subagent_start"}"#));
    }

    #[test]
    fn session_of_either_spelling_is_found() {
        assert_eq!(session_of(b"{\"sessionId\":\"c\"}").as_deref(), Some("c"));
        assert_eq!(session_of(b"{\"session_id\":\"d\"}").as_deref(), Some("d"));
        assert_eq!(session_of(b"nothing"), None);
    }

    #[test]
    fn long_texts_are_cut_and_the_line_stays_one() {
        let line = format!("{{\"a\":[{{\"b\":\"{}\"}}],\"c\":\"short\"}}\n", "é".repeat(20_000));
        let mut out = Vec::new();
        assert!(LifecycleFilter::default().shorten(line.as_bytes(), &mut out));
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["c"], "short");
        assert!(value["a"][0]["b"].as_str().unwrap().ends_with("(39000 bytes cut)"), "{value}");
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}
