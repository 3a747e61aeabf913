//! Which lines of a stream change how agents stand: for whoever cannot read everything and must not miss these.
//!
//! It looks for words and does not parse, so that it keeps up with any child. It errs on the side of taking a line: a word may
//! stand in an agent's text, too.

use std::{borrow::Cow, collections::HashSet};

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{Dialect, lenient::Str};

/// How many calls that started agents are remembered; far more than one run has agents.
const SPAWNS: usize = 100_000;
/// From this length on a line's texts are shortened.
const LONG_LINE: usize = 16 << 10;
/// To which length: an ending's first words tell the most.
const SHORT_TEXT: usize = 1_000;

/// What the lines of one stream are judged by.
#[derive(Debug, Default)]
pub struct LifecycleFilter {
    words: Vec<Finder<'static>>,
    /// Words of lines that start agents, whose results are then gist, too.
    spawns: Vec<Finder<'static>>,
    calls: HashSet<String>,
}

#[derive(Deserialize)]
struct SessionOf<'a> {
    #[serde(borrow, default)]
    session_id: Str<'a>,
    #[serde(rename = "sessionId", borrow, default)]
    session_id_camel: Str<'a>,
}

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

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
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

impl LifecycleFilter {
    /// For a stream of that dialect.
    pub fn new(dialect: Dialect) -> Self {
        let (words, spawns) = match dialect {
            Dialect::ClaudeStream => (crate::claude::stream::GIST, crate::claude::stream::SPAWNS),
            Dialect::SubagentEvents => (["subagent_start", "subagent_end"].as_slice(), [].as_slice()),
            Dialect::Feed => (["subagent.st", "session.", "agent.renamed"].as_slice(), [].as_slice()),
            // Nothing prints these.
            Dialect::ClaudeTranscript
            | Dialect::ClaudeMeta
            | Dialect::ClaudeJournal
            | Dialect::ClaudeHook
            | Dialect::StopOrders => ([].as_slice(), [].as_slice()),
        };
        Self { words: finders(words), spawns: finders(spawns), calls: HashSet::new() }
    }

    /// Notes the calls of these lines that start agents, and returns the last session that one of them opens.
    pub fn learn(&mut self, lines: &[u8]) -> Option<String> {
        for spawn in &self.spawns {
            let mut from = 0;
            while let Some(at) = lines.get(from..).and_then(|rest| spawn.find(rest)) {
                let line = line_at(lines, from + at);
                from = line.end;
                for block in blocks(lines.get(line).unwrap_or_default()) {
                    let is_spawn = block.kind == "tool_use" && is_named(spawn, &block.name);
                    if is_spawn && self.calls.len() < SPAWNS {
                        self.calls.insert(block.id.into_owned());
                    }
                }
            }
        }
        // The first of the words opens a session, where the dialect has such a line.
        let opens = self.words.first().filter(|_| !self.spawns.is_empty())?;
        let at = memchr::memmem::rfind(lines, opens.needle())?;
        session_of(lines.get(line_at(lines, at))?)
    }

    /// Whether a line changes how agents stand.
    pub fn holds(&self, line: &[u8]) -> bool {
        self.words.iter().chain(&self.spawns).any(|word| word.find(line).is_some()) || self.is_report(line)
    }

    /// Whether it is the result of a call that started an agent.
    fn is_report(&self, line: &[u8]) -> bool {
        !self.calls.is_empty()
            && memchr::memmem::find(line, b"\"tool_result\"").is_some()
            && blocks(line).any(|block| self.calls.contains(&*block.tool_use_id))
    }

    /// Puts a line down with long texts cut. Returns whether it could be read at all.
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

fn is_named(spawn: &Finder<'_>, name: &str) -> bool {
    spawn.needle().strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(name.as_bytes())
}

fn line_at(lines: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = memchr::memrchr(b'\n', lines.get(..at).unwrap_or_default()).map_or(0, |end| end + 1);
    let end = memchr::memchr(b'\n', lines.get(at..).unwrap_or_default()).map_or(lines.len(), |end| at + end);
    start..end
}

fn blocks(line: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let content = serde_json::from_slice::<Line<'_>>(line).map(|line| line.message.content);
    content.unwrap_or_default().into_iter().filter_map(|block| serde_json::from_str(block.get()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAWN: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Agent","input":{}}]},"session_id":"s"}"#;

    #[test]
    fn starts_endings_and_reports_are_gist_and_other_calls_are_not() {
        let mut gist = LifecycleFilter::new(Dialect::ClaudeStream);
        assert_eq!(gist.learn(format!("{SPAWN}\n").as_bytes()), None);
        assert!(gist.holds(SPAWN.as_bytes()));
        for line in [
            r#"{"type":"user","message":{"content":[{"tool_use_id":"t1","type":"tool_result","content":"done"}]}}"#,
            r#"{"type":"system","subtype": "task_notification","task_id":"a"}"#,
            r#"{"type":"system","subtype":"task_started","task_id":"a"}"#,
            r#"{"duration_ms":1,"type": "result","subtype":"success"}"#,
        ] {
            assert!(gist.holds(line.as_bytes()), "{line}");
        }
        for line in [
            r#"{"type":"user","message":{"content":[{"tool_use_id":"t2","type":"tool_result","content":"done"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Read","input":{}}]}}"#,
            r#"{"type":"system","subtype":"task_progress","task_id":"a"}"#,
            "not json",
        ] {
            assert!(!gist.holds(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn the_last_session_that_is_opened_is_learnt() {
        let mut gist = LifecycleFilter::new(Dialect::ClaudeStream);
        let lines = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"a\"}\n{}\n{\"subtype\":\"init\",\"session_id\":\"b\"}\n{}\n";
        assert_eq!(gist.learn(lines.as_bytes()).as_deref(), Some("b"));
        assert_eq!(session_of(b"{\"sessionId\":\"c\"}").as_deref(), Some("c"));
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
