//! Tests that every key does what its help text says. The match is exhaustive: a new action does not compile without a
//! step here.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each step is given a few actions by the exhaustive match"
)]

use ratatui::crossterm::event::KeyCode as K;
use subscope_model::{AgentStatus, JUMPED_SCHEMA, JumpOutcome, Jumped, Looks};
use subscope_render::Detail;

use super::*;
use crate::{
    ask::{Answer, Question},
    keys::{Action, KEYS, KeyBinding},
    settings::{Setting, TreePanel},
    state::{
        EventFilter, FeedScope, Overlay, SearchScope, reports::StatsRange, select::Filter, select::Sort,
    },
    theme::Palette,
};

#[test]
fn every_key_of_the_help_does_what_it_says() {
    for key in KEYS {
        for code in key.codes {
            let mut ui = TestUi::live(120, 40);
            ui.asked();
            step(&mut ui, key, *code);
        }
    }
}

fn press(ui: &mut TestUi, (code, modifiers): (K, KeyModifiers)) {
    ui.press_with(code, modifiers);
}

fn row(ui: &TestUi) -> usize {
    ui.state.selected_row().unwrap()
}

fn step(ui: &mut TestUi, key: &KeyBinding, code: (K, KeyModifiers)) {
    let what = format!("{:?} by {code:?}", key.action);
    match key.action {
        Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::First | Action::Last => {
            lists(ui, key.action, code, &what);
        }
        Action::Permit => {
            press(ui, code);
            assert!(ui.screen().contains("no hub has said"), "{what}: {}", ui.screen());
            ui.reply(Question::Permissions, Answer::Permissions(permission::off()));
            press(ui, code);
            assert!(ui.screen().contains("answers are off here"), "{what}: {}", ui.screen());
            permission::offer(ui, &[permission::request("one", "git tag v1")]);
            assert!(ui.screen().contains("Bash: command: git tag v1   p answers"), "{what}: {}", ui.screen());
            press(ui, code);
            assert!(ui.screen().contains("allow once"), "{what}: {}", ui.screen());
        }
        Action::Dismiss | Action::MarkRead => inbox(ui, key.action, code, &what),
        Action::Left | Action::Right | Action::Fold => branches(ui, key.action, code, &what),
        Action::Calls | Action::FoldAll | Action::UnfoldAll => calls(ui, key.action, code, &what),
        Action::NextPanel | Action::PreviousPanel | Action::Enter | Action::Back => {
            panels(ui, key.action, code, &what);
        }
        Action::Mission => mission(ui, code, &what),
        Action::Agents | Action::Timeline | Action::Feed | Action::Summary => {
            views(ui, key.action, code, &what);
        }
        Action::Stats | Action::Compare | Action::Iterations | Action::Mark => {
            reports(ui, key.action, code, &what);
        }
        Action::Detail | Action::Tree | Action::Theme => settings(ui, key.action, code, &what),
        Action::Sort
        | Action::Filter
        | Action::Machine
        | Action::Scope
        | Action::ZoomIn
        | Action::ZoomOut => {
            shown(ui, key.action, code, &what);
        }
        Action::Palette => {
            press(ui, code);
            ui.type_text("level of");
            ui.press(&[K::Enter]);
            assert_eq!(ui.state.settings.detail, Detail::Full, "{what}");
        }
        Action::Search | Action::NextHit | Action::PreviousHit => search(ui, key.action, code, &what),
        Action::Follow | Action::Spawn | Action::Alert => find(ui, key.action, code, &what),
        Action::Stop | Action::Terminal | Action::Open | Action::Copy | Action::Page | Action::Help => {
            act(ui, key.action, code, &what);
        }
        Action::Pause | Action::StepBack | Action::StepOn | Action::JumpBack | Action::JumpOn => {
            time(ui, key.action, code, &what);
        }
        Action::Slower | Action::Faster | Action::Now => pace(ui, key.action, code, &what),
        Action::Suspend => {
            press(ui, code);
            assert_eq!(ui.effects, [Effect::Suspend], "{what}");
        }
        Action::Quit => {
            press(ui, code);
            assert_eq!(ui.effects, [Effect::Quit], "{what}");
        }
    }
}

