//! Header, tabs, time slider and footer.

use ratatui::layout::Rect;
use subscope_render::{
    Detail, Ink,
    inbox::{certain_parts, ended_parts, reading_words},
    style::StyledLine,
    text,
};

use super::paint::{Canvas, push_parts};
use crate::{
    keys::{self, Action},
    state::{
        EventFilter, MouseTarget, Overlay, Panel, SearchScope, UiState, VIEWS, View,
        alerts::{self, Alert},
        select::Filter,
    },
};

/// Draws the header: agents that need a person, counts over all subscribed sessions, cost and clock.
pub(super) fn header(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let counts = state.trees.counts();
    let dot = canvas.glyphs().dot;
    let mut right = StyledLine::default();
    let mut parts = Vec::new();
    // In a narrow terminal what needs the user takes its room.
    let has_room = state.is_wide() || state.inbox.certain() == 0;
    if counts.live > 0 && counts.cost_micro_usd > 0 && has_room {
        let cost = canvas.style.money(counts.cost_micro_usd, counts.cost_floor);
        parts.push((None, format!("live {cost}")));
    }
    let clock = state.clock(state.moment_ms());
    // Seconds only while the frame is redrawn each second.
    let is_minute = state.redraw_ms() > 1_000 && state.travel().is_none();
    parts.push((None, if is_minute { text::prefix(&clock, 5).to_owned() } else { clock }));
    parts.push((Some(Ink::Done), "? help".to_owned()));
    push_parts(&mut right, parts, dot, usize::from(area.width));
    let right_width = u16::try_from(right.width()).unwrap_or(0);

    let mut line = StyledLine::painted(Ink::Strong, " subscope").with(None, "  ");
    let glyphs = canvas.glyphs();
    let mut parts = Vec::new();
    parts.extend(certain_parts(&state.inbox, glyphs).into_iter().map(|part| (Some(part.ink), part.words)));
    if state.is_replay {
        parts.push((None, "replay".to_owned()));
    } else if counts.live == 0 {
        let is_known = state.is_caught_up || state.host_reading.is_some();
        let words = if is_known { "no live sessions" } else { "reading…" };
        parts.push((Some(Ink::Done), canvas.in_charset(words)));
    } else {
        parts.push((None, format!("{} live", counts.live)));
    }
    parts.extend(ended_parts(&state.inbox, glyphs).into_iter().map(|(ink, words)| (Some(ink), words)));
    if counts.running > 0 {
        parts.push((Some(Ink::Running), format!("{} running", text::plural(counts.running, "agent"))));
    }
    if let Some(progress) = state.host_reading {
        parts.push((Some(Ink::Done), reading_words(progress)));
    }
    let room = area.width.saturating_sub(right_width + 3);
    push_parts(&mut line, parts, dot, usize::from(room));
    canvas.line(area.x, area.y, room, line);
    canvas.line(area.right().saturating_sub(right_width + 1), area.y, right_width, right);
}

/// Draws the tabs and the display options in effect.
pub(super) fn tabs(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    canvas.titled_rule(area, StyledLine::default(), StyledLine::default());
    let mut x = area.x + 1;
    // The views of a session come first, then mission control, then the reports.
    let is_listed = |view: View| {
        let is_beside = view == View::Mission || view.is_overview() == state.view.is_overview();
        is_beside && !(state.is_replay && view.is_overview())
    };
    for (view, key, title) in VIEWS.into_iter().filter(|(view, ..)| is_listed(*view)) {
        let is_open = view == state.view;
        let ink = if is_open { Ink::Strong } else { Ink::Done };
        let mut line = StyledLine::default().with(None, " ").with(Some(Ink::Done), &format!("{key} "));
        line.add(Some(ink), title);
        line.push(" ");
        let width = u16::try_from(line.width()).unwrap_or(0);
        if x + width > area.right() {
            return;
        }
        let target = Rect { x, width, ..area };
        canvas.line(x, area.y, width, line);
        if is_open && (state.panel == Panel::Main || view.is_overview()) {
            canvas.select(target, false);
        }
        canvas.add_mouse_target(target, MouseTarget::View(view));
        x += width;
    }
    let right = option_notes(state, canvas);
    let width = u16::try_from(right.width()).unwrap_or(0);
    let mut end = area.right() - 1;
    if width > 0 && x + width + 3 < area.right() {
        end -= width;
        canvas.line(end, area.y, width, right);
    }
    if matches!(state.view, View::Agents | View::Timeline) && state.shows_tree() {
        chips(state, Rect { x: x + 1, width: end.saturating_sub(x + 1), ..area }, canvas);
    }
}

