//! Tests of state transitions.

mod keys;
mod permission;

use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use subscope_model::{
    AgentName, AgentStatus, Flag, Hits, Liveness, LivenessKind, Looks, ReadingProgress, SILENT_EVIDENCE,
    SearchQuery, SessionId, SessionRow, Update,
};

use subscope_render::text;

use super::*;
use crate::{
    ask::Answer,
    settings::Alerts,
    state::{MouseTarget, search::query_of, sessions::FIRST_SESSIONS},
    test_ui::{TestUi, recorded},
};

fn mouse(ui: &mut TestUi, kind: MouseEventKind, column: u16, row: u16) {
    ui.send(UiMessage::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
    ui.frame();
}

fn click(ui: &mut TestUi, is_meant: impl Fn(&MouseTarget) -> bool) {
    let area = ui.state.drawn.mouse_targets.iter().rev().find(|(_, target)| is_meant(target)).unwrap().0;
    mouse(ui, MouseEventKind::Down(MouseButton::Left), area.x + 1, area.y);
}

#[test]
fn header_says_how_far_the_host_has_read_until_it_has() {
    let mut ui = TestUi::ended("c-nested", 120, 30);
    let progress = |read| Answer::Reading(Some(ReadingProgress { read, total: 3_000 }));
    assert!(ui.asked().contains(&Question::Reading));
    for read in [0, 2_757] {
        ui.reply(Question::Reading, progress(read));
        ui.frame();
        let words = format!("{} of 3,000 sessions read", text::grouped(read));
        assert!(ui.screen().contains(&words), "{}", ui.screen());
        ui.pass(1_000);
        assert!(ui.asked().contains(&Question::Reading), "it asks each second");
    }
    ui.send(UiMessage::Reply(Box::new((Question::Reading, Err("no hub".to_owned())))));
    assert!(!ui.screen().contains("no hub"), "{}", ui.screen());
    ui.pass(1_000);
    assert!(ui.asked().contains(&Question::Reading));
    ui.reply(Question::Reading, Answer::Reading(None));
    ui.frame();
    assert!(!ui.screen().contains("sessions read"), "{}", ui.screen());
    ui.pass(5_000);
    assert!(!ui.asked().contains(&Question::Reading), "all is read");
    ui.pass(5_000);
    assert!(ui.asked().contains(&Question::Reading), "a client may have named another folder");
}

#[test]
fn first_tick_asks_for_sessions_and_the_selected_one_is_read() {
    let mut ui = TestUi::empty(100, 30);
    ui.tick(1);
    assert_eq!(
        ui.asked(),
        [Question::Sessions(FIRST_SESSIONS), Question::Looks, Question::Reading, Question::Permissions]
    );
    let (tree, _) = recorded("c-nested", None);
    let rows = vec![SessionRow::of(&tree)];
    ui.reply(Question::Sessions(FIRST_SESSIONS), Answer::Sessions(rows, false));
    ui.frame();
    ui.pass(DEBOUNCE_MS);
    let id = tree.session.id.clone();
    assert_eq!(ui.asked(), [Question::Tree(id.clone()), Question::Events(id.clone())]);
    // A pending question is not asked again.
    ui.pass(1_000);
    assert_eq!(ui.asked(), []);
    ui.reply(Question::Tree(id.clone()), Answer::Tree(id, Some(Box::new(tree))));
    let count = ui.state.tree().unwrap().agents.len() - 1;
    assert!(ui.screen().contains(&format!("Agent Tree ({count})")), "{}", ui.screen());
}

#[test]
fn list_of_sessions_is_asked_for_again_as_a_hub_may_still_read() {
    let mut ui = TestUi::live(120, 30);
    ui.pass(1_000);
    ui.asked();
    ui.pass(SESSIONS_MS);
    assert_eq!(ui.asked(), [Question::Sessions(FIRST_SESSIONS)]);
    ui.pass(1_000);
    assert_eq!(ui.asked(), []);
}

#[test]
fn session_at_work_is_selected_until_a_person_selects_another() {
    let mut ui = TestUi::ended("c-nested", 120, 30);
    let over = ui.session();
    let (tree, events) = recorded("k-big", Some(9_000));
    let live = tree.session.id.clone();
    ui.feed(tree, events);
    ui.frame();
    assert_eq!(ui.session(), live);
    ui.press(&[KeyCode::Esc, KeyCode::Down]);
    assert_eq!(ui.session(), over);
    ui.change(|_| {});
    assert_eq!(ui.session(), over);
}

#[test]
fn going_through_a_list_asks_only_about_where_it_rests() {
    let mut ui = TestUi::live(120, 30);
    ui.pass(1_000);
    ui.asked();
    ui.press(&[KeyCode::Esc, KeyCode::Down, KeyCode::Down]);
    assert_eq!(ui.asked(), []);
    ui.pass(DEBOUNCE_MS);
    let session = ui.session();
    assert_eq!(ui.asked(), [Question::Tree(session.clone()), Question::Events(session)]);
}

#[test]
fn alerts_stand_on_the_screen_once_and_ring_if_they_are_to() {
    let mut ui = TestUi::live(120, 30);
    ui.effects.clear();
    let stall = |tree: &mut subscope_model::Tree| tree.agents[1].flags = vec![Flag::Stalled];
    ui.change(|tree| tree.agents[1].status = AgentStatus::Running);
    ui.change(stall);
    let words = "! shop: Do a full release surve… ▸ Explore: Cart and its tests is stalled";
    assert!(ui.screen().contains(words), "{}", ui.screen());
    assert_eq!(ui.effects, []);
    ui.pass(60_000);
    assert!(!ui.screen().contains("is stalled"));
    let session = {
        let session = &ui.state.tree().unwrap().session;
        subscope_render::text::session_name(
            subscope_render::text::base_name(session.cwd.as_deref().unwrap()),
            session.title.as_deref(),
        )
        .unwrap()
    };
    for (alerts, effect) in [
        (Alerts::Bell, Effect::Bell),
        (Alerts::Notify, Effect::Notify(format!("{session}, Explore: Cart and its tests is stalled"))),
    ] {
        ui.state.settings.alerts = alerts;
        ui.effects.clear();
        ui.change(|tree| tree.agents[1].flags.clear());
        ui.change(stall);
        assert_eq!(ui.effects, [effect]);
    }
}

/// Has the last agent at work ask for a permission; returns its id.
fn ask_for_permission(ui: &mut TestUi) -> subscope_model::AgentId {
    let asking =
        ui.state.tree().unwrap().agents.iter().rfind(|agent| agent.status.is_live()).unwrap().id.clone();
    ui.change(|tree| {
        let agent = tree.agents.iter_mut().find(|agent| agent.id == asking).unwrap();
        let (kind, name) = (LivenessKind::Permission, Some("Bash".into()));
        agent.liveness =
            Some(Liveness { kind, name, count: None, limit: None, since_ms: None, inferred: false });
    });
    asking
}

#[test]
fn agent_that_waits_for_a_person_is_selected_unless_another_was() {
    let mut ui = TestUi::live(120, 40);
    let asking = ask_for_permission(&mut ui).to_string();
    assert!(asking != "root" && ui.agent() == asking, "{}", ui.screen());
    ui.change(|tree| tree.agents.iter_mut().for_each(|agent| agent.liveness = None));
    assert_eq!(ui.agent(), asking, "it is read still");
    let mut ui = TestUi::live(120, 40);
    ui.press(&[KeyCode::Down]);
    let chosen = ui.agent();
    assert_ne!(chosen, asking);
    ask_for_permission(&mut ui);
    assert_eq!(ui.agent(), chosen);
}

#[test]
fn whoever_waits_for_a_person_is_counted_and_told() {
    let mut ui = TestUi::live(120, 30);
    // The user reads what the main agent does.
    ui.press(&[KeyCode::Down, KeyCode::Up]);
    ask_for_permission(&mut ui);
    let screen = ui.screen();
    assert!(screen.contains("1 waits for you") && screen.contains("waits for your permission"), "{screen}");
    ui.press(&[KeyCode::Esc]);
    ui.pass(60_000);
    let screen = ui.screen();
    assert!(screen.contains("waits for your permission") && screen.contains("a goes there"), "{screen}");
    ui.press(&[KeyCode::Char('a')]);
    let session = ui.session();
    ui.press(&[KeyCode::Char('a')]);
    assert_eq!(ui.session(), session, "there is no other");
}

#[test]
fn call_that_waits_is_readable_as_a_whole_wherever_its_session_is_shown() {
    let command = "rm -rf node_modules dist && git clean -fdx && npm ci --no-audit --no-fund && npm run build -- the-end";
    let mut ui = TestUi::live(120, 40);
    let asking = ask_for_permission(&mut ui);
    let (_, events) = recorded("k-big", None);
    let request = subscope_model::Event {
        id: "request".into(),
        at_ms: Some(ui.state.now_ms),
        kind: subscope_model::EventKind::PermissionRequest,
        actor_id: subscope_model::Actor(asking.clone()),
        data: serde_json::json!({"tool_name": "Bash", "input": {"command": command}}),
        ..events[0].clone()
    };
    ui.send(UiMessage::Feed(Update::event(request)));
    let joined = |screen: &str| -> String {
        let panel = screen.lines().filter_map(|line| line.rsplit('│').next());
        panel.flat_map(str::chars).filter(|character| !character.is_whitespace()).collect()
    };
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        ui.send(UiMessage::Resize(width, height));
        ui.press(&[KeyCode::Char('0')]);
        let screen = ui.screen();
        assert!(joined(&screen).contains(&joined(command)), "{screen}");
        // Enter leads to the agent that asks.
        ui.press(&[KeyCode::Enter]);
        let screen = ui.screen();
        assert_eq!(ui.agent(), asking.to_string());
        assert!(joined(&screen).contains(&joined(command)), "{screen}");
    }
}