fn lists(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    let last = ui.state.rows.len() - 1;
    ui.press(&[K::Down, K::Down, K::Down]);
    press(ui, code);
    let page = ui.state.drawn.page - 1;
    let expected = match action {
        Action::Up => 2,
        Action::Down => 4,
        Action::PageUp => 3usize.saturating_sub(page),
        Action::PageDown => (3 + page).min(last),
        Action::First => 0,
        _ => last,
    };
    assert_eq!(row(ui), expected, "{what}");
    // The same keys scroll panels of text.
    ui.state.settings.detail = Detail::Full;
    ui.press(&[K::Home, K::Enter, K::Up, K::Up, K::Up]);
    let before = ui.state.reading.up;
    press(ui, code);
    let after = ui.state.reading.up;
    let is_up = matches!(action, Action::Up | Action::PageUp | Action::First);
    assert!(before > 0 && if is_up { after > before } else { after < before }, "{what}: {before} {after}");
}

fn branches(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    let all = ui.state.rows.len();
    if action == Action::Fold {
        press(ui, code);
        assert_eq!(ui.state.rows.len(), 1, "{what}");
        press(ui, code);
        assert_eq!(ui.state.rows.len(), all, "{what}");
        return;
    }
    ui.press(&[K::Down]);
    if action == Action::Left {
        press(ui, code);
        assert_eq!(row(ui), 0, "{what}: to the parent");
        press(ui, code);
        assert_eq!(ui.state.rows.len(), 1, "{what}: folds");
    } else {
        press(ui, code);
        assert_eq!(ui.state.panel, Panel::Detail, "{what}: in");
        ui.press(&[K::Esc, K::Home, K::Char('z')]);
        press(ui, code);
        assert_eq!((ui.state.rows.len(), row(ui)), (all, 0), "{what}: unfolds");
        press(ui, code);
        assert_eq!(row(ui), 1, "{what}: to the first below");
    }
    // In the timeline they pan the time axis.
    ui.press(&[K::Home, K::Char('2'), K::Char('+'), K::Char('+')]);
    let (from, _) = ui.state.drawn.axis.unwrap();
    if action == Action::Right {
        ui.press(&[K::Left, K::Left]);
    }
    let (before, _) = ui.state.drawn.axis.unwrap();
    press(ui, code);
    let (after, _) = ui.state.drawn.axis.unwrap();
    let is_right = if action == Action::Left { after < from } else { after > before };
    assert!(is_right, "{what}: {from} {before} {after}");
}

fn calls(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    let all = ui.state.rows.len();
    match action {
        Action::Calls => {
            ui.press(&[K::Down]);
            let agent = ui.state.agent().unwrap().clone();
            press(ui, code);
            assert_eq!(ui.state.rows.len(), all + agent.tools.len(), "{what}");
            ui.press(&[K::Down]);
            assert_eq!((ui.agent(), row(ui)), (agent.id.to_string(), 2), "{what}: a call is selected");
            assert_eq!(ui.state.reading.call.as_deref(), agent.tools[0].id.as_deref(), "{what}");
            ui.press(&[K::Left]);
            assert_eq!(row(ui), 1, "{what}: to its agent");
            press(ui, code);
            assert_eq!(ui.state.rows.len(), all, "{what}: again");
        }
        Action::FoldAll => {
            let tree = ui.state.tree().unwrap();
            let tops = tree.agents.iter().filter(|agent| agent.depth <= 1).count();
            press(ui, code);
            assert_eq!(ui.state.rows.len(), tops, "{what}");
        }
        _ => {
            ui.press(&[K::Char('z'), K::Char('M')]);
            press(ui, code);
            assert_eq!(ui.state.rows.len(), all, "{what}");
            press(ui, code);
            let calls: usize = ui.state.tree().unwrap().agents.iter().map(|agent| agent.tools.len()).sum();
            assert_eq!(ui.state.rows.len(), all + calls, "{what}: again");
        }
    }
}

