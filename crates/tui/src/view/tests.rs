//! Screens of real recordings, at the sizes that people have, and what must hold at any size.

use subscope_model::{AgentStatus, Flag};
use subscope_render::{Detail, text};

use super::*;
use crate::stage::Stage;

/// A small terminal, the usual one, a window, a whole screen.
const SIZES: [(u16, u16); 4] = [(60, 20), (80, 24), (120, 40), (200, 60)];

fn shot(name: &str, stage: &mut Stage) {
    let (width, height) = stage.state.size;
    insta::assert_snapshot!(format!("{name}_{width}x{height}"), stage.screen());
}

#[test]
fn agents_at_each_detail_and_size() {
    for (width, height) in SIZES {
        for detail in Detail::ALL {
            let mut stage = Stage::live(width, height);
            stage.state.settings.detail = detail;
            stage.state.chosen.insert(stage.session(), stage.state.tree().unwrap().agents[5].id.clone());
            shot(&format!("agents_{}", detail.as_str()), &mut stage);
        }
    }
}

#[test]
fn views_at_each_size() {
    for (width, height) in SIZES {
        for view in [View::Timeline, View::Feed, View::Summary] {
            let mut stage = Stage::live(width, height);
            stage.state.view = view;
            shot(&view.title().to_lowercase(), &mut stage);
        }
        let mut stage = Stage::live(width, height);
        stage.state.panel = Panel::Sessions;
        shot("sessions", &mut stage);
        stage.press(&[ratatui::crossterm::event::KeyCode::Char('?')]);
        shot("help", &mut stage);
        let mut stage = Stage::empty(width, height);
        stage.state.is_caught_up = true;
        shot("nothing", &mut stage);
    }
}

#[test]
fn trouble_has_its_colour_and_its_words() {
    let mut stage = Stage::live(100, 30);
    stage.state.settings.detail = Detail::Minimal;
    stage.change(|tree| {
        tree.agents[1].status = AgentStatus::Running;
        tree.agents[1].flags = vec![Flag::Stalled];
        tree.agents[2].status = AgentStatus::Failed;
    });
    let buffer = stage.frame();
    let theme = crate::theme::Theme::new(stage.state.settings.palette, true);
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
    let mut stage = Stage::live(120, 40);
    for view in View::ALL {
        for panel in [Panel::Sessions, Panel::Main, Panel::Detail] {
            for (width, height) in [(1, 1), (20, 6), (33, 9), (59, 14), (100, 15), (171, 50), (300, 90)] {
                (stage.state.view, stage.state.panel) = (view, panel);
                stage.send(crate::update::Message::Resize(width, height));
                let screen = stage.screen();
                assert!(
                    screen.lines().all(|line| text::width(line) <= usize::from(width)),
                    "{width}x{height}"
                );
            }
        }
    }
    stage.send(crate::update::Message::Resize(60, 20));
    stage.state.settings.detail = Detail::Minimal;
    (stage.state.view, stage.state.panel) = (View::Agents, Panel::Main);
    let screen = stage.screen();
    let row = screen.lines().find(|line| line.contains("main Do a full")).unwrap();
    assert!(row.contains('…'), "{row}");
}

#[test]
fn wide_hostile_and_right_to_left_text_stays_in_its_place() {
    let mut stage = Stage::live(90, 30);
    stage.change(|tree| {
        tree.agents[1].description = Some("店の説明を日本語に翻訳する 🎉👩‍👩‍👧 \u{1b}[2J and more of it".into());
        tree.agents[2].description = Some("שלום \u{202e}gpj.exe".into());
        tree.session.title = Some("\u{1b}]0;owned\u{7}".into());
    });
    stage.state.view = View::Timeline;
    for view in [View::Agents, View::Timeline] {
        stage.state.view = view;
        let screen = stage.screen();
        assert!(screen.contains("店の説明"), "{screen}");
        assert!(!screen.contains('\u{1b}') && !screen.contains('\u{202e}'), "{screen}");
        assert!(screen.lines().all(|line| text::width(line) <= 90), "{screen}");
    }
}

#[test]
fn ascii_draws_ascii_only_around_ascii_texts() {
    let mut stage = Stage::live(120, 40);
    stage.state.settings.style.ascii = true;
    // A row says by itself that a command goes on.
    stage.change(|tree| {
        tree.agents.iter_mut().flat_map(|agent| &mut agent.tools).for_each(|call| call.detail = None);
    });
    for view in View::ALL {
        stage.state.view = view;
        let screen = stage.screen();
        let odd: Vec<char> = screen.chars().filter(|character| !character.is_ascii()).collect();
        assert_eq!(odd, [], "{view:?}\n{screen}");
    }
    for key in ['?', '/', ' '] {
        stage.press(&[ratatui::crossterm::event::KeyCode::Char(key)]);
        let screen = stage.screen();
        assert!(screen.is_ascii(), "{screen}");
        stage.press(&[ratatui::crossterm::event::KeyCode::Esc]);
    }
}

#[test]
fn drawing_the_same_state_gives_the_same_screen() {
    let mut stage = Stage::live(120, 40);
    assert_eq!(stage.frame(), stage.frame());
}
