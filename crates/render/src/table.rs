//! Tables over many sessions: list, statistics, status line, search hits.

use std::{cmp::Reverse, collections::BTreeSet};

use subscope_model::{
    Inbox, Millis, SearchHit, SessionId, SessionOrder, SessionRow, SlowCall, Stats, StatsRow, Status,
    ToolStatus, TopRow, Zone,
};

use crate::{
    inbox::{certain_parts, ended_words},
    style::{Ink, Style, StyledLine, write_lines},
    text,
};

/// Characters of a short session id: enough to be unique in practice, and to be typed.
pub const SHORT_ID: usize = 8;

/// Most columns of an id in a list.
const MAX_SHORT_ID: usize = 48;

/// Most columns of a harness's name.
const MAX_HARNESS: usize = 14;

/// Columns after a title: heading, width, and least terminal width.
const FIGURES: [(&str, usize, usize); 5] =
    [("ago", 7, 34), ("agents", 9, 43), (CALLS, 7, 76), ("tokens", 8, 51), ("cost", 9, 66)];
/// Heading of the tool calls of a session.
const CALLS: &str = "tools";
/// Least and most columns of the title.
const TITLE: std::ops::RangeInclusive<usize> = 16..=100;
/// Columns of a slow call.
const SLOW_CALL: usize = 30;
/// Most rows of a statistics section, and of the dearest sessions or agents.
const TOP: usize = 12;
const DEAREST: usize = 10;
/// Heading of the dearest sessions.
pub const DEAREST_SESSIONS: &str = "dearest sessions";
/// Heading of the dearest agents.
pub const DEAREST_AGENTS: &str = "dearest agents";

/// Renders one line per session under a heading; empty without sessions. In place of the tool calls stands the figure by
/// which the list is ordered, if no column has it. Ids are shortened to what no other session's id
/// begins with, among these sessions and `others`. Titles are prefixed with the last component of the working directory.
pub fn render_sessions(
    rows: &[SessionRow],
    others: &[SessionId],
    order: SessionOrder,
    now: Millis,
    style: &Style,
) -> String {
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    let widths = FIGURES.map(|(_, width, least)| (style.width >= least).then_some(width));
    let shown: Vec<&SessionId> = rows.iter().map(|row| &row.id).collect();
    let harness = harness_width(rows);
    let left = style.width.saturating_sub(2 + 1 + harness + widths.iter().flatten().sum::<usize>());
    let most = left.saturating_sub(*TITLE.start()).clamp(SHORT_ID, MAX_SHORT_ID);
    let prefixes = unique_prefixes(&shown, others).into_iter();
    let ids: Vec<String> = prefixes.map(|prefix| style.one_line(prefix, most)).collect();
    let id_width = ids.iter().map(|id| text::width(id)).max().unwrap_or_default().max(SHORT_ID);
    let before = 2 + id_width + 1 + harness;
    let room = left.saturating_sub(id_width);
    let title = room.clamp(*TITLE.start(), *TITLE.end());
    let column = text::pad(if harness > 0 { "harness" } else { "" }, harness);
    let head = format!("  {} {column}session", text::pad("id", id_width));
    let mut head = StyledLine::painted(Ink::Done, &head);
    let headings = FIGURES.map(|(word, ..)| if word == CALLS { calls_heading(order) } else { word });
    head.cells(before + title, widths, headings.map(|word| (Some(Ink::Done), word)));
    head.write(&mut out, style);
    for (row, id) in rows.iter().zip(&ids) {
        let name = row.harness.as_deref().map_or_else(String::new, |name| style.one_line(name, MAX_HARNESS));
        let lead = format!(
            "{} {}",
            text::pad(id, id_width),
            if harness > 0 { text::pad(&name, harness) } else { String::new() }
        );
        let mut line = label(row, &lead, title, now, style);
        line.cells(before + title, widths, figures(row, order, now, style));
        line.write(&mut out, style);
    }
    out
}

