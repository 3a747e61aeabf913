//! Latency of a key and of a frame with 300 agents and 50,000 events, and with 3,000 agents, also unfolded into their
//! calls. Budgets: key to screen 30 ms at p99, frame 8 ms, memory 100 MB.
//!
//! `cargo bench -p subscope-tui --bench frames`

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints what it measures, and cannot go on without it"
)]

use std::hint::black_box;

use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::Rect,
};
use serde_json::json;
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Event, EventKind, EventSchema, Session, SessionId, Summary,
    ToolCall, ToolStatus, ToolUseId, Tree, Update, Usage,
};
use subscope_render::{Detail, Style};
use subscope_testkit::figures::{self, Row, most_memory, now, percentile};
use subscope_tui::{
    Alerts, BudgetLimits, Palette, Settings, TreePanel, UiMessage, UiState, View, refresh, update, view,
};

/// A session of the benchmark.
#[derive(Clone, Copy)]
struct Load {
    agents: usize,
    /// Tool calls per agent: two events each, and a message after every second call.
    calls: usize,
    events: usize,
}

const BUSY: Load = Load { agents: 300, calls: 100, events: 50_000 };
const CROWD: Load = Load { agents: 3_000, calls: 10, events: 50_000 };
const ROUNDS: usize = 150;
const SIZE: (u16, u16) = (200, 60);

const KEY_BUDGET_MS: f64 = 30.0;
const FRAME_BUDGET_MS: f64 = 8.0;
const MEMORY_BUDGET_MB: f64 = 100.0;

fn main() {
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let row = |load: Load, what: &str, figure: &str, values, unit, budget| Row {
        question: format!(
            "the terminal UI, {} agents, {} events, {} × {}: {what}",
            load.agents, load.events, SIZE.0, SIZE.1
        ),
        figure: figure.to_owned(),
        values,
        unit,
        budget: Some(budget),
        is_floor: false,
    };
    println!("{}", figures::HEAD);
    let measure = |load: Load, name: &str, state: &mut UiState| {
        let keys = vec![percentile(&rounds(state, true), 99)];
        let figure = "a key to its screen, 99th percentile";
        println!("{}", row(load, name, figure, keys, " ms", KEY_BUDGET_MS).markdown());
        let frames = rounds(state, false);
        println!("{}", row(load, name, "a frame", frames, " ms", FRAME_BUDGET_MS).markdown());
    };
    for (name, view, detail) in [
        ("sessions", View::Mission, Detail::Moderate),
        ("agents, moderate", View::Agents, Detail::Moderate),
        ("agents, full", View::Agents, Detail::Full),
        ("timeline", View::Timeline, Detail::Moderate),
        ("feed", View::Feed, Detail::Moderate),
        ("summary", View::Summary, Detail::Moderate),
    ] {
        let mut state = loaded(BUSY);
        (state.view, state.settings.detail) = (view, detail);
        measure(BUSY, name, &mut state);
    }
    let state = loaded(BUSY);
    let memory = most_memory(std::process::id()).unwrap_or(f64::NAN);
    black_box(&state);
    let memory = row(BUSY, "all of them", "most memory (VmHWM)", vec![memory], " MB", MEMORY_BUDGET_MB);
    println!("{}", memory.markdown());
    for load in [BUSY, CROWD] {
        for (name, view) in [("agents", View::Agents), ("timeline", View::Timeline)] {
            let mut state = loaded(load);
            state.view = view;
            if load.agents == CROWD.agents {
                measure(load, name, &mut state);
            }
            // Nothing is folded: all agents unfold into their calls.
            press(&mut state, KeyCode::Char('R'));
            measure(load, &format!("{name}, unfolded into calls"), &mut state);
        }
    }
}

fn press(state: &mut UiState, code: KeyCode) {
    update(state, UiMessage::Key(KeyEvent::new(code, KeyModifiers::NONE)));
}

