//! Detects the dialect of a source by its content.

use std::{borrow::Cow, sync::LazyLock};

use aho_corasick::AhoCorasick;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use memchr::memmem::{self, Finder};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use subscope_decode::{
    Dialect,
    otlp::{GENAI_SPANS, OtelSource, source_of_line},
    recognize as recognize_own,
};

use crate::{
    HeadLine,
    acp::{self, is_message as is_acp},
    forks::{fork_words, writer},
    harness_of, harnesses, otel_sources,
    unsupported::{line_words, program_by_content},
};

/// Most leading fields read of a line that is cut by the end of the head.
const LEADING_FIELDS: usize = 24;

/// Returns the dialect of a source from its first bytes (64 KiB are plenty); `None` where no line is recognized, or a
/// program that is not supported wrote them. Lines that are not JSON are skipped: a stream may begin with a warning.
pub fn recognize(head: &[u8]) -> Option<Dialect> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let words = WORDS.find_in(head);
    if let Some(dialect) = otel_dialect(head, &words) {
        return Some(dialect);
    }
    let text = text_of(head);
    if program_by_content(head, &text, &words).is_some() {
        return None;
    }
    let mut lines = head.split(|byte| *byte == b'\n');
    let found = dialect_of_object(&text)
        .or_else(|| dialect_of_array(&text))
        .or_else(|| lines.find_map(dialect_of_line))?;
    let fork = harness_of(found).and_then(|harness| harness.fork_of(found, head));
    Some(fork.or_else(|| writer(found, head, &words)).unwrap_or(found))
}

/// Words by which a line of OpenTelemetry records is known.
const OTEL_WORDS: [&[u8]; 5] = [
    b"\"resourceSpans\"",
    b"\"resourceLogs\"",
    b"\"resourceMetrics\"",
    b"\"content_type\"",
    b"\"instrumentationScope\"",
];

/// Words that are searched for in every source.
pub(crate) static WORDS: LazyLock<SearchedWords> =
    LazyLock::new(|| SearchedWords::new(OTEL_WORDS.into_iter().chain(line_words()).chain(fork_words())));

/// Words that are searched for in one pass, because most sources have none of them.
pub(crate) struct SearchedWords {
    any: Option<AhoCorasick>,
    each: Vec<Finder<'static>>,
}

impl SearchedWords {
    fn new(words: impl IntoIterator<Item = &'static [u8]>) -> Self {
        let words: Vec<&'static [u8]> = words.into_iter().collect();
        let any = AhoCorasick::new(&words).ok();
        Self { any, each: words.into_iter().map(Finder::new).collect() }
    }

    /// Returns those that occur.
    pub(crate) fn find_in(&self, text: &[u8]) -> Vec<&Finder<'static>> {
        if self.any.as_ref().is_some_and(|any| !any.is_match(text)) {
            return Vec::new();
        }
        self.each.iter().filter(|word| word.find(text).is_some()).collect()
    }
}

/// Returns bytes as text: what is not UTF-8 in them is replaced.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // Nearly all is UTF-8, for which this is much faster.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the dialect of a source of OpenTelemetry records: that of the first line that is of a known program or
/// session. `words` are those that occur.
fn otel_dialect(head: &[u8], words: &[&Finder<'_>]) -> Option<Dialect> {
    let words: Vec<&Finder<'_>> =
        words.iter().copied().filter(|word| OTEL_WORDS.contains(&word.needle())).collect();
    if words.is_empty() {
        return None;
    }
    let sources = otel_sources();
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let is_object = line.trim_ascii_start().starts_with(b"{");
        if !is_object || words.iter().all(|word| word.find(line).is_none()) {
            return None;
        }
        let text = text_of(line);
        match serde_json::from_str::<IgnoredAny>(&text) {
            Ok(IgnoredAny) => source_of_line(&sources, &text).map(|source| source.dialect),
            Err(_) => otel_dialect_of_cut(&sources, line),
        }
    })
}

/// Returns the dialect of a line that is cut: by the names of scopes and services in it. A body in base64 is read as far
/// as it goes.
fn otel_dialect_of_cut(sources: &[&'static OtelSource], line: &[u8]) -> Option<Dialect> {
    let start = line.get(..LEADING_BYTES).unwrap_or(line);
    let has = |word: &[u8]| memmem::find(start, word).is_some();
    let is_request = OTEL_WORDS.iter().take(3).any(|word| has(word));
    let is_wrapped = has(b"\"content_type\"") && has(b"\"path\"");
    if !is_request && !is_wrapped {
        return None;
    }
    let decoded = memmem::find(line, PROTOBUF_TYPE).and_then(|_| {
        let begin = memmem::find(line, b"\"body\"")? + 6;
        let text = line
            .get(begin..)?
            .trim_ascii_start()
            .strip_prefix(b":")?
            .trim_ascii_start()
            .strip_prefix(b"\"")?;
        STANDARD.decode(text.get(..text.len() / 4 * 4)?).ok()
    });
    let is_protobuf = decoded.is_some();
    let bytes = decoded.as_deref().unwrap_or(line);
    // Names are texts of their own: between quotes, or control characters of protobuf.
    let names = bytes.split(|byte| *byte == b'"' || (is_protobuf && *byte < b' '));
    // The length of a name may be a letter in front of it.
    let names = names.flat_map(|name| [Some(name), name.get(1..).filter(|_| is_protobuf)]).flatten();
    let names: Vec<&str> = names.filter_map(|name| std::str::from_utf8(name).ok()).collect();
    let by = |is_of: &dyn Fn(&OtelSource, &str) -> bool| {
        names
            .iter()
            .find_map(|name| sources.iter().copied().chain([&GENAI_SPANS]).find(|source| is_of(source, name)))
    };
    let by_scope = by(&|source, name| (source.has_scope)(name));
    let by_service = || by(&|source, name| (source.has_service)(name));
    let has_spans = || names.contains(&"gen_ai.operation.name").then_some(&GENAI_SPANS);
    by_scope.or_else(by_service).or_else(has_spans).map(|source| source.dialect)
}

/// How many bytes of a cut line are searched for what makes it a request.
const LEADING_BYTES: usize = 400;
/// The content type of a body in base64.
const PROTOBUF_TYPE: &[u8] = b"x-protobuf\"";

fn dialect_of_line(line: &[u8]) -> Option<Dialect> {
    let text = text_of(line);
    let text = text.trim();
    // A line of a stream of server-sent events.
    let text = text.strip_prefix("data:").map_or(text, str::trim_start);
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(IgnoredAny) => dialect_of(HeadLine { object: text, is_cut: false }),
        Err(_) => {
            leading_fields(text).and_then(|fields| dialect_of(HeadLine { object: &fields, is_cut: true }))
        }
    }
}

