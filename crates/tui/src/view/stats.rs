//! Statistics over all sessions: budgets, days, groups, how many agents were at work at once, the slowest calls.

use std::collections::BTreeMap;

use ratatui::layout::Rect;
use subscope_model::{Concurrency, MicroUsd, Millis, Stats, StatsRow, Zone, parse_rfc3339};
use subscope_render::{
    Ink, Style,
    chart::{bar, sparkline},
    style::StyledLine,
    table::{DEAREST_AGENTS, DEAREST_SESSIONS, dearest, group_lines, slow_call, top_lines},
    text,
};

use super::{paint::Canvas, report::ReportLines};
use crate::state::{
    MouseTarget, UiState,
    reports::{DAY_MS, Place, StatsRange},
};

/// From this width on, days and groups are side by side.
const TWO_COLUMNS: u16 = 120;

/// Most bars; more days are drawn by week, then by four weeks.
const MAX_BARS: Millis = 31;

/// Columns of a date, and of a figure next to its bar.
const DATE: usize = 7;
const FIGURE: usize = 9;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    ranges(state, Rect { height: 1, ..area }, canvas);
    let area = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let Some((range, stats)) = &state.reports.stats else {
        return canvas.line(area.x + 1, area.y, area.width, StyledLine::painted(Ink::Done, "reading"));
    };
    let style = canvas.style_of(area.width.saturating_sub(2));
    let mut lines = ReportLines::default();
    lines.push(totals(&stats.total, &style));
    lines.extend(budget_lines(state, stats, &style));
    lines.push(StyledLine::default());
    if stats.total.sessions == 0 {
        lines.push(StyledLine::painted(Ink::Done, "no session in these days"));
        return lines.draw(state, area, canvas);
    }
    let days = bars_of(stats, *range, state.settings.zone.day_of(state.now_ms));
    if area.width < TWO_COLUMNS {
        lines.extend(day_lines(&days, &style));
        lines.extend(concurrency_lines(&stats.concurrency, &state.settings.zone, &style));
        lines.push(StyledLine::default());
        lines.extend(groups(stats, &style));
    } else {
        let half = style.width / 2 - 2;
        let halves = Style { width: half, ..style };
        let mut left = day_lines(&days, &halves);
        left.extend(concurrency_lines(&stats.concurrency, &state.settings.zone, &halves));
        lines.extend(side_by_side(left, groups(stats, &halves), half + 3));
    }
    for (title, rows) in [(DEAREST_SESSIONS, &stats.top_sessions), (DEAREST_AGENTS, &stats.top_agents)] {
        let rows = dearest(rows);
        let mut own = top_lines(title, &rows, &style).into_iter();
        lines.extend(own.next().into_iter().flat_map(|heading| [StyledLine::default(), heading]));
        for (line, top) in own.zip(rows) {
            let place = Place { session: top.session_id.clone(), agent: top.agent_id.clone() };
            lines.push_link(line, Some(place));
        }
    }
    if !stats.slowest.is_empty() {
        lines.push(StyledLine::default());
        lines.push(
            StyledLine::default()
                .with(None, "slowest calls")
                .with(Some(Ink::Done), "  Enter opens the agent"),
        );
    }
    for call in &stats.slowest {
        let place = Place { session: call.session_id.clone(), agent: Some(call.agent_id.clone()) };
        lines.push_link(slow_call(call, &style), Some(place));
    }
    lines.draw(state, area, canvas);
}

/// The ranges that can be chosen.
fn ranges(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let mut x = area.x + 1;
    for range in StatsRange::ALL {
        let chip = StyledLine::painted(Ink::Strong, &format!(" {} ", range.as_str()));
        let place = Rect { x, width: u16::try_from(chip.width()).unwrap_or(0), ..area };
        canvas.line(x, area.y, place.width, chip);
        if range == state.reports.range {
            canvas.select(place, true);
        }
        canvas.add_mouse_target(place, MouseTarget::Range(range));
        x += place.width;
    }
    canvas.line(
        x + 1,
        area.y,
        area.right().saturating_sub(x + 1),
        StyledLine::painted(Ink::Done, &format!("F other days ({})", state.settings.zone)),
    );
}

