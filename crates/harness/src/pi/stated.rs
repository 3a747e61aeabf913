//! What oh-my-pi states about its own sessions: the tokens and the cost of each agent in the result of its call.

use serde_json::Value;

use super::omp::{SESSION, STREAM};
use crate::self_report::{
    Figure, SelfReport, StatedScope, StatedTotal, Statement, dollars, is, number, text, tokens,
};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[StatedTotal {
        name: "task details.results.usage",
        dialects: &[SESSION, STREAM],
        read: results,
    }],
    is_work: |line| is(line, "/message/role", "assistant") && !is(line, "/message/stopReason", "aborted"),
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn,
};

fn results(line: &Value) -> Vec<Statement> {
    let is_result = is(line, "/message/role", "toolResult") && is(line, "/message/toolName", "task");
    let is_whole = is(line, "/type", "message") || is(line, "/type", "message_end");
    let all =
        line.pointer("/message/details/results").and_then(Value::as_array).filter(|_| is_result && is_whole);
    let of = |result: &Value| {
        let count = |name: &str| number(result, &format!("/usage/{name}"));
        let cached = [count("cacheRead").unwrap_or(0), count("cacheWrite").unwrap_or(0)];
        let mut figures = tokens(count("input")?, count("output")?, cached, false);
        figures.extend(
            dollars(result, "/usage/cost/total").filter(|cost| *cost > 0).map(|cost| (Figure::Cost, cost)),
        );
        Some(Statement::of(StatedScope::Agent(text(result, "/id")?), figures))
    };
    all.into_iter().flatten().filter_map(of).collect()
}

fn ends_turn(line: &Value) -> Option<bool> {
    match line.pointer("/message/role")?.as_str()? {
        "user" => Some(false),
        "assistant" => {
            let reason = text(line, "/message/stopReason");
            Some(reason.is_some_and(|reason| ["stop", "error", "aborted"].contains(&reason.as_str())))
        }
        "toolResult" => (is(line, "/message/toolName", "yield")
            && !line.pointer("/message/isError").and_then(Value::as_bool).unwrap_or_default())
        .then_some(true),
        _ => None,
    }
}
