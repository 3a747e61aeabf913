//! Export as one HTML file: the web page of `serve` with a session embedded.
//!
//! The page is passed in as two parts; the data goes between them, into a script element of a data type that never
//! runs. The page's content security policy allows its own script only.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use subscope_model::{Event, Spending, Tree};

use crate::redact::{Mask, Redacted};

/// Data embedded in an exported page.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Saved<'s, T> {
    /// Rows of the session.
    pub tree: &'s Tree,
    /// Timeline; `None` if nothing has a time.
    pub timeline: Option<T>,
    /// What agents spent over time; `None` if only rows are known.
    pub spending: Option<&'s Spending>,
    /// All events in order of time.
    pub events: &'s [Event],
}

/// Writes a page: the part before the data, the data, the part after it.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_html<T: Serialize>(
    page: (&str, &str),
    saved: &Saved<'_, T>,
    mask: Mask,
    w: &mut dyn Write,
) -> io::Result<()> {
    // Only the data is masked: the page's policy contains the hash of its script.
    let data = match mask {
        Mask::Secrets => {
            let mut out = Redacted::new(Vec::new());
            serde_json::to_writer(&mut out, saved)?;
            String::from_utf8(out.finish()?).map_err(io::Error::other)?
        }
        Mask::Nothing => serde_json::to_string(saved)?,
    };
    let mut w = BufWriter::new(w);
    w.write_all(page.0.as_bytes())?;
    write_escaped(&data, &mut w)?;
    w.write_all(page.1.as_bytes())?;
    w.flush()
}

/// Writes JSON with `<`, DEL and non-ASCII characters as `\u` escapes, so that it cannot end its element or control a
/// terminal. They only occur within strings.
fn write_escaped(json: &str, w: &mut dyn Write) -> io::Result<()> {
    let mut rest = json;
    let is_unsafe = |character: char| character == '<' || character == '\u{7f}' || !character.is_ascii();
    while let Some(at) = rest.find(is_unsafe) {
        let (before, after) = rest.split_at(at);
        w.write_all(before.as_bytes())?;
        let Some(character) = after.chars().next() else { break };
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(w, "\\u{unit:04x}")?;
        }
        rest = after.get(character.len_utf8()..).unwrap_or_default();
    }
    w.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use subscope_model::AgentStatus;

    use super::*;
    use crate::sample;

    #[test]
    fn data_neither_ends_its_element_nor_changes() {
        let mut agent = sample::agent("a1", 1, AgentStatus::Completed);
        let hostile = "</script><script>alert(1)</script><!-- \u{2028}\u{202e} 𝄞ü\u{7f} & \"";
        agent.result = Some(hostile.into());
        agent.error = Some("token ghp_abcdefghijklmnopqrstuvwxyz012345".into());
        let tree = sample::tree(vec![agent]);
        let saved = Saved { tree: &tree, timeline: None::<()>, spending: None, events: &[] };
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