fn cost_of(row: &StatsRow) -> MicroUsd {
    MicroUsd::try_from(row.cost_micro_usd).unwrap_or(MicroUsd::MAX)
}

fn totals(total: &StatsRow, style: &Style) -> StyledLine {
    let parts = [
        style.cost(Some(cost_of(total)).filter(|cost| *cost > 0), total.cost_floor),
        format!("{} tokens", style.usage(Some(total.usage).filter(|usage| usage.total_tokens > 0))),
        text::plural(total.sessions, "session"),
        text::plural(total.agents, "agent"),
        text::plural(total.tool_calls, "call"),
        format!("{} failed", total.tool_errors),
    ];
    StyledLine::painted(Ink::Strong, &parts.join(&format!(" {} ", style.glyphs().dot)))
}

/// Used shares of the day's budget and of the most expensive live session's budget.
fn budget_lines(state: &UiState, stats: &Stats, style: &Style) -> Vec<StyledLine> {
    let today = Zone::date(state.settings.zone.day_of(state.now_ms));
    let used = stats
        .by_day
        .iter()
        .find(|row| *row.name == *today)
        .map_or((0, false), |row| (cost_of(row), row.cost_floor));
    let of_day = state.settings.budgets.day.map(|budget| ("today".to_owned(), used, budget));
    let sessions = state.trees.subscribed().filter(|tree| tree.agents.iter().any(|agent| agent.is_at_work()));
    let dearest = sessions.max_by_key(|tree| tree.summary.cost_micro_usd);
    let of_session = state.settings.budgets.session.zip(dearest).map(|(budget, tree)| {
        let session = &tree.session;
        let place = text::place_name(session.cwd.as_deref(), session.project.as_deref());
        let name = text::session_name(&place, session.title.as_deref());
        let name = name.unwrap_or_else(|| tree.session.id.to_string());
        (
            style.one_line(&name, style.width.saturating_sub(40).min(50)),
            (tree.summary.cost_micro_usd.unwrap_or(0), tree.summary.cost_floor),
            budget,
        )
    });
    let line = |(name, (used, is_floor), budget): (String, (MicroUsd, bool), MicroUsd)| {
        let percent = used.saturating_mul(100) / budget.max(1);
        let ink = match percent {
            ..80 => None,
            80..100 => Some(Ink::Stalled),
            _ => Some(Ink::Failed),
        };
        let words = format!(
            "budget {} {name}: {} of {} ({percent} %)  ",
            style.glyphs().dot,
            style.money(used, is_floor),
            style.money(budget, false)
        );
        let [used, budget] = [used, budget].map(|amount| u64::try_from(amount).unwrap_or(0));
        StyledLine::default().with(ink, &words).with(ink, &bar(used, budget, 20, style))
    };
    [of_day, of_session].into_iter().flatten().map(line).collect()
}

/// A bar: first day, cost and tokens of one or more days.
struct DayBar {
    from: String,
    cost: u64,
    is_cost_floor: bool,
    tokens: u64,
    is_tokens_floor: bool,
}

/// The bars of a range up to a day (since 1970), the oldest first; days without a session are bars, too.
fn bars_of(stats: &Stats, range: StatsRange, today: i64) -> Vec<DayBar> {
    let by_day: BTreeMap<Millis, &StatsRow> = stats
        .by_day
        .iter()
        .filter_map(|row| Some((parse_rfc3339(&format!("{}T00:00:00Z", row.name))? / DAY_MS, row)))
        .collect();
    let today = today.max(by_day.keys().next_back().copied().unwrap_or(0));
    let first = by_day.keys().next().copied().unwrap_or(today);
    let first = range.days().map_or(first, |days| (today - days + 1).min(first));
    let length = [1, 7, 28].into_iter().find(|length| (today - first) / length < MAX_BARS).unwrap_or(364);
    let begins = (first..=today).step_by(usize::try_from(length).unwrap_or(1));
    let bar = |from: Millis| {
        let rows = || by_day.range(from..from + length).map(|(_, row)| *row);
        let cost = rows().map(|row| row.cost_micro_usd).sum();
        DayBar {
            from: Zone::date(from),
            cost,
            is_cost_floor: rows().any(|row| row.cost_floor),
            tokens: rows().map(|row| row.usage.total_tokens).sum(),
            is_tokens_floor: rows().any(|row| row.usage.floor),
        }
    };
    begins.map(bar).collect()
}

