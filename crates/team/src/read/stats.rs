//! Statistics: sums over the arrays of sessions' rows.

use std::collections::BTreeMap;

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{DayGroup, Millis, STATS_SCHEMA, Stats, StatsGroup, StatsQuery, StatsRow, Text, Usage};
use subscope_store::StoreResult;

use super::Reader;
use crate::{
    engine::{BoundValue, EngineError, TenantQuery, TenantTable, Versions},
    figures::{Dimension, GROUPS_SCHEMA, GroupQuery, GroupRow, Groups, UNATTRIBUTED},
    rows::{COST_FLOOR, SESSION_COST_FLOOR, TOKENS_FLOOR},
};

const DAY_MS: Millis = 86_400_000;

/// Name of a group whose sessions have no value for it, as in the stores of machines.
const UNKNOWN: &str = "unknown";

/// The elements of a session's row: one for each day, type and model.
const AGENTS: &str =
    "ARRAY JOIN model_day AS element_day, model_type AS element_type, model_name AS element_model,
    model_agents AS element_agents, model_calls AS element_calls, model_errors AS element_errors,
    model_denied AS element_denied, model_busy_ms AS element_busy, model_input AS element_input,
    model_output AS element_output, model_cache_read AS element_cache_read,
    model_cache_write AS element_cache_write, model_floor AS element_floor, model_cost AS element_cost";

/// The elements of a session's row: one for each day and tool.
const TOOLS: &str =
    "ARRAY JOIN tool_day AS element_day, tool_name AS element_tool, tool_calls_of AS element_calls,
    tool_errors_of AS element_errors, tool_denied_of AS element_denied, tool_busy_ms AS element_busy";

const AGENT_SUMS: &str = "uniqExact(sipHash64(session_id)) AS sessions, sum(element_agents) AS agents,
    sum(element_calls) AS calls, sum(element_errors) AS errors, sum(element_denied) AS denied,
    sum(element_busy) AS busy, sum(element_input) AS input, sum(element_output) AS output,
    sum(element_cache_read) AS cache_read, sum(element_cache_write) AS cache_write,
    groupBitOr(element_floor) AS floor, sum(element_cost) AS cost";

const TOOL_SUMS: &str = "uniqExact(sipHash64(session_id)) AS sessions, toUInt64(0) AS agents,
    sum(element_calls) AS calls, sum(element_errors) AS errors, sum(element_denied) AS denied,
    sum(element_busy) AS busy, toUInt64(0) AS input, toUInt64(0) AS output, toUInt64(0) AS cache_read,
    toUInt64(0) AS cache_write, toUInt8(0) AS floor, toInt64(0) AS cost";

/// Sums of a group, whose values are texts.
#[derive(Row, Deserialize)]
struct GroupSum {
    names: Vec<String>,
    sessions: u64,
    agents: u64,
    calls: u64,
    errors: u64,
    denied: u64,
    busy: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    floor: u8,
    cost: i64,
}

impl GroupSum {
    fn usage(&self) -> Usage {
        let usage = Usage::new(self.input, self.output, self.cache_read, self.cache_write);
        Usage { floor: self.floor & TOKENS_FLOOR > 0, ..usage }
    }

    /// Whether the cost of a sum by these dimensions is a lower bound.
    fn cost_floor(&self, by: &[Dimension]) -> bool {
        let is_of_parts = by.iter().any(|by| matches!(by, Dimension::Type | Dimension::Model));
        self.floor & if is_of_parts { COST_FLOOR } else { SESSION_COST_FLOOR } > 0
    }

    fn stats_row(&self, name: &str, by: &[Dimension]) -> StatsRow {
        StatsRow {
            name: name.into(),
            sessions: self.sessions,
            agents: self.agents,
            tool_calls: self.calls,
            tool_errors: self.errors,
            tools_denied: self.denied,
            busy_ms: self.busy,
            usage: self.usage(),
            cost_micro_usd: u64::try_from(self.cost).unwrap_or(0),
            cost_floor: self.cost_floor(by),
        }
    }
}

impl Reader {
    /// Returns sums by the dimensions of a query.
    pub(super) async fn sums(&self, query: &GroupQuery) -> Result<Groups, EngineError> {
        let mut rows: Vec<GroupRow> = Vec::new();
        for sum in self.group(query, &[]).await? {
            let names = query.by.iter().zip(&sum.names).map(|(by, name)| {
                let name = match name.as_str() {
                    "" if *by == Dimension::Model => UNATTRIBUTED,
                    "" => UNKNOWN,
                    name => name,
                };
                (by.as_str().to_owned(), name.to_owned())
            });
            rows.push(GroupRow {
                names: names.collect(),
                sessions: sum.sessions,
                agents: sum.agents,
                tool_calls: sum.calls,
                tool_errors: sum.errors,
                tools_denied: sum.denied,
                busy_ms: sum.busy,
                usage: sum.usage(),
                cost_micro_usd: sum.cost,
                cost_floor: sum.cost_floor(&query.by),
            });
        }
        let has_more = rows.len() > query.limit;
        rows.truncate(query.limit);
        Ok(Groups { schema: GROUPS_SCHEMA.into(), by: query.by.clone(), rows, has_more })
    }