#[test]
fn who_follows_in_an_ended_session_is_led_to_one_at_work() {
    let mut ui = TestUi::live(120, 30);
    let live = ui.session();
    ui.press(&[KeyCode::Esc, KeyCode::Down, KeyCode::Char('f')]);
    assert!(ui.state.is_following && ui.session() == live);
    let mut ui = TestUi::ended("c-nested", 120, 30);
    ui.press(&[KeyCode::Char('f')]);
    assert!(!ui.state.is_following && ui.screen().contains("no agent is at work"), "{}", ui.screen());
}

#[test]
fn frame_is_drawn_each_second_only_while_something_grows() {
    let ui = TestUi::live(120, 30);
    assert_eq!(ui.state.redraw_ms(), 1_000);
    let mut ui = TestUi::ended("c-nested", 120, 30);
    assert_eq!(ui.state.redraw_ms(), 1_000, "it ended some seconds ago");
    ui.pass(120_000);
    assert_eq!(ui.state.redraw_ms(), 60_000);
    ui.press(&[KeyCode::Char('f')]);
    assert_eq!(ui.state.redraw_ms(), 1_000, "a notice disappears");
}

#[test]
fn answer_that_changes_nothing_draws_nothing() {
    let mut ui = TestUi::ended("c-nested", 120, 30);
    let rows = vec![SessionRow::of(&recorded("e-tool-failures", None).0)];
    let answer = |ui: &mut TestUi, rows| {
        ui.frame();
        assert!(!ui.state.dirty.screen, "a frame was drawn");
        ui.reply(Question::Sessions(FIRST_SESSIONS), Answer::Sessions(rows, false));
        (ui.state.dirty.screen, ui.state.dirty.sessions)
    };
    assert_eq!(answer(&mut ui, rows.clone()), (true, true));
    assert_eq!(answer(&mut ui, rows), (false, false));
    ui.tick(ui.state.now_ms + 5_000);
    assert!(!ui.state.dirty.screen, "time alone changes nothing that is not at work");
}

