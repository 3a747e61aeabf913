//! Handmade trees for unit tests.

use subscope_model::{
    Agent, AgentId, AgentStatus, Basis, Flag, Liveness, LivenessKind, Millis, Problem, Session, SessionId,
    Subtree, Summary, TREE_SCHEMA, ToolCall, ToolStatus, Tree, Usage,
};

/// Start of the sample session: 2026-11-21T12:39:00Z.
pub(crate) const START: Millis = 1_795_264_740_000;

/// Current time in the sample: 2 m 14 s later.
pub(crate) const NOW: Millis = START + 134_000;

const OPUS: &str = "claude-opus-4-1-20250805";
const HAIKU: &str = "claude-haiku-4-5-20251001";

/// A completed agent without further data.
pub(crate) fn agent(id: &str, depth: u32) -> Agent {
    Agent::unknown(AgentId::from(id), depth, AgentStatus::Completed)
}

/// A tree of completed agents with these depths.
pub(crate) fn tree_of_depths(depths: &[u32]) -> Tree {
    let id = |at: usize| if at == 0 { "root".to_owned() } else { format!("agent-{at}") };
    let agents = depths.iter().enumerate().map(|(at, depth)| agent(&id(at), *depth)).collect();
    tree(agents)
}

fn tree(agents: Vec<Agent>) -> Tree {
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: SessionId::from("session-1"),
            harness: Some("claude-code".into()),
            harness_version: Some("2.1.330".into()),
            cwd: Some("/home/user/shop".into()),
            project: None,
            title: None,
            started_at_ms: Some(START),
            ended_at_ms: None,
            runs: 1,
            run_started_at_ms: None,
            machine: None,
            last_heard_ms: None,
            rev: None,
        },
        agents,
        summary: Summary::default(),
        problems: Vec::new(),
    }
}

/// A call; start in milliseconds after the session's, duration if it has ended.
pub(crate) fn call(
    name: &str,
    detail: &str,
    status: ToolStatus,
    start_ms: i64,
    span_ms: Option<i64>,
) -> ToolCall {
    ToolCall {
        id: Some(subscope_model::ToolUseId::from(&*format!("toolu_{name}_{start_ms}"))),
        name: name.into(),
        status,
        basis: Basis::Wire,
        started_at_ms: Some(START + start_ms),
        ended_at_ms: span_ms.map(|span| START + start_ms + span),
        duration_ms: None,
        detail: Some(detail.into()),
        writes: Box::default(),
        input: None,
        result: None,
    }
}

fn live(kind: LivenessKind, name: Option<&str>, for_ms: i64) -> Option<Liveness> {
    Some(Liveness {
        kind,
        name: name.map(Into::into),
        count: None,
        limit: None,
        since_ms: Some(NOW - for_ms),
        inferred: false,
    })
}

/// An agent with the fields that differ between the sample's rows.
fn row(
    id: &str,
    depth: u32,
    kind: &str,
    description: &str,
    model: &str,
    from_ms: i64,
    span_ms: Option<i64>,
) -> Agent {
    let start = START + from_ms;
    let end = span_ms.map(|span| start + span);
    Agent {
        agent_type: (!kind.is_empty()).then(|| kind.into()),
        description: Some(description.into()),
        model: Some(model.into()),
        status: if span_ms.is_some() { AgentStatus::Completed } else { AgentStatus::Running },
        started_at_ms: Some(start),
        ended_at_ms: end,
        intervals: vec![[start, end.unwrap_or(NOW - 1000)]],
        wall_ms: Some(span_ms.unwrap_or(NOW - 1000 - start)),
        ..agent(id, depth)
    }
}