/// Returns the shortest prefix of each id that no other id has, at least [`SHORT_ID`] characters; the whole id if another
/// one begins with it.
pub fn unique_prefixes<'a>(ids: &[&'a SessionId], others: &[SessionId]) -> Vec<&'a str> {
    let mut sorted: Vec<&str> = ids.iter().copied().chain(others).map(SessionId::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let common = |one: &str, other: Option<&&str>| {
        let other = other.copied().unwrap_or_default().chars();
        one.chars().zip(other).take_while(|(one, other)| one == other).count()
    };
    let prefix = |id: &&'a SessionId| {
        let id: &'a str = id.as_str();
        // The longest common beginning is that with a neighbor in the order of ids.
        let at = sorted.partition_point(|other| *other < id);
        let before = at.checked_sub(1).and_then(|before| sorted.get(before));
        let count = common(id, before).max(common(id, sorted.get(at + 1))) + 1;
        // Of another machine's session, the machine comes first.
        let machine = id.split_once('~').map_or(0, |(machine, _)| machine.chars().count() + 1);
        let end = id.char_indices().nth(count.max(machine + SHORT_ID)).map_or(id.len(), |(end, _)| end);
        id.get(..end).unwrap_or(id)
    };
    ids.iter().map(prefix).collect()
}

/// Columns of the harnesses with the blanks after them, if there is more than one harness; else 0.
fn harness_width(rows: &[SessionRow]) -> usize {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.harness.as_deref().unwrap_or_default()).collect();
    let widest = names.iter().map(|name| text::width(name)).max().unwrap_or_default();
    if names.len() > 1 { widest.clamp("harness".len(), MAX_HARNESS) + 1 } else { 0 }
}

/// Icon, prefix and title of a session.
fn label(row: &SessionRow, lead: &str, width: usize, now: Millis, style: &Style) -> StyledLine {
    let glyphs = style.glyphs();
    let (icon, ink) = glyphs.session(row);
    let mut line = StyledLine::painted(ink, icon);
    line.push(" ");
    line.paint(Ink::Done, lead);
    let place = text::place_name(row.cwd.as_deref(), row.project.as_deref());
    let name = text::session_name(&place, row.title.as_deref());
    // In a team's list, and of another machine's session.
    let name = match (row.user.as_deref().or(row.machine.as_deref()), name) {
        (Some(user), Some(name)) => Some(format!("{user} {} {name}", glyphs.dot)),
        (Some(user), None) => Some(user.to_owned()),
        (None, name) => name,
    };
    let name = match row.last_heard_ms {
        Some(heard) => {
            let heard = format!("last heard {} ago", ago(now - heard));
            Some(name.map_or_else(|| heard.clone(), |name| format!("{heard} {} {name}", glyphs.dot)))
        }
        None => name,
    };
    line.with(None, &style.one_line(name.as_deref().unwrap_or(glyphs.unknown), width))
}

/// Heading of the calls, or of the figure in their place.
fn calls_heading(order: SessionOrder) -> &'static str {
    match order {
        SessionOrder::Duration => "time",
        SessionOrder::Errors => "failed",
        SessionOrder::Denied => "denied",
        SessionOrder::Newest
        | SessionOrder::Cost
        | SessionOrder::Tokens
        | SessionOrder::Agents
        | SessionOrder::Calls => CALLS,
    }
}

/// The cells of [`FIGURES`].
fn figures(row: &SessionRow, order: SessionOrder, now: Millis, style: &Style) -> [(Option<Ink>, String); 5] {
    let glyphs = style.glyphs();
    let count =
        |count: Option<u32>| count.map_or_else(|| glyphs.unknown.to_owned(), |count| count.to_string());
    let calls = match order {
        SessionOrder::Duration => text::duration(row.duration_ms()),
        SessionOrder::Errors => count(row.tool_errors),
        SessionOrder::Denied => count(row.tools_denied),
        SessionOrder::Newest
        | SessionOrder::Cost
        | SessionOrder::Tokens
        | SessionOrder::Agents
        | SessionOrder::Calls => row.tool_calls.to_string(),
    };
    let (ink, agents) = match (row.running, row.failed) {
        (0, 0) => (None, row.agents.to_string()),
        (0, failed) => (Some(Ink::Failed), format!("{}{failed} {}", glyphs.failed, row.agents)),
        (running, _) => (Some(Ink::Running), format!("{}{running} {}", glyphs.running, row.agents)),
    };
    [
        (None, row.last_event_at_ms.map_or_else(|| glyphs.unknown.to_owned(), |last| ago(now - last))),
        (ink, agents),
        (None, calls),
        (None, style.usage(row.usage)),
        (None, style.cost(row.cost_micro_usd, row.cost_floor)),
    ]
}