fn day_lines(days: &[DayBar], style: &Style) -> Vec<StyledLine> {
    let most = |of: fn(&DayBar) -> u64| days.iter().map(of).max().unwrap_or(0);
    let (most_cost, most_tokens) = (most(|day| day.cost), most(|day| day.tokens));
    let width = style.width.saturating_sub(DATE + 2 * (FIGURE + 2)).max(8) / 2;
    let column = FIGURE + 2 + width;
    let mut head = StyledLine::default().with(None, &text::pad("by day", DATE));
    head.paint(Ink::Done, &text::pad(&format!("{:>FIGURE$}", "cost"), column));
    head.paint(Ink::Done, &format!("{:>FIGURE$}", "tokens"));
    let mut lines = vec![head];
    for day in days.iter().rev() {
        let month_and_day = day.from.get(5..).unwrap_or_default();
        let mut line = StyledLine::painted(Ink::Done, &text::pad(month_and_day, DATE));
        let cost = if day.cost == 0 {
            String::new()
        } else {
            style.money(day.cost.try_into().unwrap_or(0), day.is_cost_floor)
        };
        let tokens =
            if day.tokens == 0 { String::new() } else { style.tokens(day.tokens, day.is_tokens_floor) };
        line.push(&format!("{:>FIGURE$}  ", cost));
        line.paint(Ink::Running, &text::pad(&bar(day.cost, most_cost, width, style), width));
        line.push(&format!("{:>FIGURE$}  ", tokens));
        line.push(&bar(day.tokens, most_tokens, width, style));
        lines.push(line);
    }
    lines
}

/// How many agents were at work at once, over the time from the first to the last.
fn concurrency_lines(concurrency: &Concurrency, zone: &Zone, style: &Style) -> Vec<StyledLine> {
    let (Some(first), Some(last)) = (concurrency.spans.first(), concurrency.spans.last()) else {
        return Vec::new();
    };
    let all = (last.at_ms + concurrency.span_ms - first.at_ms).max(1);
    let columns = style.width.saturating_sub(2).clamp(8, 120);
    let mut values = vec![0; columns];
    for span in &concurrency.spans {
        let column = |at_ms: Millis| {
            let at = i128::from(at_ms - first.at_ms) * columns as i128 / i128::from(all);
            usize::try_from(at).unwrap_or(0)
        };
        let (from, to) = (column(span.at_ms), column(span.at_ms + concurrency.span_ms));
        for value in values.iter_mut().take(to.max(from + 1)).skip(from) {
            *value = span.agents.max(*value);
        }
    }
    let most = values.iter().max().copied().unwrap_or(0);
    let head = StyledLine::default()
        .with(None, "agents at work at once")
        .with(Some(Ink::Done), &format!("  at most {most}"));
    let [from, to] = [first.at_ms, last.at_ms].map(|at| zone.minute(at));
    let gap = columns.saturating_sub(from.len() + to.len());
    let axis = format!("{from}{}{to}", " ".repeat(gap.max(1)));
    vec![
        StyledLine::default(),
        head,
        StyledLine::painted(Ink::Running, &sparkline(&values, style)),
        StyledLine::painted(Ink::Done, &axis),
    ]
}

fn groups(stats: &Stats, style: &Style) -> Vec<StyledLine> {
    let sections = [
        ("by type", &stats.by_type),
        ("by model", &stats.by_model),
        ("by project", &stats.by_project),
        ("by harness", &stats.by_harness),
    ];
    let mut lines = Vec::new();
    for (title, rows) in sections {
        let own = group_lines(title, rows, style);
        if !own.is_empty() && !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        lines.extend(own);
    }
    lines
}

/// Joins two columns of lines; the second begins at `column`.
fn side_by_side(left: Vec<StyledLine>, right: Vec<StyledLine>, column: usize) -> Vec<StyledLine> {
    let count = left.len().max(right.len());
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let join = |_| {
        let mut line = left.next().unwrap_or_default();
        if let Some(right) = right.next() {
            line.end_at(column, None, "");
            line.append(right);
        }
        line
    };
    (0..count).map(join).collect()
}
