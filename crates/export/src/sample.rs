//! Sample trees and events for this crate's tests.

use serde_json::{Value, json};
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Event, EventKind, EventSchema, Millis, Payload, Session,
    SessionId, Summary, TREE_SCHEMA, ToolCall, ToolStatus, ToolUseId, Tree, Usage, event_id,
};

/// Start of the sample session.
pub(crate) const START: Millis = 1_795_293_906_000;

/// Returns an agent with only id, depth, status and spawn call.
pub(crate) fn agent(id: &str, depth: u32, status: AgentStatus) -> Agent {
    Agent {
        parent_id: (depth == 1).then(|| AgentId::from(AgentId::ROOT)),
        spawned_by: (depth > 0).then(|| ToolUseId::from(format!("toolu_{id}").as_str())),
        ..Agent::unknown(AgentId::from(id), depth, status)
    }
}

/// Returns a child of `parent`, active from `from` to `to` milliseconds after [`START`].
pub(crate) fn child(id: &str, parent: &Agent, status: AgentStatus, [from, to]: [Millis; 2]) -> Agent {
    let mut agent = agent(id, parent.depth + 1, status);
    agent.parent_id = Some(parent.id.clone());
    agent.agent_type = Some("Explore".into());
    agent.description = Some(format!("Look at {id}").into());
    agent.prompt = Some(format!("Look at {id} closely.").into());
    agent.started_at_ms = Some(START + from);
    agent.last_event_at_ms = Some(START + to);
    agent.ended_at_ms = (!status.is_live()).then_some(START + to);
    agent.intervals = vec![[START + from, START + to]];
    agent.wall_ms = Some(to - from);
    agent
}

/// Returns a call with arguments; unless open it has a result and took 120 ms.
pub(crate) fn call(id: &str, name: &str, status: ToolStatus) -> ToolCall {
    let over = status != ToolStatus::Open;
    ToolCall {
        id: Some(ToolUseId::from(id)),
        name: name.into(),
        status,
        basis: Basis::Wire,
        started_at_ms: Some(START + 1_000),
        ended_at_ms: over.then_some(START + 1_120),
        duration_ms: None,
        detail: Some("src/x.js".into()),
        writes: Box::default(),
        input: Some(Box::new(Payload::Inline(r#"{"file_path":"/shop/src/x.js"}"#.into()))),
        result: over.then(|| Box::new(Payload::Inline(r#""1\tconst x = 1;""#.into()))),
    }
}

/// Resolves inline payloads.
pub(crate) fn inline(payload: &Payload) -> Option<Value> {
    match payload {
        Payload::Inline(text) => serde_json::from_str(text).ok(),
        Payload::At { .. } => None,
    }
}

/// Returns a tree of a root and the given agents, in pre-order.
pub(crate) fn tree(below: Vec<Agent>) -> Tree {
    let mut agents = vec![agent(AgentId::ROOT, 0, AgentStatus::Completed)];
    agents.extend(below);
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: SessionId::from("s1"),
            harness: None,
            harness_version: None,
            cwd: None,
            project: None,
            title: None,
            started_at_ms: None,
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

/// Returns a session with an agent of every status: `lead` (completed) with child `inner` (failed); `halted`, `gone`
/// and `busy` as siblings.
pub(crate) fn session() -> Tree {
    let root = agent(AgentId::ROOT, 0, AgentStatus::Completed);
    let mut lead = child("lead", &root, AgentStatus::Completed, [0, 9_000]);
    lead.model = Some("model-1".into());
    lead.result = Some("Done.".into());
    lead.usage = Some(Usage::new(1, 20, 300, 4_000));
    lead.cost_micro_usd = Some(1_234);
    lead.tools = vec![call("t1", "Read", ToolStatus::Ok), call("t2", "Agent", ToolStatus::Error)];
    let mut inner = child("inner", &lead, AgentStatus::Failed, [2_000, 5_000]);
    inner.agent_type = Some("general-purpose".into());
    inner.error = Some("overloaded".into());
    inner.tools = vec![call("t3", "Bash", ToolStatus::Denied)];
    let mut halted = child("halted", &root, AgentStatus::Stopped, [8_000, 12_000]);
    halted.evidence = Some("stop call".into());
    let mut gone = child("gone", &root, AgentStatus::Lost, [8_500, 9_500]);
    gone.evidence = Some("silent for 15m".into());
    let mut busy = child("busy", &root, AgentStatus::Running, [10_000, 11_000]);
    busy.tools = vec![call("t4", "Read", ToolStatus::Open)];
    let pending = agent("asked", 1, AgentStatus::Pending);
    tree(vec![lead, inner, halted, gone, busy, pending])
}

/// Returns a chain of `length` agents, each spawned by the previous one.
pub(crate) fn chain(length: u32) -> Tree {
    let mut above = agent(AgentId::ROOT, 0, AgentStatus::Completed);
    let mut agents = Vec::new();
    for place in 1..=length {
        let at = Millis::from(place);
        above = child(&format!("c{place}"), &above, AgentStatus::Completed, [at, at + 10]);
        agents.push(above.clone());
    }
    tree(agents)
}

/// Returns an event of an agent, `at` milliseconds after [`START`]; its id is derived from `key`.
pub(crate) fn event(key: &str, at: Option<Millis>, actor: &str, kind: EventKind, data: Value) -> Event {
    Event {
        schema: EventSchema,
        id: event_id("s1", key),
        seq: 1,
        at_ms: at.map(|at| START + at),
        session_id: SessionId::from("s1"),
        run: 1,
        actor_id: Actor(AgentId::from(actor)),
        basis: Basis::Wire,
        source: "test".into(),
        kind,
        data,
    }
}

/// Returns the start event of a tool call.
pub(crate) fn tool_pre(at: Option<Millis>, actor: &str, call: &str, tool: &str) -> Event {
    let data = json!({"tool_use_id": call, "tool_name": tool, "input": {"file_path": "/shop/src/x.js"}});
    event(&format!("tool/{call}/pre"), at, actor, EventKind::ToolPre, data)
}
