//! Renders a comparison of two sessions: figures with differences, paired agents, tools.

use subscope_model::{AgentPair, AgentStatus, Calls, ComparedAgent, Comparison, Likeness, Side, Usage};

use crate::{
    style::{Ink, Style, StyledLine, write_lines},
    table::SHORT_ID,
    text,
};

/// Columns of a figure or difference.
const FIGURE_WIDTH: usize = 14;
/// Columns of A, B, and their difference.
const FIGURES: [Option<usize>; 3] = [Some(FIGURE_WIDTH); 3];
/// Columns of an agent's cells: icon and time, tools, tokens, cost.
const CELLS: [usize; 4] = [10, 6, 7, 8];
/// From this width on, the cost is shown.
const WITH_COST: usize = 96;
/// Least and most columns of names.
const NAME: std::ops::RangeInclusive<usize> = 20..=70;

/// Renders the comparison as tables: sessions, figures with `B - A`, agents, tools. `~` marks a guessed pair, `—` an
/// unknown value.
pub fn render_comparison(comparison: &Comparison, style: &Style) -> String {
    let mut lines = vec![StyledLine::painted(Ink::Strong, &answer(comparison)), StyledLine::default()];
    lines.extend(figure_lines(comparison, style));
    agents(&mut lines, &comparison.agents, style);
    lines.extend(tool_lines(comparison, style));
    write_lines(lines, style)
}

/// Says in a sentence what B has that A has not: its ending, time, cost, agents and failed calls. What one of them does not know
/// is not compared, nor time and cost while one is at work.
pub fn answer(Comparison { a, b, .. }: &Comparison) -> String {
    let mut parts = Vec::new();
    match (b.status, a.status) {
        (Some(own), Some(other)) if own != other => {
            parts.push(format!("B {}, A {}", own.as_str(), other.as_str()));
        }
        (Some(own), Some(_)) if own.is_live() => parts.push(format!("both {}", own.as_str())),
        (Some(_) | None, _) => {}
    }
    let have_ended = [a, b].iter().all(|side| side.status.is_none_or(|status| !status.is_live()));
    let (one, two) = (&a.summary, &b.summary);
    let difference = |a: i64, b: i64| b.saturating_sub(a);
    let time = one.wall_ms.zip(two.wall_ms).filter(|_| have_ended).map(|(a, b)| match difference(a, b) {
        0 => "as fast".to_owned(),
        less @ ..0 => format!("{} faster", text::duration(Some(less.saturating_neg()))),
        more => format!("{} slower", text::duration(Some(more))),
    });
    // The difference to a lower bound is not known.
    let are_exact = have_ended && !one.cost_floor && !two.cost_floor;
    let costs = one.cost_micro_usd.zip(two.cost_micro_usd).filter(|_| are_exact);
    let cost = costs.and_then(|(a, b)| match difference(a, b) {
        0 => None,
        less @ ..0 => Some(format!("{} cheaper", text::money(less.saturating_neg(), false))),
        more => Some(format!("{} more expensive", text::money(more, false))),
    });
    let speed: Vec<String> = [time, cost].into_iter().flatten().collect();
    if !speed.is_empty() {
        parts.push(format!("B is {}", speed.join(" and ")));
    }
    if one.agents != two.agents {
        parts.push(instead(two.agents, one.agents, "agent"));
    }
    match (one.tool_errors, two.tool_errors) {
        (0, 0) => {}
        (a, b) if a == b => parts.push(format!("{} in each", text::plural(b, "failed call"))),
        (a, b) => parts.push(instead(b, a, "failed call")),
    }
    match parts.is_empty() {
        true => "A and B have the same number of agents and of failed calls".to_owned(),
        false => parts.join("; "),
    }
}

/// Returns `8 agents instead of 5`.
fn instead(own: u32, other: u32, noun: &str) -> String {
    let own = if own == 0 { format!("no {noun}s") } else { text::plural(own, noun) };
    let other = if other == 0 { "none".to_owned() } else { other.to_string() };
    format!("{own} instead of {other}")
}

