//! What Gemini CLI states about its own sessions: the statistics of a process, with those of its subagents, in the last line
//! that it prints. The input holds the cached tokens; only the total holds those of thoughts.

use serde_json::Value;

use super::STREAM;
use crate::self_report::{Figure, SelfReport, StatedScope, StatedTotal, Statement, is, number, text, tokens};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[StatedTotal { name: "result.stats", dialects: &[STREAM], read: result }],
    is_work: |line| is(line, "/type", "gemini") || is(line, "/type", "tool_use"),
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn,
};

fn result(line: &Value) -> Vec<Statement> {
    let stats = line.get("stats").filter(|_| is(line, "/type", "result"));
    let statement = |stats: &Value| {
        let (input, total) = (number(stats, "/input_tokens")?, number(stats, "/total_tokens")?);
        let cached = [number(stats, "/cached").unwrap_or(0), 0];
        let mut figures = tokens(input, total.saturating_sub(input), cached, true);
        figures.extend(number(stats, "/tool_calls").map(|calls| (Figure::Calls, calls)));
        // Each process counts its own.
        let part = text(line, "/timestamp");
        Some(Statement { part, ..Statement::of(StatedScope::Session, figures) })
    };
    stats.and_then(statement).into_iter().collect()
}

fn ends_turn(line: &Value) -> Option<bool> {
    match line.get("type")?.as_str()? {
        "result" => Some(true),
        "user" | "init" => Some(false),
        // One without calls is the answer.
        "gemini" => Some(line.get("toolCalls").and_then(Value::as_array).is_none_or(Vec::is_empty)),
        _ => None,
    }
}