#[test]
fn events_that_were_missed_are_read_again() {
    let mut ui = TestUi::live(120, 30);
    ui.pass(1_000);
    ui.asked();
    ui.send(UiMessage::Feed(Update::Missed(7)));
    ui.pass(1_000);
    let session = ui.session();
    assert_eq!(ui.asked(), [Question::Events(session)]);
}

#[test]
fn failures_are_told_and_what_failed_can_be_asked_again() {
    let mut ui = TestUi::live(120, 30);
    ui.asked();
    ui.press(&[KeyCode::Char('o')]);
    assert_eq!(ui.asked(), [Question::Page]);
    ui.send(UiMessage::Reply(Box::new((Question::Page, Err("no hub\u{1b}[2J".into())))));
    assert!(ui.screen().contains("no hub␛[2J"));
    ui.press(&[KeyCode::Char('o')]);
    assert_eq!(ui.asked(), [Question::Page]);
}

#[test]
fn mouse_selects_folds_scrolls_and_changes_views() {
    let mut ui = TestUi::live(120, 40);
    let second = ui.state.tree().unwrap().agents[2].id.clone();
    click(&mut ui, |target| *target == MouseTarget::Agent(second.clone()));
    assert_eq!(ui.agent(), second.to_string());
    let root = subscope_model::AgentId::from("root");
    let rows = ui.state.rows.len();
    for _ in 0..2 {
        click(&mut ui, |target| *target == MouseTarget::Agent(root.clone()));
    }
    assert_eq!((ui.state.rows.len(), ui.state.rows[0].folded), (1, rows - 1));
    click(&mut ui, |target| *target == MouseTarget::Agent(root.clone()));
    let target = ui
        .state
        .drawn
        .mouse_targets
        .iter()
        .find(|(_, target)| *target == MouseTarget::Panel(Panel::Main))
        .unwrap()
        .0;
    mouse(&mut ui, MouseEventKind::ScrollDown, target.x + 2, target.y + 2);
    assert_eq!(ui.state.selected_row(), Some(3));
    click(&mut ui, |target| *target == MouseTarget::View(View::Feed));
    assert_eq!(ui.state.view, View::Feed);
    let other = ui.state.sessions.rows[1].id.clone();
    click(&mut ui, |target| *target == MouseTarget::Session(other.clone()));
    assert_eq!((ui.session(), ui.state.panel), (other, Panel::Sessions));
}

