//! What Codex states about its own threads: totals are cumulative over a thread, also after `resume`, and do not hold those
//! of its children. The input holds the cached tokens, the output those of reasoning.

use serde_json::Value;

use super::{APP_SERVER, EXEC, ROLLOUT};
use crate::self_report::{SelfReport, StatedScope, StatedTotal, Statement, is, number, text, tokens};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[
        StatedTotal { name: "token_count.total_token_usage", dialects: &[ROLLOUT], read: token_count },
        StatedTotal { name: "token_usage_record.thread_token_usage", dialects: &[ROLLOUT], read: record },
        StatedTotal { name: "turn.completed.usage", dialects: &[EXEC], read: turn },
        StatedTotal { name: "thread/tokenUsage/updated", dialects: &[APP_SERVER], read: updated },
    ],
    is_work: |line| is(line, "/type", "token_usage_record"),
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn,
};

fn thread_total(usage: Option<&Value>, of: StatedScope) -> Vec<Statement> {
    let count = |names: [&str; 2]| names.iter().find_map(|name| number(usage?, name));
    let (Some(input), Some(output)) =
        (count(["/input_tokens", "/inputTokens"]), count(["/output_tokens", "/outputTokens"]))
    else {
        return Vec::new();
    };
    let cached = [
        ["/cached_input_tokens", "/cachedInputTokens"],
        ["/cache_write_input_tokens", "/cacheWriteInputTokens"],
    ];
    vec![Statement::of(of, tokens(input, output, cached.map(|names| count(names).unwrap_or(0)), true))]
}

fn token_count(line: &Value) -> Vec<Statement> {
    let is_count = is(line, "/payload/type", "token_count");
    thread_total(line.pointer("/payload/info/total_token_usage").filter(|_| is_count), StatedScope::File)
}

fn record(line: &Value) -> Vec<Statement> {
    let is_record = is(line, "/type", "token_usage_record");
    thread_total(line.pointer("/payload/thread_token_usage").filter(|_| is_record), StatedScope::File)
}

fn turn(line: &Value) -> Vec<Statement> {
    let is_turn = is(line, "/type", "turn.completed");
    thread_total(line.get("usage").filter(|_| is_turn), StatedScope::File)
}

fn updated(line: &Value) -> Vec<Statement> {
    // A recorded message is wrapped.
    let message = line.get("msg").unwrap_or(line);
    let is_update = is(message, "/method", "thread/tokenUsage/updated");
    let thread = text(message, "/params/threadId").filter(|_| is_update);
    let total =
        |thread| thread_total(message.pointer("/params/tokenUsage/total"), StatedScope::Agent(thread));
    thread.map(total).unwrap_or_default()
}

fn ends_turn(line: &Value) -> Option<bool> {
    match line.get("type")?.as_str()? {
        "turn.completed" => Some(true),
        "turn.started" => Some(false),
        _ => match line.pointer("/payload/type")?.as_str()? {
            "task_complete" => Some(true),
            "task_started" | "user_message" => Some(false),
            _ => None,
        },
    }
}