/// Milliseconds of each round, sorted. Each frame is drawn and diffed against the previous one, as ratatui does.
fn rounds(state: &mut UiState, is_key: bool) -> Vec<f64> {
    let area = Rect { x: 0, y: 0, width: SIZE.0, height: SIZE.1 };
    let mut before = Buffer::empty(area);
    let mut all: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            let began = now();
            if is_key {
                let code = if round % 50 < 40 { KeyCode::Down } else { KeyCode::Up };
                press(state, code);
            }
            refresh(state);
            let mut buffer = Buffer::empty(area);
            let drawn = view(state, area, &mut buffer);
            black_box(before.diff(&buffer).len());
            update(state, UiMessage::Drawn(Box::new(drawn)));
            before = buffer;
            began.elapsed().as_secs_f64() * 1_000.0
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

/// A UI that has received the whole session from the feed.
fn loaded(load: Load) -> UiState {
    let settings = Settings {
        detail: Detail::Moderate,
        tree: TreePanel::Auto,
        alerts: Alerts::Line,
        palette: Palette::Dark,
        style: Style { color: true, ascii: false, width: 80 },
        offset_minutes: 0,
        zone: subscope_model::Zone::default(),
        editor: None,
        budgets: BudgetLimits::default(),
    };
    let now = 10_000_000;
    let mut state = UiState::new(settings, SIZE, now, 0);
    update(&mut state, UiMessage::Feed(Update::snapshot(tree(load))));
    for at in 0..load.events {
        update(&mut state, UiMessage::Feed(Update::event(event(load, at))));
    }
    update(&mut state, UiMessage::Feed(Update::CaughtUp));
    refresh(&mut state);
    state
}

fn tree(load: Load) -> Tree {
    let agents = (0..load.agents).map(|at| agent(load, at)).collect();
    let session = Session {
        id: SessionId::from("s"),
        harness: Some("claude-code".into()),
        harness_version: None,
        cwd: Some("/home/user/shop".into()),
        project: None,
        title: Some("All at once".into()),
        started_at_ms: Some(0),
        ended_at_ms: Some(9_000_000),
        runs: 1,
        run_started_at_ms: None,
        machine: None,
        last_heard_ms: None,
        rev: None,
    };
    Tree {
        schema: "subscope.tree/1".into(),
        session,
        agents,
        summary: Summary::default(),
        problems: Vec::new(),
    }
}

fn id_of(at: usize) -> AgentId {
    if at == 0 { AgentId::from("root") } else { AgentId::from(&*format!("a{at:016x}")) }
}

/// An agent by number: every fourth, from 1 on, is a child of the root; the three after it are its children.
fn agent(load: Load, at: usize) -> Agent {
    let depth = match at {
        0 => 0,
        at if at % 4 == 1 => 1,
        _ => 2,
    };
    let parent = match depth {
        0 => None,
        1 => Some(id_of(0)),
        _ => Some(id_of(at - (at - 1) % 4)),
    };
    let status = if at.is_multiple_of(5) { AgentStatus::Running } else { AgentStatus::Completed };
    Agent {
        parent_id: parent,
        agent_type: Some("general-purpose".into()),
        description: Some(format!("Survey area {at}: what takes part, and in which order").into()),
        model: Some("claude-opus-5-5".into()),
        prompt: Some("Look at every file.\n\n1. Begin at the server.\n2. Name each place.".repeat(4).into()),
        result: Some("It is all fine.\n".repeat(20).into()),
        started_at_ms: Some(at as i64 * 1_000),
        last_event_at_ms: Some(9_000_000),
        intervals: vec![[at as i64 * 1_000, 9_000_000]],
        wall_ms: Some(9_000_000 - at as i64 * 1_000),
        tool_calls: load.calls as u32,
        tools: (0..load.calls).map(|call| tool(at, call)).collect(),
        usage: Some(Usage::new(1_000, 2_000, 90_000, 4_000)),
        cost_micro_usd: Some(120_000),
        ..Agent::unknown(id_of(at), depth, status)
    }
}

fn tool(agent: usize, call: usize) -> ToolCall {
    let start = agent as i64 * 1_000 + call as i64 * 85_000;
    ToolCall {
        id: Some(ToolUseId::from(&*format!("toolu_{agent}_{call}"))),
        name: if call.is_multiple_of(3) { "Bash" } else { "Read" }.into(),
        status: if call.is_multiple_of(17) { ToolStatus::Error } else { ToolStatus::Ok },
        basis: Basis::Wire,
        started_at_ms: Some(start),
        ended_at_ms: Some(start + 40_000),
        duration_ms: None,
        detail: Some("src/checkout/handlers/stock.js".into()),
        writes: Box::default(),
        input: None,
        result: None,
    }
}

fn event(load: Load, at: usize) -> Event {
    let (agent, step) = (at % load.agents, at / load.agents);
    let call = format!("toolu_{agent}_{}", step / 2 % load.calls);
    let (kind, data) = match step % 5 {
        0 | 2 => (
            EventKind::ToolPre,
            json!({"tool_use_id": call, "tool_name": "Read", "input": {"file_path": "src/checkout/handlers/stock.js"}}),
        ),
        1 | 3 => (
            EventKind::ToolPost,
            json!({"tool_use_id": call, "tool_name": "Read", "result": "const a = 1;\n".repeat(60)}),
        ),
        _ => (
            EventKind::AgentMessage,
            json!({"text": "The reservation is read before it is written; two checkouts can both have it. ".repeat(6)}),
        ),
    };
    Event {
        schema: EventSchema,
        id: format!("{at:032x}").into(),
        seq: at as u64,
        at_ms: Some(at as i64 * 180),
        session_id: SessionId::from("s"),
        run: 1,
        actor_id: Actor(id_of(agent)),
        basis: Basis::Wire,
        source: "claude.transcript".into(),
        kind,
        data,
    }
}
