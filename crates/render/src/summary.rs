//! Renders a session's totals and problems.

use subscope_model::{Agent, AgentStatus, Basis, Problem, Summary, Tree};

use crate::{
    rows::TreeRow,
    style::{Ink, Style, StyledLine, write_lines},
    text,
};

/// Most problems listed; the rest are counted.
const SHOWN_PROBLEMS: usize = 3;

/// Columns of the names.
const NAME_WIDTH: usize = 10;

/// Renders the session's totals, each line ending in a newline: subagents by status, tools, tokens and cost, times,
/// then the first problems.
pub fn render_summary(tree: &Tree, style: &Style) -> String {
    write_lines(summary_lines(tree, style), style)
}

/// Renders the session's totals as lines.
pub fn summary_lines(tree: &Tree, style: &Style) -> Vec<StyledLine> {
    let mut out = Vec::new();
    write_figures(&mut out, &tree.summary, unowned_calls(&tree.agents), style);
    write_problems(&mut out, &tree.problems, style);
    out
}

/// Renders the totals of an agent's subtree, without problems, which belong to the session.
pub(crate) fn of_rows(tree: &Tree, rows: &[TreeRow], top: usize, style: &Style) -> String {
    let subtree = &tree.agents[top].subtree;
    let mut summary = Summary {
        tool_calls: subtree.tool_calls,
        usage: subtree.usage,
        cost_micro_usd: subtree.cost_micro_usd,
        cost_floor: subtree.cost_floor,
        wall_ms: subtree.wall_ms,
        agent_ms: subtree.agent_ms,
        ..Summary::default()
    };
    for row in rows {
        let agent = &tree.agents[row.agent];
        summary.max_depth = summary.max_depth.max(agent.depth);
        summary.tool_errors = summary.tool_errors.saturating_add(agent.tool_errors);
        summary.tools_denied = summary.tools_denied.saturating_add(agent.tools_denied);
        if agent.id.is_root() {
            continue;
        }
        summary.agents += 1;
        *match agent.status {
            AgentStatus::Pending => &mut summary.pending,
            AgentStatus::Running => &mut summary.running,
            AgentStatus::Completed => &mut summary.completed,
            AgentStatus::Failed => &mut summary.failed,
            AgentStatus::Stopped => &mut summary.stopped,
            AgentStatus::Lost => &mut summary.lost,
        } += 1;
    }
    let mut out = Vec::new();
    let unowned = unowned_calls(rows.iter().map(|row| &tree.agents[row.agent]));
    write_figures(&mut out, &summary, unowned, style);
    write_lines(out, style)
}

/// Counts the calls whose agent is unknown: they are listed under the root.
fn unowned_calls<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> usize {
    let calls = agents.into_iter().flat_map(|agent| &agent.tools);
    calls.filter(|call| call.basis == Basis::Unknown).count()
}

fn write_figures(out: &mut Vec<StyledLine>, summary: &Summary, unowned_calls: usize, style: &Style) {
    let states = [
        (summary.running, AgentStatus::Running),
        (summary.pending, AgentStatus::Pending),
        (summary.completed, AgentStatus::Completed),
        (summary.failed, AgentStatus::Failed),
        (summary.stopped, AgentStatus::Stopped),
        (summary.lost, AgentStatus::Lost),
    ];
    let mut agents = vec![(None, summary.agents.to_string())];
    for (count, status) in states.into_iter().filter(|(count, _)| *count > 0) {
        agents.push((Some(Ink::of_status(status)), format!("{count} {}", status.as_str())));
    }
    if summary.max_depth > 0 {
        agents.push((None, format!("depth {}", summary.max_depth)));
    }
    write_parts(out, "agents", agents, style);

    let mut tools = vec![(None, text::plural(summary.tool_calls, "call"))];
    if summary.tool_errors > 0 {
        tools.push((Some(Ink::Failed), text::plural(summary.tool_errors, "error")));
    }
    if summary.tools_denied > 0 {
        tools.push((Some(Ink::Stalled), format!("{} denied", summary.tools_denied)));
    }
    if let Some(asked) = summary.permissions_asked.filter(|asked| *asked > 0) {
        tools.push((None, format!("{asked} asked for permission")));
    }
    if unowned_calls > 0 {
        tools.push((None, format!("{unowned_calls} of unknown owner")));
    }
    write_parts(out, "tools", tools, style);
    write_parts(out, "tokens", spent(summary, style), style);
    write_parts(out, "time", times(summary, style), style);
}

type StyledPart = (Option<Ink>, String);