/// Returns the dialect of a source that begins with an object on many lines.
fn dialect_of_object(head: &str) -> Option<Dialect> {
    let text = head.trim_start();
    text.strip_prefix('{')?.trim_start_matches([' ', '\r']).strip_prefix('\n')?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    match values.next()? {
        Ok(value) => dialect_of(HeadLine { object: value.get(), is_cut: false }),
        Err(_) => {
            leading_fields(text).and_then(|fields| dialect_of(HeadLine { object: &fields, is_cut: true }))
        }
    }
}

/// Returns the dialect of a source that is an array of objects: that of the first element that is recognized.
fn dialect_of_array(head: &str) -> Option<Dialect> {
    let mut rest = head.trim_start().strip_prefix('[')?.trim_start();
    while rest.starts_with('{') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else {
            let fields = leading_fields(rest)?;
            return dialect_of(HeadLine { object: &fields, is_cut: true });
        };
        if let Some(dialect) = dialect_of(HeadLine { object: value.get(), is_cut: false }) {
            return Some(dialect);
        }
        rest = rest.get(values.byte_offset()..)?.trim_start().strip_prefix(',')?.trim_start();
    }
    None
}

fn dialect_of(line: HeadLine<'_>) -> Option<Dialect> {
    let of_protocol = || is_acp(line.object).then_some(acp::MESSAGES);
    let by_harness = || harnesses().find_map(|harness| harness.recognize(line));
    recognize_own(line.object).or_else(by_harness).or_else(of_protocol)
}

/// Returns an object of the leading fields of a line that the head cuts off: as many as can be read.
pub(crate) fn leading_fields(text: &str) -> Option<String> {
    let commas = text.char_indices().filter(|(_, letter)| *letter == ',').map(|(at, _)| at);
    let cuts: Vec<usize> = commas.take(LEADING_FIELDS).collect();
    let objects = cuts.into_iter().rev().filter_map(|at| Some(format!("{}}}", text.get(..at)?)));
    objects.into_iter().find(|object| serde_json::from_str::<IgnoredAny>(object).is_ok())
}

#[cfg(test)]
mod tests {
    use subscope_decode::{FEED, STOP_ORDERS, SUBAGENT_EVENTS};

    use super::*;
    use crate::claude_code::{HOOK, JOURNAL, META, STREAM, TRANSCRIPT};

    #[test]
    fn recognize_each_dialect_by_content() {
        let cases: [(&str, Option<Dialect>); 12] = [
            (r#"{"type":"system","subtype":"init","session_id":"s"}"#, Some(STREAM)),
            (r#"{"type":"assistant","message":"Hello"}"#, Some(STREAM)),
            (r#"{"parentUuid":null,"sessionId":"s","type":"user"}"#, Some(TRANSCRIPT)),
            (r#"{"type":"summary","summary":"x","leafUuid":"u"}"#, Some(TRANSCRIPT)),
            (r#"{"session_id":"s","hook_event_name":"Stop"}"#, Some(HOOK)),
            (r#"{"subagentName":"a","subagentRunID":"r","type":"tool_call"}"#, Some(SUBAGENT_EVENTS)),
            (r#"{"schema":"subscope.event/1","id":"x","kind":"usage"}"#, Some(FEED)),
            (r#"{"schema":"subscope.stop/1","step":"asked"}"#, Some(STOP_ORDERS)),
            (r#"{"agentType":"Explore","toolUseId":"t"}"#, Some(META)),
            (r#"{"type":"started","key":"v2:1","agentId":"a1"}"#, Some(JOURNAL)),
            ("warning: x\n{\"type\":\"result\",\"session_id\":\"s\"}", Some(STREAM)),
            ("hello", None),
        ];
        for (line, expected) in cases {
            assert_eq!(recognize(line.as_bytes()), expected, "{line}");
        }
        let cut = r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"role":"user","content":"cu"#;
        assert_eq!(recognize(cut.as_bytes()), Some(TRANSCRIPT));
    }

    #[test]
    fn recognize_what_no_harness_writes_as_nothing() {
        for line in [
            r#"{"foo":1}"#,
            // `logs.json` of Gemini CLI: prompts, of all sessions of a folder.
            r#"[{"sessionId":"s","messageId":0,"type":"user","message":"hello","timestamp":"2026-02-24T03:00:00.000Z"}]"#,
            "[1, 2]",
            "7",
            // A line of a chat of Gemini CLI 0.61.0 that other programs may write, too.
            r#"{"id":"1","timestamp":"2026-11-21T20:43:19.452Z","type":"user","content":[{"text":"do the demo"}]}"#,
        ] {
            assert_eq!(recognize(line.as_bytes()), None, "{line}");
        }
    }
}
