//! Users and their machines.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{
    ContentLevel, Dimension, GroupQuery, Millis, PEOPLE_SCHEMA, People, PersonMachine, Text,
};

use super::Reader;
use crate::engine::{BoundValue, EngineError, TenantQuery, TenantTable, Versions};

/// Most rows of an answer.
const MAX_ROWS: usize = 10_000;

#[derive(Row, Deserialize)]
struct MachineColumns {
    user: String,
    machine: String,
    newest_team: String,
    newest_level: String,
    harnesses: Vec<String>,
    last_event: i64,
    last_saved: i64,
    at_work: u64,
}

impl MachineColumns {
    fn row(self) -> PersonMachine {
        let at = |at: Millis| Some(at).filter(|at| *at > 0);
        PersonMachine {
            user: self.user.into(),
            machine: self.machine.into(),
            team: self.newest_team.into(),
            level: ContentLevel::ALL.into_iter().find(|level| level.as_str() == self.newest_level),
            harnesses: self.harnesses.into_iter().filter(|name| !name.is_empty()).map(Text::from).collect(),
            last_event_at_ms: at(self.last_event),
            last_saved_at_ms: at(self.last_saved),
            working: self.at_work,
            ..PersonMachine::default()
        }
    }
}

impl Reader {
    /// Returns users and machines. The sums are those of [`Reader::groups`] by user and machine.
    pub(super) async fn users(
        &self,
        from: Option<String>,
        to: Option<String>,
        working_since: Millis,
    ) -> Result<People, EngineError> {
        let by = vec![Dimension::User, Dimension::Machine];
        let query = GroupQuery { by, from, to, harness: None, limit: MAX_ROWS };
        let columns = "user, machine, argMax(team, rev) AS newest_team, argMax(level, rev) AS newest_level,
            arraySort(groupUniqArray(toString(harness))) AS harnesses, max(last_event_at_ms) AS last_event,
            max(committed_at_ms) AS last_saved,
            countIf(status = 'live' AND committed_at_ms >= {since:Int64}) AS at_work";
        let select = TenantQuery::new(columns, TenantTable::Sessions, Versions::Newest)
            .bind("since", BoundValue::Number(working_since))
            .tail(format!(
                "GROUP BY user, machine ORDER BY last_event DESC, user, machine LIMIT {}",
                MAX_ROWS + 1
            ));
        let machines = self.scoped.rows::<MachineColumns>(self.filter.add_to(select));
        let (sums, machines) = futures_util::try_join!(self.sums(&query), machines)?;
        let name = |names: &std::collections::BTreeMap<String, String>, by: Dimension| {
            names.get(by.as_str()).cloned().unwrap_or_default()
        };
        let sums: HashMap<(String, String), _> = sums
            .rows
            .into_iter()
            .map(|sum| ((name(&sum.names, Dimension::User), name(&sum.names, Dimension::Machine)), sum))
            .collect();
        let has_more = machines.len() > MAX_ROWS;
        let rows = machines.into_iter().take(MAX_ROWS).map(|machine| {
            let sum = sums.get(&(machine.user.clone(), machine.machine.clone()));
            let row = machine.row();
            match sum {
                None => row,
                Some(sum) => PersonMachine {
                    sessions: sum.sessions,
                    agents: sum.agents,
                    tool_calls: sum.tool_calls,
                    tool_errors: sum.tool_errors,
                    usage: sum.usage,
                    cost_micro_usd: sum.cost_micro_usd,
                    cost_floor: sum.cost_floor,
                    ..row
                },
            }
        });
        Ok(People { schema: PEOPLE_SCHEMA.into(), rows: rows.collect(), has_more })
    }
}