/// Columns of the names of figures and tools.
fn name_width(style: &Style) -> usize {
    style.width.saturating_sub(3 * FIGURE_WIDTH).clamp(*NAME.start(), 30)
}

/// A table row: name, both values, and their difference if numeric.
struct ComparisonRow {
    name: &'static str,
    values: [(Option<Ink>, String); 2],
    difference: String,
}

impl ComparisonRow {
    fn words(name: &'static str, values: [String; 2]) -> Self {
        Self { name, values: values.map(|value| (None, value)), difference: String::new() }
    }

    /// A row of counts.
    fn counts(name: &'static str, values: [u32; 2]) -> Self {
        let [a, b] = values.map(i64::from);
        let difference = signed(b - a, |span| span.to_string());
        Self { difference, ..Self::words(name, values.map(|count| count.to_string())) }
    }

    /// A row of amounts that may be unknown.
    fn amounts(
        name: &'static str,
        values: [Option<i64>; 2],
        style: &Style,
        say: impl Fn(usize, i64) -> String,
    ) -> Self {
        let unknown = style.glyphs().unknown;
        let text = |at: usize, value: Option<i64>| value.map_or_else(|| unknown.to_owned(), |it| say(at, it));
        let [a, b] = values;
        let difference = match (a, b) {
            // With lower bounds the true difference is unknown: that of the bounds is shown.
            (Some(a), Some(b)) => signed(b.saturating_sub(a), |span| say(2, span)),
            _ => String::new(),
        };
        Self { difference, ..Self::words(name, [text(0, a), text(1, b)]) }
    }
}

/// Formats a difference with its sign; empty for 0.
fn signed(span: i64, say: impl Fn(i64) -> String) -> String {
    match span {
        0 => String::new(),
        1.. => format!("+{}", say(span)),
        _ => format!("-{}", say(span.saturating_neg())),
    }
}

/// The heading of a table of figures.
fn head(title: &str, name: usize) -> StyledLine {
    let mut head = StyledLine::painted(Ink::Done, title);
    head.cells(name, FIGURES, ["A", "B", "B - A"].map(|word| (Some(Ink::Done), word)));
    head
}

/// Renders the figures of both with `B - A`.
pub fn figure_lines(comparison: &Comparison, style: &Style) -> Vec<StyledLine> {
    let name = name_width(style);
    let mut out = vec![head("", name)];
    for ComparisonRow { name: figure, values: [a, b], difference } in
        both([&comparison.a, &comparison.b], style)
    {
        let mut line = StyledLine::default().with(None, &text::pad(figure, name));
        line.cells(name, FIGURES, [a, b, (None, difference)]);
        out.push(line);
    }
    out
}

/// All figures of both sessions.
fn both(sides: [&Side; 2], style: &Style) -> Vec<ComparisonRow> {
    let unknown = || style.glyphs().unknown.to_owned();
    let word = |word: Option<&str>| word.map_or_else(unknown, |word| style.one_line(word, FIGURE_WIDTH - 1));
    let short = |side: &Side| {
        let head: String = side.session.id.chars().take(SHORT_ID).collect();
        style.one_line(&head, SHORT_ID)
    };
    let mut all = vec![
        ComparisonRow::words("session", sides.map(short)),
        ComparisonRow::words("version", sides.map(|side| word(side.session.harness_version.as_deref()))),
        ComparisonRow {
            name: "main",
            values: sides
                .map(|side| (side.status.map(Ink::of_status), word(side.status.map(AgentStatus::as_str)))),
            difference: String::new(),
        },
    ];
    let count = |name, of: fn(&Side) -> u32| ComparisonRow::counts(name, sides.map(of));
    let mut counts = vec![
        count("agents", |side| side.summary.agents),
        count("  running", |side| side.summary.running + side.summary.pending),
        count("  completed", |side| side.summary.completed),
        count("  failed", |side| side.summary.failed),
        count("  stopped", |side| side.summary.stopped),
        count("  lost", |side| side.summary.lost),
        count("depth", |side| side.summary.max_depth),
        count("tool calls", |side| side.summary.tool_calls),
        count("  errors", |side| side.summary.tool_errors),
        count("  denied", |side| side.summary.tools_denied),
    ];
    // Sub-counts that are 0 in both are omitted.
    counts.retain(|figure| !figure.name.starts_with(' ') || figure.values.iter().any(|(_, it)| it != "0"));
    all.extend(counts);
    let usages = sides.map(|side| side.summary.usage);
    let is_floor = |at: usize, of: [bool; 2]| of.get(at).copied().unwrap_or_default();
    let tokens = |name, of: fn(&Usage) -> u64| {
        let floors = usages.map(|usage| usage.is_some_and(|usage| usage.floor));
        let values = usages.map(|usage| usage.map(|usage| i64::try_from(of(&usage)).unwrap_or(i64::MAX)));
        ComparisonRow::amounts(name, values, style, |at, count| {
            style.tokens(count.unsigned_abs(), is_floor(at, floors))
        })
    };
    all.push(tokens("tokens", |usage| usage.total_tokens));
    all.push(tokens("  out", |usage| usage.output_tokens));
    let floors = sides.map(|side| side.summary.cost_floor);
    let costs = sides.map(|side| side.summary.cost_micro_usd);
    all.push(ComparisonRow::amounts("cost", costs, style, |at, cost| {
        style.money(cost, is_floor(at, floors))
    }));
    let time = |name, of: fn(&Side) -> Option<i64>| {
        ComparisonRow::amounts(name, sides.map(of), style, |_, span| text::duration(Some(span)))
    };
    all.push(time("wall time", |side| side.summary.wall_ms));
    all.push(time("agent time", |side| side.summary.agent_ms));
    all
}

