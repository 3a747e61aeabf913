//! Statistics by quarter-hour: each session has rows of its own, replaced together with it, so that sums never count
//! anything twice. Days are made of them when a query names its zone: clocks of all zones differ by whole quarters.

use std::{
    collections::BTreeMap,
    ops::{Add, Sub},
};

use subscope_model::{Agent, MicroUsd, Millis, StatsRow, ToolStatus, Tree, Usage, Zone};

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

impl By {
    pub(crate) const ALL: [Self; 3] = [Self::Type, Self::Tool, Self::Model];
}

/// Type name of root agents.
const ROOT_TYPE: &str = "main";
/// Type name of usage that belongs to no agent.
const UNATTRIBUTED: &str = "unattributed";
/// Name if there is none.
pub(crate) const UNKNOWN: &str = "unknown";
/// Length of a quarter-hour.
const QUARTER_MS: Millis = 900_000;

/// Place in time (a quarter-hour or a day, counted from 1970), dimension and name → figures.
pub(crate) type PlacedRows = BTreeMap<(i64, By, String), StatsRow>;

/// Returns the quarter-hour of a time, counted from 1970.
fn quarter_of(at: Millis) -> i64 {
    at.div_euclid(QUARTER_MS)
}

/// Returns the day of a quarter-hour, both counted from 1970.
pub(crate) fn day_of_quarter(quarter: i64, zone: &Zone) -> i64 {
    zone.day_of(quarter.saturating_mul(QUARTER_MS))
}

/// Returns the first and the last quarter-hour of days, all counted from 1970.
pub(crate) fn quarters_of(first: i64, last: i64, zone: &Zone) -> (i64, i64) {
    let after = zone.start_of(last.saturating_add(1));
    let first = zone.start_of(first).saturating_add(QUARTER_MS - 1);
    (quarter_of(first), quarter_of(after.saturating_sub(1)))
}

/// Returns the rows of a session, by quarter-hour.
pub(crate) fn quarters(tree: &Tree) -> PlacedRows {
    rows_by(tree, quarter_of)
}

/// Returns the rows of a session by place in time.
fn rows_by(tree: &Tree, place: impl Fn(Millis) -> i64) -> PlacedRows {
    let mut days = agent_rows(tree, &place);
    let fallback = tree.session.started_at_ms.unwrap_or(0);
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        for call in &agent.tools {
            let day = place(call.started_at_ms.or(agent.started_at_ms).unwrap_or(fallback));
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
fn agent_rows(tree: &Tree, place: impl Fn(Millis) -> i64) -> PlacedRows {
    let mut days = PlacedRows::new();
    let fallback = tree.session.started_at_ms.unwrap_or(0);
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        let day = place(agent.started_at_ms.unwrap_or(fallback));
        days.entry((day, By::Type, type_of(agent).to_owned())).or_default().add_agent(agent);
        if agent.usage.is_some() {
            let model = agent.model.as_deref().unwrap_or(UNKNOWN);
            days.entry((day, By::Model, model.to_owned())).or_default().add_agent(agent);
        }
    }
    let began = place(tree.agents.first().and_then(|root| root.started_at_ms).unwrap_or(fallback));
    add_unattributed(tree, began, &mut days);
    add_lower_bounds(tree, began, &mut days);
    days
}

/// Figures of a session's agents of one type and model that started on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFigures {
    /// Days since 1970.
    pub day: i64,
    /// Type of agent, as in [`subscope_model::Stats::by_type`].
    pub agent_type: String,
    /// Model; empty for agents that no model is known to have worked for, and for corrections.
    pub model: String,
    /// The figures, without name and cost.
    pub row: StatsRow,
    /// Their cost. Less than 0 in a correction: a session's own total may be below the sum of its agents.
    pub cost_micro_usd: MicroUsd,
}