/// Draws at the right end of an area how many agents pass each filter: in words, or in marks where there is no room.
fn chips(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(tree) = state.tree() else { return };
    let glyphs = canvas.glyphs();
    let marks = [
        (Filter::Running, Ink::Running, glyphs.running),
        (Filter::Failed, Ink::Failed, glyphs.failed),
        (Filter::Flagged, Ink::Stalled, glyphs.trouble),
    ];
    let counted = marks.map(|(filter, ink, mark)| {
        let agents = tree.agents.iter().filter(|agent| !agent.id.is_root() && filter.has(agent)).count();
        (filter, ink, mark, agents)
    });
    let shown = || counted.iter().filter(|(filter, .., agents)| *agents > 0 || *filter == state.filter);
    let words = |is_long: bool| -> Vec<(Filter, StyledLine)> {
        let chip = |(filter, ink, mark, agents): &(Filter, Ink, &str, usize)| {
            let name = if is_long { format!("{} ", filter.as_str()) } else { (*mark).to_owned() };
            (*filter, StyledLine::painted(*ink, &format!(" {name}{agents} ")))
        };
        shown().map(chip).collect()
    };
    let width_of = |chips: &[(Filter, StyledLine)]| chips.iter().map(|(_, chip)| chip.width()).sum::<usize>();
    let fitting =
        [words(true), words(false)].into_iter().find(|chips| width_of(chips) <= usize::from(area.width));
    let chips = fitting.unwrap_or_default();
    let mut x = area.right() - u16::try_from(width_of(&chips)).unwrap_or(area.width);
    for (filter, chip) in chips {
        let place = Rect { x, width: u16::try_from(chip.width()).unwrap_or(0), ..area };
        canvas.line(x, area.y, place.width, chip);
        if filter == state.filter {
            canvas.select(place, true);
        }
        canvas.add_mouse_target(place, MouseTarget::Filter(filter));
        x += place.width;
    }
}

/// Display options that differ from the defaults, or the number of running subagents while the tree is hidden.
fn option_notes(state: &UiState, canvas: &Canvas<'_>) -> StyledLine {
    let hidden = state.tree().filter(|_| !state.shows_tree() && state.view == View::Agents);
    let running = hidden.map_or(0, |tree| {
        tree.agents.iter().filter(|agent| !agent.id.is_root() && agent.status.is_live()).count()
    });
    if running > 0 {
        let glyph = canvas.glyphs().current;
        let key = if state.settings.detail == Detail::Off { Action::Detail } else { Action::Tree };
        let words = format!(" {glyph} {running} running ({} to show) ", keys::label(key));
        return StyledLine::painted(Ink::Running, &words);
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
    }
    if state.is_following {
        words.push("following");
    }
    if words.is_empty() {
        return StyledLine::default();
    }
    StyledLine::painted(Ink::Done, &format!(" {} ", words.join(&canvas.in_charset(" · "))))
}

