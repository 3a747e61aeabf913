//! Export as one HTML file: the web page of `serve` with a session embedded.
//!
//! The page is passed in as two parts; the data goes between them, into a script element of a data type that never
//! runs. The page's content security policy allows its own script only.

use std::io::{self, BufWriter, Write};

use serde::{Serialize, Serializer};
use subscope_model::{Event, Spending, Tree};

use crate::redact::{Mask, Redacted};

/// Data embedded in an exported page.
#[derive(Clone, Copy, Serialize)]
#[serde(bound = "T: Serialize, E: Iterator<Item = Event> + Clone")]
pub(crate) struct Saved<'s, T, E> {
    /// Rows of the session.
    pub(crate) tree: &'s Tree,
    /// Timeline; `None` if nothing has a time.
    pub(crate) timeline: Option<T>,
    /// What agents spent over time; `None` if only rows are known.
    pub(crate) spending: Option<&'s Spending>,
    /// All events in order of time, each made when it is written.
    #[serde(serialize_with = "serialize_events")]
    pub(crate) events: E,
}

fn serialize_events<S: Serializer>(
    events: &(impl Iterator<Item = Event> + Clone),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(events.clone())
}

/// Bytes that are masked or escaped at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a page: the part before the data, the data, the part after it. One event is in memory at a time.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub(crate) fn write_html<T: Serialize, E: Iterator<Item = Event> + Clone>(
    page: (&str, &str),
    saved: &Saved<'_, T, E>,
    mask: Mask,
    w: &mut dyn Write,
) -> io::Result<()> {
    let mut w = BufWriter::with_capacity(CHUNK_BYTES, w);
    w.write_all(page.0.as_bytes())?;
    // Only the data is masked: the page's policy contains the hash of its script.
    let mut data = ScriptData { inner: &mut w, cut: Vec::new() };
    match mask {
        Mask::Secrets => {
            let mut out = BufWriter::with_capacity(CHUNK_BYTES, Redacted::new(&mut data));
            serde_json::to_writer(&mut out, saved)?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        }
        Mask::Nothing => {
            let mut out = BufWriter::with_capacity(CHUNK_BYTES, &mut data);
            serde_json::to_writer(&mut out, saved)?;
            out.flush()?;
        }
    }
    w.write_all(page.1.as_bytes())?;
    w.flush()
}

/// Writes JSON with `<`, DEL and non-ASCII characters as `\u` escapes, so that it cannot end its element or control a
/// terminal. They only occur within strings.
struct ScriptData<W> {
    inner: W,
    /// Incomplete UTF-8 sequence at the end of the last write.
    cut: Vec<u8>,
}

impl<W: Write> ScriptData<W> {
    fn write_escaped(&mut self, json: &str) -> io::Result<()> {
        let mut rest = json;
        let is_unsafe = |character: char| character == '<' || character == '\u{7f}' || !character.is_ascii();
        while let Some(at) = rest.find(is_unsafe) {
            let (before, after) = rest.split_at(at);
            self.inner.write_all(before.as_bytes())?;
            let Some(character) = after.chars().next() else { break };
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(self.inner, "\\u{unit:04x}")?;
            }
            rest = after.get(character.len_utf8()..).unwrap_or_default();
        }
        self.inner.write_all(rest.as_bytes())
    }
}

impl<W: Write> Write for ScriptData<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut joined = std::mem::take(&mut self.cut);
        let all = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let (whole, cut) = match std::str::from_utf8(all) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (whole, cut) = all.split_at(error.valid_up_to());
                (std::str::from_utf8(whole).map_err(io::Error::other)?, cut)
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        self.write_escaped(whole)?;
        self.cut = cut.to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use subscope_model::AgentStatus;

    use super::*;
    use crate::sample;

    #[test]
    fn data_is_escaped_wherever_it_is_cut() {
        let text = "a<b ü\u{202e}𝄞\u{7f} c";
        let written = |size: usize| {
            let mut out = Vec::new();
            let mut data = ScriptData { inner: &mut out, cut: Vec::new() };
            text.as_bytes().chunks(size).for_each(|piece| data.write_all(piece).unwrap());
            String::from_utf8(out).unwrap()
        };
        for size in 1..text.len() {
            assert_eq!(written(size), r"a\u003cb \u00fc\u202e\ud834\udd1e\u007f c");
        }
    }

    #[test]
    fn data_neither_ends_its_element_nor_changes() {
        let mut agent = sample::agent("a1", 1, AgentStatus::Completed);
        let hostile = "</script><script>alert(1)</script><!-- \u{2028}\u{202e} 𝄞ü\u{7f} & \"";
        agent.result = Some(hostile.into());
        agent.error = Some("token ghp_abcdefghijklmnopqrstuvwxyz012345".into());
        let tree = sample::tree(vec![agent]);
        let saved = Saved { tree: &tree, timeline: None::<()>, spending: None, events: std::iter::empty() };
        for (mask, error) in [
            (Mask::Secrets, "token [redacted]"),
            (Mask::Nothing, "token ghp_abcdefghijklmnopqrstuvwxyz012345"),
        ] {
            let mut out = Vec::new();
            write_html(("<before>", "<behind>"), &saved, mask, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let data = text.strip_prefix("<before>").and_then(|rest| rest.strip_suffix("<behind>")).unwrap();
            assert!(data.is_ascii() && !data.contains('<'), "{data}");
            let back: Value = serde_json::from_str(data).unwrap();
            assert_eq!(back["tree"]["agents"][1]["result"], hostile);
            assert_eq!(back["tree"]["agents"][1]["error"], error);
        }
    }
}