#[test]
fn no_session_moves_under_the_pointer() {
    let mut ui = TestUi::live(120, 40);
    let (mut other, events) = recorded("c-nested", None);
    other.session.id = "other".into();
    other.session.started_at_ms = Some(i64::MAX);
    other.agents[0].status = AgentStatus::Running;
    other.agents[0].liveness = None;
    ui.feed(other.clone(), events);
    ui.frame();
    let order = |ui: &TestUi| -> Vec<String> {
        ui.state.sessions.rows[..2].iter().map(|row| row.id.to_string()).collect()
    };
    let before = order(&ui);
    assert_eq!(before[1], "other");
    mouse(&mut ui, MouseEventKind::Moved, 5, 4);
    other.agents[0].flags = vec![Flag::Stalled];
    ui.send(UiMessage::Feed(Update::snapshot(other)));
    ui.frame();
    assert_eq!(order(&ui), before);
    ui.pass(HOLD_MS);
    assert_eq!(order(&ui)[0], "other", "the pointer rests");
}

#[test]
fn slider_is_moved_by_the_mouse() {
    let mut ui = TestUi::ended("k-big", 120, 40);
    ui.press(&[KeyCode::Char(' ')]);
    let (area, _) =
        *ui.state.drawn.mouse_targets.iter().find(|(_, target)| *target == MouseTarget::Slider).unwrap();
    mouse(&mut ui, MouseEventKind::Down(MouseButton::Left), area.x, area.y);
    let travel = ui.state.travel().unwrap();
    assert_eq!(travel.at_ms, travel.from_ms);
    mouse(&mut ui, MouseEventKind::Drag(MouseButton::Left), area.right() - 1, area.y);
    let travel = ui.state.travel().unwrap();
    assert_eq!(travel.at_ms, travel.to_ms);
}

