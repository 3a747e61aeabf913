//! Statistics: sums over the arrays of sessions' rows.

use std::collections::BTreeMap;

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{
    DayGroup, Dimension, GROUPS_SCHEMA, GroupQuery, GroupRow, Groups, Millis, STATS_SCHEMA, Stats,
    StatsGroup, StatsQuery, StatsRow, Text, Usage, Zone,
};
use subscope_store::StoreResult;

use super::Reader;
use crate::{
    engine::{BoundValue, EngineError, TenantQuery, TenantTable, Versions},
    rows::{COST_FLOOR, SESSION_COST_FLOOR, TOKENS_FLOOR},
};

/// Name of the group of what no model is known for.
const UNATTRIBUTED: &str = "unattributed";

/// Name of a group whose sessions have no value for it, as in the stores of machines.
const UNKNOWN: &str = "unknown";

/// Returns the column of a dimension's value.
fn column(of: Dimension) -> &'static str {
    match of {
        Dimension::Day => "element_day",
        Dimension::Model => "element_model",
        Dimension::Type => "element_type",
        Dimension::Tool => "element_tool",
        Dimension::Project | Dimension::Team | Dimension::User | Dimension::Machine | Dimension::Harness => {
            of.as_str()
        }
    }
}

/// What a session's row has an array of.
struct Parts {
    /// Array of their days.
    days: &'static str,
    /// Their arrays, and the name of an element of each.
    arrays: &'static str,
    /// Sums over the elements.
    sums: &'static str,
}

/// One part for each day, type and model.
const AGENTS: Parts = Parts {
    days: "model_day",
    arrays: "model_day AS element_day, model_type AS element_type, model_name AS element_model,
        model_agents AS element_agents, model_calls AS element_calls, model_errors AS element_errors,
        model_denied AS element_denied, model_busy_ms AS element_busy, model_input AS element_input,
        model_output AS element_output, model_cache_read AS element_cache_read,
        model_cache_write AS element_cache_write, model_floor AS element_floor, model_cost AS element_cost",
    sums: "sum(element_agents) AS agents,
        sum(element_calls) AS calls, sum(element_errors) AS errors, sum(element_denied) AS denied,
        sum(element_busy) AS busy, sum(element_input) AS input, sum(element_output) AS output,
        sum(element_cache_read) AS cache_read, sum(element_cache_write) AS cache_write,
        groupBitOr(element_floor) AS floor, sum(element_cost) AS cost",
};

/// One part for each day and tool.
const TOOLS: Parts = Parts {
    days: "tool_day",
    arrays: "tool_day AS element_day, tool_name AS element_tool, tool_calls_of AS element_calls,
        tool_errors_of AS element_errors, tool_denied_of AS element_denied, tool_busy_ms AS element_busy",
    sums: "toUInt64(0) AS agents,
        sum(element_calls) AS calls, sum(element_errors) AS errors, sum(element_denied) AS denied,
        sum(element_busy) AS busy, toUInt64(0) AS input, toUInt64(0) AS output, toUInt64(0) AS cache_read,
        toUInt64(0) AS cache_write, toUInt8(0) AS floor, toInt64(0) AS cost",
};

impl Parts {
    /// Returns an array that numbers the parts of a session that have the same values of these dimensions, those in the
    /// range of days apart from the others. The first of each is numbered 1, so the ones of a group are its sessions.
    ///
    /// To count them costs a fifth of what `uniqExact(session_id)` does.
    fn numbered(&self, by: &[Dimension]) -> String {
        let mut keys = vec![format!(
            "arrayMap(day -> day >= toDateOrZero({{from:String}}) AND day <= toDateOrZero({{to:String}}), {})",
            self.days
        )];
        keys.extend(by.iter().filter_map(|by| match by {
            Dimension::Day => Some(self.days.to_owned()),
            Dimension::Model => Some("model_name".to_owned()),
            Dimension::Type => Some("model_type".to_owned()),
            Dimension::Tool => Some("tool_name".to_owned()),
            Dimension::Project
            | Dimension::Team
            | Dimension::User
            | Dimension::Machine
            | Dimension::Harness => None,
        }));
        format!("arrayEnumerateUniq({})", keys.join(", "))
    }
}

