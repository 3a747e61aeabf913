//! Every key of the help does what the help says. A new action does not compile until it has a step here.

use ratatui::crossterm::event::KeyCode as K;
use subscope_model::AgentStatus;
use subscope_render::Detail;

use super::*;
use crate::{
    ask::Question,
    keys::{Action, KEYS, Key},
    settings::{Setting, TreePanel},
    state::{Kinds, Overlay, Reach, Scope, select::Filter, select::Sort},
    theme::Palette,
};

#[test]
fn every_key_of_the_help_does_what_it_says() {
    for key in KEYS {
        for code in key.codes {
            let mut stage = Stage::live(120, 40);
            stage.asked();
            step(&mut stage, key, *code);
        }
    }
}

fn press(stage: &mut Stage, (code, modifiers): (K, KeyModifiers)) {
    stage.press_with(code, modifiers);
}

fn row(stage: &Stage) -> usize {
    stage.state.row_at().unwrap()
}

fn step(stage: &mut Stage, key: &Key, code: (K, KeyModifiers)) {
    let what = format!("{:?} by {code:?}", key.action);
    match key.action {
        Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::First | Action::Last => {
            lists(stage, key.action, code, &what);
        }
        Action::Left | Action::Right | Action::Fold => branches(stage, key.action, code, &what),
        Action::NextPanel | Action::PreviousPanel | Action::Enter | Action::Back => {
            panels(stage, key.action, code, &what);
        }
        Action::Agents | Action::Timeline | Action::Feed | Action::Summary => {
            views(stage, key.action, code, &what);
        }
        Action::Detail | Action::Tree | Action::Theme => settings(stage, key.action, code, &what),
        Action::Sort | Action::Filter | Action::Scope | Action::ZoomIn | Action::ZoomOut => {
            shown(stage, key.action, code, &what);
        }
        Action::Search | Action::NextHit | Action::PreviousHit => search(stage, key.action, code, &what),
        Action::Follow | Action::Spawn | Action::Alert => find(stage, key.action, code, &what),
        Action::Stop | Action::Open | Action::Copy | Action::Page | Action::Help => {
            act(stage, key.action, code, &what);
        }
        Action::Pause | Action::StepBack | Action::StepOn | Action::JumpBack | Action::JumpOn => {
            time(stage, key.action, code, &what);
        }
        Action::Slower | Action::Faster | Action::Now => pace(stage, key.action, code, &what),
        Action::Suspend => {
            press(stage, code);
            assert_eq!(stage.effects, [Effect::Suspend], "{what}");
        }
        Action::Quit => {
            press(stage, code);
            assert_eq!(stage.effects, [Effect::Quit], "{what}");
        }
    }
}

fn lists(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    let last = stage.state.rows.len() - 1;
    stage.press(&[K::Down, K::Down, K::Down]);
    press(stage, code);
    let page = stage.state.drawn.page - 1;
    let expected = match action {
        Action::Up => 2,
        Action::Down => 4,
        Action::PageUp => 3usize.saturating_sub(page),
        Action::PageDown => (3 + page).min(last),
        Action::First => 0,
        _ => last,
    };
    assert_eq!(row(stage), expected, "{what}");
    // The same keys scroll what has lines.
    stage.state.settings.detail = Detail::Full;
    stage.press(&[K::Home, K::Enter, K::Up, K::Up, K::Up]);
    let before = stage.state.reading.up;
    press(stage, code);
    let after = stage.state.reading.up;
    let is_up = matches!(action, Action::Up | Action::PageUp | Action::First);
    assert!(before > 0 && if is_up { after > before } else { after < before }, "{what}: {before} {after}");
}

