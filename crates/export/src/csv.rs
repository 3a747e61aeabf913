//! A session's agents as a table, for spreadsheets: RFC 4180, a line an agent, in the order of the tree.
//!
//! A spreadsheet takes a cell that begins like a formula for one. Text is the agents' own, so such cells get an apostrophe in
//! front (OWASP, "CSV Injection").

use std::io::{self, BufWriter, Write};

use subscope_model::{Agent, Millis, Tree, Usage, iso8601};

const HEAD: &str = "session,agent,parent,depth,type,description,model,status,flags,started,ended,wall_ms,tool_calls,\
    tool_errors,tools_denied,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,total_tokens,tokens_are_floor,\
    cost_micro_usd,cost_is_floor,subtree_agents,subtree_total_tokens,subtree_cost_micro_usd,result,error\r\n";

/// Writes a session's agents. What is not known is an empty cell.
///
/// # Errors
/// What the writer gives; what was written until then stays.
pub fn write_csv(tree: &Tree, w: &mut dyn Write) -> io::Result<()> {
    let mut w = BufWriter::new(w);
    w.write_all(HEAD.as_bytes())?;
    for agent in &tree.agents {
        let cells = cells(tree, agent);
        w.write_all(cells.join(",").as_bytes())?;
        w.write_all(b"\r\n")?;
    }
    w.flush()
}

fn cells(tree: &Tree, agent: &Agent) -> Vec<String> {
    let time = |at: Option<Millis>| at.map(iso8601).unwrap_or_default();
    let usage = |of: fn(&Usage) -> u64| number(agent.usage.as_ref().map(of));
    let below = &agent.subtree;
    let flags: Vec<&str> = agent.flags.iter().map(|flag| flag.as_str()).collect();
    vec![
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

/// A cell that no spreadsheet computes, and that no other cell can be mistaken for.
fn text(value: Option<&str>) -> String {
    let Some(value) = value else { return String::new() };
    let is_formula =
        value.trim_start().starts_with(['=', '+', '-', '@', '|', '%']) || value.starts_with(['\t', '\r']);
    let guard = if is_formula { "'" } else { "" };
    // NUL ends a cell for some readers.
    format!("\"{guard}{}\"", value.replace('"', "\"\"").replace('\0', "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use subscope_model::AgentStatus;

    use super::*;
    use crate::sample;

    fn written(tree: &Tree) -> String {
        let mut out = Vec::new();
        write_csv(tree, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_agent_is_a_line_with_as_many_cells_as_the_head() {
        let root = sample::agent("root", 0, AgentStatus::Completed);
        let one = sample::child("a1", &root, AgentStatus::Failed, [0, 1_500]);
        let text = written(&sample::tree(vec![one]));
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 3, "{text}");
        let cells = lines[0].split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == cells), "{text}");
        assert!(lines[2].contains("\"a1\",\"root\",1,\"Explore\",\"Look at a1\""), "{text}");
        assert!(lines[2].contains(",failed,") && lines[2].contains(",1500,"), "{text}");
    }

    #[test]
    fn text_is_never_a_formula_and_never_ends_its_cell() {
        for formula in ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", "  =1", "\r=1", "|x", "%y"] {
            let cell = text(Some(formula));
            assert!(cell.starts_with("\"'"), "{cell}");
        }
        assert_eq!(text(Some("a \"b\", c\nd")), "\"a \"\"b\"\", c\nd\"");
        assert_eq!((text(None), text(Some(""))), (String::new(), "\"\"".to_owned()));
    }
}