/// Draws the time slider.
pub(super) fn slider(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(travel) = state.travel() else { return };
    let glyphs = canvas.glyphs();
    let mark = if travel.is_playing { glyphs.start } else { glyphs.pause };
    let left = StyledLine::painted(Ink::Strong, &format!(" {mark} {} ", state.clock(travel.at_ms)));
    let past = text::duration(Some(travel.at_ms - travel.from_ms));
    let all = text::duration(Some(travel.to_ms - travel.from_ms));
    let all = format!("of {all} {} {}{} ", glyphs.dot, travel.speed, glyphs.times);
    let right = StyledLine::default().with(None, &format!(" {past} ")).with(Some(Ink::Done), &all);
    let (left_width, right_width) = (left.width() as u16, right.width() as u16);
    canvas.line(area.x, area.y, left_width, left);
    let track =
        Rect { x: area.x + left_width, width: area.width.saturating_sub(left_width + right_width), ..area };
    if track.width < 8 {
        return;
    }
    canvas.line(track.right(), area.y, right_width, right);
    let at = track.x + (travel.progress() * f64::from(track.width - 1)) as u16;
    let [done, knob, rest] = if canvas.style.ascii { ["=", "o", "-"] } else { ["━", "●", "─"] };
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
            if !state.search.text.is_empty() {
                line.push(&format!("  {} found", state.search.hits.len()));
            }
            line.paint(Ink::Done, &canvas.in_charset("   Tab: here or all history · Enter · Esc"));
        }
        Some(Overlay::Stop { title, .. }) => {
            let title = canvas.style.one_line(title, usize::from(area.width).saturating_sub(40).max(12));
            let (open, close) = (canvas.glyphs().open_quote, canvas.glyphs().close_quote);
            line.paint(Ink::Stalled, &format!(" Ask {open}{title}{close} to stop? "));
            for (ink, words) in
                [(Some(Ink::Strong), "y"), (None, " yes  "), (Some(Ink::Strong), "n"), (None, " no")]
            {
                line.add(ink, words);
            }
        }
        Some(Overlay::Permission(prompt)) => {
            line = super::permission::footer(state, prompt, usize::from(area.width), canvas);
        }
        Some(Overlay::Theme { .. }) => {
            let name = state.settings.palette.as_str();
            line.paint(Ink::Strong, &format!(" colors: {name}  "));
            for (action, what) in
                [(Action::Theme, "next"), (Action::Enter, "keep"), (Action::Back, "as before")]
            {
                line.paint(Ink::Strong, first_label(action));
                line.push(&format!(" {what}  "));
            }
        }
        Some(Overlay::Help(_) | Overlay::Hits(_) | Overlay::Palette(_)) | None => {
            let width = usize::from(area.width);
            // A request that can be answered comes before alerts: they stay, it does not.
            let offer = || super::permission::offer(state, width, canvas);
            line = (state.notice.is_none().then(offer).flatten())
                .or_else(|| notice_line(state, canvas))
                .or_else(|| request_line(state, width, canvas))
                .unwrap_or_else(|| hints(state, width));
        }
    }
    canvas.line(area.x, area.y, area.width, line);
}

/// The notice, else the newest displayed alert.
fn notice_line(state: &UiState, canvas: &Canvas<'_>) -> Option<StyledLine> {
    if let Some(notice) = &state.notice {
        let words = canvas.style.one_line(&notice.text, usize::from(state.size.0));
        return Some(StyledLine::painted(notice.ink, &format!(" {words}")));
    }
    let (alert, more) = state.alerts.shown(state.awake_ms)?;
    let (width, end) = (usize::from(state.size.0), alert_end(more, " · Esc", canvas));
    let room = width.saturating_sub(text::width(&end));
    let mut line = alert_line(alert, width, canvas).fit(room, canvas.glyphs().ellipsis);
    line.paint(Ink::Done, &end);
    Some(line)
}

/// Text after an alert: the number of further alerts, and the key that jumps to them.
fn alert_end(more: usize, rest: &str, canvas: &Canvas<'_>) -> String {
    let more = if more > 0 { format!(" · {more} more") } else { String::new() };
    canvas.in_charset(&format!("{more}   {} goes there{rest}", keys::label(Action::Alert)))
}

/// Mark, session, agent, and what happened.
fn alert_line(alert: &Alert, width: usize, canvas: &Canvas<'_>) -> StyledLine {
    let glyphs = canvas.glyphs();
    let mark = match alert.ink {
        Ink::Done => glyphs.completed,
        Ink::Failed => glyphs.failed,
        Ink::Waiting => glyphs.waiting,
        Ink::Running | Ink::Stalled | Ink::Strong => glyphs.trouble,
    };
    let session = canvas.style.one_line(&alert.session_name, (width / 4).max(14));
    let title = canvas.style.one_line(&alert.title, (width / 3).max(14));
    let what = canvas.style.one_line(&alert.what, (width / 2).max(30));
    StyledLine::painted(alert.ink, &format!(" {mark} {session} {} {title} {what}", glyphs.current))
}

/// Least columns of a call that are useful.
const LEAST_CALL: usize = 6;

