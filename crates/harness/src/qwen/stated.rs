//! What Qwen Code states about its own sessions: the tokens of the session, its subagents included, in the last line that it
//! prints, and of a subagent that ends, its calls. The input holds the cached tokens.

use serde_json::Value;

use super::STREAM;
use crate::self_report::{
    Figure, SelfReport, StatedFigures, StatedScope, StatedTotal, Statement, is, number, text, tokens,
};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[
        StatedTotal { name: "result.usage", dialects: &[STREAM], read: result },
        StatedTotal { name: "task_notification.usage", dialects: &[STREAM], read: task },
    ],
    is_work: |line| is(line, "/type", "assistant"),
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn,
};

fn result(line: &Value) -> Vec<Statement> {
    let usage = line.get("usage").filter(|_| is(line, "/type", "result"));
    let statement = |usage: &Value| {
        let cached = [number(usage, "/cache_read_input_tokens").unwrap_or(0), 0];
        let (input, output) = (number(usage, "/input_tokens")?, number(usage, "/output_tokens")?);
        let all = Statement::of(StatedScope::Session, tokens(input, output, cached, true));
        Some(Statement { session: text(line, "/session_id"), ..all })
    };
    usage.and_then(statement).into_iter().collect()
}

fn task(line: &Value) -> Vec<Statement> {
    let call = text(line, "/data/tool_use_id").filter(|_| is(line, "/subtype", "task_notification"));
    let count = |figure, name| Some((figure, number(line, name)?));
    let figures: StatedFigures =
        [count(Figure::Calls, "/data/usage/tool_uses"), count(Figure::Tokens, "/data/usage/total_tokens")]
            .into_iter()
            .flatten()
            .collect();
    let of = |call| Statement {
        session: text(line, "/session_id"),
        ..Statement::of(StatedScope::StartedBy(call), figures.clone())
    };
    call.filter(|_| !figures.is_empty()).map(of).into_iter().collect()
}

fn ends_turn(line: &Value) -> Option<bool> {
    match line.get("type")?.as_str()? {
        "result" => Some(true),
        "user" | "tool_result" => Some(false),
        _ => None,
    }
}