/// An answer with some hits in the second session of the list, and with filters.
fn found(ui: &TestUi) -> Hits {
    let session = ui.state.sessions.rows[1].id.clone();
    let hit = |agent: &str| subscope_model::SearchHit {
        session_id: session.clone(),
        agent_id: agent.into(),
        agent: "Explore: prices".into(),
        kind: "tool result".into(),
        tool: Some("Bash".into()),
        failed: agent == "a2",
        session_title: Some("Fix the cart".into()),
        project: Some("/home/user/shop".into()),
        snippet: "whole cents\u{1b}[2J only fn total".into(),
        excerpt: "whole cents\u{1b}[2J only\n  fn total() {".into(),
        ..subscope_model::SearchHit::default()
    };
    let count = |name: &str, hits| subscope_model::FacetCount { name: name.into(), hits };
    let facets = subscope_model::Facets {
        kinds: vec![count("tool result", 1_100), count("prompt", 104)],
        tools: vec![count("Bash", 900)],
        projects: vec![count("/home/user/shop", 1_204)],
        failed: 12,
    };
    Hits { hits: vec![hit("a1"), hit("a2")], total: 1_204, facets, is_indexing: true, ..Hits::default() }
}

#[test]
fn history_is_searched_filtered_and_a_hit_leads_to_its_agent() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut ui = TestUi::live(width, height);
        ui.asked();
        ui.press(&[KeyCode::Char('/'), KeyCode::Tab]);
        ui.type_text("whole cents");
        ui.press(&[KeyCode::Enter]);
        let query = query_of("whole cents");
        assert_eq!(ui.asked(), [Question::Search(query.clone())]);
        let hits = found(&ui);
        ui.reply(Question::Search(query.clone()), Answer::Found(query.clone(), hits.clone()));
        let screen = ui.screen();
        insta::assert_snapshot!(format!("hits_{width}x{height}"), screen);
        for words in [
            "2 of 1,204 passages with “whole cents”",
            "there may be more",
            "shop: Fix the cart",
            "whole cents␛[2J only",
            "      fn total() {",
            "[ ] prompt 104",
            "[ ] ✗ failed 12",
        ] {
            assert!(screen.contains(words), "{words}\n{screen}");
        }
        // The second filter is put into effect, and taken off again.
        ui.press(&[KeyCode::Right, KeyCode::Char(' ')]);
        let prompts = SearchQuery { kind: Some("prompt".into()), ..query.clone() };
        assert_eq!(ui.asked(), [Question::Search(prompts.clone())]);
        let none =
            Hits { hits: Vec::new(), total: 0, facets: subscope_model::Facets::default(), ..hits.clone() };
        ui.reply(Question::Search(prompts.clone()), Answer::Found(prompts, none));
        let screen = ui.screen();
        assert!(screen.contains("[x] prompt 0") && screen.contains("nothing has all that"), "{screen}");
        ui.press(&[KeyCode::Char(' ')]);
        assert_eq!(ui.asked(), [Question::Search(query.clone())]);
        ui.reply(Question::Search(query.clone()), Answer::Found(query, hits));
        ui.press(&[KeyCode::Down, KeyCode::Enter]);
        let session = ui.state.sessions.rows[1].id.clone();
        assert_eq!((ui.session(), ui.agent()), (session, "a2".into()));
    }
}

