//! Mission control: every session at a glance. A live session has a line of figures and below it what its most relevant
//! agent does, or the whole call that waits for a person; an ended one has the line of figures only.

use ratatui::layout::Rect;
use subscope_model::{
    Agent, AgentNeed, AgentStatus, LivenessKind, Millis, SessionNeed, SessionRow, SessionStatus, Tree,
};
use subscope_render::{
    Ink, Style, activity, chart,
    inbox::{need_mark, need_words, since_line},
    style::StyledLine,
    text,
};

use super::{
    detail::asked_lines,
    paint::Canvas,
    sessions::{mark_of, over, place_of, quiet},
};
use crate::{
    keys::{self, Action},
    state::{MouseTarget, Panel, UiState},
};

/// Least number of agents at work that fill the height of a lane.
const FULL_LANE: Millis = 8;
/// Time that a lane of activity covers.
const LANE_MS: Millis = 600_000;

/// Most lines of a call that waits for permission.
const MAX_ASKED_LINES: usize = 4;

/// Width of each column with the gap before it; 0 if there is no room for it.
#[derive(Clone, Copy)]
struct Columns {
    place: usize,
    title: usize,
    harness: usize,
    agents: usize,
    lane: usize,
    cost: usize,
    rate: usize,
    quiet: usize,
}

impl Columns {
    fn of(rows: &[&SessionRow], width: usize) -> Self {
        let widest = |of: &dyn Fn(&SessionRow) -> usize| rows.iter().map(|row| of(row)).max().unwrap_or(0);
        let place = widest(&|row| text::width(&place_of(row))).min(if width >= 100 { 16 } else { 12 });
        let harness = widest(&|row| row.harness.as_deref().map_or(0, text::width)).min(12);
        let is_wide = width >= 110;
        let mut columns = Self {
            place: place.max("project".len()) + 1,
            title: 0,
            harness: if is_wide { harness + 3 } else { 0 },
            agents: if width >= 70 { 13 } else { 8 },
            lane: match width {
                0..90 => 0,
                90..150 => 17,
                _ => 42,
            },
            cost: if width >= 60 { 8 } else { 0 },
            rate: if is_wide { 10 } else { 0 },
            quiet: 6,
        };
        let Self { place, title: _, harness, agents, lane, cost, rate, quiet } = columns;
        let used = MARK + place + harness + agents + lane + cost + rate + quiet;
        columns.title = width.saturating_sub(used);
        columns
    }

    /// Column at which the agents' marks end.
    fn agents_end(&self) -> usize {
        MARK + self.place + self.title + self.harness + self.agents
    }
}

/// Columns of a session's mark.
const MARK: usize = 2;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let rows = &state.sessions.rows;
    let all: Vec<&SessionRow> = rows.iter().collect();
    let columns = Columns::of(&all, usize::from(inner.width));
    let mut inner = inner;
    if let Some(mut line) =
        since_line(&state.inbox, state.settings.offset_minutes, &canvas.style_of(inner.width))
    {
        line.paint(Ink::Done, &format!("   {} marks all read", keys::label(Action::MarkRead)));
        canvas.line(inner.x, inner.y, inner.width, line);
        inner = Rect { y: inner.y + 1, height: inner.height - 1, ..inner };
    }
    if let Some(machine) = &state.sessions.machine {
        let words = format!("sessions of {machine} only   {} changes that", keys::label(Action::Machine));
        let line = StyledLine::painted(Ink::Done, &canvas.in_charset(&words));
        canvas.line(inner.x, inner.y, inner.width, line);
        inner = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
    }
    canvas.line(inner.x, inner.y, inner.width, head(&columns));
    let list = Rect { y: inner.y + 1, height: inner.height - 1, ..inner };
    canvas.add_panel(area, Panel::Sessions, 0);
    if rows.is_empty() {
        return super::overlay::nothing_yet(state, list, canvas);
    }
    let height = usize::from(list.height);
    let blocks = |at: usize| rows.get(at).map(|row| block(state, row, &columns, list.width, canvas));
    let first = first_row(state, height, |at| blocks(at).map_or(1, |lines| lines.len()));
    let mut y = list.y;
    let mut shown = 0;
    let mut drawn = Vec::new();
    for (at, row) in rows.iter().enumerate().skip(first) {
        if y >= list.bottom() {
            break;
        }
        let lines = blocks(at).unwrap_or_default();
        let lines_shown = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(list.bottom() - y);
        drawn.push((Rect { y, height: lines_shown, ..area }, row, lines));
        y += lines_shown;
        shown += 1;
    }
    for (place, row, lines) in drawn {
        canvas.lines(Rect { x: list.x, width: list.width, ..place }, lines);
        if state.session() == Some(&row.id) {
            canvas.select(place, true);
        }
        canvas.add_mouse_target(place, MouseTarget::Session(row.id.clone()));
    }
    canvas.drawn.first_mission = first;
    canvas.drawn.page = shown;
    super::tree::draw_scroll_arrows(canvas, area, first, rows.len().saturating_sub(first + shown));
}