fn panels(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    press(ui, code);
    let expected = match action {
        Action::NextPanel | Action::Enter => Panel::Detail,
        _ => Panel::Sessions,
    };
    assert_eq!(ui.state.panel, expected, "{what}");
    press(ui, code);
    let expected = match action {
        Action::NextPanel => Panel::Sessions,
        Action::Enter | Action::PreviousPanel => Panel::Detail,
        _ => Panel::Sessions,
    };
    assert_eq!(ui.state.panel, expected, "{what}");
    if action == Action::Back {
        ui.press(&[K::Enter, K::Char('/')]);
        ui.type_text("cart");
        ui.press(&[K::Enter]);
        press(ui, code);
        assert!(ui.state.search.text.is_empty() && ui.state.panel == Panel::Main, "{what}");
    }
}

fn mission(ui: &mut TestUi, code: (K, KeyModifiers), what: &str) {
    press(ui, code);
    let screen = ui.screen();
    assert!(screen.contains("last 10 minutes") && ui.state.view == View::Mission, "{what}: {screen}");
    ui.press(&[K::Down, K::Enter]);
    assert_eq!((ui.state.view, ui.state.panel), (View::Agents, Panel::Main), "{what}");
    assert_eq!(ui.state.sessions.selected_index(), Some(1), "{what}");
    press(ui, code);
    press(ui, code);
    assert_eq!(ui.state.view, View::Agents, "{what}: again leads back");
}

fn views(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    ui.state.view = if action == Action::Agents { View::Feed } else { View::Agents };
    press(ui, code);
    let (view, words) = match action {
        Action::Agents => (View::Agents, "Agent Tree"),
        Action::Timeline => (View::Timeline, "waits for you"),
        Action::Feed => (View::Feed, "this session"),
        _ => (View::Summary, "agents by type"),
    };
    assert_eq!(ui.state.view, view, "{what}");
    assert!(ui.screen().contains(words), "{what}: {}", ui.screen());
    press(ui, code);
    assert_eq!(ui.state.view, View::Agents, "{what}: again leads back");
}

fn reports(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    press(ui, code);
    let (view, words) = match action {
        Action::Stats => (View::Stats, "30 days"),
        Action::Compare => (View::Compare, "m marks a session"),
        Action::Iterations => (View::Iterations, "reading"),
        _ => {
            assert!(ui.screen().contains("A is this session"), "{what}: {}", ui.screen());
            press(ui, code);
            assert!(ui.screen().contains("this session is not compared"), "{what}: {}", ui.screen());
            return;
        }
    };
    assert!(ui.state.view == view && ui.screen().contains(words), "{what}: {}", ui.screen());
    let asked = ui.asked();
    let expected = match action {
        Action::Stats => {
            vec![Question::Stats(StatsRange::Week.query(ui.state.now_ms, &ui.state.settings.zone))]
        }
        Action::Iterations => vec![Question::Iterations],
        _ => Vec::new(),
    };
    assert_eq!(asked, expected, "{what}");
    press(ui, code);
    assert_eq!(ui.state.view, View::Agents, "{what}: again leads back");
}

fn settings(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    let before = ui.frame();
    press(ui, code);
    let kept = match action {
        Action::Detail => {
            assert_eq!(ui.state.settings.detail, Detail::Full, "{what}");
            Question::Keep(Setting::Detail, "full")
        }
        Action::Tree => {
            assert_eq!(ui.state.settings.tree, TreePanel::Hidden, "{what}");
            let screen = ui.screen();
            assert!(
                !screen.contains("Agent Tree") && screen.contains("running (T to show)"),
                "{what}: {screen}"
            );
            Question::Keep(Setting::Tree, "hidden")
        }
        _ => {
            assert_eq!(ui.state.settings.palette, Palette::Light, "{what}");
            assert!(ui.screen().contains("colors: light"), "{what}");
            assert_eq!(ui.asked(), [], "{what}: nothing is saved before it is confirmed");
            ui.press(&[K::Esc]);
            assert_eq!((ui.state.settings.palette, ui.asked()), (Palette::Dark, Vec::new()), "{what}");
            press(ui, code);
            mouse(ui, MouseEventKind::Down(MouseButton::Left), 50, 10);
            assert_eq!((ui.state.settings.palette, ui.asked()), (Palette::Dark, Vec::new()), "{what}");
            press(ui, code);
            ui.press(&[K::Enter]);
            Question::Keep(Setting::Theme, "light")
        }
    };
    assert_eq!(ui.asked(), [kept], "{what}");
    assert_ne!(ui.frame(), before, "{what} changes the screen");
    if action == Action::Tree {
        press(ui, code);
        assert!(ui.screen().contains("Agent Tree"), "{what}");
    }
}