#[test]
fn palette_leads_to_commands_agents_sessions_and_texts() {
    let mut ui = TestUi::live(120, 40);
    // A command whose name begins with the typed text is the first entry: Enter runs it.
    ui.press(&[KeyCode::Char(':')]);
    ui.type_text("stats");
    ui.press(&[KeyCode::Enter]);
    assert_eq!((ui.state.view, &ui.state.overlay), (View::Stats, &None));
    ui.press(&[KeyCode::Esc, KeyCode::Char(':')]);
    ui.type_text("inventory and stock");
    ui.press(&[KeyCode::Enter]);
    assert!(ui.state.agent().unwrap().title().contains("Inventory"));
    // Sessions that are not in the list are asked of the backend, each text once.
    ui.asked();
    ui.press(&[KeyCode::Char(':')]);
    ui.type_text("oldest");
    ui.pass(50);
    ui.pass(50);
    assert_eq!(ui.asked(), [Question::Find("oldest".into())]);
    let (mut old, _) = recorded("e-tool-failures", None);
    old.session.id = "old".into();
    old.session.title = Some("the oldest one\u{1b}[2J".into());
    let agents = AgentName::found_in(&old, "");
    let agent = AgentName { title: Some("Explore: The oldest \u{1b}[2J".into()), ..agents[0].clone() };
    ui.reply(
        Question::Find("oldest".into()),
        Answer::Sought(vec![SessionRow::of(&old)], vec![agent, agents[0].clone()]),
    );
    let screen = ui.screen();
    assert!(screen.contains("session   ✓ shop: the oldest one␛[2J"), "{screen}");
    // Agents of past sessions, too, each once and if they fit.
    assert_eq!(screen.matches("Explore: The oldest ␛[2J of old").count(), 1, "{screen}");
    assert_eq!(screen.matches(" of old").count(), 1, "{screen}");
    // Tab completes, Esc goes back.
    ui.press(&[KeyCode::Tab]);
    assert!(ui.screen().contains(": the oldest one[2J▏"), "{}", ui.screen());
    ui.press(&[KeyCode::Backspace, KeyCode::Backspace, KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(ui.session(), "old".into());
    // Agents of other live sessions are found from there.
    ui.press(&[KeyCode::Char(':')]);
    ui.type_text("inventory and stock");
    assert!(ui.screen().contains("Inventory and stock of "), "{}", ui.screen());
    ui.press(&[KeyCode::Enter]);
    assert!(ui.session() != "old".into() && ui.state.agent().unwrap().title().contains("Inventory"));
    ui.press(&[KeyCode::Char(':')]);
    ui.type_text("cents");
    ui.press(&[KeyCode::Up, KeyCode::Esc]);
    assert_eq!(ui.state.overlay, None);
    ui.press(&[KeyCode::Char(':')]);
    ui.type_text("whole cents");
    ui.asked();
    ui.press(&[KeyCode::Enter]);
    assert_eq!(ui.asked(), [Question::Search(query_of("whole cents"))]);
}

#[test]
fn full_detail_shows_the_whole_output_of_a_call() {
    let mut ui = TestUi::ended("c-nested", 120, 40);
    let (_, events) = recorded("c-nested", None);
    let output: String = (1..=300).map(|line| format!("output line {line} of it\n")).collect();
    let of = |id: &str, kind, data: serde_json::Value| {
        let data = data.as_object().unwrap().clone().into_iter();
        let mut all = serde_json::Map::from_iter([
            ("tool_use_id".into(), "long".into()),
            ("tool_name".into(), "Bash".into()),
        ]);
        all.extend(data);
        subscope_model::Event {
            id: id.into(),
            at_ms: Some(ui.state.now_ms),
            kind,
            actor_id: subscope_model::Actor("root".into()),
            data: all.into(),
            ..events[0].clone()
        }
    };
    use subscope_model::EventKind as Kind;
    let begin = of("begin", Kind::ToolPre, serde_json::json!({"input": {"command": "make"}}));
    let end = of("end", Kind::ToolPost, serde_json::json!({ "result": output }));
    for event in [begin, end] {
        ui.send(UiMessage::Feed(Update::event(event)));
    }
    ui.state.settings.detail = subscope_render::Detail::Full;
    ui.press(&[KeyCode::Enter]);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..40 {
        let screen = ui.screen();
        let numbers = screen
            .lines()
            .filter_map(|line| line.split_once("output line ")?.1.split(' ').next()?.parse::<u32>().ok());
        seen.extend(numbers);
        ui.press(&[KeyCode::PageUp]);
    }
    let missing: Vec<u32> = (1..=300).filter(|line| !seen.contains(line)).collect();
    assert_eq!(missing, Vec::<u32>::new());
}

#[test]
fn palette_at_each_size() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut ui = TestUi::live(width, height);
        ui.press(&[KeyCode::Char(':')]);
        ui.type_text("re");
        insta::assert_snapshot!(format!("palette_{width}x{height}"), ui.screen());
    }
}