/// Sanitized short id.
fn short_id(id: &str, style: &Style) -> String {
    let head: String = id.chars().take(SHORT_ID).collect();
    style.one_line(&head, SHORT_ID)
}

/// Renders a status line without a line end: number of subagents at work, the sessions that need the user with their age,
/// agents that are asked to stop, the cost so far, and what ended since the user looked.
pub fn render_status(status: &Status, inbox: Option<&Inbox>, offset_minutes: i32, style: &Style) -> String {
    let glyphs = style.glyphs();
    let mut parts = vec![match status.running {
        0 => "no agents".to_owned(),
        1 => format!("{}1 agent", glyphs.current),
        count => format!("{}{count} agents", glyphs.current),
    }];
    if let Some(inbox) = inbox {
        parts.extend(certain_parts(inbox, glyphs).into_iter().map(|part| {
            let age = inbox.since_ms(part.group).map(|since| format!(" {}", ago(status.at_ms - since)));
            format!("{}{}", part.words, age.unwrap_or_default())
        }));
    }
    match status.stopping {
        0 => {}
        count => parts.push(format!("{count} stopping")),
    }
    parts.extend(status.cost_micro_usd.map(|cost| style.money(cost, status.cost_floor)));
    parts.extend(inbox.and_then(|inbox| ended_words(inbox, offset_minutes, style)));
    parts.join(&format!(" {} ", glyphs.dot))
}

/// Formats an age in one unit: `5s`, `12m`, `3h`, `9d`.
pub fn ago(span_ms: i64) -> String {
    let seconds = span_ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Renders statistics over all sessions: total, by agent type, tool, model, project, harness and day, the slowest calls,
/// and how many agents were at work at once.
pub fn render_stats(stats: &Stats, style: &Style) -> String {
    let mut lines = Vec::new();
    section(&mut lines, "everything", std::slice::from_ref(&stats.total), style);
    lines.extend(stats_lines(stats, style));
    section(&mut lines, "projects", &stats.by_project, style);
    section(&mut lines, "harnesses", &stats.by_harness, style);
    section(&mut lines, &days_of(stats), &stats.by_day, style);
    for (title, rows) in [(DEAREST_SESSIONS, &stats.top_sessions), (DEAREST_AGENTS, &stats.top_agents)] {
        top_section(&mut lines, title, &dearest(rows), style);
    }
    slowest(&mut lines, &stats.slowest, style);
    at_once(&mut lines, stats, style);
    write_lines(lines, style)
}

/// Returns the dearest of a list; by tokens where nothing has a known cost.
pub fn dearest(rows: &[TopRow]) -> Vec<&TopRow> {
    let measure = usize::from(rows.iter().all(|top| top.row.cost_micro_usd == 0));
    let mut rows: Vec<&TopRow> = rows.iter().filter(|top| top.measures()[measure] > 0).collect();
    rows.sort_by_key(|top| Reverse(top.measures()[measure]));
    rows.truncate(DEAREST);
    rows
}

/// Renders a heading, and a line for each session or agent; nothing without rows.
pub fn top_lines(title: &str, rows: &[&TopRow], style: &Style) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    top_section(&mut lines, title, rows, style);
    lines
}

fn top_section(out: &mut Vec<StyledLine>, title: &str, rows: &[&TopRow], style: &Style) {
    // Each is of one session: that figure is left out.
    let rows: Vec<StatsRow> = rows.iter().map(|top| StatsRow { sessions: 0, ..top.row.clone() }).collect();
    named_section(out, title, &rows, TOP_NAME, style);
}

/// Heading of days: whose they are.
fn days_of(stats: &Stats) -> String {
    match &*stats.time_zone {
        "" => "days".to_owned(),
        zone => format!("days ({zone})"),
    }
}

/// Renders statistics by agent type, tool and model as lines.
pub fn stats_lines(stats: &Stats, style: &Style) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    section(&mut lines, "agents by type", &stats.by_type, style);
    section(&mut lines, TOOLS, &stats.by_tool, style);
    section(&mut lines, "models", &stats.by_model, style);
    lines
}

