//! CSV export (RFC 4180): a record per agent, in tree order.
//!
//! Spreadsheets evaluate cells that begin like a formula, and texts come from agents: such cells get a leading
//! apostrophe (OWASP, "CSV Injection"). Control characters are not allowed in a cell (RFC 4180, TEXTDATA) and control
//! terminals: they are replaced by their Unicode pictures.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use csv::{Terminator, WriterBuilder};
use subscope_model::{Agent, Tree, iso8601};

use crate::redact::{Mask, redact};

/// An agent to be written.
struct Row<'r> {
    tree: &'r Tree,
    agent: &'r Agent,
    mask: Mask,
}

/// Formats the cell of a row.
type Cell = fn(&Row<'_>) -> String;

/// The columns: name and cell.
const COLUMNS: [(&str, Cell); 28] = [
    ("session", |row| row.text(Some(&row.tree.session.id))),
    ("agent", |row| row.text(Some(&row.agent.id))),
    ("parent", |row| row.text(row.agent.parent_id.as_deref())),
    ("depth", |row| row.agent.depth.to_string()),
    ("type", |row| row.text(row.agent.agent_type.as_deref())),
    ("description", |row| row.text(row.agent.description.as_deref())),
    ("model", |row| row.text(row.agent.model.as_deref())),
    ("status", |row| row.agent.status.as_str().to_owned()),
    ("flags", |row| row.agent.flags.iter().map(|flag| flag.as_str()).collect::<Vec<_>>().join(" ")),
    ("started", |row| optional(row.agent.started_at_ms.map(iso8601))),
    ("ended", |row| optional(row.agent.ended_at_ms.map(iso8601))),
    ("wall_ms", |row| optional(row.agent.wall_ms)),
    ("tool_calls", |row| row.agent.tool_calls.to_string()),
    ("tool_errors", |row| row.agent.tool_errors.to_string()),
    ("tools_denied", |row| row.agent.tools_denied.to_string()),
    ("input_tokens", |row| optional(row.agent.usage.map(|usage| usage.input_tokens))),
    ("output_tokens", |row| optional(row.agent.usage.map(|usage| usage.output_tokens))),
    ("cache_read_tokens", |row| optional(row.agent.usage.map(|usage| usage.cache_read_tokens))),
    ("cache_write_tokens", |row| optional(row.agent.usage.map(|usage| usage.cache_write_tokens))),
    ("total_tokens", |row| optional(row.agent.usage.map(|usage| usage.total_tokens))),
    ("tokens_are_floor", |row| optional(row.agent.usage.map(|usage| usage.floor))),
    ("cost_micro_usd", |row| optional(row.agent.cost_micro_usd)),
    ("cost_is_floor", |row| row.agent.cost_floor.to_string()),
    ("subtree_agents", |row| row.agent.subtree.agents.to_string()),
    ("subtree_total_tokens", |row| optional(row.agent.subtree.usage.map(|usage| usage.total_tokens))),
    ("subtree_cost_micro_usd", |row| optional(row.agent.subtree.cost_micro_usd)),
    ("result", |row| row.text(row.agent.result.as_deref())),
    ("error", |row| row.text(row.agent.error.as_deref())),
];

/// Writes a session's agents; unknown values are empty cells.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub(crate) fn write_csv(tree: &Tree, mask: Mask, w: &mut dyn Write) -> io::Result<()> {
    let mut w = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(w);
    w.write_record(COLUMNS.map(|(name, _)| name))?;
    for agent in &tree.agents {
        w.write_record(COLUMNS.map(|(_, cell)| cell(&Row { tree, agent, mask })))?;
    }
    w.flush()
}

/// Returns a table as CSV. Its cells are made safe for spreadsheets and terminals as those of [`write_csv`].
///
/// # Errors
/// If records differ in length.
pub fn csv_table<C: AsRef<str>>(records: impl IntoIterator<Item = Vec<C>>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut w = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(&mut bytes);
    for record in records {
        w.write_record(record.iter().map(|cell| text(cell.as_ref(), Mask::Nothing)))?;
    }
    w.flush()?;
    drop(w);
    Ok(bytes)
}

impl Row<'_> {
    fn text(&self, value: Option<&str>) -> String {
        value.map(|value| text(value, self.mask)).unwrap_or_default()
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Masks a text and makes it safe for spreadsheets.
fn text(value: &str, mask: Mask) -> String {
    let value = match mask {
        Mask::Secrets => redact(value),
        Mask::Nothing => Cow::Borrowed(value),
    };
    let is_formula =
        value.trim_start().starts_with(['=', '+', '-', '@', '|', '%']) || value.starts_with(['\t', '\r']);
    let apostrophe = is_formula.then_some('\'');
    apostrophe.into_iter().chain(value.chars().map(visible)).collect()
}

/// Replaces a control character by its picture (Unicode, "Control Pictures"); tabs and line ends stay.
fn visible(character: char) -> char {
    let code = u32::from(character);
    match character {
        '\t' | '\n' | '\r' => character,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        _ if character.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use csv::{Reader, ReaderBuilder};
    use proptest::prelude::*;
    use subscope_model::AgentStatus;

    use super::*;
    use crate::sample;

    fn written(tree: &Tree, mask: Mask) -> String {
        let mut out = Vec::new();
        write_csv(tree, mask, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_agent_is_a_record_with_as_many_cells_as_the_head() {
        let root = sample::agent("root", 0, AgentStatus::Completed);
        let one = sample::child("a1", &root, AgentStatus::Failed, [0, 1_500]);
        let text = written(&sample::tree(vec![one]), Mask::Nothing);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 3, "{text}");
        let cells = lines[0].split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == cells), "{text}");
        assert!(lines[2].contains("a1,root,1,Explore,Look at a1"), "{text}");
        assert!(lines[2].contains(",failed,") && lines[2].contains(",1500,"), "{text}");
    }

    #[test]
    fn text_is_never_a_formula() {
        for formula in
            ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", "  =1", "\r=1", "\n=1", "|x", "%y"]
        {
            let cell = text(formula, Mask::Nothing);
            assert!(cell.starts_with('\''), "{cell}");
        }
    }

    #[test]
    fn secrets_are_masked_before_they_are_quoted() {
        let mut agent = sample::agent("a1", 1, AgentStatus::Completed);
        agent.result = Some(format!("say \"it\",\nghp{}", "_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8").into());
        let tree = sample::tree(vec![agent]);
        assert!(written(&tree, Mask::Secrets).contains(",\"say \"\"it\"\",\n[redacted]\","));
        assert!(written(&tree, Mask::Nothing).contains("\nghp_"));
    }

    proptest! {
        #[test]
        fn a_reader_of_csv_gets_every_text_back(result in any::<String>(), error in "[\\PC\"',;\r\n\t=+]{0,40}") {
            let mut agent = sample::agent("a1", 1, AgentStatus::Completed);
            (agent.result, agent.error) = (Some(result.as_str().into()), Some(error.as_str().into()));
            let table = written(&sample::tree(vec![agent]), Mask::Nothing);
            prop_assert!(table.starts_with("session,agent,") && table.ends_with("\r\n"));
            let mut reader: Reader<&[u8]> = ReaderBuilder::new().from_reader(table.as_bytes());
            prop_assert_eq!(reader.headers().unwrap(), &COLUMNS.map(|(name, _)| name)[..]);
            let records: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(records.len(), 2);
            prop_assert_eq!(&records[1][26], &text(&result, Mask::Nothing));
            prop_assert_eq!(&records[1][27], &text(&error, Mask::Nothing));
            prop_assert!(!table.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r')));
        }
    }
}
