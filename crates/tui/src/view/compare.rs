//! Comparison of two sessions, or of two agents: agents paired as by `subscope diff`, their lanes on one axis that begins
//! at the start of each side, and figures with their differences.

use ratatui::layout::Rect;
use subscope_model::{AgentPair, Compared, ComparedAgent, Comparison, Likeness, Millis, Side};
use subscope_render::{
    Ink, Style,
    chart::bar,
    comparison::{answer, figure_lines, tool_lines},
    style::StyledLine,
    text,
};

use super::{paint::Canvas, report::ReportLines};
use crate::{
    keys::{self, Action},
    state::{UiState, reports::Place},
    update::compared,
};

/// Columns of a lane's icon and duration.
const FIGURE: usize = 12;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let mut lines = ReportLines::default();
    let places = compared(state);
    let [a, b] = places.as_slice() else {
        let key = keys::label(Action::Mark);
        let words =
            format!("{key} marks a session in the list, or an agent in the tree; mark two to compare them");
        lines.push(StyledLine::painted(Ink::Done, &words));
        return lines.draw(state, area, canvas);
    };
    let sides = [a, b].map(|place| {
        let tree = state.trees.get(&place.session)?;
        match &place.agent {
            Some(agent) => Compared::agent(tree, agent),
            None => Some(Compared::session(tree)),
        }
    });
    let [Some(side_a), Some(side_b)] = sides else {
        lines.push(StyledLine::painted(Ink::Done, &canvas.in_charset("reading…")));
        return lines.draw(state, area, canvas);
    };
    let comparison = Comparison::of(side_a, side_b);
    let style = canvas.style_of(area.width.saturating_sub(2));
    for (letter, side, place) in [("A", &comparison.a, a), ("B", &comparison.b, b)] {
        lines.push_link(side_line(letter, side, &comparison, &style), Some(place.clone()));
    }
    let words = style.one_line(&answer(&comparison), style.width);
    lines.push(StyledLine::painted(Ink::Strong, &words));
    lines.push(StyledLine::default());
    let pairs = Pairs::of(&comparison, state.moment_ms(), style);
    lines.push(pairs.head());
    for pair in &comparison.agents {
        pairs.push(pair, [&a.session, &b.session], &mut lines);
    }
    lines.push(StyledLine::default());
    lines.extend(figure_lines(&comparison, &style));
    lines.extend(tool_lines(&comparison, &style));
    lines.draw(state, area, canvas);
}

/// Letter, project, title and agent of a side.
fn side_line(letter: &str, side: &Side, comparison: &Comparison, style: &Style) -> StyledLine {
    let session = &side.session;
    let place = text::place_name(session.cwd.as_deref(), session.project.as_deref());
    let name = text::session_name(&place, session.title.as_deref());
    let name = name.unwrap_or_else(|| session.id.to_string());
    let mut line = StyledLine::painted(Ink::Strong, &format!("{letter}  "));
    let top = comparison
        .agents
        .first()
        .and_then(|pair| if letter == "A" { pair.a.as_ref() } else { pair.b.as_ref() });
    let words = match side.agent_id.as_ref().and(top) {
        Some(agent) => format!("{} {} {name}", agent.title, style.glyphs().dot),
        None => name,
    };
    line.push(&style.one_line(&words, style.width.saturating_sub(3)));
    line
}

/// Layout of the pairs.
struct Pairs {
    style: Style,
    now_ms: Millis,
    /// Start of each side.
    from_ms: [Option<Millis>; 2],
    /// Length of the axis.
    span_ms: Millis,
    name: usize,
    lane: usize,
}

impl Pairs {
    fn of(comparison: &Comparison, now_ms: Millis, style: Style) -> Self {
        let agents = |at: usize| {
            comparison
                .agents
                .iter()
                .filter_map(move |pair| if at == 0 { pair.a.as_ref() } else { pair.b.as_ref() })
        };
        let from_ms = [0, 1].map(|at| agents(at).filter_map(|agent| agent.started_at_ms).min());
        let spans = [0, 1].map(|at| {
            let end = agents(at).filter_map(|agent| end_of(agent, now_ms)).max();
            end.zip(from_ms[at]).map_or(0, |(end, from)| end - from)
        });
        let name = (style.width / 3).clamp(16, 48);
        let lane = style.width.saturating_sub(name + 3 + FIGURE).max(8);
        Self { style, now_ms, from_ms, span_ms: spans.into_iter().max().unwrap_or(0).max(1), name, lane }
    }

    fn head(&self) -> StyledLine {
        let mut head = StyledLine::painted(Ink::Done, &text::pad("agents", self.name + 3));
        let end = text::duration(Some(self.span_ms));
        head.paint(Ink::Done, &format!("0{end:>width$}", width = self.lane.saturating_sub(1)));
        head.paint(Ink::Done, &format!("{:>FIGURE$}", "time"));
        head
    }