/// Renders the rows of one group of statistics under a title; nothing without rows.
pub fn group_lines(title: &str, rows: &[StatsRow], style: &Style) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    section(&mut lines, title, rows, style);
    lines
}

/// Formats a sum of durations in its largest unit.
fn span(ms: u64) -> String {
    match ms {
        0..60_000 => text::duration(i64::try_from(ms).ok()),
        60_000..3_600_000 => format!("{}m", ms / 60_000),
        _ => format!("{}h", ms / 3_600_000),
    }
}

/// Columns of a section: heading, width, and priority; the lowest is hidden first.
const COLUMNS: [(&str, usize, usize); 7] = [
    ("sessions", 8, 1),
    ("agents", 8, 4),
    ("calls", 9, 6),
    ("errors", 8, 3),
    ("time", 9, 2),
    ("tokens", 8, 5),
    ("cost", 11, 7),
];
/// Title of the section of tools, whose rows have no agents.
const TOOLS: &str = "tools";
/// Most and least columns of the names of groups; those of sessions and agents may be longer.
const NAME: usize = 30;
const TOP_NAME: usize = 64;
const LEAST_NAME: usize = 20;

/// Returns the widths of a section's visible columns, and that of its names.
fn layout(rows: &[StatsRow], width: usize, most_name: usize) -> ([Option<usize>; 7], usize) {
    let mut widths = COLUMNS.map(|(_, width, _)| Some(width));
    widths[0] = widths[0].filter(|_| rows.iter().any(|row| row.sessions > 0));
    let used = |widths: &[Option<usize>; 7]| widths.iter().flatten().sum::<usize>();
    while used(&widths) + LEAST_NAME > width {
        let least = (0..COLUMNS.len()).filter(|at| widths[*at].is_some()).min_by_key(|at| COLUMNS[*at].2);
        let Some(least) = least else { break };
        widths[least] = None;
    }
    (widths, width.saturating_sub(used(&widths)).clamp(LEAST_NAME, most_name))
}

fn section(out: &mut Vec<StyledLine>, title: &str, rows: &[StatsRow], style: &Style) {
    named_section(out, title, rows, NAME, style);
}

fn named_section(out: &mut Vec<StyledLine>, title: &str, rows: &[StatsRow], most_name: usize, style: &Style) {
    if rows.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push(StyledLine::default());
    }
    let (widths, name) = layout(rows, style.width, most_name);
    let mut head = StyledLine::default().with(None, title);
    head.cells(name, widths, COLUMNS.map(|(word, ..)| (Some(Ink::Done), word)));
    out.push(head);
    for row in rows.iter().take(TOP) {
        let mut line =
            StyledLine::default().with(None, &format!("  {}", style.one_line(&row.name, name - 4)));
        line.cells(name, widths, cells(row, title == TOOLS, style));
        out.push(line);
    }
    if rows.len() > TOP {
        out.push(StyledLine::painted(Ink::Done, &format!("  {} more", rows.len() - TOP)));
    }
}

/// The slowest calls.
fn slowest(out: &mut Vec<StyledLine>, calls: &[SlowCall], style: &Style) {
    if calls.is_empty() {
        return;
    }
    out.push(StyledLine::default());
    out.push(StyledLine::default().with(None, "slowest calls"));
    out.extend(calls.iter().take(TOP).map(|call| slow_call(call, style)));
}

/// Renders a slow call: duration, tool and target, agent, session.
pub fn slow_call(call: &SlowCall, style: &Style) -> StyledLine {
    let ink = match call.status {
        ToolStatus::Error | ToolStatus::Denied => Some(Ink::Failed),
        ToolStatus::Ok | ToolStatus::Open => None,
    };
    let detail = call.detail.as_deref().map(|detail| format!(" {detail}")).unwrap_or_default();
    let mut line = StyledLine::default().with(None, "  ");
    line.push(&format!("{:>8}  ", text::duration(Some(call.duration_ms))));
    line.add(ink, &text::pad(&style.one_line(&format!("{}{detail}", call.tool), SLOW_CALL), SLOW_CALL));
    let title = call.session_title.as_deref().unwrap_or(&call.session_id);
    let room = style.width.saturating_sub(14 + SLOW_CALL);
    let agent = format!("{} {} {title}", call.agent, style.glyphs().dot);
    line.with(Some(Ink::Done), &format!("  {}", style.one_line(&agent, room)))
}

