//! The mouse: clicks select, a click on what is selected folds, the wheel scrolls what is under it.

use ratatui::{
    crossterm::event::{MouseButton, MouseEvent, MouseEventKind},
    layout::Position,
};

use super::{Effect, moves, shows, time};
use crate::{
    keys::Action,
    state::{Panel, Scope, Spot, State, View},
};

/// Lines that one turn of the wheel moves.
const WHEEL: usize = 3;

pub(super) fn on_mouse(state: &mut State, event: MouseEvent) -> Vec<Effect> {
    let position = Position { x: event.column, y: event.row };
    if state.overlay.is_some() {
        if matches!(event.kind, MouseEventKind::Down(_)) {
            state.overlay = None;
        }
        return Vec::new();
    }
    let spots = || state.drawn.spots.iter().rev().filter(|(area, _)| area.contains(position));
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) | MouseEventKind::Drag(MouseButton::Left) => {
            let Some((area, spot)) = spots().next().cloned() else { return Vec::new() };
            let is_click = matches!(event.kind, MouseEventKind::Down(_));
            if let Spot::Slider = spot {
                let share = f64::from(event.column - area.x) / f64::from(area.width.max(2) - 1);
                time::seek(state, share);
            } else if is_click {
                click(state, spot);
            }
        }
        MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
            let panel = spots().find_map(|(_, spot)| match spot {
                Spot::Panel(panel) => Some(*panel),
                _ => None,
            });
            let Some(panel) = panel else { return Vec::new() };
            let before = std::mem::replace(&mut state.panel, panel);
            let action = if event.kind == MouseEventKind::ScrollUp { Action::Up } else { Action::Down };
            for _ in 0..WHEEL {
                moves::along(state, action);
            }
            state.panel = before;
        }
        _ => {}
    }
    Vec::new()
}

fn click(state: &mut State, spot: Spot) {
    match spot {
        Spot::Panel(panel) => state.panel = panel,
        Spot::Session(session) => {
            state.panel = Panel::Sessions;
            if state.session() == Some(&session) {
                state.panel = Panel::Main;
            }
            moves::choose_session(state, session);
        }
        Spot::Agent(agent) => {
            let is_again = state.panel == Panel::Main && state.agent_id().as_ref() == Some(&agent);
            state.panel = Panel::Main;
            if is_again {
                shows::change(state, Action::Fold);
            } else {
                moves::choose_agent(state, agent);
            }
        }
        Spot::LogEntry(session, agent) => {
            moves::choose_session(state, session);
            moves::choose_agent(state, agent);
            if state.reading.scope == Scope::Agent {
                state.reading.feed_up = 0;
            }
        }
        Spot::View(view) => {
            state.view = view;
            if state.panel == Panel::Sessions || !matches!(view, View::Agents | View::Timeline) {
                state.panel = Panel::Main;
            }
        }
        Spot::Slider => {}
    }
}