fn agents(out: &mut Vec<StyledLine>, pairs: &[AgentPair], style: &Style) {
    let cells = if style.width >= WITH_COST { CELLS.as_slice() } else { &CELLS[..3] };
    let widths = || cells.iter().copied().map(Some);
    let side: usize = cells.iter().sum();
    let name = style.width.saturating_sub(2 * side).clamp(*NAME.start(), *NAME.end());
    out.push(StyledLine::default());
    let mut head = StyledLine::painted(Ink::Done, &text::pad("agents", name));
    for (from, time) in [(name, "time A"), (name + side, "time B")] {
        head.cells(from, widths(), [time, "tools", "tokens", "cost"].map(|word| (Some(Ink::Done), word)));
    }
    out.push(head);
    for pair in pairs {
        let Some(one) = pair.a.as_ref().or(pair.b.as_ref()) else { continue };
        let mark = if pair.likeness == Some(Likeness::Type) { "~" } else { "" };
        let indent = " ".repeat((pair.depth as usize * 2).min(name / 2));
        let title = style.one_line(&format!("{mark}{}", one.title), name - 1 - indent.len());
        let mut line = StyledLine::default().with(None, &text::pad(&format!("{indent}{title}"), name));
        for (from, compared) in [(name, &pair.a), (name + side, &pair.b)] {
            match compared {
                Some(agent) => line.cells(from, widths(), cells_of(agent, style)),
                None => line.end_at(from + CELLS[0], Some(Ink::Done), style.glyphs().unknown),
            }
        }
        out.push(line);
    }
}

/// Time, tools, tokens and cost of an agent.
fn cells_of(agent: &ComparedAgent, style: &Style) -> [(Option<Ink>, String); 4] {
    let glyphs = style.glyphs();
    let time = text::duration(agent.wall_ms);
    let time = if time.is_empty() { glyphs.unknown } else { &time };
    [
        (Some(Ink::of_status(agent.status)), format!("{} {time}", glyphs.icon(agent.status))),
        (None, agent.tool_calls.to_string()),
        (None, style.usage(agent.usage)),
        (None, style.cost(agent.cost_micro_usd, agent.cost_floor)),
    ]
}