#[test]
fn pasted_text_is_looked_for_and_presses_no_keys() {
    let mut ui = TestUi::live(120, 40);
    ui.send(UiMessage::Paste("qq".into()));
    assert_eq!(ui.effects.iter().filter(|effect| **effect == Effect::Quit).count(), 0);
    ui.press(&[KeyCode::Char('/')]);
    ui.send(UiMessage::Paste("inventory and\nmore".into()));
    ui.press_with(KeyCode::Char('x'), KeyModifiers::ALT);
    ui.press(&[KeyCode::Enter]);
    assert_eq!(ui.state.search.text, "inventory and");
    assert!(ui.state.agent().unwrap().title().contains("Inventory"));
}

#[test]
fn playback_halts_while_another_session_is_looked_at() {
    let mut ui = TestUi::live(120, 40);
    ui.press(&[KeyCode::Char(' '), KeyCode::Char('{'), KeyCode::Char(' ')]);
    let at = ui.state.travel().unwrap().at_ms;
    ui.press(&[KeyCode::Tab, KeyCode::Tab, KeyCode::Down]);
    ui.pass(5_000);
    assert_eq!(ui.state.travel.as_ref().unwrap().at_ms, at);
    ui.press(&[KeyCode::Up]);
    ui.pass(500);
    assert!(ui.state.travel().unwrap().at_ms > at);
}

#[test]
fn playback_goes_on_by_itself_and_shows_each_moment_as_it_is_answered() {
    let mut ui = TestUi::ended("k-big", 120, 40);
    ui.press(&[KeyCode::Char(' '), KeyCode::Char(' ')]);
    assert!(ui.state.travel().unwrap().is_playing);
    ui.asked();
    ui.pass(5_000);
    let session = ui.session();
    let from = ui.state.travel().unwrap().from_ms;
    assert_eq!(ui.asked(), [Question::At(session.clone(), from + 5_000)]);
    let (tree, _) = recorded("k-big", Some(5_000));
    let question = Question::At(session.clone(), from + 5_000);
    ui.reply(question, Answer::At(session, from + 5_000, Some(Box::new(tree))));
    let screen = ui.screen();
    assert!(screen.contains("Agent Tree (4 active)") && screen.contains("5s of 21s"), "{screen}");
    ui.press(&[KeyCode::Char('3')]);
    let screen = ui.screen();
    assert!(!screen.contains("whole cents, the code does not keep it"), "the end is not told yet: {screen}");
}

#[test]
fn mission_control_asks_once_for_the_trees_of_listed_sessions_and_shows_their_agents() {
    let mut ui = TestUi::live(120, 40);
    ui.press(&[KeyCode::Char('0')]);
    let trees = |ui: &mut TestUi| -> Vec<SessionId> {
        let tree = |question| if let Question::Tree(session) = question { Some(session) } else { None };
        ui.asked().into_iter().filter_map(tree).collect()
    };
    trees(&mut ui);
    ui.pass(1_000);
    let (nested, failing) = (recorded("c-nested", None).0, recorded("e-tool-failures", None).0);
    let mut asked = trees(&mut ui);
    asked.sort();
    let mut expected: Vec<SessionId> = vec![nested.session.id.clone(), failing.session.id.clone()];
    expected.retain(|session| ui.state.sessions.rows.iter().any(|row| row.id == *session && row.agents > 0));
    expected.sort();
    assert!(!asked.is_empty());
    assert_eq!(asked, expected);
    let words = subscope_render::text::plural(nested.summary.agents, "agent");
    let line = |ui: &mut TestUi| {
        let title = nested.session.title.as_deref().unwrap().split(' ').take(3).collect::<Vec<_>>().join(" ");
        ui.screen().lines().find(|line| line.contains(&title)).unwrap().to_owned()
    };
    assert!(line(&mut ui).contains(&words), "{}", line(&mut ui));
    let completed = nested.agents.iter().filter(|agent| !agent.id.is_root()).count();
    let session = nested.session.id.clone();
    ui.reply(Question::Tree(session.clone()), Answer::Tree(session, Some(Box::new(nested.clone()))));
    assert!(line(&mut ui).contains(&format!("✓{completed}")), "{}", line(&mut ui));
    // A removed session gives no message, and is not queried again.
    let gone = failing.session.id.clone();
    ui.reply(Question::Tree(gone.clone()), Answer::Tree(gone, None));
    assert!(!ui.screen().contains("nothing is kept"));
    ui.pass(5_000);
    assert_eq!(trees(&mut ui), []);
}