fn branches(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    let all = stage.state.rows.len();
    if action == Action::Fold {
        press(stage, code);
        assert_eq!(stage.state.rows.len(), 1, "{what}");
        press(stage, code);
        assert_eq!(stage.state.rows.len(), all, "{what}");
        return;
    }
    stage.press(&[K::Down]);
    if action == Action::Left {
        press(stage, code);
        assert_eq!(row(stage), 0, "{what}: to the parent");
        press(stage, code);
        assert_eq!(stage.state.rows.len(), 1, "{what}: folds");
    } else {
        press(stage, code);
        assert_eq!(stage.state.panel, Panel::Detail, "{what}: in");
        stage.press(&[K::Esc, K::Home, K::Char('z')]);
        press(stage, code);
        assert_eq!((stage.state.rows.len(), row(stage)), (all, 0), "{what}: unfolds");
        press(stage, code);
        assert_eq!(row(stage), 1, "{what}: to the first below");
    }
    // On a time axis they go through time.
    stage.press(&[K::Home, K::Char('2'), K::Char('+'), K::Char('+')]);
    let (from, _) = stage.state.drawn.axis.unwrap();
    if action == Action::Right {
        stage.press(&[K::Left, K::Left]);
    }
    let (before, _) = stage.state.drawn.axis.unwrap();
    press(stage, code);
    let (after, _) = stage.state.drawn.axis.unwrap();
    let is_right = if action == Action::Left { after < from } else { after > before };
    assert!(is_right, "{what}: {from} {before} {after}");
}

fn panels(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    press(stage, code);
    let expected = match action {
        Action::NextPanel | Action::Enter => Panel::Detail,
        _ => Panel::Sessions,
    };
    assert_eq!(stage.state.panel, expected, "{what}");
    press(stage, code);
    let expected = match action {
        Action::NextPanel => Panel::Sessions,
        Action::Enter | Action::PreviousPanel => Panel::Detail,
        _ => Panel::Sessions,
    };
    assert_eq!(stage.state.panel, expected, "{what}");
    if action == Action::Back {
        stage.press(&[K::Enter, K::Char('/')]);
        stage.type_text("cart");
        stage.press(&[K::Enter]);
        press(stage, code);
        assert!(stage.state.search.text.is_empty() && stage.state.panel == Panel::Main, "{what}");
    }
}

fn views(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    stage.state.view = if action == Action::Agents { View::Feed } else { View::Agents };
    press(stage, code);
    let (view, words) = match action {
        Action::Agents => (View::Agents, "Agent Tree"),
        Action::Timeline => (View::Timeline, "waits for you"),
        Action::Feed => (View::Feed, "this session"),
        _ => (View::Summary, "agents by type"),
    };
    assert_eq!(stage.state.view, view, "{what}");
    assert!(stage.screen().contains(words), "{what}: {}", stage.screen());
    press(stage, code);
    assert_eq!(stage.state.view, View::Agents, "{what}: again leads back");
}

fn settings(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    let before = stage.frame();
    press(stage, code);
    let kept = match action {
        Action::Detail => {
            assert_eq!(stage.state.settings.detail, Detail::Full, "{what}");
            Question::Keep(Setting::Detail, "full")
        }
        Action::Tree => {
            assert_eq!(stage.state.settings.tree, TreePanel::Hidden, "{what}");
            let screen = stage.screen();
            assert!(
                !screen.contains("Agent Tree") && screen.contains("running (T to show)"),
                "{what}: {screen}"
            );
            Question::Keep(Setting::Tree, "hidden")
        }
        _ => {
            assert_eq!(stage.state.settings.palette, Palette::Light, "{what}");
            Question::Keep(Setting::Theme, "light")
        }
    };
    assert_eq!(stage.asked(), [kept], "{what}");
    assert_ne!(stage.frame(), before, "{what} changes the screen");
    if action == Action::Tree {
        press(stage, code);
        assert!(stage.screen().contains("Agent Tree"), "{what}");
    }
}