fn shown(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    match action {
        Action::Sort => {
            press(ui, code);
            assert_eq!(ui.state.sort, Sort::Activity, "{what}");
        }
        Action::Filter => {
            let all = ui.state.rows.len();
            press(ui, code);
            assert!(ui.state.filter == Filter::Running && ui.state.rows.len() < all, "{what}");
            ui.press(&[K::Char('3')]);
            press(ui, code);
            assert_eq!(ui.state.reading.kinds, EventFilter::Tools, "{what}");
            assert!(!ui.screen().contains('»'), "{what}: {}", ui.screen());
        }
        Action::Machine => {
            let all = ui.state.sessions.rows.len();
            press(ui, code);
            assert!(ui.screen().contains("no session of another machine"), "{what}: {}", ui.screen());
            let mut rows = ui.state.sessions.history.clone();
            let far = rows.last_mut().unwrap();
            (far.id, far.machine) = ("gpu1~far".into(), Some("gpu1".into()));
            ui.reply(Question::Sessions(FIRST_SESSIONS), Answer::Sessions(rows, false));
            ui.frame();
            press(ui, code);
            ui.frame();
            assert_eq!(ui.state.sessions.rows.len(), 1, "{what}");
            assert!(ui.screen().contains("Sessions of gpu1 1"), "{what}: {}", ui.screen());
            press(ui, code);
            ui.frame();
            assert!(ui.state.sessions.rows.len() >= all, "{what}");
        }
        Action::Scope => {
            ui.press(&[K::Down]);
            press(ui, code);
            assert_eq!((ui.state.view, ui.state.reading.scope), (View::Feed, FeedScope::Agent), "{what}");
            assert!(ui.screen().contains("the selected agent"), "{what}");
        }
        _ => {
            ui.press(&[K::Char('2'), K::Char('+')]);
            let (_, before) = ui.state.drawn.axis.unwrap();
            press(ui, code);
            let (_, after) = ui.state.drawn.axis.unwrap();
            let factor = if action == Action::ZoomIn { 0.5 } else { 2.0 };
            assert!((after / before - factor).abs() < 1e-9, "{what}: {before} {after}");
        }
    }
}

fn search(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    if action == Action::Search {
        press(ui, code);
        assert_eq!(
            ui.state.overlay,
            Some(Overlay::Search { text: String::new(), scope: SearchScope::Here }),
            "{what}"
        );
        ui.type_text("INVENTORY AND");
        ui.press(&[K::Enter]);
        assert!(ui.state.agent().unwrap().title().contains("Inventory and stock"), "{what}");
        return;
    }
    ui.press(&[K::Char('/')]);
    ui.type_text("explore");
    ui.press(&[K::Enter]);
    let hits = ui.state.search.hits.clone();
    assert!(hits.len() >= 2, "{what}: {hits:?}");
    assert_eq!(row(ui), hits[0], "{what}");
    press(ui, code);
    let expected = if action == Action::NextHit { hits[1] } else { hits[hits.len() - 1] };
    assert_eq!(row(ui), expected, "{what}");
}

fn find(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    match action {
        Action::Follow => {
            press(ui, code);
            let (_, events) = recorded("k-big", None);
            let own = |event: &&subscope_model::Event| {
                event.kind == subscope_model::EventKind::ToolPre && !event.actor_id.0.is_root()
            };
            let mut event = events.iter().rfind(own).unwrap().clone();
            event.id = "new".into();
            let agent = event.actor_id.0.to_string();
            ui.send(UiMessage::Feed(Update::event(event)));
            assert_eq!(ui.agent(), agent, "{what}");
        }
        Action::Spawn => {
            ui.press(&[K::Down]);
            let call = ui.state.agent().unwrap().spawned_by.clone().unwrap();
            press(ui, code);
            assert_eq!((ui.agent().as_str(), ui.state.panel), ("root", Panel::Detail), "{what}");
            assert_eq!(ui.state.reading.call.as_deref(), Some(call.as_str()), "{what}");
            assert!(ui.screen().contains("Agent Cart and its tests"), "{what}: {}", ui.screen());
        }
        _ => {
            let agent = ui.state.tree().unwrap().agents[3].id.to_string();
            ui.change(|tree| tree.agents[3].status = AgentStatus::Running);
            ui.change(|tree| tree.agents[3].flags = vec![Flag::Stalled]);
            press(ui, code);
            assert_eq!(ui.agent(), agent, "{what}");
            assert!(!ui.screen().contains("goes there"), "{what}");
        }
    }
}