/// The greatest number of agents at work at the same time.
fn at_once(out: &mut Vec<StyledLine>, stats: &Stats, style: &Style) {
    let Some(most) = stats.concurrency.spans.iter().max_by_key(|span| (span.agents, -span.at_ms)) else {
        return;
    };
    let zone = Zone::named(&stats.time_zone).unwrap_or_default();
    let minute = zone.minute(most.at_ms);
    let (agents, sessions) =
        (text::plural(u64::from(most.agents), "agent"), text::plural(u64::from(most.sessions), "session"));
    out.push(StyledLine::default());
    let line = format!("at once       at most {agents} of {sessions}, from {minute} {zone}");
    out.push(StyledLine::default().with(None, &style.one_line(&line, style.width)));
}

fn cells(row: &StatsRow, is_tool: bool, style: &Style) -> [(Option<Ink>, String); 7] {
    let agents = if row.agents == 0 { style.glyphs().unknown.to_owned() } else { row.agents.to_string() };
    let cost = (row.cost_micro_usd > 0).then(|| i64::try_from(row.cost_micro_usd).unwrap_or(0));
    // Agents whose times are unknown, such as the root of posted events.
    let is_unknown = !is_tool && row.busy_ms == 0;
    let busy = if is_unknown { style.glyphs().unknown.to_owned() } else { span(row.busy_ms) };
    [
        (None, row.sessions.to_string()),
        (None, agents),
        (None, row.tool_calls.to_string()),
        ((row.tool_errors > 0).then_some(Ink::Failed), row.tool_errors.to_string()),
        (None, busy),
        (None, style.usage(Some(row.usage).filter(|usage| usage.total_tokens > 0))),
        (None, style.cost(cost, row.cost_floor)),
    ]
}

/// Renders two lines per hit: origin, and snippet.
pub fn render_hits(hits: &[SearchHit], now: Millis, style: &Style) -> String {
    let mut out = String::new();
    for hit in hits {
        let mut line = StyledLine::painted(Ink::Done, &short_id(&hit.session_id, style));
        line.push("  ");
        line.paint(Ink::Running, &style.one_line(&hit.agent, 60));
        let age = hit.at_ms.map_or(String::new(), |at| format!("  {} ago", ago(now - at)));
        let tool =
            hit.tool.as_deref().map(|tool| format!(" of {}", style.one_line(tool, 30))).unwrap_or_default();
        line.paint(Ink::Done, &format!("  {}{tool}", hit.kind));
        if hit.failed {
            line.paint(Ink::Failed, &format!(" {}", style.glyphs().failed));
        }
        line.paint(Ink::Done, &age);
        line.write(&mut out, style);
        let snippet = style.one_line(&hit.snippet, style.width.saturating_sub(4));
        StyledLine::default().with(None, &format!("    {snippet}")).write(&mut out, style);
    }
    out
}

#[cfg(test)]
mod tests {
    use subscope_model::{AgentStatus, Attention, Flag, Looks, SessionStatus, Usage};

    use super::*;

    fn row() -> SessionRow {
        SessionRow {
            id: SessionId("59d3cea2-1111".into()),
            harness: None,
            cwd: Some("/home/user/shop".into()),
            title: Some("Fix \u{1b}[2Jthe cart".into()),
            status: SessionStatus::Live,
            started_at_ms: Some(0),
            last_event_at_ms: Some(60_000),
            runs: 1,
            agents: 8,
            running: 2,
            failed: 1,
            tool_calls: 147,
            tool_errors: Some(3),
            tools_denied: None,
            usage: Some(Usage::new(1_000_000, 0, 0, 0)),
            cost_micro_usd: Some(920_000),
            cost_floor: false,
            attention: Attention::Live,
            need: None,
            is_own: false,
            root: Some(AgentStatus::Running),
            kept_at_ms: None,
            problem: None,
            machine: None,
            last_heard_ms: None,
            user: None,
            team: None,
            project: None,
        }
    }