fn shown(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    match action {
        Action::Sort => {
            press(stage, code);
            assert_eq!(stage.state.sort, Sort::Activity, "{what}");
        }
        Action::Filter => {
            let all = stage.state.rows.len();
            press(stage, code);
            assert!(stage.state.filter == Filter::Running && stage.state.rows.len() < all, "{what}");
            stage.press(&[K::Char('3')]);
            press(stage, code);
            assert_eq!(stage.state.reading.kinds, Kinds::Tools, "{what}");
            assert!(!stage.screen().contains('»'), "{what}: {}", stage.screen());
        }
        Action::Scope => {
            stage.press(&[K::Down]);
            press(stage, code);
            assert_eq!((stage.state.view, stage.state.reading.scope), (View::Feed, Scope::Agent), "{what}");
            assert!(stage.screen().contains("the selected agent"), "{what}");
        }
        _ => {
            stage.press(&[K::Char('2'), K::Char('+')]);
            let (_, before) = stage.state.drawn.axis.unwrap();
            press(stage, code);
            let (_, after) = stage.state.drawn.axis.unwrap();
            let factor = if action == Action::ZoomIn { 0.5 } else { 2.0 };
            assert!((after / before - factor).abs() < 1e-9, "{what}: {before} {after}");
        }
    }
}

fn search(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    if action == Action::Search {
        press(stage, code);
        assert_eq!(
            stage.state.overlay,
            Some(Overlay::Search { text: String::new(), reach: Reach::Here }),
            "{what}"
        );
        stage.type_text("INVENTORY AND");
        stage.press(&[K::Enter]);
        assert!(stage.state.agent().unwrap().title().contains("Inventory and stock"), "{what}");
        return;
    }
    stage.press(&[K::Char('/')]);
    stage.type_text("explore");
    stage.press(&[K::Enter]);
    let hits = stage.state.search.hits.clone();
    assert!(hits.len() >= 2, "{what}: {hits:?}");
    assert_eq!(stage.agent(), hits[0].to_string(), "{what}");
    press(stage, code);
    let expected = if action == Action::NextHit { &hits[1] } else { &hits[hits.len() - 1] };
    assert_eq!(stage.agent(), expected.to_string(), "{what}");
}

fn find(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    match action {
        Action::Follow => {
            press(stage, code);
            let (_, events) = recorded("k-big", None);
            let own = |event: &&subscope_model::Event| {
                event.kind == subscope_model::EventKind::ToolPre && !event.actor_id.0.is_root()
            };
            let mut event = events.iter().rfind(own).unwrap().clone();
            event.id = "new".into();
            let agent = event.actor_id.0.to_string();
            stage.send(Message::Feed(Update::Event(Box::new(event))));
            assert_eq!(stage.agent(), agent, "{what}");
        }
        Action::Spawn => {
            stage.press(&[K::Down]);
            let call = stage.state.agent().unwrap().spawned_by.clone().unwrap();
            press(stage, code);
            assert_eq!((stage.agent().as_str(), stage.state.panel), ("root", Panel::Detail), "{what}");
            assert_eq!(stage.state.reading.call.as_deref(), Some(call.as_str()), "{what}");
            assert!(stage.screen().contains("Agent Cart and its tests"), "{what}: {}", stage.screen());
        }
        _ => {
            let agent = stage.state.tree().unwrap().agents[3].id.to_string();
            stage.change(|tree| tree.agents[3].status = AgentStatus::Running);
            stage.change(|tree| tree.agents[3].flags = vec![Flag::Looping]);
            press(stage, code);
            assert_eq!(stage.agent(), agent, "{what}");
            assert!(!stage.screen().contains("goes there"), "{what}");
        }
    }
}