/// Returns the first visible session: unchanged, unless the selected one would be out of view.
fn first_row(state: &UiState, height: usize, lines: impl Fn(usize) -> usize) -> usize {
    let before = state.drawn.first_mission.min(state.sessions.rows.len().saturating_sub(1));
    let Some(selected) = state.sessions.selected_index() else { return before };
    if selected <= before {
        return selected;
    }
    // From the selected session up, as many as fit.
    let (mut first, mut used) = (selected, lines(selected));
    while first > before {
        used += lines(first - 1);
        if used > height {
            return first;
        }
        first -= 1;
    }
    before
}

fn head(columns: &Columns) -> StyledLine {
    let mut line = StyledLine::painted(Ink::Done, &text::pad("", MARK));
    line.paint(Ink::Done, &text::pad("project", columns.place));
    line.paint(Ink::Done, &text::pad("session", columns.title));
    if columns.harness > 0 {
        line.paint(Ink::Done, &text::pad("  harness", columns.harness));
    }
    line.paint(Ink::Done, &text::pad("  agents", columns.agents));
    if columns.lane > 0 {
        line.paint(Ink::Done, &text::pad("  last 10 minutes", columns.lane));
    }
    figures(
        &mut line,
        columns,
        [(Some(Ink::Done), "cost"), (Some(Ink::Done), "a minute"), (Some(Ink::Done), "quiet")],
    );
    line
}

/// Appends cost, cost a minute and time since the last event.
fn figures<T: AsRef<str>>(line: &mut StyledLine, columns: &Columns, cells: [(Option<Ink>, T); 3]) {
    let widths = [columns.cost, columns.rate, columns.quiet].map(|width| (width > 0).then_some(width));
    line.cells(columns.agents_end() + columns.lane, widths, cells);
}

/// The lines of a session.
fn block(
    state: &UiState,
    row: &SessionRow,
    columns: &Columns,
    width: u16,
    canvas: &Canvas<'_>,
) -> Vec<StyledLine> {
    let tree = state.trees.get(&row.id);
    let mut lines = vec![figures_line(state, row, tree, columns, canvas)];
    let need = state.inbox.entry(&row.id).and_then(|entry| entry.session.need.as_ref());
    let needed = need.and_then(|need| {
        let first = &need.agents.first()?.agent_id;
        Some((need, tree?.agents.iter().find(|agent| agent.id == *first)?))
    });
    let relevant = || tree.filter(|_| row.status == SessionStatus::Live).and_then(most_relevant);
    let style = canvas.style_of(width);
    let mut line = StyledLine::default().with(None, &text::pad("", MARK + columns.place));
    let room = usize::from(width).saturating_sub(line.width());
    let agent = match (needed, relevant()) {
        (Some((need, agent)), _) => {
            line.append(need_line(state, need, room, &style));
            agent
        }
        (None, Some(agent)) => {
            line.append(activity_line(state, agent, room, &style));
            agent
        }
        (None, None) => return lines,
    };
    lines.push(line);
    let indent = u16::try_from(MARK + columns.place).unwrap_or(0);
    let asked = asked_lines(state, &row.id, agent, width.saturating_sub(indent), MAX_ASKED_LINES, canvas);
    lines.extend(asked.into_iter().map(|asked| {
        let mut line = StyledLine::default().with(None, &text::pad("", usize::from(indent)));
        line.append(asked);
        line
    }));
    lines
}

/// What a session needs of the user: of one agent with since when, of several their number.
fn need_line(state: &UiState, need: &SessionNeed, room: usize, style: &Style) -> StyledLine {
    let (mark, ink) = need_mark(need.group, style.glyphs());
    let own: Vec<&AgentNeed> = need.agents.iter().filter(|agent| agent.group == need.group).collect();
    let mut line = StyledLine::painted(ink, &format!("{mark} "));
    match own.as_slice() {
        [one] => {
            line.add(None, &style.one_line(&one.title, room / 2));
            let left = room.saturating_sub(line.width() + 1);
            line.paint(ink, &format!(" {}", style.one_line(&need_words(one, state.now_ms), left)));
        }
        _ => line.paint(ink, &style.one_line(&need.words, room.saturating_sub(2))),
    }
    line
}

