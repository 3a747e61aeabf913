//! What Claude Code states about its own sessions.
//!
//! Observed: 1.0.128 to 2.1.330. `modelUsage` is cumulative over a session and all its agents, also after `--resume`;
//! `cost-state` is written when a process ends. The `usage` of an agent's result is that of its last response, and
//! `totalToolUseCount` the number of its calls in one run.

use serde_json::Value;

use super::{STREAM, TRANSCRIPT};
use crate::self_report::{
    Figure, SelfReport, StatedFigures, StatedScope, StatedTotal, Statement, dollars, is, number, text, tokens,
};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[
        StatedTotal { name: "result.modelUsage", dialects: &[STREAM], read: result },
        StatedTotal { name: "result.subagent_stats", dialects: &[STREAM], read: spawned },
        StatedTotal { name: "cost-state.modelUsage", dialects: &[TRANSCRIPT], read: cost_state },
        StatedTotal { name: "toolUseResult.totalToolUseCount", dialects: &[TRANSCRIPT], read: calls },
        StatedTotal { name: "toolUseResult.usage", dialects: &[TRANSCRIPT], read: last_response },
        StatedTotal { name: "tool_use_result.totalToolUseCount", dialects: &[STREAM], read: calls },
        StatedTotal { name: "tool_use_result.usage", dialects: &[STREAM], read: last_response },
    ],
    is_work: |line| is(line, "/type", "assistant") && line.pointer("/message/usage").is_some(),
    asks_with: |model| model.contains("haiku"),
    // A summary of the conversation; and at a terminal, summaries of what agents do.
    shows_own_requests: |line| is(line, "/subtype", "compact_boundary") || is(line, "/entrypoint", "cli"),
    ends_turn,
};

fn result(line: &Value) -> Vec<Statement> {
    if !is(line, "/type", "result") {
        return Vec::new();
    }
    model_usage(line, text(line, "/session_id"))
}

fn cost_state(line: &Value) -> Vec<Statement> {
    if !is(line, "/type", "cost-state") {
        return Vec::new();
    }
    let since_ms = line.get("startTime").and_then(Value::as_i64);
    let of = |statement| Statement { since_ms, ..statement };
    model_usage(line, text(line, "/sessionId")).into_iter().map(of).collect()
}

fn model_usage(line: &Value, session: Option<String>) -> Vec<Statement> {
    let Some(models) = line.get("modelUsage").and_then(Value::as_object).filter(|models| !models.is_empty())
    else {
        return Vec::new();
    };
    let mut has_all_prices = true;
    let mut figures = |model: &str, usage: &Value| {
        let count = |name| number(usage, name).unwrap_or(0);
        let cached = [count("/cacheReadInputTokens"), count("/cacheCreationInputTokens")];
        let mut figures = tokens(count("/inputTokens"), count("/outputTokens"), cached, false);
        let cost = dollars(usage, "/costUSD");
        has_all_prices &= !cost.is_some_and(|cost| is_default_price(model, &figures, cost));
        figures.extend(cost.map(|cost| (Figure::Cost, cost)));
        figures
    };
    // A model with a larger window is the same model in its responses.
    let name = |model: &str| model.split('[').next().unwrap_or_default().to_owned();
    let mut all = std::collections::BTreeMap::<String, StatedFigures>::new();
    for (model, usage) in models {
        let sum = all.entry(name(model)).or_default();
        figures(model, usage)
            .into_iter()
            .for_each(|(figure, count)| *sum.entry(figure).or_default() += count);
    }
    if !has_all_prices {
        for figures in all.values_mut() {
            figures.remove(&Figure::Cost);
        }
    }
    vec![Statement { session, models: all, ..Statement::default() }]
}

/// Whether a cost is that of a model which this version has no price for: it takes Opus's. Observed: 2.1.64, with Sonnet 4.6.
fn is_default_price(model: &str, figures: &StatedFigures, cost: u64) -> bool {
    let price = |figure, cents_per_million: u64| {
        figures.get(&figure).copied().unwrap_or(0).saturating_mul(cents_per_million)
    };
    let cents = price(Figure::Input, 500) + price(Figure::Output, 2_500);
    let cents = cents + price(Figure::CacheRead, 50) + price(Figure::CacheWrite, 625);
    !model.contains("opus") && (cents / 100).abs_diff(cost) <= 1
}

fn spawned(line: &Value) -> Vec<Statement> {
    let spawned = number(line, "/subagent_stats/spawned").filter(|_| is(line, "/type", "result"));
    let figures = spawned.map(|spawned| StatedFigures::from([(Figure::Agents, spawned)]));
    let statement = |figures| Statement {
        session: text(line, "/session_id"),
        ..Statement::of(StatedScope::Session, figures)
    };
    figures.map(statement).into_iter().collect()
}

/// Returns the result of a call that started an agent, with the call.
fn agent_result(line: &Value) -> Option<(&Value, Option<String>)> {
    let result = line.get("toolUseResult").or_else(|| line.get("tool_use_result"))?;
    let blocks = line.pointer("/message/content")?.as_array()?;
    let call = blocks.iter().find_map(|block| text(block, "/tool_use_id"));
    // One that was stopped or sent on has no sums of its own.
    result.get("totalToolUseCount").is_some().then_some((result, call))
}

fn calls(line: &Value) -> Vec<Statement> {
    let statement = |(result, call): (&Value, Option<String>)| {
        let figures = StatedFigures::from([(Figure::Calls, number(result, "/totalToolUseCount")?)]);
        let of = match text(result, "/agentId") {
            Some(agent) => StatedScope::Agent(agent),
            None => StatedScope::StartedBy(call.clone()?),
        };
        Some(Statement { session: session(line), part: call, ..Statement::of(of, figures) })
    };
    agent_result(line).and_then(statement).into_iter().collect()
}

fn last_response(line: &Value) -> Vec<Statement> {
    let statement = |(result, call): (&Value, Option<String>)| {
        let count = |name: &str| number(result, &format!("/usage/{name}")).unwrap_or(0);
        let output = number(result, "/usage/output_tokens")?;
        let cached = [count("cache_read_input_tokens"), count("cache_creation_input_tokens")];
        let figures = tokens(count("input_tokens"), output, cached, false);
        // All 0 is the notice of an error, which is no response.
        if figures.values().all(|count| *count == 0) {
            return None;
        }
        let of = StatedScope::Response(text(result, "/agentId")?);
        Some(Statement { session: session(line), part: call, ..Statement::of(of, figures) })
    };
    agent_result(line).and_then(statement).into_iter().collect()
}

fn session(line: &Value) -> Option<String> {
    text(line, "/sessionId").or_else(|| text(line, "/session_id"))
}

fn ends_turn(line: &Value) -> Option<bool> {
    // Up to 1.0, agents' lines are among those of the main conversation, and do not name them.
    if line.get("isSidechain") == Some(&Value::Bool(true)) && line.get("agentId").is_none() {
        return None;
    }
    match line.get("type")?.as_str()? {
        "assistant" => Some(is(line, "/message/stop_reason", "end_turn")),
        "user" => Some(false),
        "result" => Some(true),
        _ => None,
    }
}