fn act(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    match action {
        Action::Stop => {
            press(stage, code);
            assert!(stage.screen().contains("only subagents can be stopped"), "{what}");
            let live =
                stage.state.tree().unwrap().agents.iter().rposition(|agent| agent.status.is_live()).unwrap();
            stage.press(&vec![K::Down; live]);
            let (session, agent) = (stage.session(), stage.state.agent_id().unwrap());
            press(stage, code);
            assert!(stage.screen().contains("to stop? y yes"), "{what}: {}", stage.screen());
            stage.press(&[K::Char('x'), K::Char('n')]);
            assert_eq!((stage.asked(), &stage.state.overlay), (Vec::new(), &None), "{what}: no is no");
            press(stage, code);
            stage.press(&[K::Char('y')]);
            assert_eq!(stage.asked(), [Question::Stop(session, agent)], "{what}");
        }
        Action::Open => {
            stage.press(&[K::Down]);
            press(stage, code);
            let [Effect::Open(text)] = stage.effects.as_slice() else {
                panic!("{what}: {:?}", stage.effects)
            };
            assert!(text.contains("Cart and its tests") && text.contains("task Survey"), "{what}: {text}");
        }
        Action::Copy => {
            stage.press(&[K::Down]);
            let agent = stage.agent();
            press(stage, code);
            assert_eq!(stage.effects, [Effect::Copy(agent)], "{what}");
            stage.effects.clear();
            stage.press(&[K::Tab]);
            press(stage, code);
            let [Effect::Copy(text)] = stage.effects.as_slice() else {
                panic!("{what}: {:?}", stage.effects)
            };
            assert!(text.contains("One remark for the release notes"), "{what}: {text}");
        }
        Action::Page => {
            press(stage, code);
            assert_eq!(stage.asked(), [Question::Page], "{what}");
        }
        _ => {
            press(stage, code);
            let screen = stage.screen();
            for key in KEYS {
                assert!(screen.contains(key.what), "{what}: {} is not in\n{screen}", key.what);
            }
            stage.press(&[K::Esc]);
            assert_eq!(stage.state.overlay, None, "{what}");
        }
    }
}

fn time(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    press(stage, code);
    let (now, log) = (stage.state.now_ms, stage.state.log().unwrap());
    let before = log.moments().iter().filter_map(|moment| moment.at_ms).filter(|at| *at < now).max().unwrap();
    let travel = stage.state.travel().unwrap().clone();
    let tenth = (travel.to_ms - travel.from_ms) / 10;
    match action {
        Action::Pause => {
            assert!(!travel.is_playing && travel.at_ms == now, "{what}");
            // What comes meanwhile does not move what is looked at.
            let main = |stage: &mut Stage| -> String {
                let screen = stage.screen();
                screen.lines().skip(1).take(20).flat_map(|line| line.chars().skip(31)).collect()
            };
            let tree = main(stage);
            stage.send(Message::Tick { now_ms: now + 60_000, awake_ms: stage.state.awake_ms + 60_000 });
            assert_eq!(main(stage), tree, "{what}");
            press(stage, code);
            assert!(stage.state.travel().is_none(), "{what}: again goes on with what is at work");
            press(stage, code);
            stage.press(&[K::Char('[')]);
            press(stage, code);
            assert!(stage.state.travel().unwrap().is_playing, "{what}: from further back it is played");
        }
        Action::StepBack => assert_eq!(travel.at_ms, before, "{what}"),
        Action::StepOn => {
            stage.press(&[K::Char('['), K::Char('[')]);
            let at = stage.state.travel().unwrap().at_ms;
            press(stage, code);
            assert_eq!(stage.state.travel().unwrap().at_ms, before, "{what}: from {at}");
        }
        Action::JumpBack => assert_eq!(travel.at_ms, now - tenth, "{what}"),
        _ => {
            stage.press(&[K::Char('{'), K::Char('{')]);
            press(stage, code);
            assert_eq!(stage.state.travel().unwrap().at_ms, now - tenth, "{what}");
        }
    }
    assert!(stage.screen().contains('●'), "{what}: there is a slider");
}

fn pace(stage: &mut Stage, action: Action, code: (K, KeyModifiers), what: &str) {
    stage.press(&[K::Char(' ')]);
    press(stage, code);
    match action {
        Action::Now => assert_eq!(stage.state.travel(), None, "{what}"),
        _ => {
            let speed = stage.state.travel().unwrap().speed;
            let expected = if action == Action::Faster { 2.0 } else { 0.5 };
            assert!((speed - expected).abs() < f64::EPSILON, "{what}: {speed}");
        }
    }
}