/// Renders the calls of each tool in both with `B - A`, after an empty line; nothing without calls.
pub fn tool_lines(comparison: &Comparison, style: &Style) -> Vec<StyledLine> {
    if comparison.tools.is_empty() {
        return Vec::new();
    }
    let name = name_width(style);
    let mut out = vec![StyledLine::default(), head("tools", name)];
    let say = |calls: &Calls| {
        let bad = [(calls.errors, style.glyphs().failed), (calls.denied, style.glyphs().denied)];
        let bad =
            bad.into_iter().filter(|(count, _)| *count > 0).map(|(count, icon)| format!("{icon}{count} "));
        ((calls.errors > 0).then_some(Ink::Failed), format!("{}{}", bad.collect::<String>(), calls.calls))
    };
    for tool in &comparison.tools {
        let mut line = StyledLine::default();
        line.push(&text::pad(&style.one_line(&tool.name, name - 1), name));
        let difference = i64::from(tool.b.calls) - i64::from(tool.a.calls);
        let difference = (None, signed(difference, |span| span.to_string()));
        line.cells(name, FIGURES, [say(&tool.a), say(&tool.b), difference]);
        out.push(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use subscope_model::{Compared, ToolStatus};

    use super::*;
    use crate::sample;

    fn compared(style: &Style) -> String {
        let mut a = sample::tree_of_depths(&[0, 1, 2, 1]);
        let mut b = a.clone();
        for (tree, wall, cost) in [(&mut a, 61_000, Some(920_000)), (&mut b, 75_000, None)] {
            tree.summary.wall_ms = Some(wall);
            tree.summary.agents = 3;
            tree.summary.cost_micro_usd = cost;
            tree.summary.usage = Some(Usage::new(1, 2, 3, 60_000));
            tree.agents[1].agent_type = Some("Explore".into());
            tree.agents[1].tools = vec![sample::call("Read", "a", ToolStatus::Ok, 0, Some(1))];
            tree.agents[1].parent_id = Some(tree.agents[0].id.clone());
            tree.agents[2].parent_id = Some(tree.agents[1].id.clone());
            tree.agents[3].parent_id = Some(tree.agents[0].id.clone());
        }
        a.agents[1].description = Some("Map\u{1b}[2J the flow".into());
        b.agents[1].description = Some("Draw a map".into());
        b.agents[1].status = AgentStatus::Failed;
        b.agents[1].tools.push(sample::call("Bash", "x", ToolStatus::Error, 0, Some(1)));
        b.summary.failed = 1;
        b.agents.remove(3);
        render_comparison(&Comparison::of(Compared::session(&a), Compared::session(&b)), style)
    }

    #[test]
    fn differences_are_signed_and_what_is_unknown_has_none() {
        let text = compared(&Style { color: false, ascii: false, width: 80 });
        let line = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("wall time"), "wall time 1m 1s 1m 15s +14s");
        assert_eq!(line("failed"), "failed 0 1 +1");
        assert_eq!(line("cost"), "cost $0.92 —");
        assert_eq!(line("tokens"), "tokens 60k 60k");
        assert_eq!(line("Bash"), "Bash 0 ✗1 1 +1");
        assert!(!text.contains("stopped") && text.lines().all(|line| text::width(line) <= 80), "{text}");
    }

    #[test]
    fn agents_are_indented_marked_where_guessed_and_harmless() {
        let text = compared(&Style { color: false, ascii: true, width: 120 });
        assert!(text.contains("  ~Explore: Map<ESC>[2J the flow"), "{text}");
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn answer_says_what_one_has_that_the_other_has_not() {
        let tree = sample::tree_of_depths(&[0]);
        let mut comparison = Comparison::of(Compared::session(&tree), Compared::session(&tree));
        for case in sample::shared_cases("comparisons") {
            for (side, given) in [(&mut comparison.a, &case[0]), (&mut comparison.b, &case[1])] {
                let count = |name: &str| u32::try_from(given[name].as_u64().unwrap()).unwrap();
                side.summary.wall_ms = given["wall_ms"].as_i64();
                side.summary.cost_micro_usd = given["cost_micro_usd"].as_i64();
                side.summary.cost_floor = given["cost_floor"].as_bool().unwrap_or_default();
                (side.summary.agents, side.summary.tool_errors) = (count("agents"), count("tool_errors"));
                let status = given.get("status").cloned().unwrap_or_else(|| "completed".into());
                side.status = serde_json::from_value(status).unwrap();
            }
            assert_eq!(answer(&comparison), case[2].as_str().unwrap());
        }
    }
}
