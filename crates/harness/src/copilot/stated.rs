//! What Copilot states about its own sessions: sums by model when a process ends, of the session and (from 1.0.102 on) of
//! each agent; of a subagent that ends, its calls and tokens with those of its descendants. The input holds the cached
//! tokens.

use serde_json::Value;

use super::{EVENTS, STREAM};
use crate::self_report::{
    Figure, SelfReport, StatedFigures, StatedScope, StatedTotal, Statement, is, number, text, tokens,
};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[
        StatedTotal { name: "session.shutdown.modelMetrics", dialects: &[EVENTS], read: session },
        StatedTotal { name: "session.shutdown.agentMetrics", dialects: &[EVENTS], read: agents },
        StatedTotal { name: "subagent.completed", dialects: &[EVENTS, STREAM], read: completed },
    ],
    is_work: |line| is(line, "/type", "assistant.message"),
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn,
};

fn metrics(of: StatedScope, models: Option<&Value>) -> Option<Statement> {
    let models = models?.as_object()?.iter().map(|(model, metrics)| {
        let count = |name: &str| number(metrics, &format!("/usage/{name}")).unwrap_or(0);
        let cached = [count("cacheReadTokens"), count("cacheWriteTokens")];
        (model.clone(), tokens(count("inputTokens"), count("outputTokens"), cached, true))
    });
    Some(Statement { of, models: models.collect(), ..Statement::default() })
}

fn session(line: &Value) -> Vec<Statement> {
    if !is(line, "/type", "session.shutdown") {
        return Vec::new();
    }
    // Without sums of agents, up to 1.0.39, each process sums up its own responses.
    let part = text(line, "/id").filter(|_| line.pointer("/data/agentMetrics").is_none());
    let all = metrics(StatedScope::Session, line.pointer("/data/modelMetrics"));
    all.map(|all| Statement { part, ..all }).into_iter().collect()
}

fn agents(line: &Value) -> Vec<Statement> {
    let agents = line.pointer("/data/agentMetrics").and_then(Value::as_object);
    let agents = agents.filter(|_| is(line, "/type", "session.shutdown")).into_iter().flatten();
    let of = |name: &str| match name {
        "main" => StatedScope::File,
        agent => StatedScope::Agent(agent.to_owned()),
    };
    agents.filter_map(|(name, agent)| metrics(of(name), agent.get("modelMetrics"))).collect()
}

fn completed(line: &Value) -> Vec<Statement> {
    let call = text(line, "/data/toolCallId").filter(|_| is(line, "/type", "subagent.completed"));
    let count = |figure, name| Some((figure, number(line, name)?));
    let figures: StatedFigures =
        [count(Figure::Calls, "/data/totalToolCalls"), count(Figure::Tokens, "/data/totalTokens")]
            .into_iter()
            .flatten()
            .collect();
    call.map(|call| Statement::of(StatedScope::Below(call), figures)).into_iter().collect()
}

fn ends_turn(line: &Value) -> Option<bool> {
    // Lines of subagents name them.
    if line.get("agentId").is_some() {
        return None;
    }
    match line.get("type")?.as_str()? {
        "session.shutdown" | "result" => Some(true),
        "user.message" | "assistant.turn_start" => Some(false),
        _ => None,
    }
}