/// What an agent of a session that needs nobody does.
fn activity_line(state: &UiState, agent: &Agent, room: usize, style: &Style) -> StyledLine {
    let mut line = StyledLine::default();
    let (ink, words) = activity(agent, Some(state.now_ms), style)
        .unwrap_or_else(|| (Ink::of(agent), agent.status.as_str().to_owned()));
    let tone = match agent.liveness.as_ref().map(|live| live.kind) {
        // Waits for a model or for subagents are normal: they are not highlighted.
        Some(LivenessKind::Model | LivenessKind::Children | LivenessKind::Idle) if ink == Ink::Running => {
            Ink::Done
        }
        _ => ink,
    };
    if !agent.id.is_root() {
        line.add(None, &style.one_line(&agent.title(), room / 2));
        line.push(" ");
    }
    let glyphs = style.glyphs();
    let mark = if ink == Ink::Stalled { glyphs.trouble } else { glyphs.current };
    line.paint(tone, &format!("{mark} {words}"));
    line
}

fn figures_line(
    state: &UiState,
    row: &SessionRow,
    tree: Option<&Tree>,
    columns: &Columns,
    canvas: &Canvas<'_>,
) -> StyledLine {
    let style = canvas.style;
    let (icon, ink) = style.glyphs().session(row);
    let over = over(state, row);
    let cell = |words: &str, width: usize| text::pad(&style.one_line(words, width.saturating_sub(1)), width);
    let mut line = StyledLine::painted(ink, icon);
    line.append(mark_of(state, row));
    line.add(over, &cell(&place_of(row), columns.place));
    let title = row.title.as_deref().unwrap_or(&row.id);
    line.add(over.or(Some(Ink::Strong)), &cell(title, columns.title));
    if columns.harness > 0 {
        let harness = row.harness.as_deref().unwrap_or(style.glyphs().unknown);
        line.paint(Ink::Done, &format!("  {}", cell(harness, columns.harness - 2)));
    }
    line.push("  ");
    line.append(agent_marks(row, tree, columns.agents.saturating_sub(2), canvas));
    line.end_at(columns.agents_end(), None, "");
    if let Some(tree) = tree.filter(|_| columns.lane > 0) {
        line.push("  ");
        line.append(lane(tree, state.now_ms, columns.lane - 2, &style));
    }
    let rate = tree.and_then(|tree| {
        // The rate of a session of a few seconds is meaningless.
        let minutes = tree.summary.wall_ms.filter(|wall| *wall >= 60_000)? / 1_000;
        Some(style.money(tree.summary.cost_micro_usd?.saturating_mul(60) / minutes, tree.summary.cost_floor))
    });
    let rate = rate.filter(|_| over.is_none()).unwrap_or_default();
    let cells = [style.cost(row.cost_micro_usd, row.cost_floor), rate, quiet(state, row, canvas)];
    figures(&mut line, columns, cells.map(|words| (over, words)));
    line
}

/// A mark for each agent that has not completed, and the number of completed ones; numbers only if there is no room, or as
/// long as the agents are not known.
fn agent_marks(row: &SessionRow, tree: Option<&Tree>, room: usize, canvas: &Canvas<'_>) -> StyledLine {
    let glyphs = canvas.glyphs();
    let mut line = StyledLine::default();
    let Some(tree) = tree else {
        if row.agents > 0 {
            // A number alone would have no meaning.
            let words = text::plural(row.agents, "agent");
            let number = || row.agents.to_string();
            let failed = if row.failed > 0 { 2 + text::width(&row.failed.to_string()) } else { 0 };
            let fits = text::width(&words) + failed <= room;
            line.paint(Ink::Done, &if fits { words } else { number() });
        }
        if row.failed > 0 {
            line.paint(Ink::Failed, &format!(" {}{}", glyphs.failed, row.failed));
        }
        return line;
    };
    let agents = || tree.agents.iter().filter(|agent| !agent.id.is_root() && !agent.is_copy());
    let completed = agents().filter(|agent| agent.status == AgentStatus::Completed).count();
    let folded = if completed > 0 { format!("{}{completed}", glyphs.completed) } else { String::new() };
    let others = || agents().filter(|agent| agent.status != AgentStatus::Completed);
    if others().count() + text::width(&folded) < room {
        for agent in others() {
            line.paint(Ink::of(agent), glyphs.agent(agent));
        }
        if line.width() > 0 {
            line.push(" ");
        }
    } else {
        let mut counts: Vec<(&str, Ink, usize)> = Vec::new();
        for agent in others() {
            let (mark, ink) = (glyphs.agent(agent), Ink::of(agent));
            match counts.iter_mut().find(|(known, its, _)| (*known, *its) == (mark, ink)) {
                Some((.., count)) => *count += 1,
                None => counts.push((mark, ink, 1)),
            }
        }
        for (mark, ink, count) in counts {
            line.paint(ink, &format!("{mark}{count} "));
        }
    }
    line.paint(Ink::Done, &folded);
    line.fit(room, glyphs.ellipsis)
}