fn spent(summary: &Summary, style: &Style) -> Vec<StyledPart> {
    let mut parts = Vec::new();
    if let Some(all) = summary.usage {
        parts.push((None, style.usage(Some(all))));
        parts.push((None, format!("{} out", style.tokens(all.output_tokens, all.floor))));
    }
    if let Some(rest) = summary.unattributed_usage.filter(|rest| rest.total_tokens > 0) {
        parts.push((None, format!("{} of no agent", style.usage(Some(rest)))));
    }
    parts.extend(summary.cost_micro_usd.map(|cost| (None, style.money(cost, summary.cost_floor))));
    let in_units = summary.vendor_costs.iter().filter(|cost| cost.amount_micro > 0);
    parts.extend(in_units.map(|cost| (None, text::vendor_cost(*cost))));
    parts
}

fn times(summary: &Summary, style: &Style) -> Vec<StyledPart> {
    let mut parts = Vec::new();
    parts.extend(summary.wall_ms.map(|wall| (None, format!("wall {}", text::duration(Some(wall))))));
    parts.extend(summary.agent_ms.map(|sum| (None, format!("agents {}", text::duration(Some(sum))))));
    if let (Some(wall @ 1..), Some(sum @ 1..)) = (summary.wall_ms, summary.agent_ms) {
        let tenths = sum.saturating_mul(10) / wall;
        // Not shown for sequential agents.
        if tenths > 10 {
            parts.push((None, format!("parallel {}.{}{}", tenths / 10, tenths % 10, style.glyphs().times)));
        }
    }
    parts
}

/// Appends a name and parts, wrapped to the width; nothing without parts.
fn write_parts(out: &mut Vec<StyledLine>, name: &str, parts: Vec<StyledPart>, style: &Style) {
    let dot = format!(" {} ", style.glyphs().dot);
    let mut line = StyledLine::default();
    for (at, (ink, part)) in parts.into_iter().enumerate() {
        let needed = text::width(&dot) + text::width(&part);
        if at == 0 {
            line.push(&text::pad(name, NAME_WIDTH));
        } else if line.width() + needed <= style.width {
            line.push(&dot);
        } else {
            out.push(std::mem::take(&mut line));
            line.push(&" ".repeat(NAME_WIDTH));
        }
        line.add(ink, &part);
    }
    if line.width() > 0 {
        out.push(line);
    }
}

fn write_problems(out: &mut Vec<StyledLine>, problems: &[Problem], style: &Style) {
    for (at, problem) in problems.iter().take(SHOWN_PROBLEMS).enumerate() {
        let name = text::pad(if at == 0 { "problems" } else { "" }, NAME_WIDTH);
        let words = style.one_line(&format!("{}: {}", problem.at, problem.what), style.width);
        out.push(StyledLine::default().with(None, &name).with(Some(Ink::Stalled), &words));
    }
    if let more @ 1.. = problems.len().saturating_sub(SHOWN_PROBLEMS) {
        let words = format!("and {more} more of {}", problems.len());
        out.push(StyledLine::default().with(None, &" ".repeat(NAME_WIDTH)).with(Some(Ink::Stalled), &words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const STYLE: Style = Style { color: false, ascii: false, width: 80 };

    #[test]
    fn leave_out_what_is_unknown() {
        let tree = sample::tree_of_depths(&[0]);
        assert_eq!(render_summary(&tree, &STYLE), "agents    0\ntools     0 calls\n");
    }

    #[test]
    fn count_problems_beyond_the_first() {
        let mut tree = sample::tree_of_depths(&[0]);
        tree.problems = (1..=5)
            .map(|line| Problem { at: format!("a:{line}"), what: "not JSON\u{1b}[2J".into() })
            .collect();
        let text = render_summary(&tree, &STYLE);
        assert!(text.contains("problems  a:1: not JSON␛[2J\n          a:2: not JSON"), "{text}");
        assert!(text.ends_with("and 2 more of 5\n") && !text.contains("a:4"), "{text}");
    }

    #[test]
    fn say_how_many_calls_have_no_known_owner() {
        let mut tree = sample::session();
        let calls = tree.agents.iter_mut().flat_map(|agent| &mut agent.tools).take(2);
        calls.for_each(|call| call.basis = Basis::Unknown);
        let text = render_summary(&tree, &STYLE);
        assert!(
            text.lines().any(|line| line.starts_with("tools") && line.ends_with("2 of unknown owner")),
            "{text}"
        );
    }

    #[test]
    fn break_long_lines_between_parts() {
        let mut tree = sample::tree_of_depths(&[0]);
        tree.summary.agents = 9;
        (tree.summary.running, tree.summary.failed, tree.summary.completed) = (3, 3, 3);
        let text = render_summary(&tree, &Style { width: 34, ..STYLE });
        assert!(text.starts_with("agents    9 · 3 running\n          3 completed · 3 failed\n"), "{text}");
    }
}
