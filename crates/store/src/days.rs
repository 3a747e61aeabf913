//! Statistics by day: each session has rows of its own, replaced together with it, so that sums never count anything
//! twice.

use std::collections::BTreeMap;

use subscope_model::{
    Agent, MicroUsd, Millis, STATS_SCHEMA, Stats, StatsRow, ToolStatus, Tree, Usage, iso8601,
};

/// Dimension of a breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// Agent type; roots are `main`.
    Type = 1,
    /// Tool name.
    Tool = 2,
    /// Model name.
    Model = 3,
}

/// Type name of root agents.
const ROOT_TYPE: &str = "main";
/// Type name of what no agent accounts for.
const UNATTRIBUTED: &str = "unattributed";
/// Name if there is none.
const UNKNOWN: &str = "unknown";
const DAY_MS: Millis = 86_400_000;

/// Day since 1970, dimension and name → figures.
pub(crate) type DayRows = BTreeMap<(i64, By, String), StatsRow>;

/// Returns the rows of a session.
pub(crate) fn days(tree: &Tree) -> DayRows {
    let mut days = agent_days(tree);
    let fallback = tree.session.started_at_ms.unwrap_or(0);
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        for call in &agent.tools {
            let day = call.started_at_ms.or(agent.started_at_ms).unwrap_or(fallback).div_euclid(DAY_MS);
            let row = days.entry((day, By::Tool, call.name.to_string())).or_default();
            row.tool_calls += 1;
            row.tool_errors += u64::from(call.status == ToolStatus::Error);
            row.tools_denied += u64::from(call.status == ToolStatus::Denied);
            let span = call.started_at_ms.zip(call.ended_at_ms).map_or(0, |(from, to)| to - from);
            row.busy_ms += u64::try_from(span).unwrap_or(0);
        }
    }
    for ((_, _, name), row) in &mut days {
        row.name = name.as_str().into();
        row.sessions = 1;
    }
    days
}

/// Returns the rows by type and model, without names.
fn agent_days(tree: &Tree) -> DayRows {
    let mut days = DayRows::new();
    let fallback = tree.session.started_at_ms.unwrap_or(0);
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        let day = agent.started_at_ms.unwrap_or(fallback).div_euclid(DAY_MS);
        let kind = match &agent.agent_type {
            _ if agent.id.is_root() => ROOT_TYPE,
            Some(kind) => kind,
            None => UNKNOWN,
        };
        add_agent(days.entry((day, By::Type, kind.to_owned())).or_default(), agent);
        if agent.usage.is_some() {
            let model = agent.model.as_deref().unwrap_or(UNKNOWN);
            add_agent(days.entry((day, By::Model, model.to_owned())).or_default(), agent);
        }
    }
    add_unattributed(tree, fallback, &mut days);
    days
}

/// Returns what the agents of a session that started on a day (days since 1970, UTC) have cost.
pub fn cost_of_day(tree: &Tree, day: i64) -> MicroUsd {
    let rows = agent_days(tree);
    let of_day = rows.iter().filter(|((row_day, by, _), _)| *row_day == day && *by == By::Type);
    MicroUsd::try_from(of_day.map(|(_, row)| row.cost_micro_usd).sum::<u64>()).unwrap_or(MicroUsd::MAX)
}

/// Brings the sums by type to the session's own total, which the list of sessions has: what the total has and no agent,
/// is a type of its own. A total below the agents' sum (other prices, rounding) reduces each of them by the same share.
fn add_unattributed(tree: &Tree, fallback: Millis, days: &mut DayRows) {
    let (mut usage, mut cost) = (Usage::default(), 0_u64);
    for row in rows_by_type(days) {
        usage += row.usage;
        cost = cost.saturating_add(row.cost_micro_usd);
    }
    let usage = tree.summary.usage.unwrap_or_default().minus(&usage);
    let total = tree.summary.cost_micro_usd.and_then(|total| u64::try_from(total).ok()).unwrap_or(cost);
    let (mut excess, mut left) = (cost.saturating_sub(total), cost);
    for row in rows_by_type(days) {
        let share = u128::from(excess) * u128::from(row.cost_micro_usd) / u128::from(left.max(1));
        let share = u64::try_from(share).unwrap_or(excess);
        left -= row.cost_micro_usd;
        excess -= share;
        row.cost_micro_usd -= share;
    }
    let missing = total.saturating_sub(cost);
    if usage.total_tokens == 0 && missing == 0 {
        return;
    }
    let name = if usage.total_tokens > 0 { UNATTRIBUTED } else { ROOT_TYPE };
    let began = tree.agents.first().and_then(|root| root.started_at_ms).unwrap_or(fallback);
    let row = days.entry((began.div_euclid(DAY_MS), By::Type, name.to_owned())).or_default();
    row.usage += usage;
    row.cost_micro_usd += missing;
}

fn rows_by_type(days: &mut DayRows) -> impl Iterator<Item = &mut StatsRow> {
    days.iter_mut().filter(|((_, by, _), _)| *by == By::Type).map(|(_, row)| row)
}

fn add_agent(row: &mut StatsRow, agent: &Agent) {
    row.agents += 1;
    row.tool_calls += u64::from(agent.tool_calls);
    row.tool_errors += u64::from(agent.tool_errors);
    row.tools_denied += u64::from(agent.tools_denied);
    row.busy_ms += u64::try_from(agent.wall_ms.unwrap_or(0)).unwrap_or(0);
    row.usage += agent.usage.unwrap_or_default();
    row.cost_micro_usd += u64::try_from(agent.cost_micro_usd.unwrap_or(0)).unwrap_or(0);
}

/// Adds a row's figures to a sum; `sessions` is left out, since one session may have several rows.
pub(crate) fn add(sum: &mut StatsRow, row: &StatsRow) {
    sum.agents += row.agents;
    sum.tool_calls += row.tool_calls;
    sum.tool_errors += row.tool_errors;
    sum.tools_denied += row.tools_denied;
    sum.busy_ms += row.busy_ms;
    sum.usage += row.usage;
    sum.cost_micro_usd += row.cost_micro_usd;
}

/// Sorts the sums: by tokens, calls and name, days newest first.
pub(crate) fn stats(
    total: StatsRow,
    by: impl Fn(By) -> Vec<StatsRow>,
    by_day: Vec<(i64, StatsRow)>,
) -> Stats {
    let sorted = |by_what: By| {
        let mut rows = by(by_what);
        rows.sort_by(|one, other| {
            let key = |row: &StatsRow| (row.usage.total_tokens, row.tool_calls);
            key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name))
        });
        rows
    };
    let mut by_day = by_day;
    by_day.sort_by_key(|(day, _)| std::cmp::Reverse(*day));
    Stats {
        schema: STATS_SCHEMA.into(),
        total,
        by_type: sorted(By::Type),
        by_tool: sorted(By::Tool),
        by_model: sorted(By::Model),
        by_day: by_day.into_iter().map(|(day, row)| StatsRow { name: date(day).into(), ..row }).collect(),
    }
}

/// Returns the date of a day since 1970, as `2026-11-22`.
fn date(day: i64) -> String {
    let midnight = iso8601(day.saturating_mul(DAY_MS));
    midnight.split_once('T').map_or(String::new(), |(date, _)| date.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_of_days_since_1970() {
        assert_eq!(
            [date(0), date(-1), date(20_779), date(11_016)],
            ["1970-01-01", "1969-12-31", "2026-11-22", "2000-02-29"]
        );
    }
}