/// The most relevant agent of a session: one that waits for a person, is stalled, or has been in its call longest; else
/// the root.
fn most_relevant(tree: &Tree) -> Option<&Agent> {
    let at_work = || tree.agents.iter().filter(|agent| agent.is_at_work());
    let since =
        |agent: &&Agent| agent.liveness.as_ref().and_then(|live| live.since_ms).unwrap_or(Millis::MAX);
    let is_calling =
        |agent: &&Agent| agent.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Tool);
    let waiting = || at_work().filter(|agent| agent.waits_for_person()).min_by_key(since);
    let stalled = || at_work().find(|agent| Ink::of(agent) == Ink::Stalled);
    let calling = || at_work().filter(is_calling).min_by_key(since);
    let subagent = || at_work().find(|agent| !agent.id.is_root());
    waiting().or_else(stalled).or_else(calling).or_else(subagent).or_else(|| at_work().next())
}

/// The last ten minutes of a session. The page's cards show the same (`web/src/lib/recent_lane.ts`): how many agents were at
/// work on average, in eighths of the most, or of eight if they are fewer; red where an agent failed.
fn lane(tree: &Tree, now_ms: Millis, columns: usize, style: &Style) -> StyledLine {
    let from_ms = now_ms - LANE_MS;
    let step = LANE_MS / Millis::try_from(columns.max(1)).unwrap_or(LANE_MS);
    let mut busy_ms = vec![0; columns];
    let mut has_failure = vec![false; columns];
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        for (at, [from, to]) in agent.intervals.iter().enumerate() {
            let is_open = agent.is_at_work() && at + 1 == agent.intervals.len();
            let to = if is_open { now_ms } else { *to };
            for (at, busy) in busy_ms.iter_mut().enumerate() {
                let begin = from_ms + step * Millis::try_from(at).unwrap_or(0);
                *busy += (to.min(begin + step) - (*from).max(begin)).max(0);
            }
        }
        let failed = agent.ended_at_ms.filter(|at| agent.status == AgentStatus::Failed && *at >= from_ms);
        let column = failed.and_then(|at| usize::try_from((at - from_ms) / step).ok());
        if let Some(has_failed) = column.and_then(|at| has_failure.get_mut(at)) {
            *has_failed = true;
        }
    }
    let full = busy_ms.iter().copied().max().unwrap_or(0).max(step * FULL_LANE);
    let is_live = tree.agents.iter().any(Agent::is_at_work);
    let mut line = StyledLine::default();
    for (busy, has_failed) in busy_ms.into_iter().zip(has_failure) {
        let ink = match (has_failed, is_live) {
            (true, _) => Ink::Failed,
            (false, true) => Ink::Running,
            (false, false) => Ink::Done,
        };
        // Rounded up, so that no activity is invisible; an agent that failed at once had some.
        let eighths = usize::try_from((busy * 8 + full - 1) / full).unwrap_or(0).max(usize::from(has_failed));
        match chart::level(eighths, style) {
            Some(level) => line.paint(ink, level),
            None => line.push(" "),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_ui::TestUi;

    /// The same example as in `web/test/rows.test.ts`.
    #[test]
    fn a_lane_is_as_high_as_agents_were_at_work_and_red_where_one_failed() {
        let ui = TestUi::live(80, 24);
        let mut tree = ui.state.tree().unwrap().clone();
        let call = tree.agents.iter().flat_map(|agent| &agent.tools).next().unwrap().clone();
        let failed_call = |at: Millis| subscope_model::ToolCall {
            status: subscope_model::ToolStatus::Error,
            started_at_ms: Some(at),
            ended_at_ms: Some(at),
            ..call.clone()
        };
        tree.agents.truncate(2);
        let [root, failed] = &mut tree.agents[..] else { panic!("{}", tree.agents.len()) };
        (root.status, root.intervals, root.flags) = (AgentStatus::Running, vec![[0, 10]], Vec::new());
        root.tools = vec![failed_call(300_000)];
        (failed.status, failed.ended_at_ms) = (AgentStatus::Failed, Some(150_000));
        (failed.intervals, failed.flags) = (vec![[60_000, 150_000]], Vec::new());
        let cells = |tree: &Tree| {
            let line = lane(tree, 600_000, 10, &ui.state.settings.style);
            line.parts().flat_map(|(ink, text)| text.chars().map(move |one| (ink, one))).collect::<Vec<_>>()
        };
        let seen = cells(&tree);
        let symbols: String = seen.iter().map(|(_, symbol)| symbol).collect();
        assert_eq!(symbols, "▁▂▂▁▁▁▁▁▁▁");
        let is_red = |at: &usize| seen[*at].0 == Some(Ink::Failed);
        assert_eq!((0..10).filter(is_red).collect::<Vec<_>>(), [2], "a failed call is no failed agent");
    }
}