    #[test]
    fn sessions_are_lined_up_safe_and_cut() {
        let style = Style { color: false, ascii: false, width: 80 };
        let shown = render_sessions(&[row()], &[], SessionOrder::Newest, 180_000, &style);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| text::width(line) <= 80), "{shown}");
        assert!(lines[1].starts_with("◐ 59d3cea2 shop: Fix "), "{shown}");
        assert!(lines[1].ends_with("2m     ◐2 8    147      1M    $0.92"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
        assert_eq!(render_sessions(&[], &[], SessionOrder::Newest, 0, &style), "");
        // The figure of the order stands in place of the calls; an unknown one is no zero.
        for (order, heading, figure) in [
            (SessionOrder::Errors, "failed", "3      1M"),
            (SessionOrder::Denied, "denied", "—      1M"),
            (SessionOrder::Duration, "time", "1m 0s      1M"),
            (SessionOrder::Cost, "tools", "147      1M"),
        ] {
            let shown = render_sessions(&[row()], &[], order, 180_000, &style);
            let (head, line) = shown.split_once('\n').unwrap();
            assert!(head.contains(heading) && line.contains(figure), "{shown}");
        }
        for width in [52, 60, 70, 200] {
            let shown =
                render_sessions(&[row()], &[], SessionOrder::Newest, 180_000, &Style { width, ..style });
            assert!(shown.lines().all(|line| text::width(line) <= width), "{shown}");
            assert!(!shown.contains("token…") && shown.contains("1M"), "{shown}");
        }
    }

    #[test]
    fn ids_are_cut_where_they_differ_from_all_others() {
        let ids = ["events:r1", "events:r2-long", "59d3cea2-1111", "run:ab12-1", "run:ab12-10"]
            .map(SessionId::from);
        let shown: Vec<&SessionId> = ids.iter().collect();
        let expected = ["events:r1", "events:r2", "59d3cea2", "run:ab12-1", "run:ab12-10"];
        assert_eq!(unique_prefixes(&shown, &[]), expected);
        assert_eq!(unique_prefixes(&shown[2..3], &["59d3cea2-2".into()]), ["59d3cea2-1"]);
        assert_eq!(unique_prefixes(&shown[2..3], &ids), ["59d3cea2"], "it is not told apart from itself");
    }

    #[test]
    fn status_counts_who_works_and_who_waits() {
        let style = Style { color: false, ascii: false, width: 80 };
        let line = |tree: &subscope_model::Tree, looks: &Looks| {
            let inbox = Inbox::of(&[SessionRow::of(tree)], looks, 181_000);
            render_status(&Status::of(std::slice::from_ref(tree), 181_000), Some(&inbox), 0, &style)
        };
        assert_eq!(render_status(&Status::of(&[], 0), None, 0, &style), "no agents");
        let mut tree = crate::sample::session();
        for agent in tree.agents.iter_mut().skip(1) {
            agent.status = AgentStatus::Running;
            agent.flags = vec![Flag::Stalled];
            agent.last_event_at_ms = Some(1_000);
            agent.liveness = None;
        }
        tree.summary.cost_micro_usd = Some(1_200_000);
        tree.summary.cost_floor = false;
        let count = tree.agents.len() - 1;
        let looks = Looks { seen_until_ms: Some(0), ..Looks::default() };
        assert_eq!(line(&tree, &looks), format!("▸{count} agents · ! 1 in trouble 3m · $1.20"));
        tree.agents.iter_mut().for_each(|agent| agent.status = AgentStatus::Failed);
        tree.session.ended_at_ms = Some(1);
        assert_eq!(line(&tree, &looks), "no agents · $1.20 · since 00:00 ✗ 1 failed $1.20");
        let mut tree = crate::sample::session();
        tree.agents.iter_mut().skip(1).for_each(|agent| agent.flags.clear());
        tree.agents[1].status = AgentStatus::Running;
        tree.agents[1].flags = vec![Flag::Stopping];
        let line = line(&tree, &looks);
        assert!(line.contains(" · 1 stopping · "), "{line}");
    }

    #[test]
    fn ago_has_one_unit() {
        assert_eq!(
            [ago(-5), ago(59_999), ago(60_000), ago(7_200_000), ago(864_000_000)],
            ["0s", "59s", "1m", "2h", "10d"]
        );
    }
}