/// A stalled agent is dismissed; a session that has ended since the user looked is read.
fn inbox(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    press(ui, code);
    assert_eq!(ui.asked(), [], "{what}: there is nothing");
    let session = ui.session();
    if action == Action::Dismiss {
        ui.change(|tree| tree.agents[3].status = AgentStatus::Running);
        ui.change(|tree| tree.agents[3].flags = vec![Flag::Stalled]);
        assert!(ui.screen().contains("! 1 in trouble"), "{what}: {}", ui.screen());
        press(ui, code);
        assert_eq!(ui.asked(), [], "{what}: nobody keeps it");
        let seen = Looks { seen_until_ms: Some(ui.state.now_ms), ..Looks::default() };
        ui.reply(Question::Looks, Answer::Looks(seen));
        press(ui, code);
        assert!(!ui.screen().contains("in trouble"), "{what}: {}", ui.screen());
        let [Question::Dismiss(of, facts)] = &*ui.asked() else { panic!("{what}") };
        assert_eq!((of, facts.len()), (&session, 1), "{what}");
        // A later silence is a new fact.
        ui.change(|tree| tree.agents[3].last_event_at_ms = tree.session.ended_at_ms.map(|at| at + 1));
        assert!(ui.screen().contains("! 1 in trouble"), "{what}: {}", ui.screen());
        return;
    }
    let past = ui.state.sessions.history[0].clone();
    let seen = Looks { seen_until_ms: past.last_event_at_ms.map(|at| at - 1), ..Looks::default() };
    ui.reply(Question::Looks, Answer::Looks(seen));
    ui.press(&[K::Char('0')]);
    assert!(ui.screen().contains("finished"), "{what}: {}", ui.screen());
    ui.asked();
    press(ui, code);
    assert_eq!(ui.asked(), [Question::MarkSeen(ui.state.now_ms)], "{what}");
    assert!(!ui.screen().contains("finished"), "{what}: {}", ui.screen());
}

