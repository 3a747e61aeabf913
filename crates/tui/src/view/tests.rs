//! Snapshots of recorded sessions at common terminal sizes, and properties that hold at any size.

use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use subscope_model::{AgentStatus, Flag, ToolCall, ToolStatus};
use subscope_render::{Detail, text};

use super::*;
use crate::{
    state::{MouseTarget, VIEWS, select::Filter},
    test_ui::TestUi,
    update::UiMessage,
};

/// Small, default, window-sized and full-screen terminals.
const SIZES: [(u16, u16); 4] = [(60, 20), (80, 24), (120, 40), (200, 60)];

fn shot(name: &str, ui: &mut TestUi) {
    let (width, height) = ui.state.size;
    insta::assert_snapshot!(format!("{name}_{width}x{height}"), ui.screen());
}

#[test]
fn agents_at_each_detail_and_size() {
    for (width, height) in SIZES {
        for detail in Detail::ALL {
            let mut ui = TestUi::live(width, height);
            ui.state.settings.detail = detail;
            ui.state.selected_agents.insert(ui.session(), ui.state.tree().unwrap().agents[5].id.clone());
            shot(&format!("agents_{}", detail.as_str()), &mut ui);
        }
    }
}

#[test]
fn views_at_each_size() {
    for (width, height) in SIZES {
        for (view, _, title) in VIEWS.into_iter().filter(|(view, ..)| *view != View::Agents) {
            let mut ui = TestUi::live(width, height);
            ui.state.view = view;
            let name = if view == View::Mission { "mission".to_owned() } else { title.to_lowercase() };
            shot(&name, &mut ui);
        }
        let mut ui = TestUi::live(width, height);
        ui.state.panel = Panel::Sessions;
        shot("sessions", &mut ui);
        ui.press(&[KeyCode::Char('?')]);
        shot("help", &mut ui);
        let mut ui = TestUi::empty(width, height);
        ui.state.is_caught_up = true;
        shot("nothing", &mut ui);
    }
}

#[test]
fn unfolded_agents_at_each_size() {
    for (width, height) in SIZES {
        let mut ui = TestUi::live(width, height);
        ui.press(&[KeyCode::Down, KeyCode::Char('x'), KeyCode::Down, KeyCode::Down]);
        shot("unfolded", &mut ui);
        ui.press(&[KeyCode::Char('2')]);
        shot("unfolded_timeline", &mut ui);
    }
}

