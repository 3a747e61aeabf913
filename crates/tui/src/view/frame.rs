//! Header, tabs, time slider and footer.

use ratatui::layout::Rect;
use subscope_model::AgentStatus;
use subscope_render::{Detail, Ink, style::StyledLine, text};

use super::paint::{Canvas, push_parts};
use crate::{
    keys::{self, Action},
    state::{EventFilter, MouseTarget, Overlay, Panel, SearchScope, UiState, View},
};

/// Draws the header: counts over all subscribed sessions, cost and clock.
pub(super) fn header(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let counts = state.trees.counts();
    let dot = canvas.glyphs().dot;
    let mut right = StyledLine::default();
    let mut parts = Vec::new();
    if counts.live > 0 && counts.cost_micro_usd > 0 {
        parts.push((None, canvas.style.money(counts.cost_micro_usd, counts.cost_floor)));
    }
    parts.push((None, text::clock(state.moment_ms(), state.settings.offset_minutes)));
    parts.push((Some(Ink::Done), "? help".to_owned()));
    push_parts(&mut right, parts, dot, usize::from(area.width));
    let right_width = u16::try_from(right.width()).unwrap_or(0);

    let mut line = StyledLine::default();
    line.paint(Ink::Strong, " subscope");
    line.push("  ");
    let mut parts = Vec::new();
    if state.is_replay {
        parts.push((None, "replay".to_owned()));
    } else if counts.live == 0 {
        let words = if state.is_caught_up { "no live sessions" } else { "reading…" };
        parts.push((Some(Ink::Done), canvas.in_charset(words)));
    } else {
        parts.push((None, format!("{} live", counts.live)));
    }
    if counts.running > 0 {
        parts.push((Some(Ink::Running), format!("{} running", plural(counts.running, "agent"))));
    }
    if counts.stalled > 0 {
        parts.push((Some(Ink::Stalled), format!("{} stalled", counts.stalled)));
    }
    if counts.waiting > 0 {
        let verb = if counts.waiting == 1 { "waits" } else { "wait" };
        parts.push((Some(Ink::Waiting), format!("{} {verb} for you", counts.waiting)));
    }
    let room = area.width.saturating_sub(right_width + 3);
    push_parts(&mut line, parts, dot, usize::from(room));
    canvas.line(area.x, area.y, room, line);
    canvas.line(area.right().saturating_sub(right_width + 1), area.y, right_width, right);
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Draws the tabs and the display options in effect.
pub(super) fn tabs(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    canvas.titled_rule(area, &StyledLine::default(), &StyledLine::default());
    let mut x = area.x + 1;
    for (at, view) in View::ALL.into_iter().enumerate() {
        let mut line = StyledLine::default();
        line.push(" ");
        line.paint(Ink::Done, &format!("{} ", at + 1));
        let is_open = view == state.view;
        line.add(Some(if is_open { Ink::Strong } else { Ink::Done }), view.as_str());
        line.push(" ");
        let width = u16::try_from(line.width()).unwrap_or(0);
        if x + width > area.right() {
            return;
        }
        let target = Rect { x, width, ..area };
        canvas.line(x, area.y, width, line);
        if is_open && state.panel == Panel::Main {
            canvas.select(target, false);
        }
        canvas.add_mouse_target(target, MouseTarget::View(view));
        x += width;
    }
    let right = option_notes(state, canvas);
    let width = u16::try_from(right.width()).unwrap_or(0);
    if width > 0 && x + width + 3 < area.right() {
        canvas.line(area.right() - width - 1, area.y, width, right);
    }
}

/// Display options that differ from the defaults, or the number of running subagents while the tree is hidden.
fn option_notes(state: &UiState, canvas: &Canvas<'_>) -> StyledLine {
    let mut line = StyledLine::default();
    let hidden = state.tree().filter(|_| !state.shows_tree() && state.view == View::Agents);
    let running = hidden.map_or(0, |tree| {
        tree.agents.iter().filter(|agent| !agent.id.is_root() && agent.status.is_live()).count()
    });
    if running > 0 {
        let glyph = canvas.glyphs().current;
        let key = if state.settings.detail == Detail::Off { Action::Detail } else { Action::Tree };
        let words = plural(running, "subagent");
        line.paint(Ink::Running, &format!(" {glyph} {words} running ({} to show) ", keys::label(key)));
        return line;
    }
    let mut words: Vec<&str> = Vec::new();
    if state.view == View::Feed {
        words.push(state.reading.scope.as_str());
        if state.reading.kinds != EventFilter::All {
            words.push(state.reading.kinds.as_str());
        }
    } else {
        if state.sort != Default::default() {
            words.push(state.sort.as_str());
        }
        if state.filter != Default::default() {
            words.push(state.filter.as_str());
        }
    }
    if state.is_following {
        words.push("following");
    }
    if !words.is_empty() {
        line.paint(Ink::Done, &format!(" {} ", words.join(&canvas.in_charset(" · "))));
    }
    line
}

/// Draws the time slider.
pub(super) fn slider(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(travel) = state.travel() else { return };
    let ascii = canvas.style.ascii;
    let offset = state.settings.offset_minutes;
    let mark = match (travel.is_playing, ascii) {
        (true, false) => "▶",
        (true, true) => ">",
        (false, false) => "‖",
        (false, true) => "=",
    };
    let mut left = StyledLine::default();
    left.paint(Ink::Strong, &format!(" {mark} {} ", text::clock(travel.at_ms, offset)));
    let past = text::duration(Some(travel.at_ms - travel.from_ms));
    let all = text::duration(Some(travel.to_ms - travel.from_ms));
    let mut right = StyledLine::default();
    right.push(&format!(" {past} "));
    right.paint(
        Ink::Done,
        &canvas.in_charset(&format!("of {all} · {}{} ", travel.speed, canvas.glyphs().times)),
    );
    let (left_width, right_width) = (left.width() as u16, right.width() as u16);
    canvas.line(area.x, area.y, left_width, left);
    let track =
        Rect { x: area.x + left_width, width: area.width.saturating_sub(left_width + right_width), ..area };
    if track.width < 8 {
        return;
    }
    canvas.line(track.right(), area.y, right_width, right);
    let at = track.x + (travel.progress() * f64::from(track.width - 1)) as u16;
    let [done, knob, rest] = if ascii { ["=", "o", "-"] } else { ["━", "●", "─"] };
    let (rule, strong) = (canvas.theme.rule(), canvas.theme.ink(Some(Ink::Strong)));
    for x in track.x..track.right() {
        let (symbol, style) = match x.cmp(&at) {
            std::cmp::Ordering::Less => (done, strong),
            std::cmp::Ordering::Equal => (knob, strong),
            std::cmp::Ordering::Greater => (rest, rule),
        };
        canvas.symbol(x, area.y, symbol, style);
    }
    canvas.add_mouse_target(track, MouseTarget::Slider);
}

/// Draws the footer: prompt, else notice or alert, else key hints.
pub(super) fn footer(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let mut line = StyledLine::default();
    match &state.overlay {
        Some(Overlay::Search { text, scope }) => {
            let scope = match scope {
                SearchScope::Here => "search here",
                SearchScope::History => "search all history",
            };
            line.paint(Ink::Strong, &format!(" {scope}: "));
            line.push(&canvas.style.one_line(text, usize::from(area.width)));
            line.paint(Ink::Strong, if canvas.style.ascii { "_" } else { "▏" });
            line.paint(Ink::Done, &canvas.in_charset("   Tab: here or all history · Enter · Esc"));
        }
        Some(Overlay::Stop { title, .. }) => {
            let title = canvas.style.one_line(title, usize::from(area.width).saturating_sub(40).max(12));
            line.paint(
                Ink::Stalled,
                &format!(" Ask {}{title}{} to stop? ", canvas.in_charset("“"), canvas.in_charset("”")),
            );
            line.paint(Ink::Strong, "y");
            line.push(" yes  ");
            line.paint(Ink::Strong, "n");
            line.push(" no");
        }
        Some(Overlay::Help(_) | Overlay::Hits { .. }) | None => {
            if let Some(notice) = notice_line(state, canvas) {
                line = notice;
            } else {
                hints(state, &mut line, usize::from(area.width));
            }
        }
    }
    canvas.line(area.x, area.y, area.width, line);
}

/// The notice, else the newest displayed alert.
fn notice_line(state: &UiState, canvas: &Canvas<'_>) -> Option<StyledLine> {
    let mut line = StyledLine::default();
    if let Some(notice) = &state.notice {
        line.paint(
            notice.ink,
            &format!(" {}", canvas.style.one_line(&notice.text, usize::from(state.size.0))),
        );
        return Some(line);
    }
    let (alert, more) = state.alerts.shown(state.awake_ms)?;
    let mark = if alert.ink == Ink::Done { canvas.glyphs().icon(AgentStatus::Completed) } else { "!" };
    line.paint(alert.ink, &format!(" {mark} {} {}", canvas.style.one_line(&alert.title, 60), alert.what));
    if more > 0 {
        line.paint(Ink::Done, &canvas.in_charset(&format!(" · {more} more")));
    }
    line.paint(Ink::Done, &canvas.in_charset(&format!("   {} goes there · Esc", keys::label(Action::Alert))));
    Some(line)
}

/// Appends hints for keys of the focused panel, as many as fit.
fn hints(state: &UiState, line: &mut StyledLine, width: usize) {
    let mut hints: Vec<(Action, &str)> = Vec::new();
    if state.travel().is_some() {
        hints.extend([
            (Action::Pause, "play"),
            (Action::StepOn, "step"),
            (Action::JumpOn, "jump"),
            (Action::Faster, "faster"),
        ]);
        if !state.is_replay {
            hints.push((Action::Now, "now"));
        }
    }
    match (state.panel, state.view) {
        (Panel::Sessions, _) => {
            hints.extend([(Action::Enter, "open"), (Action::Search, "search"), (Action::Copy, "copy id")])
        }
        (Panel::Detail, _) => {
            hints.extend([
                (Action::Detail, "detail"),
                (Action::Open, "open"),
                (Action::Copy, "copy"),
                (Action::Spawn, "who called"),
                (Action::Stop, "stop"),
            ]);
        }
        (Panel::Main, View::Agents) => hints.extend([
            (Action::Detail, "detail"),
            (Action::Tree, "tree"),
            (Action::Timeline, "timeline"),
            (Action::Search, "search"),
            (Action::Follow, "follow"),
            (Action::Stop, "stop"),
            (Action::Open, "open"),
            (Action::Filter, "filter"),
            (Action::Page, "page"),
        ]),
        (Panel::Main, View::Timeline) => {
            hints.extend([(Action::ZoomIn, "zoom in"), (Action::ZoomOut, "out"), (Action::Agents, "agents")]);
        }
        (Panel::Main, View::Feed) => {
            hints.extend([
                (Action::Filter, "kinds"),
                (Action::Scope, "whose"),
                (Action::Search, "text"),
                (Action::Follow, "follow"),
            ]);
        }
        (Panel::Main, View::Summary) => hints.extend([(Action::Agents, "agents"), (Action::Copy, "copy id")]),
    }
    if state.travel().is_none() {
        hints.push((Action::Pause, "pause"));
    }
    hints.push((Action::NextPanel, "panel"));
    let end = [(Action::Help, "keys"), (Action::Quit, "quit")];
    let width_of =
        |(action, what): &(Action, &str)| text::width(first_label(*action)) + text::width(what) + 3;
    let reserved: usize = end.iter().map(width_of).sum();
    let mut used = 1;
    line.push(" ");
    for hint in hints.iter().chain(&end) {
        let is_end = end.contains(hint);
        if !is_end && used + width_of(hint) + reserved > width {
            continue;
        }
        used += width_of(hint);
        line.paint(Ink::Strong, first_label(hint.0));
        line.paint(Ink::Done, &format!(" {}  ", hint.1));
    }
}

/// The label of an action's first key.
fn first_label(action: Action) -> &'static str {
    keys::label(action).split(' ').next().unwrap_or_default()
}