/// Returns a session's figures by day of a zone, type and model: they sum to its rows by type, and those that have a model to its
/// rows by model.
pub fn agent_figures(tree: &Tree, zone: &Zone) -> Vec<ModelFigures> {
    let mut found: BTreeMap<(i64, String, String), StatsRow> = BTreeMap::new();
    let fallback = tree.session.started_at_ms.unwrap_or(0);
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        let model = agent.usage.map(|_| agent.model.as_deref().unwrap_or(UNKNOWN)).unwrap_or_default();
        let key = (
            zone.day_of(agent.started_at_ms.unwrap_or(fallback)),
            type_of(agent).to_owned(),
            model.to_owned(),
        );
        found.entry(key).or_default().add_agent(agent);
    }
    let mut rows: BTreeMap<(i64, String, String), (StatsRow, MicroUsd)> = BTreeMap::new();
    let mut sums: BTreeMap<(i64, String), (Usage, MicroUsd)> = BTreeMap::new();
    for ((day, kind, model), row) in found {
        let cost = micro_usd(row.cost_micro_usd);
        let sum = sums.entry((day, kind.clone())).or_default();
        sum.0 += row.usage;
        sum.1 += cost;
        rows.insert((day, kind, model), (row, cost));
    }
    for ((day, by, kind), row) in agent_rows(tree, |at| zone.day_of(at)) {
        if by != By::Type {
            continue;
        }
        let (usage, cost) = sums.get(&(day, kind.clone())).copied().unwrap_or_default();
        let (usage, cost) = (row.usage.minus(&usage), micro_usd(row.cost_micro_usd) - cost);
        if usage.total_tokens > 0 || cost != 0 {
            let correction = rows.entry((day, kind, String::new())).or_default();
            correction.0.usage += usage;
            correction.1 += cost;
        }
    }
    rows.into_iter()
        .map(|((day, agent_type, model), (row, cost_micro_usd))| ModelFigures {
            day,
            agent_type,
            model,
            row,
            cost_micro_usd,
        })
        .collect()
}

/// Returns a session's figures by tool with their day in a zone (days since 1970), as in [`subscope_model::Stats::by_tool`].
pub fn tool_figures(tree: &Tree, zone: &Zone) -> Vec<(i64, StatsRow)> {
    let rows = rows_by(tree, |at| zone.day_of(at)).into_iter().filter(|((_, by, _), _)| *by == By::Tool);
    rows.map(|((day, ..), row)| (day, row)).collect()
}

fn micro_usd(cost: u64) -> MicroUsd {
    MicroUsd::try_from(cost).unwrap_or(MicroUsd::MAX)
}

/// Returns the type under which an agent counts.
fn type_of(agent: &Agent) -> &str {
    match &agent.agent_type {
        _ if agent.id.is_root() => ROOT_TYPE,
        Some(kind) => kind,
        None => UNKNOWN,
    }
}

/// What agents that started on one day have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayCost {
    /// Known cost.
    pub cost: MicroUsd,
    /// Number of sessions with an unknown cost on that day: with any, the cost is a lower bound.
    pub floor_sessions: u64,
}

impl Add for DayCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_add(other.cost),
            floor_sessions: self.floor_sessions + other.floor_sessions,
        }
    }
}

impl Sub for DayCost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_sub(other.cost),
            floor_sessions: self.floor_sessions.saturating_sub(other.floor_sessions),
        }
    }
}

/// Returns what the agents of a session that started on a day of a zone (days since 1970) have cost.
pub fn cost_of_day(tree: &Tree, day: i64, zone: &Zone) -> DayCost {
    let rows = agent_rows(tree, quarter_of);
    let (first, last) = quarters_of(day, day, zone);
    let of_day = || rows.iter().filter(|((at, by, _), _)| (first..=last).contains(at) && *by == By::Type);
    let cost = of_day().map(|(_, row)| row.cost_micro_usd).sum::<u64>();
    // Where the session's own cost is exact, what an agent lacks is in the row of another.
    let is_exact = tree.summary.cost_micro_usd.is_some() && !tree.summary.cost_floor;
    let is_floor = !is_exact && of_day().any(|(_, row)| row.cost_floor);
    DayCost { cost: micro_usd(cost), floor_sessions: u64::from(is_floor) }
}

/// Adjusts the sums by type to the session's own total, which the list of sessions shows: usage in the total that
/// belongs to no agent gets a type of its own. A total below the agents' sum (other prices, rounding) reduces each of
/// them by the same share. `began` is the place of its beginning.
fn add_unattributed(tree: &Tree, began: i64, days: &mut PlacedRows) {
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
    let row = days.entry((began, By::Type, name.to_owned())).or_default();
    row.usage += usage;
    row.cost_micro_usd += missing;
}

/// Marks the main agent's row as a lower bound where the session's own sum is one and no agent's is: something is missing
/// that no row is about. `began` is the place of the session's beginning.
fn add_lower_bounds(tree: &Tree, began: i64, days: &mut PlacedRows) {
    let is_bound = tree.summary.usage.is_some_and(|usage| usage.floor);
    let (mut lacks_usage, mut lacks_cost) = (is_bound, tree.summary.cost_floor);
    for row in rows_by_type(days) {
        lacks_usage &= !row.usage.floor;
        lacks_cost &= !row.cost_floor;
    }
    if lacks_usage || lacks_cost {
        let row = days.entry((began, By::Type, ROOT_TYPE.to_owned())).or_default();
        row.usage.floor |= lacks_usage;
        row.cost_floor |= lacks_cost;
    }
}

fn rows_by_type(days: &mut PlacedRows) -> impl Iterator<Item = &mut StatsRow> {
    days.iter_mut().filter(|((_, by, _), _)| *by == By::Type).map(|(_, row)| row)
}
