//! What Kimi Code states about its own sessions: the tokens of an agent over its whole life, when it completes.

use serde_json::Value;

use super::WIRE;
use crate::self_report::{SelfReport, StatedScope, StatedTotal, Statement, is, number, text, tokens};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[StatedTotal { name: "subagent.completed.usage", dialects: &[WIRE], read: completed }],
    is_work: |line| is(line, "/type", "usage.record"),
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn,
};

fn completed(line: &Value) -> Vec<Statement> {
    let agent = text(line, "/subagentId").filter(|_| is(line, "/type", "subagent.completed"));
    let count = |name: &str| number(line, &format!("/usage/{name}"));
    let of = |agent| {
        let cached = [count("inputCacheRead").unwrap_or(0), count("inputCacheCreation").unwrap_or(0)];
        let figures = tokens(count("inputOther")?, count("output")?, cached, false);
        Some(Statement::of(StatedScope::Agent(agent), figures))
    };
    agent.and_then(of).into_iter().collect()
}

fn ends_turn(line: &Value) -> Option<bool> {
    match line.get("type")?.as_str()? {
        "turn.ended" => Some(true),
        "turn.prompt" => Some(false),
        _ => None,
    }
}