    async fn group(
        &self,
        query: &GroupQuery,
        conditions: &[(&'static str, &'static str, BoundValue)],
    ) -> Result<Vec<GroupSum>, EngineError> {
        let (join, sums) = if query.is_of_tools() { (TOOLS, TOOL_SUMS) } else { (AGENTS, AGENT_SUMS) };
        let names: Vec<&str> = query.by.iter().map(|by| by.column()).collect();
        let columns = match names.as_slice() {
            [] => format!("emptyArrayString() AS names, {sums}"),
            names => format!("[{}] AS names, {sums}", casts(names)),
        };
        let mut select =
            self.filter.add_to(TenantQuery::new(columns, TenantTable::Sessions, Versions::Newest).join(join));
        let days =
            [("element_day >= toDateOrZero(?)", &query.from), ("element_day <= toDateOrZero(?)", &query.to)];
        for (condition, day) in days {
            if let Some(day) = day {
                select = select.matching(condition, "String", BoundValue::Text(day.clone()));
            }
        }
        if let Some(harness) = &query.harness {
            select = select.matching("harness = ?", "String", BoundValue::Text(harness.clone()));
        }
        for (condition, of_type, value) in conditions {
            select = select.matching(condition, of_type, value.clone());
        }
        let limit = query.limit.saturating_add(1);
        let tail = match names.as_slice() {
            // A sum over nothing has a row too.
            [] => "HAVING sessions > 0".to_owned(),
            names => {
                format!("GROUP BY {} ORDER BY cost DESC, calls DESC, names LIMIT {limit}", names.join(", "))
            }
        };
        self.scoped.rows(select.tail(tail)).await
    }

    /// Returns the statistics that the stores of machines return, without those that need trees.
    pub(super) async fn statistics(&self, query: &StatsQuery) -> StoreResult<Stats> {
        let day = |at: Millis| subscope_model::iso8601(at.div_euclid(DAY_MS).saturating_mul(DAY_MS));
        let day = |at: Option<Millis>| at.map(|at| day(at).chars().take(10).collect::<String>());
        // `toDateOrZero` has no day before 1970.
        let from = day(query.since.map(|at| at.max(0)));
        let mut conditions = Vec::new();
        if let Some(project) = &query.project {
            let value = BoundValue::Text(project.to_string());
            conditions.push(("project = ? OR startsWith(project, concat(?, '/'))", "String", value));
        }
        let sums = async |by: &[Dimension]| {
            let harness = query.harness.as_deref().map(str::to_owned);
            let groups = GroupQuery {
                by: by.to_vec(),
                from: from.clone(),
                to: day(query.until),
                harness,
                limit: MAX_GROUPS,
            };
            self.group(&groups, &conditions).await
        };
        let total = sums(&[]).await?;
        let mut stats = Stats {
            schema: STATS_SCHEMA.into(),
            total: total.first().map(|sum| sum.stats_row("all", &[])).unwrap_or_else(|| empty_row("all")),
            by_type: named(sums(&[Dimension::Type]).await?, Dimension::Type),
            by_tool: named(sums(&[Dimension::Tool]).await?, Dimension::Tool),
            by_model: named(of_models(sums(&[Dimension::Model]).await?), Dimension::Model),
            by_day: named(sums(&[Dimension::Day]).await?, Dimension::Day),
            by_project: named(sums(&[Dimension::Project]).await?, Dimension::Project),
            by_harness: named(sums(&[Dimension::Harness]).await?, Dimension::Harness),
            // They need the trees of all sessions.
            without: vec!["slowest".into(), "concurrency".into()],
            ..Stats::default()
        };
        stats.by_day.sort_by(|one, other| other.name.cmp(&one.name));
        let mut days: BTreeMap<(Text, StatsGroup, Text), StatsRow> = BTreeMap::new();
        for (by, dimension) in [
            (StatsGroup::Type, Dimension::Type),
            (StatsGroup::Model, Dimension::Model),
            (StatsGroup::Project, Dimension::Project),
            (StatsGroup::Harness, Dimension::Harness),
        ] {
            for sum in sums(&[Dimension::Day, dimension]).await? {
                let [day, name] = sum.names.as_slice() else { continue };
                if by == StatsGroup::Model && name.is_empty() {
                    continue;
                }
                let row = sum.stats_row(shown(name), &[Dimension::Day, dimension]);
                days.insert((day.as_str().into(), by, row.name.clone()), row);
            }
        }
        stats.days = days.into_iter().map(|((day, by, _), row)| DayGroup { day, by, row }).collect();
        Ok(stats)
    }
}

/// Most groups of an answer.
const MAX_GROUPS: usize = 100_000;

/// Elements of an array have one type.
fn casts(columns: &[&str]) -> String {
    columns.iter().map(|column| format!("toString({column})")).collect::<Vec<_>>().join(", ")
}

fn shown(name: &str) -> &str {
    if name.is_empty() { UNKNOWN } else { name }
}

fn empty_row(name: &str) -> StatsRow {
    StatsRow { name: name.into(), ..StatsRow::default() }
}

/// Leaves out what no model is known for, as in the stores of machines.
fn of_models(sums: Vec<GroupSum>) -> Vec<GroupSum> {
    sums.into_iter().filter(|sum| sum.names.first().is_some_and(|name| !name.is_empty())).collect()
}

/// Returns rows by tokens, calls and name.
fn named(sums: Vec<GroupSum>, by: Dimension) -> Vec<StatsRow> {
    let row = |sum: GroupSum| sum.stats_row(shown(sum.names.first().map_or("", String::as_str)), &[by]);
    let mut rows: Vec<StatsRow> = sums.into_iter().map(row).collect();
    rows.sort_by(|one, other| {
        let key = |row: &StatsRow| (row.usage.total_tokens, row.tool_calls);
        key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name))
    });
    rows
}