/// A live session with every kind of row: running, waiting for permission, stalled, failed, stopped, lost, nested,
/// orphan, guessed, wide and hostile.
pub(crate) fn session() -> Tree {
    use AgentStatus::{Failed, Lost, Stopped};
    use ToolStatus::{Denied, Error, Ok, Open};
    let root = Agent {
        liveness: live(LivenessKind::Children, None, 110_000).map(|live| Liveness { count: Some(4), ..live }),
        tools: vec![
            call("Bash", "git status", Ok, 2_000, Some(310)),
            call("Agent", "Map the checkout flow", Open, 8_000, None),
        ],
        tool_calls: 4,
        usage: Some(Usage { floor: true, ..Usage::new(900, 1_200, 52_000, 7_300) }),
        cost_micro_usd: Some(921_000),
        cost_floor: true,
        subtree: Subtree { agents: 10, ..Subtree::default() },
        ..row("root", 0, "", "Before we ship 0.4: explore the checkout, then fix what is racy", OPUS, 0, None)
    };
    let explore = Agent {
        liveness: live(LivenessKind::Tool, Some("Read"), 3_000),
        tools: vec![
            call("Glob", "src/**/*.js", Ok, 9_000, Some(40)),
            call("Read", "checkout.js", Ok, 12_000, Some(120)),
            call("Read", "server.js", Open, 131_000, None),
        ],
        tool_calls: 12,
        open_tools: 1,
        usage: Some(Usage::new(100, 900, 40_000, 7_000)),
        cost_micro_usd: Some(51_000),
        prompt: Some("Map the checkout flow: which files take part, and in which order?\n\n1. Start at src/server.js.\n2. Name every place that writes to the cart.".into()),
        ..row("a70c1", 1, "Explore", "Map the checkout flow", HAIKU, 8_000, None)
    };
    let races = Agent {
        liveness: live(LivenessKind::Permission, Some("Bash"), 40_000),
        flags: vec![Flag::Failing],
        tools: vec![
            call("Read", "inventory.js", Ok, 31_000, Some(90)),
            call("Bash", "node try.js", Error, 52_000, Some(2_100)),
            call("Bash", "rm -rf node_modules", Denied, 60_000, Some(4_000)),
        ],
        tool_calls: 9,
        tool_errors: 3,
        tools_denied: 1,
        usage: Some(Usage::new(2_000, 4_000, 100_000, 6_400)),
        cost_micro_usd: Some(710_000),
        subtree: Subtree {
            agents: 3,
            tool_calls: 15,
            usage: Some(Usage::new(2_500, 5_000, 150_000, 10_900)),
            cost_micro_usd: Some(1_060_000),
            cost_floor: false,
            wall_ms: Some(100_000),
            agent_ms: Some(168_000),
        },
        ..row("a71d2", 1, "general-purpose", "Check stock handling for races", OPUS, 34_000, None)
    };
    let callers = Agent {
        tools: vec![
            ToolCall { basis: Basis::Stack, ..call("Grep", "reserve\\(", Ok, 40_000, Some(75)) },
            ToolCall { basis: Basis::Stack, ..call("Read", "cart.js", Ok, 44_000, Some(1_300)) },
        ],
        tool_calls: 4,
        usage: Some(Usage::new(50, 450, 15_000, 2_100)),
        cost_micro_usd: Some(20_000),
        evidence: Some("task notification".into()),
        result: Some("Three callers of reserve():\n\n- src/checkout.js:41\n- src/cart.js:17\n- src/admin.js:203, which never releases".into()),
        ..row("a72e3", 2, "Explore", "Find reserve() callers", HAIKU, 38_000, Some(21_400))
    };
    let lock = Agent {
        liveness: live(LivenessKind::Model, None, 31_000).map(|live| Liveness { inferred: true, ..live }),
        tool_calls: 2,
        usage: Some(Usage::new(500, 550, 36_000, 2_400)),
        cost_micro_usd: Some(330_000),
        ..row("a73f4", 2, "Plan", "Lock or compare-and-swap", OPUS, 87_000, None)
    };
    let merging = Agent {
        liveness: live(LivenessKind::Retry, Some("overloaded"), 191_000).map(|live| Liveness {
            count: Some(4),
            limit: Some(10),
            ..live
        }),
        flags: vec![Flag::Stalled],
        background: true,
        tools: vec![call("Read", "cart.js", Ok, 10_000, Some(130))],
        tool_calls: 1,
        ..row(
            "a74a5",
            1,
            "Plan",
            "Guest-cart merging when a customer signs in on a second device",
            OPUS,
            9_000,
            None,
        )
    };
    let wide = Agent {
        status: Failed,
        error: Some("API error: 529 {\"type\":\"overloaded_error\"}\nafter 10 attempts".into()),
        evidence: Some("result of its call".into()),
        tool_calls: 3,
        tool_errors: 1,
        usage: Some(Usage { floor: true, ..Usage::new(10, 20, 8_000, 1_900) }),
        cost_micro_usd: Some(2_100),
        cost_floor: true,
        ..row(
            "a75b6",
            1,
            "translator",
            "店の説明を日本語に翻訳する 🎉 and keep the prices aligned",
            "gpt-5-codex",
            20_000,
            Some(73_661),
        )
    };
    let hostile = Agent {
        status: Stopped,
        evidence: Some("TaskStop by main".into()),
        result: Some("\u{1b}]0;owned\u{7}done\u{202e}gnp.exe".into()),
        ..row(
            "a76c7",
            1,
            "ev\u{1b}[31mil",
            "\u{1b}[2J\u{1b}[Hrm \u{202e}-rf\u{202c}\0",
            HAIKU,
            22_000,
            Some(640),
        )
    };
    let orphan = Agent {
        status: Lost,
        evidence: Some("silent for 15m".into()),
        flags: vec![Flag::Orphan],
        model: None,
        wall_ms: None,
        tools: vec![call("Bash", "npm test", Open, 30_000, None)],
        tool_calls: 1,
        open_tools: 1,
        ..row("a77d8", 1, "", "Load test the new endpoint", "", 26_000, Some(0))
    };
    let pending =
        Agent { status: AgentStatus::Pending, agent_type: Some("Explore".into()), ..agent("toolu_01Xy", 1) };
    let mut tree = tree(vec![root, explore, races, callers, lock, merging, wide, hostile, orphan, pending]);
    tree.session.title = Some("Before we ship 0.4".into());
    tree.summary = Summary {
        agents: 9,
        pending: 1,
        running: 4,
        completed: 1,
        failed: 1,
        stopped: 1,
        lost: 1,
        max_depth: 2,
        tool_calls: 36,
        tool_errors: 4,
        tools_denied: 1,
        permissions_asked: None,
        usage: Some(Usage { floor: true, ..Usage::new(3_560, 7_120, 251_000, 27_100) }),
        unattributed_usage: None,
        cost_micro_usd: Some(2_034_100),
        cost_floor: true,
        vendor_costs: Vec::new(),
        wall_ms: Some(134_000),
        agent_ms: Some(430_000),
        by_type: [("Explore".to_owned(), 3), ("Plan".to_owned(), 2)].into(),
        attention: subscope_model::Attention::Waiting,
        need: None,
    };
    tree.problems =
        vec![Problem { at: "a74a5.jsonl:17".into(), what: "not JSON; the line is kept as text".into() }];
    tree
}

/// Cases that the page is tested with, too.
pub(crate) fn shared_cases(kind: &str) -> Vec<serde_json::Value> {
    let list: serde_json::Value =
        serde_json::from_str(include_str!("../../../fixtures/figures.json")).unwrap();
    list[kind].as_array().unwrap().clone()
}
