//! Messages and what they make of state.

mod keys;

use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use subscope_model::{AgentStatus, Flag, Liveness, LivenessKind, Update};

use super::*;
use crate::{
    ask::Answer,
    settings::Alerts,
    stage::{Stage, recorded},
    state::Spot,
};

fn mouse(stage: &mut Stage, kind: MouseEventKind, column: u16, row: u16) {
    stage.send(Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
    stage.frame();
}

fn click(stage: &mut Stage, is_meant: impl Fn(&Spot) -> bool) {
    let area = stage.state.drawn.spots.iter().rev().find(|(_, spot)| is_meant(spot)).unwrap().0;
    mouse(stage, MouseEventKind::Down(MouseButton::Left), area.x + 1, area.y);
}

#[test]
fn first_tick_asks_for_sessions_and_the_selected_one_is_read() {
    let mut stage = Stage::empty(100, 30);
    stage.tick(1);
    assert_eq!(stage.asked(), [Question::Sessions(FIRST_SESSIONS)]);
    let (tree, _) = recorded("c-nested", None);
    let rows = vec![subscope_model::SessionRow::of(&tree)];
    stage.send(Message::Reply(Ok(Answer::Sessions(rows))));
    stage.frame();
    stage.pass(1);
    let id = tree.session.id.clone();
    assert_eq!(stage.asked(), [Question::Tree(id.clone()), Question::Events(id.clone())]);
    // What is being asked is not asked again.
    stage.pass(1_000);
    assert_eq!(stage.asked(), []);
    stage.send(Message::Reply(Ok(Answer::Tree(id, Some(Box::new(tree))))));
    let count = stage.state.tree().unwrap().agents.len() - 1;
    assert!(stage.screen().contains(&format!("Agent Tree ({count})")), "{}", stage.screen());
}

#[test]
fn list_of_sessions_is_asked_for_again_as_a_hub_may_still_read() {
    let mut stage = Stage::live(120, 30);
    stage.pass(1_000);
    stage.asked();
    stage.pass(SESSIONS_MS);
    assert_eq!(stage.asked(), [Question::Sessions(FIRST_SESSIONS)]);
    stage.pass(1_000);
    assert_eq!(stage.asked(), []);
}

#[test]
fn session_at_work_is_selected_until_a_person_selects_another() {
    let mut stage = Stage::ended("c-nested", 120, 30);
    let over = stage.session();
    let (tree, events) = recorded("k-big", Some(9_000));
    let live = tree.session.id.clone();
    stage.feed(tree, events);
    stage.frame();
    assert_eq!(stage.session(), live);
    stage.press(&[KeyCode::Esc, KeyCode::Down]);
    assert_eq!(stage.session(), over);
    stage.change(|_| {});
    assert_eq!(stage.session(), over);
}

#[test]
fn going_through_a_list_asks_only_about_where_it_rests() {
    let mut stage = Stage::live(120, 30);
    stage.pass(1_000);
    stage.asked();
    stage.press(&[KeyCode::Esc, KeyCode::Down, KeyCode::Down]);
    assert_eq!(stage.asked(), []);
    stage.pass(SETTLE_MS);
    let session = stage.session();
    assert_eq!(stage.asked(), [Question::Tree(session.clone()), Question::Events(session)]);
}

#[test]
fn alerts_stand_on_the_screen_once_and_ring_if_they_are_to() {
    let mut stage = Stage::live(120, 30);
    stage.effects.clear();
    let stall = |tree: &mut subscope_model::Tree| tree.agents[1].flags = vec![Flag::Stalled];
    stage.change(|tree| tree.agents[1].status = AgentStatus::Running);
    stage.change(stall);
    assert!(stage.screen().contains("! Explore: Cart and its tests is stalled"), "{}", stage.screen());
    assert_eq!(stage.effects, []);
    stage.pass(60_000);
    assert!(!stage.screen().contains("is stalled"));
    for (alerts, effect) in [
        (Alerts::Bell, Effect::Bell),
        (Alerts::Notify, Effect::Notify("Explore: Cart and its tests is stalled".into())),
    ] {
        stage.state.settings.alerts = alerts;
        stage.effects.clear();
        stage.change(|tree| tree.agents[1].flags.clear());
        stage.change(stall);
        assert_eq!(stage.effects, [effect]);
    }
}

#[test]
fn whoever_waits_for_a_person_is_counted_and_told() {
    let mut stage = Stage::live(120, 30);
    stage.change(|tree| {
        let running = tree.agents.iter_mut().rfind(|agent| agent.status.is_live()).unwrap();
        running.liveness = Some(Liveness {
            kind: LivenessKind::Permission,
            name: Some("Bash".into()),
            count: None,
            limit: None,
            since_ms: None,
            inferred: false,
        });
    });
    let screen = stage.screen();
    assert!(screen.contains("1 waits for you") && screen.contains("waits for your permission"), "{screen}");
}

#[test]
fn events_that_were_missed_are_read_again() {
    let mut stage = Stage::live(120, 30);
    stage.pass(1_000);
    stage.asked();
    stage.send(Message::Feed(Update::Missed(7)));
    stage.pass(1_000);
    let session = stage.session();
    assert_eq!(stage.asked(), [Question::Events(session)]);
}

#[test]
fn failures_are_told_and_what_failed_can_be_asked_again() {
    let mut stage = Stage::live(120, 30);
    stage.asked();
    stage.press(&[KeyCode::Char('o')]);
    assert_eq!(stage.asked(), [Question::Page]);
    stage.send(Message::Reply(Err((Question::Page, "no hub\u{1b}[2J".into()))));
    assert!(stage.screen().contains("no hub␛[2J"));
    stage.press(&[KeyCode::Char('o')]);
    assert_eq!(stage.asked(), [Question::Page]);
}

#[test]
fn mouse_selects_folds_scrolls_and_changes_views() {
    let mut stage = Stage::live(120, 40);
    let second = stage.state.tree().unwrap().agents[2].id.clone();
    click(&mut stage, |spot| *spot == Spot::Agent(second.clone()));
    assert_eq!(stage.agent(), second.to_string());
    let root = subscope_model::AgentId::from("root");
    let rows = stage.state.rows.len();
    for _ in 0..2 {
        click(&mut stage, |spot| *spot == Spot::Agent(root.clone()));
    }
    assert_eq!((stage.state.rows.len(), stage.state.rows[0].folded), (1, rows - 1));
    click(&mut stage, |spot| *spot == Spot::Agent(root.clone()));
    let spot = stage.state.drawn.spots.iter().find(|(_, spot)| *spot == Spot::Panel(Panel::Main)).unwrap().0;
    mouse(&mut stage, MouseEventKind::ScrollDown, spot.x + 2, spot.y + 2);
    assert_eq!(stage.state.row_at(), Some(3));
    click(&mut stage, |spot| *spot == Spot::View(View::Feed));
    assert_eq!(stage.state.view, View::Feed);
    let other = stage.state.sessions.rows[1].id.clone();
    click(&mut stage, |spot| *spot == Spot::Session(other.clone()));
    assert_eq!((stage.session(), stage.state.panel), (other, Panel::Sessions));
}

#[test]
fn slider_is_moved_by_the_mouse() {
    let mut stage = Stage::ended("k-big", 120, 40);
    stage.press(&[KeyCode::Char(' ')]);
    let (area, _) = *stage.state.drawn.spots.iter().find(|(_, spot)| *spot == Spot::Slider).unwrap();
    mouse(&mut stage, MouseEventKind::Down(MouseButton::Left), area.x, area.y);
    let travel = stage.state.travel().unwrap();
    assert_eq!(travel.at_ms, travel.from_ms);
    mouse(&mut stage, MouseEventKind::Drag(MouseButton::Left), area.right() - 1, area.y);
    let travel = stage.state.travel().unwrap();
    assert_eq!(travel.at_ms, travel.to_ms);
}

#[test]
fn history_is_searched_and_a_hit_leads_to_its_agent() {
    let mut stage = Stage::live(120, 40);
    stage.asked();
    stage.press(&[KeyCode::Char('/'), KeyCode::Tab]);
    stage.type_text("cents");
    stage.press(&[KeyCode::Enter]);
    assert_eq!(stage.asked(), [Question::Search("cents".into())]);
    let session = stage.state.sessions.rows[1].id.clone();
    let hit = subscope_model::Found {
        session_id: session.clone(),
        agent_id: "a1".into(),
        agent: "Explore: prices".into(),
        kind: "message".into(),
        at_ms: None,
        snippet: "whole cents\u{1b}[2J only".into(),
        path: String::new(),
        offset: 0,
        bytes: 0,
    };
    stage.send(Message::Reply(Ok(Answer::Found("cents".into(), vec![hit]))));
    assert!(stage.screen().contains("whole cents␛[2J only"), "{}", stage.screen());
    stage.press(&[KeyCode::Enter]);
    assert_eq!((stage.session(), stage.agent()), (session, "a1".into()));
}

#[test]
fn pasted_text_is_looked_for_and_presses_no_keys() {
    let mut stage = Stage::live(120, 40);
    stage.send(Message::Paste("qq".into()));
    assert_eq!(stage.effects.iter().filter(|effect| **effect == Effect::Quit).count(), 0);
    stage.press(&[KeyCode::Char('/')]);
    stage.send(Message::Paste("inventory and\nmore".into()));
    stage.press_with(KeyCode::Char('x'), KeyModifiers::ALT);
    stage.press(&[KeyCode::Enter]);
    assert_eq!(stage.state.search.text, "inventory and");
    assert!(stage.state.agent().unwrap().title().contains("Inventory"));
}

#[test]
fn playback_halts_while_another_session_is_looked_at() {
    let mut stage = Stage::live(120, 40);
    stage.press(&[KeyCode::Char(' '), KeyCode::Char('{'), KeyCode::Char(' ')]);
    let at = stage.state.travel().unwrap().at_ms;
    stage.press(&[KeyCode::Tab, KeyCode::Tab, KeyCode::Down]);
    stage.pass(5_000);
    assert_eq!(stage.state.travel.as_ref().unwrap().at_ms, at);
    stage.press(&[KeyCode::Up]);
    stage.pass(500);
    assert!(stage.state.travel().unwrap().at_ms > at);
}

#[test]
fn playback_goes_on_by_itself_and_shows_each_moment_as_it_is_answered() {
    let mut stage = Stage::ended("k-big", 120, 40);
    stage.press(&[KeyCode::Char(' '), KeyCode::Char(' ')]);
    assert!(stage.state.travel().unwrap().is_playing);
    stage.asked();
    stage.pass(5_000);
    let session = stage.session();
    let from = stage.state.travel().unwrap().from_ms;
    assert_eq!(stage.asked(), [Question::At(session.clone(), from + 5_000)]);
    let (tree, _) = recorded("k-big", Some(5_000));
    stage.send(Message::Reply(Ok(Answer::At(session, from + 5_000, Some(Box::new(tree))))));
    let screen = stage.screen();
    assert!(screen.contains("Agent Tree (4 active)") && screen.contains("5s of 21s"), "{screen}");
    stage.press(&[KeyCode::Char('3')]);
    let screen = stage.screen();
    assert!(!screen.contains("whole cents, the code does not keep it"), "the end is not told yet: {screen}");
}