/// The oldest permission that an agent waits for, with its call, unless that agent is shown.
fn request_line(state: &UiState, width: usize, canvas: &Canvas<'_>) -> Option<StyledLine> {
    let needs = alerts::current(&state.inbox);
    let asks = needs.iter().filter(|need| need.ink == Ink::Waiting);
    let (first, more) = (asks.clone().next()?, asks.count() - 1);
    let is_shown = state.view == View::Mission
        || (state.session() == Some(&first.session) && state.agent_id().as_ref() == Some(&first.agent));
    if is_shown {
        return None;
    }
    let end = alert_end(more, "", canvas);
    let room = width.saturating_sub(text::width(&end));
    let mut line = alert_line(first, width, canvas).fit(room, canvas.glyphs().ellipsis);
    let agent = state.trees.agent(&first.session, &first.agent)?;
    if let Some(call) = state.asked_call(&first.session, agent) {
        let room = room.saturating_sub(line.width() + 2);
        if room >= LEAST_CALL {
            line.push(&format!(": {}", canvas.style.one_line(call, room)));
        }
    }
    line.paint(Ink::Done, &end);
    Some(line)
}

/// Hints for keys of the focused panel, as many as fit.
fn hints(state: &UiState, width: usize) -> StyledLine {
    use Action as A;
    let mut hints: Vec<(Action, &str)> = Vec::new();
    if state.travel().is_some() {
        hints.extend([(A::Pause, "play"), (A::StepOn, "step"), (A::JumpOn, "jump"), (A::Faster, "faster")]);
        if !state.is_replay {
            hints.push((A::Now, "now"));
        }
    }
    let own: &[(Action, &str)] = match (state.panel, state.view) {
        (_, View::Stats) => &[(A::Enter, "to the agent"), (A::Filter, "days"), (A::Mission, "sessions")],
        (_, View::Compare) => &[(A::Enter, "to the agent"), (A::Mission, "sessions")],
        (_, View::Iterations) => &[(A::Enter, "open"), (A::Mission, "sessions")],
        (Panel::Sessions, _) | (Panel::Main, View::Mission) => &[
            (A::Enter, "open"),
            (A::Alert, "what needs you"),
            (A::Search, "search"),
            (A::Stats, "stats"),
            (A::Mark, "mark"),
            (A::Compare, "compare"),
            (A::Copy, "copy id"),
        ],
        (Panel::Detail, _) => &[
            (A::Detail, "detail"),
            (A::Open, "open"),
            (A::Copy, "copy"),
            (A::Spawn, "who called"),
            (A::Stop, "stop"),
        ],
        (Panel::Main, View::Agents) => &[
            (A::Mission, "sessions"),
            (A::Detail, "detail"),
            (A::Timeline, "timeline"),
            (A::Tree, "tree"),
            (A::Palette, "go to"),
            (A::Search, "search"),
            (A::Follow, "follow"),
            (A::Stop, "stop"),
            (A::Open, "open"),
            (A::Filter, "filter"),
            (A::Page, "page"),
        ],
        (Panel::Main, View::Timeline) => {
            &[(A::ZoomIn, "zoom in"), (A::ZoomOut, "out"), (A::Agents, "agents")]
        }
        (Panel::Main, View::Feed) => {
            &[(A::Filter, "kinds"), (A::Scope, "whose"), (A::Search, "text"), (A::Follow, "follow")]
        }
        (Panel::Main, View::Summary) => &[(A::Agents, "agents"), (A::Copy, "copy id")],
    };
    hints.extend(own.iter().filter(|(action, _)| !state.is_replay || *action != A::Mission));
    if state.travel().is_none() && !state.view.is_report() {
        hints.push((A::Pause, "pause"));
    }
    if !state.view.is_report() {
        hints.push((A::NextPanel, "panel"));
    }
    let end = [(A::Help, "keys"), (A::Quit, "quit")];
    let width_of =
        |(action, what): &(Action, &str)| text::width(first_label(*action)) + text::width(what) + 3;
    let reserved: usize = end.iter().map(width_of).sum();
    let mut line = StyledLine::default().with(None, " ");
    let mut used = 1;
    for hint in hints.iter().chain(&end) {
        let is_end = end.contains(hint);
        if !is_end && used + width_of(hint) + reserved > width {
            continue;
        }
        used += width_of(hint);
        line.paint(Ink::Strong, first_label(hint.0));
        line.paint(Ink::Done, &format!(" {}  ", hint.1));
    }
    line
}

/// The label of an action's first key.
fn first_label(action: Action) -> &'static str {
    keys::label(action).split(' ').next().unwrap_or_default()
}
