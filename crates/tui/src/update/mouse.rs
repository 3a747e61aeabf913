//! Mouse input: a click selects, a click on the selected agent folds it, the wheel scrolls the panel under the pointer.

use ratatui::{
    crossterm::event::{MouseButton, MouseEvent, MouseEventKind},
    layout::{Position, Rect},
};

use super::{
    Effect, display,
    navigation::{self, Stride},
    reports, time,
};
use crate::state::{FeedScope, MouseTarget, Overlay, Panel, UiState, View, select::Filter};

/// Lines per wheel event.
const WHEEL: usize = 3;

pub(super) fn on_mouse(state: &mut UiState, event: MouseEvent) -> Vec<Effect> {
    let position = Position { x: event.column, y: event.row };
    if state.overlay.is_some() {
        if matches!(event.kind, MouseEventKind::Down(_))
            && let Some(Overlay::Theme { before }) = state.overlay.take()
        {
            state.settings.palette = before;
        }
        return Vec::new();
    }
    let is_row = |(area, target): &(Rect, MouseTarget)| {
        matches!(target, MouseTarget::Session(_)) && area.contains(position)
    };
    if state.drawn.mouse_targets.iter().any(is_row) {
        state.sessions.pointed_ms = Some(state.awake_ms);
    }
    let mouse_targets = || state.drawn.mouse_targets.iter().rev().filter(|(area, _)| area.contains(position));
    use MouseEventKind as Kind;
    match event.kind {
        Kind::Down(MouseButton::Left) | Kind::Drag(MouseButton::Left) => {
            let Some((area, target)) = mouse_targets().next().cloned() else { return Vec::new() };
            let is_click = matches!(event.kind, MouseEventKind::Down(_));
            if let MouseTarget::Slider = target {
                let share = f64::from(event.column - area.x) / f64::from(area.width.max(2) - 1);
                time::seek(state, share);
            } else if is_click {
                navigation::choose_session(state);
                return click(state, target);
            }
        }
        Kind::ScrollUp | Kind::ScrollDown => {
            let panel = mouse_targets().find_map(|(_, target)| match target {
                MouseTarget::Panel(panel) => Some(*panel),
                MouseTarget::Session(_)
                | MouseTarget::Agent(_)
                | MouseTarget::Call(..)
                | MouseTarget::Filter(_)
                | MouseTarget::Event(..)
                | MouseTarget::View(_)
                | MouseTarget::Place(_)
                | MouseTarget::Range(_)
                | MouseTarget::Slider => None,
            });
            let Some(panel) = panel else { return Vec::new() };
            let before = std::mem::replace(&mut state.panel, panel);
            let by = if event.kind == MouseEventKind::ScrollUp { -1 } else { 1 };
            for _ in 0..WHEEL {
                navigation::move_selection(state, &Stride::By(by));
            }
            state.panel = before;
        }
        Kind::Down(_) | Kind::Drag(_) | Kind::Up(_) | Kind::Moved | Kind::ScrollLeft | Kind::ScrollRight => {}
    }
    Vec::new()
}

fn click(state: &mut UiState, target: MouseTarget) -> Vec<Effect> {
    match target {
        MouseTarget::Panel(panel) => state.panel = panel,
        MouseTarget::Session(session) => {
            state.panel = Panel::Sessions;
            if state.session() == Some(&session) {
                navigation::open_session(state);
            }
            navigation::select_session(state, session);
        }
        MouseTarget::Agent(agent) => {
            let is_again = state.panel == Panel::Main && state.agent_id().as_ref() == Some(&agent);
            state.panel = Panel::Main;
            if is_again {
                display::toggle_fold(state);
            } else {
                navigation::select_agent(state, agent);
            }
        }
        MouseTarget::Call(agent, call) => {
            state.panel = Panel::Main;
            navigation::select_call(state, agent, call);
        }
        // The filter in effect is taken off.
        MouseTarget::Filter(filter) if filter == state.filter => display::choose_filter(state, Filter::All),
        MouseTarget::Filter(filter) => display::choose_filter(state, filter),
        MouseTarget::Event(session, agent) => {
            navigation::select_session(state, session);
            navigation::select_agent(state, agent);
            if state.reading.scope == FeedScope::Agent {
                state.reading.feed_up = 0;
            }
        }
        MouseTarget::View(View::Mission) => display::toggle_mission(state),
        MouseTarget::View(view) if view.is_report() => return reports::open(state, view),
        MouseTarget::Place(place) => reports::go_to(state, place),
        MouseTarget::Range(range) => return reports::choose_range(state, range),
        MouseTarget::View(view) => {
            state.view = view;
            if state.panel == Panel::Sessions || !matches!(view, View::Agents | View::Timeline) {
                state.panel = Panel::Main;
            }
        }
        MouseTarget::Slider => {}
    }
    Vec::new()
}