#[test]
fn row_of_a_call_tells_tool_subject_duration_and_outcome() {
    let mut ui = TestUi::live(120, 40);
    ui.change(|tree| {
        tree.agents.truncate(2);
        let agent = &mut tree.agents[1];
        agent.status = AgentStatus::Running;
        let call = agent.tools[0].clone();
        let statuses = [ToolStatus::Ok, ToolStatus::Error, ToolStatus::Denied, ToolStatus::Open];
        agent.tools = (0..)
            .zip(statuses)
            .map(|(at, status)| ToolCall {
                id: None,
                name: format!("Tool{at}").into(),
                detail: Some("its subject".into()),
                status,
                ended_at_ms: call
                    .started_at_ms
                    .filter(|_| status != ToolStatus::Open)
                    .map(|start| start + 2_000),
                ..call.clone()
            })
            .collect();
    });
    ui.press(&[KeyCode::Down, KeyCode::Char('x')]);
    let screen = ui.screen();
    for (at, mark, span) in [(0, '✓', "2s"), (1, '✗', "2s"), (2, '⊘', "2s"), (3, '▸', "s")] {
        let row = screen.lines().find(|line| line.contains(&format!("─{mark} Tool{at} its subject")));
        assert!(row.is_some_and(|row| row.trim_end().ends_with(span)), "{mark}\n{screen}");
    }
    // Without ids they are told apart by their place.
    ui.press(&[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!(ui.state.selected_row(), Some(4));
}

#[test]
fn tree_has_half_of_a_wide_screen() {
    let mut ui = TestUi::live(200, 60);
    ui.frame();
    let is_tree = |(_, target): &&(Rect, MouseTarget)| *target == MouseTarget::Panel(Panel::Main);
    let (tree, _) = ui.state.drawn.mouse_targets.iter().find(is_tree).unwrap();
    assert!(tree.width >= 100, "{tree:?}");
}

#[test]
fn chips_count_agents_and_filter_them() {
    let mut ui = TestUi::live(160, 40);
    ui.change(|tree| {
        tree.agents[1].status = AgentStatus::Failed;
        tree.agents[2].flags = vec![Flag::Looping];
        tree.agents[3].flags = vec![Flag::Stalled];
    });
    let screen = ui.screen();
    assert!(screen.contains(" failed 1  flagged 2 "), "{screen}");
    let click = |ui: &mut TestUi, filter| {
        let is_chip = |(_, target): &&(Rect, MouseTarget)| *target == MouseTarget::Filter(filter);
        let (area, _) = *ui.state.drawn.mouse_targets.iter().find(is_chip).unwrap();
        let kind = MouseEventKind::Down(MouseButton::Left);
        let modifiers = KeyModifiers::NONE;
        ui.send(UiMessage::Mouse(MouseEvent { kind, column: area.x + 1, row: area.y, modifiers }));
        ui.frame();
    };
    let all = ui.state.rows.len();
    click(&mut ui, Filter::Flagged);
    assert_eq!(ui.state.rows.len(), 3, "two, and the root");
    click(&mut ui, Filter::Flagged);
    assert_eq!(ui.state.rows.len(), all);
    ui.send(UiMessage::Resize(80, 24));
    let screen = ui.screen();
    assert!(screen.contains("✗1  !2 "), "{screen}");
}

#[test]
fn first_words_are_whole_at_any_width() {
    for width in [40, 44, 50, 59] {
        let mut ui = TestUi::empty(width, 30);
        ui.state.is_caught_up = true;
        let words: Vec<String> = ui.screen().split_whitespace().map(str::to_owned).collect();
        let text = words.join(" ");
        for sentence in [
            "What Claude Code does on this machine appears here by itself.",
            "recording that is part of the program",
        ] {
            assert!(text.contains(sentence), "{width}: {text}");
        }
    }
}

#[test]
fn trouble_has_its_colour_and_its_words() {
    let mut ui = TestUi::live(100, 30);
    ui.state.settings.detail = Detail::Minimal;
    ui.change(|tree| {
        tree.agents[1].status = AgentStatus::Running;
        tree.agents[1].flags = vec![Flag::Stalled];
        tree.agents[2].status = AgentStatus::Failed;
    });
    let buffer = ui.frame();
    let theme = crate::theme::Theme::new(ui.state.settings.palette, true);
    let color_of = |symbol: &str, after: &str| {
        let rows =
            (0..buffer.area.height).map(|y| (0..buffer.area.width).map(move |x| (x, y)).collect::<Vec<_>>());
        let row = rows
            .into_iter()
            .find(|row| row.iter().map(|at| buffer[*at].symbol()).collect::<String>().contains(after));
        let at = row.unwrap().into_iter().find(|at| buffer[*at].symbol() == symbol).unwrap();
        buffer[at].fg
    };
    let ink = |ink| theme.ink(Some(ink)).fg.unwrap();
    assert_eq!(color_of("◐", "Cart and its tests"), ink(subscope_render::Ink::Stalled));
    assert_eq!(color_of("✗", "Pricing and disc"), ink(subscope_render::Ink::Failed));
}

#[test]
fn no_size_breaks_the_screen_and_what_is_cut_is_marked() {
    let mut ui = TestUi::live(120, 40);
    for (view, ..) in VIEWS {
        for panel in [Panel::Sessions, Panel::Main, Panel::Detail] {
            for (width, height) in [(1, 1), (20, 6), (33, 9), (59, 14), (100, 15), (171, 50), (300, 90)] {
                (ui.state.view, ui.state.panel) = (view, panel);
                ui.send(UiMessage::Resize(width, height));
                let screen = ui.screen();
                assert!(
                    screen.lines().all(|line| text::width(line) <= usize::from(width)),
                    "{width}x{height}"
                );
            }
        }
    }
    ui.send(UiMessage::Resize(60, 20));
    ui.state.settings.detail = Detail::Minimal;
    (ui.state.view, ui.state.panel) = (View::Agents, Panel::Main);
    let screen = ui.screen();
    let row = screen.lines().find(|line| line.contains("main Do a full")).unwrap();
    assert!(row.contains('…'), "{row}");
}

#[test]
fn wide_hostile_and_right_to_left_text_stays_in_its_place() {
    let mut ui = TestUi::live(90, 30);
    ui.change(|tree| {
        tree.agents[1].description = Some("店の説明を日本語に翻訳する 🎉👩‍👩‍👧 \u{1b}[2J and more of it".into());
        tree.agents[2].description = Some("שלום \u{202e}gpj.exe".into());
        tree.session.title = Some("\u{1b}]0;owned\u{7}".into());
    });
    ui.state.view = View::Timeline;
    for view in [View::Agents, View::Timeline] {
        ui.state.view = view;
        let screen = ui.screen();
        assert!(screen.contains("店の説明"), "{screen}");
        assert!(!screen.contains('\u{1b}') && !screen.contains('\u{202e}'), "{screen}");
        assert!(screen.lines().all(|line| text::width(line) <= 90), "{screen}");
    }
}

#[test]
fn timeline_says_what_the_critical_path_consists_of() {
    let mut ui = TestUi::live(160, 60);
    ui.state.view = View::Timeline;
    let screen = ui.screen();
    let sentence = ui.state.timeline_view.timeline.as_ref().unwrap().path.sentence();
    let begin: String = sentence.chars().take(60).collect();
    assert!(begin.len() > 20 && screen.contains(&format!("critical path {begin}")), "{sentence}\n{screen}");
}

#[test]
fn ascii_draws_ascii_only_around_ascii_texts() {
    let mut ui = TestUi::live(120, 40);
    ui.state.settings.style.ascii = true;
    // The detail of a call is stored with its ellipsis, which is not ASCII.
    ui.change(|tree| {
        tree.agents.iter_mut().flat_map(|agent| &mut agent.tools).for_each(|call| call.detail = None);
    });
    for (view, ..) in VIEWS {
        ui.state.view = view;
        let screen = ui.screen();
        let odd: Vec<char> = screen.chars().filter(|character| !character.is_ascii()).collect();
        assert_eq!(odd, [], "{view:?}\n{screen}");
    }
    for key in ['?', '/', ' '] {
        ui.press(&[KeyCode::Char(key)]);
        let screen = ui.screen();
        assert!(screen.is_ascii(), "{screen}");
        ui.press(&[KeyCode::Esc]);
    }
}

#[test]
fn drawing_the_same_state_gives_the_same_screen() {
    let mut ui = TestUi::live(120, 40);
    assert_eq!(ui.frame(), ui.frame());
}
