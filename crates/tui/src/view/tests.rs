//! Snapshots of recorded sessions at common terminal sizes, and properties that hold at any size.

use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use subscope_model::{
    AgentStatus, Concurrency, ConcurrencySpan, Flag, Iteration, IterationMeta, IterationStatus, SlowCall,
    Stats, StatsRow, ToolCall, ToolStatus, Usage, iso8601,
};
use subscope_render::{Detail, text};

use super::*;
use crate::{
    ask::{Answer, Question},
    settings::BudgetLimits,
    state::{MouseTarget, VIEWS, reports::StatsRange, select::Filter},
    test_ui::{TestUi, recorded},
    update::{Effect, UiMessage},
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
        let own = |view: View| view != View::Agents && !view.is_report();
        for (view, _, title) in VIEWS.into_iter().filter(|(view, ..)| own(*view)) {
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

/// Figures of some days before the displayed time.
fn some_stats(now_ms: subscope_model::Millis) -> Stats {
    let row = |name: &str, share: u64| StatsRow {
        name: name.into(),
        sessions: share,
        agents: share * 3,
        tool_calls: share * 40,
        tool_errors: share / 4,
        busy_ms: share * 600_000,
        usage: Usage::new(share * 1_000, share * 500, share * 90_000, share * 2_000),
        cost_micro_usd: share * 412_000,
        ..StatsRow::default()
    };
    let day = |ago: i64| iso8601(now_ms - ago * 86_400_000)[..10].to_owned();
    let slow = |at: i64| SlowCall {
        session_id: "b2".into(),
        session_title: Some("Fix the cart".into()),
        agent_id: format!("a{at}").as_str().into(),
        agent: "Explore: prices".into(),
        tool: "Bash".into(),
        detail: Some("npm run build".into()),
        status: if at == 1 { ToolStatus::Error } else { ToolStatus::Ok },
        started_at_ms: now_ms - at * 3_600_000,
        duration_ms: 600_000 / at,
    };
    let span = |at: i64| ConcurrencySpan {
        at_ms: now_ms - 600_000 * (40 - at),
        agents: (at % 9) as u32 + 1,
        sessions: 1,
    };
    Stats {
        total: row("all", 30),
        by_type: vec![row("main", 12), row("general-purpose", 18)],
        by_model: vec![row("claude-opus-5-5", 30)],
        by_project: vec![row("/home/user/shop", 21), row("/home/user/warehouse", 9)],
        by_harness: vec![row("claude-code", 30)],
        by_day: vec![row(&day(0), 12), row(&day(1), 15), row(&day(5), 3)],
        slowest: (1..=4).map(slow).collect(),
        concurrency: Concurrency {
            span_ms: 600_000,
            spans: (0..40).filter(|at| at % 7 > 0).map(span).collect(),
        },
        ..Stats::default()
    }
}

#[test]
fn statistics_at_each_size() {
    for (width, height) in SIZES {
        let mut ui = TestUi::live(width, height);
        ui.change(|tree| tree.summary.cost_micro_usd = Some(1_700_000));
        ui.state.settings.budgets = BudgetLimits { day: Some(10_000_000), session: Some(2_000_000) };
        ui.press(&[KeyCode::Char('5')]);
        let query = StatsRange::Week.query(ui.state.now_ms, &ui.state.settings.zone);
        let stats = some_stats(ui.state.now_ms);
        ui.reply(Question::Stats(query.clone()), Answer::Stats(query, Box::new(stats)));
        shot("stats", &mut ui);
        let screen = ui.screen();
        assert!(screen.contains("budget · today: $4.94 of $10.00 (49 %)"), "{screen}");
        assert!(screen.contains("$1.70 of $2.00 (85 %)"), "{screen}");
        // From the last line Enter goes to the agent of a slow call.
        ui.press(&[KeyCode::End, KeyCode::Enter]);
        assert_eq!((ui.session(), ui.agent(), ui.state.view), ("b2".into(), "a4".into(), View::Agents));
    }
}

/// The list, mission control and statistics mark what is a lower bound, as the tree does.
#[test]
fn costs_that_are_lower_bounds_are_marked_everywhere() {
    for is_floor in [false, true] {
        let mut ui = TestUi::live(160, 40);
        ui.change(|tree| {
            (tree.summary.cost_micro_usd, tree.summary.cost_floor) = (Some(1_234_000), is_floor)
        });
        let cost = text::money(1_234_000, is_floor);
        assert_eq!(cost.starts_with('≥'), is_floor);
        let words = |ui: &mut TestUi| ui.screen().split_whitespace().filter(|word| *word == cost).count();
        ui.state.panel = Panel::Sessions;
        ui.frame();
        assert!(words(&mut ui) >= 2, "header and list: {}", ui.screen());
        ui.press(&[KeyCode::Char('0')]);
        assert!(words(&mut ui) >= 2, "header and mission control: {}", ui.screen());
        ui.state.settings.budgets = BudgetLimits { day: Some(10_000_000), session: Some(2_000_000) };
        ui.press(&[KeyCode::Char('5')]);
        let query = StatsRange::Week.query(ui.state.now_ms, &ui.state.settings.zone);
        let mut stats = some_stats(ui.state.now_ms);
        let rows = [&mut stats.by_day, &mut stats.by_type, &mut stats.by_model];
        let rows = rows.into_iter().flatten().chain([&mut stats.total]);
        rows.for_each(|row| (row.cost_micro_usd, row.cost_floor) = (1_234_000, is_floor));
        ui.reply(Question::Stats(query.clone()), Answer::Stats(query, Box::new(stats)));
        ui.frame();
        // Header, total, both budgets, three days, three groups.
        assert!(words(&mut ui) >= 10, "{}", ui.screen());
    }
}

#[test]
fn other_days_are_asked_for_by_key_and_mouse_and_late_answers_are_dropped() {
    let mut ui = TestUi::live(120, 40);
    ui.press(&[KeyCode::Char('5'), KeyCode::Char('F')]);
    let [week, month] = [StatsRange::Week, StatsRange::Month]
        .map(|range| range.query(ui.state.now_ms, &ui.state.settings.zone));
    assert!(ui.asked().contains(&Question::Stats(month.clone())));
    let stats = some_stats(ui.state.now_ms);
    ui.reply(Question::Stats(week.clone()), Answer::Stats(week, Box::new(stats.clone())));
    assert!(ui.state.reports.stats.is_none());
    ui.reply(Question::Stats(month.clone()), Answer::Stats(month, Box::new(stats)));
    assert!(ui.screen().matches("\n").count() > 30 && ui.state.reports.stats.is_some());
    let is_all = |(_, target): &&(Rect, MouseTarget)| *target == MouseTarget::Range(StatsRange::All);
    let (area, _) = *ui.state.drawn.mouse_targets.iter().find(is_all).unwrap();
    let (kind, modifiers) = (MouseEventKind::Down(MouseButton::Left), KeyModifiers::NONE);
    ui.send(UiMessage::Mouse(MouseEvent { kind, column: area.x + 1, row: area.y, modifiers }));
    assert_eq!(ui.asked(), [Question::Stats(StatsRange::All.query(0, &ui.state.settings.zone))]);
}

#[test]
fn two_sessions_are_compared_at_each_size() {
    for (width, height) in SIZES {
        let mut ui = TestUi::live(width, height);
        let (mut other, events) = recorded("k-big", None);
        other.session.id = "other".into();
        other.session.title = Some("Do it once more".into());
        other.agents.truncate(6);
        other.agents[2].status = AgentStatus::Failed;
        other.agents[3].description = Some("Another thing".into());
        ui.feed(other, events);
        ui.frame();
        ui.press(&[KeyCode::Char('0'), KeyCode::Home, KeyCode::Char('m'), KeyCode::Down, KeyCode::Char('m')]);
        let marked: Vec<String> =
            ui.state.reports.marked.iter().map(|mark| mark.session.to_string()).collect();
        let screen = ui.screen();
        assert!(screen.contains("◐A") && screen.contains("✓B"), "{marked:?}\n{screen}");
        ui.press(&[KeyCode::Char('6')]);
        shot("compare", &mut ui);
        let screen = ui.screen();
        assert!(width < 80 || screen.contains("failed, was completed"), "{screen}");
        // The line of an agent leads there.
        ui.press(&[KeyCode::Down; 10]);
        ui.press(&[KeyCode::Enter]);
        assert_eq!((ui.session(), ui.state.view), ("other".into(), View::Agents));
        assert_eq!(ui.state.agent().unwrap().status, AgentStatus::Failed);
    }
}

#[test]
fn two_agents_are_compared() {
    let mut ui = TestUi::live(120, 40);
    ui.press(&[KeyCode::Down, KeyCode::Char('m'), KeyCode::Down, KeyCode::Char('m'), KeyCode::Char('6')]);
    let screen = ui.screen();
    assert!(screen.contains("A  Explore: Cart and its tests · shop"), "{screen}");
    assert!(screen.contains("B  general-purpose: Pricing and discounts · shop"), "{screen}");
    let lanes = screen.lines().filter(|line| line.contains(" A ") && line.contains('█')).count();
    assert_eq!(lanes, 1, "one pair: {screen}");
}

#[test]
fn iterations_at_each_size() {
    for (width, height) in SIZES {
        let mut ui = TestUi::live(width, height);
        ui.press(&[KeyCode::Char('7')]);
        let session = ui.state.sessions.rows[1].id.clone();
        let now = ui.state.now_ms;
        let row = |number: u32, status, exit_code, failed| Iteration {
            folder: format!("/home/user/shop/.subscope/run/{number}"),
            meta: IterationMeta {
                schema: subscope_model::ITERATION_SCHEMA.into(),
                run: "r1".into(),
                iteration: number,
                of: Some(3),
                name: "review".into(),
                command: vec!["claude".into()],
                cwd: "/home/user/shop".into(),
                session_id: (number == 2).then(|| session.to_string()),
                status,
                exit_code,
                started_at_ms: now - 60_000 * i64::from(4 - number),
                ended_at_ms: None,
                pid: 1,
            },
            agents: Some(4),
            failed: Some(failed),
            duration_ms: exit_code.map(|_| 61_000),
        };
        let rows = vec![
            row(3, IterationStatus::Running, None, 0),
            row(2, IterationStatus::Failed, Some(1), 2),
            row(1, IterationStatus::Completed, Some(0), 0),
        ];
        ui.reply(Question::Iterations, Answer::Iterations(rows));
        shot("iterations", &mut ui);
        ui.press(&[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
        assert_eq!((ui.session(), ui.state.view), (session, View::Agents));
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
    // Without ids their place distinguishes them.
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
        for sentence in
            ["What coding agents do on this machine appears here by itself.", "plays a recorded session here"]
        {
            assert!(text.contains(sentence), "{width}: {text}");
        }
        ui.press(&[KeyCode::Enter]);
        assert!(ui.effects.contains(&Effect::Demo));
    }
}

#[test]
fn trouble_has_its_color_and_its_words() {
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
    assert_eq!(color_of("!", "Cart and its tests"), ink(subscope_render::Ink::Stalled));
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
    let sentence = ui.state.timeline_view.outline.as_ref().unwrap().path.sentence();
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
