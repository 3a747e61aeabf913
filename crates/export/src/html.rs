//! A session as a page in one file: the page that `serve` shows, with the session in it.
//!
//! The page is passed in, cut where the data belongs: a script element that is data and never runs. Its own policy lets only
//! its own script run.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use subscope_model::{Event, Tree};

use crate::redact::{Mask, Redacted};

/// What a saved page carries.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Saved<'s, T> {
    /// The session's rows.
    pub tree: &'s Tree,
    /// The session against the wall clock; `None` where nothing in it has a time.
    pub timeline: Option<T>,
    /// Everything that happened, in order of time.
    pub events: &'s [Event],
}

/// Writes a saved page: what comes before the data, the data, what comes behind it.
///
/// # Errors
/// What the writer gives; what was written until then stays.
pub fn write_html<T: Serialize>(
    page: (&str, &str),
    saved: &Saved<'_, T>,
    mask: Mask,
    w: &mut dyn Write,
) -> io::Result<()> {
    // The page's own script stays as it is: its policy names its hash.
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
    write_inert(&data, &mut w)?;
    w.write_all(page.1.as_bytes())?;
    w.flush()
}

/// Writes JSON in which nothing ends its element or begins another, and nothing acts on a terminal: `<` and what is not
/// ASCII stand only within its strings, where `\u003c` means the same.
fn write_inert(json: &str, w: &mut dyn Write) -> io::Result<()> {
    let mut rest = json;
    let acts = |character: char| character == '<' || character == '\u{7f}' || !character.is_ascii();
    while let Some(at) = rest.find(acts) {
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
        let saved = Saved { tree: &tree, timeline: None::<()>, events: &[] };
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
