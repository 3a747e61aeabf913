//! What Claude Code prints without `--output-format`, made of what it prints with `stream-json`.
//!
//! Observed with 2.1.110 to 2.1.330: a session with background agents has several results. Up to 2.1.250 the last one
//! is printed, from 2.1.300 on each, with a blank line between them. A text gets a line end where it has none; the
//! words for other endings have none.

use serde::Deserialize;
use subscope_decode::lenient::Str;

use crate::PlainOutput;

/// The first version that was seen to print every result.
const PRINTS_EACH: [u32; 3] = [2, 1, 300];
/// Longest line that is parsed as a result: no real result is longer.
const LINE_BYTES: usize = 64 << 20;

/// Makes the plain output of the stream.
#[derive(Debug, Default)]
pub(super) struct Plain {
    limits: PlainLimits,
    partial: Vec<u8>,
    is_overlong: bool,
    prints_each: bool,
    has_printed: bool,
    held: Option<String>,
}

/// Limits given as options: the message for a reached limit quotes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PlainLimits {
    /// `--max-turns`.
    pub(super) turns: Option<String>,
    /// `--max-budget-usd`.
    pub(super) budget: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    result: Str<'a>,
    claude_code_version: Str<'a>,
}

impl PlainOutput for Plain {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() + piece.len() > LINE_BYTES {
                self.is_overlong = true;
                self.partial = Vec::new();
            }
            if !self.is_overlong {
                self.partial.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                if !std::mem::take(&mut self.is_overlong) {
                    self.take(&line, out);
                }
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.take(&line, out);
        }
        if let Some(text) = self.held.take() {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl Plain {
    /// For a run with these options.
    pub(super) fn new(limits: PlainLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    fn take(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if !line.trim_ascii_start().starts_with(b"{") {
            // A message of the program itself, which it prints in both forms.
            out.extend_from_slice(line);
            return;
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return };
        if let Some(version) = line.claude_code_version.filled() {
            self.prints_each = numbers(version) >= Some(PRINTS_EACH);
        }
        if !line.kind.is("result") {
            return;
        }
        let Some(text) = self.words(&line) else { return };
        if !self.prints_each {
            self.held = Some(text);
            return;
        }
        if std::mem::replace(&mut self.has_printed, true) {
            out.push(b'\n');
        }
        out.extend_from_slice(text.as_bytes());
    }

    fn words(&self, line: &Line<'_>) -> Option<String> {
        let limit = |value: &Option<String>| value.clone().unwrap_or_else(|| "undefined".to_owned());
        Some(match line.subtype.get()? {
            "success" => {
                let text = line.result.get().unwrap_or_default();
                if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
            }
            "error_during_execution" => "Execution error".to_owned(),
            "error_max_turns" => format!("Error: Reached max turns ({})", limit(&self.limits.turns)),
            "error_max_budget_usd" => {
                format!("Error: Exceeded USD budget ({})", limit(&self.limits.budget))
            }
            "error_max_structured_output_retries" => {
                "Error: Failed to provide valid structured output after maximum retries".to_owned()
            }
            _ => return None,
        })
    }
}

fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(limits: PlainLimits, stream: &str) -> String {
        let mut whole = None;
        for size in [1, 7, stream.len().max(1)] {
            let (mut plain, mut out) = (Plain::new(limits.clone()), Vec::new());
            stream.as_bytes().chunks(size).for_each(|chunk| plain.push(chunk, &mut out));
            plain.finish(&mut out);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(whole.get_or_insert_with(|| text.clone()), &text);
        }
        whole.unwrap()
    }

    const TWO: &str = "{\"type\":\"assistant\"}\n{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"one\"}\n\
        {\"type\":\"result\",\"subtype\":\"success\",\"result\":\"two\\n\"}";

    #[test]
    fn each_result_or_the_last_as_the_version_prints_it() {
        let init = |version| {
            format!(
                "{{\"type\":\"system\",\"subtype\":\"init\",\"claude_code_version\":\"{version}\"}}\n{TWO}"
            )
        };
        let none = PlainLimits::default();
        assert_eq!(plain(none.clone(), &init("2.1.330")), "one\n\ntwo\n");
        assert_eq!(plain(none.clone(), &init("2.1.250")), "two\n");
        assert_eq!(plain(none.clone(), TWO), "two\n");
        assert_eq!(plain(none, "Warning: no stdin\n{\"type\":\"system\"}\n"), "Warning: no stdin\n");
    }

    #[test]
    fn other_endings_have_the_words_of_the_program() {
        let result = |subtype| format!("{{\"type\":\"result\",\"subtype\":\"{subtype}\"}}\n");
        let limits = PlainLimits { turns: Some("3".to_owned()), budget: None };
        assert_eq!(plain(limits.clone(), &result("error_max_turns")), "Error: Reached max turns (3)");
        assert_eq!(plain(limits, &result("error_during_execution")), "Execution error");
    }
}