#[test]
fn a_row_of_a_narrow_list_has_its_cost_whatever_its_project_is_called() {
    let mut ui = TestUi::live(120, 40);
    let id = ui.session();
    for (cwd, agents, running, failed, cost) in [
        ("/home/user/a-project-with-a-long-name", 300, 22, 14, 12_340_000),
        ("/home/user/shop", 1, 0, 0, 920_000),
        ("/home/user/checkout-service", 8, 0, 0, 750_000),
    ] {
        let row = |row: &mut SessionRow| {
            (row.cwd, row.agents, row.running, row.failed) = (Some(cwd.into()), agents, running, failed);
            (row.cost_micro_usd, row.cost_floor) = (Some(cost), true);
        };
        ui.state.sessions.rows.iter_mut().filter(|shown| shown.id == id).for_each(row);
        ui.state.dirty.sessions = false;
        for width in [100, 110, 120, 140] {
            ui.state.size = (width, 40);
            let screen = ui.screen();
            let cost = ui.state.settings.style.money(cost, true);
            let line = screen.lines().find(|line| line.contains(&cost));
            let line = line.unwrap_or_else(|| panic!("{width}: {screen}"));
            assert!(failed == 0 || line.contains(&format!("✗{failed}")), "{width}: {line}");
            assert!(agents > 100 || line.contains(&format!("{agents} agent")), "{width}: {line}");
            // In a list of 28 to 30 columns the project yields to the agents and the cost.
            let has_room = agents < 100 && width > 120;
            assert!(!has_room || line.trim_start().starts_with(&cwd[11..15]), "{width}: {line}");
        }
    }
}

#[test]
fn key_goes_to_the_trouble_of_a_session_that_is_not_followed() {
    let mut ui = TestUi::empty(120, 30);
    let (mut tree, _) = recorded("c-nested", None);
    ui.tick(tree.session.ended_at_ms.unwrap() + 5_000);
    (tree.agents[0].status, tree.agents[0].evidence) = (AgentStatus::Lost, Some(SILENT_EVIDENCE.into()));
    let row = SessionRow::of(&tree);
    let (quiet, _) = recorded("e-tool-failures", None);
    let newer = SessionRow { last_event_at_ms: Some(ui.state.now_ms), ..SessionRow::of(&quiet) };
    ui.send(UiMessage::Feed(Update::CaughtUp));
    let seen = Looks { seen_until_ms: row.last_event_at_ms.map(|at| at - 1), ..Looks::default() };
    ui.reply(Question::Looks, Answer::Looks(seen));
    ui.reply(Question::Sessions(FIRST_SESSIONS), Answer::Sessions(vec![newer, row], false));
    assert!(ui.screen().contains("! 1 in trouble"), "{}", ui.screen());
    ui.press(&[KeyCode::Char('a')]);
    assert_eq!(ui.session(), tree.session.id, "{}", ui.screen());
    assert!(ui.screen().contains("1 of 1: "), "{}", ui.screen());
}

#[test]
fn footer_names_the_key_that_goes_to_an_alert_at_any_width() {
    for width in [60, 80, 100, 200] {
        let mut ui = TestUi::live(width, 24);
        ui.press(&[KeyCode::Down, KeyCode::Up]);
        ui.change(|tree| {
            tree.session.title =
                Some("A very long title of a session that nobody can read as a whole".into());
            let running = tree.agents.iter_mut().rfind(|agent| agent.status.is_live()).unwrap();
            running.description = Some("a description of an agent that is as long as that".into());
            running.flags.push(Flag::Stalled);
        });
        let screen = ui.screen();
        let footer = screen.lines().last().unwrap();
        assert!(footer.contains("a goes there · Esc"), "{width}: {footer}");
        ui.press(&[KeyCode::Esc]);
        ui.change(|tree| {
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
        ui.press(&[KeyCode::Esc]);
        ui.pass(60_000);
        let screen = ui.screen();
        let footer = screen.lines().last().unwrap();
        assert!(footer.trim_end().ends_with("a goes there"), "{width}: {footer}");
    }
}