/// Sums of a group, whose values are texts.
#[derive(Row, Deserialize)]
struct GroupSum {
    /// Mask of its grouping.
    mask: u64,
    /// A value for each dimension of its grouping.
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
        for sum in self.group(query, &[&query.by], &[]).await?.into_iter().flatten() {
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

    /// Returns the sums of each grouping, the greatest cost first. All are read in one pass over the rows.
    async fn group(
        &self,
        query: &GroupQuery,
        groupings: &[&[Dimension]],
        conditions: &[(&'static str, &'static str, BoundValue)],
    ) -> Result<Vec<Vec<GroupSum>>, EngineError> {
        let by_tool = groupings.iter().any(|by| by.contains(&Dimension::Tool));
        let parts = if by_tool { TOOLS } else { AGENTS };
        let mut columns: Vec<&str> = Vec::new();
        for by in groupings.iter().copied().flatten() {
            if !columns.contains(&column(*by)) {
                columns.push(column(*by));
            }
        }
        // As `grouping()` makes it: the first column has the highest bit, which is set where it is not grouped by.
        let mask_of = |by: &[Dimension]| {
            let is_out = |name: &&str| !by.iter().any(|by| column(*by) == *name);
            columns.iter().fold(0_u64, |mask, column| mask << 1 | u64::from(is_out(column)))
        };
        let masks: Vec<u64> = groupings.iter().map(|by| mask_of(by)).collect();
        let mut numbered: Vec<String> = Vec::new();
        let (mut names, mut sessions) = (Vec::new(), Vec::new());
        for by in groupings {
            let numbers = parts.numbered(by);
            let place = numbered.iter().position(|known| *known == numbers).unwrap_or_else(|| {
                numbered.push(numbers);
                numbered.len() - 1
            });
            sessions.push(format!("countIf(number_{place} = 1)"));
            let texts: Vec<String> = by.iter().map(|by| format!("toString({})", column(*by))).collect();
            names.push(match texts.as_slice() {
                [] => "emptyArrayString()".to_owned(),
                texts => format!("[{}]", texts.join(", ")),
            });
        }
        let (mask, group) = match groupings {
            [[]] => ("toUInt64(0)".to_owned(), String::new()),
            [by] => (format!("toUInt64({})", mask_of(by)), format!("GROUP BY {}", columns.join(", "))),
            _ => {
                let sets = groupings.iter().map(|by| {
                    let columns: Vec<&str> = by.iter().map(|by| column(*by)).collect();
                    format!("({})", columns.join(", "))
                });
                let sets = sets.collect::<Vec<_>>().join(", ");
                (
                    format!("toUInt64(grouping({}))", columns.join(", ")),
                    format!("GROUP BY GROUPING SETS ({sets})"),
                )
            }
        };
        let select = format!(
            "{mask} AS mask, {} AS names, {} AS sessions, {}",
            by_mask(&masks, &names),
            by_mask(&masks, &sessions),
            parts.sums
        );
        let numbered =
            numbered.iter().enumerate().map(|(place, array)| format!(", {array} AS number_{place}"));
        let join = format!("ARRAY JOIN {}{}", parts.arrays, numbered.collect::<String>());
        // The first and the last day of the type `Date`, where there is no limit.
        let day =
            |day: &Option<String>, none: &str| BoundValue::Text(day.clone().unwrap_or_else(|| none.into()));
        let mut select = self
            .filter
            .add_to(TenantQuery::new(select, TenantTable::Sessions, Versions::Newest).join(join))
            .bind("from", day(&query.from, "1970-01-01"))
            .bind("to", day(&query.to, "2149-06-06"))
            .when("element_day >= toDateOrZero({from:String})")
            .when("element_day <= toDateOrZero({to:String})");
        if let Some(harness) = &query.harness {
            select = select.matching("harness = ?", "String", BoundValue::Text(harness.clone()));
        }
        for (condition, of_type, value) in conditions {
            select = select.matching(condition, of_type, value.clone());
        }
        // A sum over nothing has a row too. The limit is that of each grouping.
        let limit = query.limit.saturating_add(1);
        let tail =
            format!("{group} HAVING count() > 0 ORDER BY cost DESC, calls DESC, names LIMIT {limit} BY mask");
        let mut sums: Vec<Vec<GroupSum>> = groupings.iter().map(|_| Vec::new()).collect();
        for row in self.scoped.rows::<GroupSum>(select.tail(tail)).await? {
            if let Some(place) = masks.iter().position(|mask| *mask == row.mask) {
                sums[place].push(row);
            }
        }
        Ok(sums)
    }

    /// Returns the statistics that the stores of machines return, without those that need trees.
    pub(super) async fn statistics(&self, query: &StatsQuery) -> StoreResult<Stats> {
        let zone = query.time_zone.clone().unwrap_or_default();
        let day = |at: Option<Millis>| at.map(|at| Zone::date(zone.day_of(at)));
        // `toDateOrZero` has no day before 1970.
        let from = day(query.since.map(|at| at.max(0)));
        let mut conditions = Vec::new();
        if let Some(project) = &query.project {
            let value = BoundValue::Text(project.to_string());
            conditions.push(("project = ? OR startsWith(project, concat(?, '/'))", "String", value));
        }
        let harness = query.harness.as_deref().map(str::to_owned);
        let query = GroupQuery { by: Vec::new(), from, to: day(query.until), harness, limit: MAX_GROUPS };
        // A sum over agents and one over calls.
        let (mut agents, mut tools) = futures_util::try_join!(
            self.group(&query, &GROUPINGS, &conditions),
            self.group(&query, &[&[Dimension::Tool]], &conditions),
        )?;
        let mut of = |grouping: &[Dimension]| {
            let place = GROUPINGS.iter().position(|known| *known == grouping);
            place.and_then(|place| agents.get_mut(place)).map(std::mem::take).unwrap_or_default()
        };
        let mut stats = Stats {
            schema: STATS_SCHEMA.into(),
            total: of(&[]).first().map(|sum| sum.stats_row("all", &[])).unwrap_or_else(|| empty_row("all")),
            by_type: named(of(&[Dimension::Type]), Dimension::Type),
            by_tool: named(tools.pop().unwrap_or_default(), Dimension::Tool),
            by_model: named(of_models(of(&[Dimension::Model])), Dimension::Model),
            by_day: named(of(&[Dimension::Day]), Dimension::Day),
            by_project: named(of(&[Dimension::Project]), Dimension::Project),
            by_harness: named(of(&[Dimension::Harness]), Dimension::Harness),
            // They need the trees of all sessions.
            without: ["slowest", "top_sessions", "top_agents", "concurrency"].map(Into::into).into(),
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
            let grouping = [Dimension::Day, dimension];
            for sum in of(&grouping) {
                let [day, name] = sum.names.as_slice() else { continue };
                if by == StatsGroup::Model && name.is_empty() {
                    continue;
                }
                let row = sum.stats_row(shown(name), &grouping);
                days.insert((day.as_str().into(), by, row.name.clone()), row);
            }
        }
        stats.days = days.into_iter().map(|((day, by, _), row)| DayGroup { day, by, row }).collect();
        Ok(stats)
    }
}

/// What the statistics of agents are grouped by.
const GROUPINGS: [&[Dimension]; 10] = [
    &[],
    &[Dimension::Type],
    &[Dimension::Model],
    &[Dimension::Day],
    &[Dimension::Project],
    &[Dimension::Harness],
    &[Dimension::Day, Dimension::Type],
    &[Dimension::Day, Dimension::Model],
    &[Dimension::Day, Dimension::Project],
    &[Dimension::Day, Dimension::Harness],
];

/// Most groups of an answer.
const MAX_GROUPS: usize = 100_000;

/// Returns the expression that has the value of a row's grouping.
fn by_mask(masks: &[u64], values: &[String]) -> String {
    let Some((last, values)) = values.split_last() else { return String::new() };
    let choices: String =
        masks.iter().zip(values).map(|(mask, value)| format!("mask = {mask}, {value}, ")).collect();
    if choices.is_empty() { last.clone() } else { format!("multiIf({choices}{last})") }
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
