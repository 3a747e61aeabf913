//! CSV export (RFC 4180): a record per agent, in tree order.
//!
//! Spreadsheets run cells that begin like a formula, and texts come from agents: such cells get a leading apostrophe (OWASP, "CSV
//! Injection"). Control characters are not allowed in a cell (RFC 4180, TEXTDATA) and control terminals: they are replaced by their
//! Unicode pictures.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use csv::{Terminator, WriterBuilder};
use subscope_model::{Agent, Millis, Tree, Usage, iso8601};

use crate::redact::{Mask, redact};

const COLUMNS: [&str; 28] = [
    "session",
    "agent",
    "parent",
    "depth",
    "type",
    "description",
    "model",
    "status",
    "flags",
    "started",
    "ended",
    "wall_ms",
    "tool_calls",
    "tool_errors",
    "tools_denied",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
    "tokens_are_floor",
    "cost_micro_usd",
    "cost_is_floor",
    "subtree_agents",
    "subtree_total_tokens",
    "subtree_cost_micro_usd",
    "result",
    "error",
];

/// Writes a session's agents; unknown values are empty cells.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_csv(tree: &Tree, mask: Mask, w: &mut dyn Write) -> io::Result<()> {
    let mut w = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(w);
    w.write_record(COLUMNS)?;
    for agent in &tree.agents {
        w.write_record(cells(tree, agent, mask))?;
    }
    w.flush()
}

fn cells(tree: &Tree, agent: &Agent, mask: Mask) -> [String; COLUMNS.len()] {
    let text = |value: Option<&str>| value.map(|value| text(value, mask)).unwrap_or_default();
    let time = |at: Option<Millis>| at.map(iso8601).unwrap_or_default();
    let usage = |of: fn(&Usage) -> u64| number(agent.usage.as_ref().map(of));
    let below = &agent.subtree;
    let flags: Vec<&str> = agent.flags.iter().map(|flag| flag.as_str()).collect();
    [
        text(Some(&tree.session.id)),
        text(Some(&agent.id)),
        text(agent.parent_id.as_deref()),
        agent.depth.to_string(),
        text(agent.agent_type.as_deref()),
        text(agent.description.as_deref()),
        text(agent.model.as_deref()),
        agent.status.as_str().to_owned(),
        flags.join(" "),
        time(agent.started_at_ms),
        time(agent.ended_at_ms),
        number(agent.wall_ms),
        agent.tool_calls.to_string(),
        agent.tool_errors.to_string(),
        agent.tools_denied.to_string(),
        usage(|usage| usage.input_tokens),
        usage(|usage| usage.output_tokens),
        usage(|usage| usage.cache_read_tokens),
        usage(|usage| usage.cache_write_tokens),
        usage(|usage| usage.total_tokens),
        agent.usage.as_ref().map(|usage| usage.floor.to_string()).unwrap_or_default(),
        number(agent.cost_micro_usd),
        agent.cost_floor.to_string(),
        below.agents.to_string(),
        number(below.usage.as_ref().map(|usage| usage.total_tokens)),
        number(below.cost_micro_usd),
        text(agent.result.as_deref()),
        text(agent.error.as_deref()),
    ]
}

fn number(value: Option<impl ToString>) -> String {
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
            prop_assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
            let records: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(records.len(), 2);
            prop_assert_eq!(&records[1][26], &text(&result, Mask::Nothing));
            prop_assert_eq!(&records[1][27], &text(&error, Mask::Nothing));
            prop_assert!(!table.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r')));
        }
    }
}