fn act(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    match action {
        Action::Stop => {
            press(ui, code);
            assert!(ui.screen().contains("only subagents can be stopped"), "{what}");
            let live =
                ui.state.tree().unwrap().agents.iter().rposition(|agent| agent.status.is_live()).unwrap();
            ui.press(&vec![K::Down; live]);
            let (session, agent) = (ui.session(), ui.state.agent_id().unwrap());
            press(ui, code);
            assert!(ui.screen().contains("to stop? y yes"), "{what}: {}", ui.screen());
            ui.press(&[K::Char('x'), K::Char('n')]);
            assert_eq!((ui.asked(), &ui.state.overlay), (Vec::new(), &None), "{what}: no is no");
            press(ui, code);
            ui.press(&[K::Char('y')]);
            assert_eq!(ui.asked(), [Question::Stop(session, agent)], "{what}");
        }
        Action::Terminal => {
            press(ui, code);
            let session = ui.session();
            assert_eq!(ui.asked(), [Question::Jump(session.clone())], "{what}");
            let jumped = |outcome, command: Option<&str>| Jumped {
                schema: JUMPED_SCHEMA.into(),
                session_id: session.clone(),
                outcome,
                process: None,
                terminal: None,
                place: None,
                command: command.map(Into::into),
                says: "it is there".into(),
            };
            let went = Answer::Jumped(jumped(JumpOutcome::Went, None));
            ui.reply(Question::Jump(session.clone()), went);
            assert!(ui.screen().contains("it is there") && ui.effects.is_empty(), "{what}: {}", ui.screen());
            let detached = Answer::Jumped(jumped(JumpOutcome::Detached, Some("tmux attach")));
            ui.reply(Question::Jump(session.clone()), detached);
            assert!(ui.screen().contains("copied: tmux attach"), "{what}: {}", ui.screen());
            assert_eq!(ui.effects, [Effect::Copy("tmux attach".to_owned())], "{what}");
        }
        Action::Open => {
            ui.press(&[K::Down]);
            press(ui, code);
            let [Effect::Open(text)] = ui.effects.as_slice() else { panic!("{what}: {:?}", ui.effects) };
            assert!(text.contains("Cart and its tests") && text.contains("task Survey"), "{what}: {text}");
        }
        Action::Copy => {
            ui.press(&[K::Down]);
            let agent = ui.agent();
            press(ui, code);
            assert_eq!(ui.effects, [Effect::Copy(agent)], "{what}");
            ui.effects.clear();
            ui.press(&[K::Tab]);
            press(ui, code);
            let [Effect::Copy(text)] = ui.effects.as_slice() else { panic!("{what}: {:?}", ui.effects) };
            assert!(text.contains("One remark for the release notes"), "{what}: {text}");
        }
        Action::Page => {
            press(ui, code);
            assert_eq!(ui.asked(), [Question::Page], "{what}");
        }
        _ => {
            press(ui, code);
            let screen = ui.screen();
            for key in KEYS {
                assert!(screen.contains(key.help), "{what}: {} is not in\n{screen}", key.help);
            }
            ui.press(&[K::Esc]);
            assert_eq!(ui.state.overlay, None, "{what}");
        }
    }
}

fn time(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    press(ui, code);
    let (now, log) = (ui.state.now_ms, ui.state.log().unwrap());
    let before = log.entries().iter().filter_map(|entry| entry.at_ms).filter(|at| *at < now).max().unwrap();
    let travel = ui.state.travel().unwrap().clone();
    let tenth = (travel.to_ms - travel.from_ms) / 10;
    match action {
        Action::Pause => {
            assert!(!travel.is_playing && travel.at_ms == now, "{what}");
            // Changes that arrive meanwhile do not affect the displayed past.
            let main = |ui: &mut TestUi| -> String {
                let screen = ui.screen();
                screen.lines().skip(1).take(20).flat_map(|line| line.chars().skip(31)).collect()
            };
            let tree = main(ui);
            ui.send(UiMessage::Tick { now_ms: now + 60_000, awake_ms: ui.state.awake_ms + 60_000 });
            assert_eq!(main(ui), tree, "{what}");
            press(ui, code);
            assert!(ui.state.travel().is_none(), "{what}: again goes on with what is at work");
            press(ui, code);
            ui.press(&[K::Char('[')]);
            press(ui, code);
            assert!(ui.state.travel().unwrap().is_playing, "{what}: from further back it is played");
        }
        Action::StepBack => assert_eq!(travel.at_ms, before, "{what}"),
        Action::StepOn => {
            ui.press(&[K::Char('['), K::Char('[')]);
            let at = ui.state.travel().unwrap().at_ms;
            press(ui, code);
            assert_eq!(ui.state.travel().unwrap().at_ms, before, "{what}: from {at}");
        }
        Action::JumpBack => assert_eq!(travel.at_ms, now - tenth, "{what}"),
        _ => {
            ui.press(&[K::Char('{'), K::Char('{')]);
            press(ui, code);
            assert_eq!(ui.state.travel().unwrap().at_ms, now - tenth, "{what}");
        }
    }
    assert!(ui.screen().contains('●'), "{what}: there is a slider");
}

fn pace(ui: &mut TestUi, action: Action, code: (K, KeyModifiers), what: &str) {
    ui.press(&[K::Char(' ')]);
    press(ui, code);
    match action {
        Action::Now => assert_eq!(ui.state.travel(), None, "{what}"),
        _ => {
            let speed = ui.state.travel().unwrap().speed;
            let expected = if action == Action::Faster { 2.0 } else { 0.5 };
            assert!((speed - expected).abs() < f64::EPSILON, "{what}: {speed}");
        }
    }
}