    /// Adds the two lines of a pair: name and lane of A, difference and lane of B.
    fn push(&self, pair: &AgentPair, sessions: [&subscope_model::SessionId; 2], lines: &mut ReportLines) {
        let Some(one) = pair.a.as_ref().or(pair.b.as_ref()) else { return };
        let guess = if pair.likeness == Some(Likeness::Type) { "~" } else { "" };
        let indent = " ".repeat((pair.depth as usize * 2).min(self.name / 2));
        let room = self.name.saturating_sub(indent.len() + 1);
        let title = format!("{indent}{}", self.style.one_line(&format!("{guess}{}", one.title), room));
        let (ink, words) = difference(pair, &self.style);
        let words = format!("{indent}{}", self.style.one_line(&words, room));
        let sides = [(None, title, &pair.a), (Some(ink), words, &pair.b)];
        for (at, (ink, words, agent)) in sides.into_iter().enumerate() {
            let mut line = StyledLine::default().with(ink, &text::pad(&words, self.name));
            line.paint(Ink::Done, if at == 0 { " A " } else { " B " });
            if let Some(agent) = agent {
                self.push_lane(&mut line, agent, self.from_ms[at]);
            }
            let agent = agent.as_ref().map(|agent| agent.id.clone());
            let place = agent.map(|agent| Place { session: sessions[at].clone(), agent: Some(agent) });
            lines.push_link(line, place);
        }
    }

    fn push_lane(&self, line: &mut StyledLine, agent: &ComparedAgent, from_ms: Option<Millis>) {
        let ink = Ink::of_status(agent.status);
        let start = line.width();
        if let (Some(from), Some(begin), Some(end)) =
            (from_ms, agent.started_at_ms, end_of(agent, self.now_ms))
        {
            let column = |at: Millis| {
                let columns = i128::from(at - from) * self.lane as i128 / i128::from(self.span_ms);
                usize::try_from(columns).unwrap_or(0).min(self.lane - 1)
            };
            let (first, last) = (column(begin), column(end));
            line.push(&" ".repeat(first));
            let length = u64::try_from((end - begin).max(1)).unwrap_or(1);
            // Rounding never makes it longer than the axis.
            let most = u64::try_from(self.span_ms).unwrap_or(1);
            let words = bar(length, most, self.lane, &self.style);
            line.paint(ink, &text::truncate_with(&words, (self.lane - first).max(last - first), ""));
        }
        line.end_at(start + self.lane, None, "");
        let running = || agent.started_at_ms.map(|start| self.now_ms - start);
        let time = text::duration(if agent.status.is_live() { running() } else { agent.wall_ms });
        let words = format!("{} {time}", self.style.glyphs().icon(agent.status));
        line.paint(ink, &" ".repeat(FIGURE.saturating_sub(text::width(&words))));
        line.paint(ink, &words);
    }
}

fn end_of(agent: &ComparedAgent, now_ms: Millis) -> Option<Millis> {
    let begin = agent.started_at_ms?;
    let wall = || agent.wall_ms.map(|wall| begin + wall);
    let end = agent.ended_at_ms.or_else(|| if agent.status.is_live() { Some(now_ms) } else { wall() });
    Some(end?.max(begin))
}

/// What differs within a pair, with its color.
fn difference(pair: &AgentPair, style: &Style) -> (Ink, String) {
    let (Some(a), Some(b)) = (&pair.a, &pair.b) else {
        return (Ink::Stalled, if pair.a.is_some() { "only in A" } else { "only in B" }.to_owned());
    };
    let mut parts = Vec::new();
    if pair.likeness == Some(Likeness::Type) {
        parts.push(format!("now {}", style.one_line(&b.title, style.width)));
    }
    if a.status != b.status {
        parts.push(format!("{}, was {}", b.status.as_str(), a.status.as_str()));
    }
    let signed = |by: i64, words: String| format!("{}{words}", if by < 0 { "-" } else { "+" });
    if let Some(by) = a.wall_ms.zip(b.wall_ms).map(|(a, b)| b - a).filter(|by| by.abs() >= 100) {
        parts.push(signed(by, text::duration(Some(by.abs()))));
    }
    let calls = i64::from(b.tool_calls) - i64::from(a.tool_calls);
    if calls != 0 {
        parts.push(signed(calls, text::plural(calls.unsigned_abs(), "call")));
    }
    if let Some(by) =
        a.cost_micro_usd.zip(b.cost_micro_usd).map(|(a, b)| b - a).filter(|by| by.abs() >= 1_000)
    {
        parts.push(signed(by, style.money(by.abs(), false)));
    }
    let ink = if a.status == b.status { Ink::Done } else { Ink::Stalled };
    let words = if parts.is_empty() {
        "the same".to_owned()
    } else {
        parts.join(&format!(" {} ", style.glyphs().dot))
    };
    (ink, words)
}
