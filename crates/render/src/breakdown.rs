//! Statistics of one session by agent type, tool and model.

use std::collections::HashMap;

use subscope_model::{Stats, StatsRow, Text, ToolStatus, Tree};

/// Computes a session's statistics, each list in descending order. `sessions` is 0. Agents copied from another session
/// are not counted.
pub fn breakdown(tree: &Tree) -> Stats {
    let (mut by_type, mut by_tool, mut by_model) =
        (StatsRows::default(), StatsRows::default(), StatsRows::default());
    for agent in tree.agents.iter().filter(|agent| !agent.is_copy()) {
        let kind = if agent.id.is_root() { Some("main") } else { agent.agent_type.as_deref() };
        by_type.row(kind.unwrap_or("unknown")).add_agent(agent);
        if let Some(model) = &agent.model {
            by_model.row(model).add_agent(agent);
        }
        for call in &agent.tools {
            let row = by_tool.row(&call.name);
            row.tool_calls += 1;
            row.tool_errors += u64::from(call.status == ToolStatus::Error);
            row.tools_denied += u64::from(call.status == ToolStatus::Denied);
            let span = call.ended_at_ms.zip(call.started_at_ms).map(|(to, from)| to - from);
            row.busy_ms += span.and_then(|span| u64::try_from(span).ok()).unwrap_or(0);
        }
    }
    Stats {
        by_type: by_type.sorted(|row| row.usage.total_tokens),
        by_tool: by_tool.sorted(|row| row.tool_calls),
        by_model: by_model.sorted(|row| row.usage.total_tokens),
        ..Stats::default()
    }
}

/// Rows by name.
#[derive(Default)]
struct StatsRows {
    by_name: HashMap<Text, StatsRow>,
}

impl StatsRows {
    fn row(&mut self, name: &str) -> &mut StatsRow {
        let name = Text::from(name);
        self.by_name.entry(name.clone()).or_insert_with(|| StatsRow { name, ..StatsRow::default() })
    }

    fn sorted(self, key: impl Fn(&StatsRow) -> u64) -> Vec<StatsRow> {
        let mut rows: Vec<StatsRow> = self.by_name.into_values().collect();
        rows.sort_by(|one, other| key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use subscope_testkit::{
        fixtures,
        sessions::{self, Telling, parts_of},
    };

    use super::*;

    #[test]
    fn figures_of_each_recording_add_up_to_its_agents() {
        for recording in fixtures::recordings() {
            let what = recording.name();
            let tree = sessions::tree(&parts_of(&recording, &[Telling::Transcript]));
            let stats = breakdown(&tree);
            let counted = || tree.agents.iter().filter(|agent| !agent.is_copy());
            let calls: u64 = counted().map(|agent| u64::from(agent.tool_calls)).sum();
            let tokens: u64 = counted().filter_map(|agent| agent.usage).map(|usage| usage.total_tokens).sum();
            let sum = |rows: &[StatsRow], of: fn(&StatsRow) -> u64| rows.iter().map(of).sum::<u64>();
            let agents = tree.agents.iter().filter(|agent| agent.is_counted()).count() as u64;
            assert_eq!(sum(&stats.by_type, |row| row.agents), agents, "{what}");
            assert_eq!(sum(&stats.by_type, |row| row.tool_calls), calls, "{what}");
            assert_eq!(sum(&stats.by_tool, |row| row.tool_calls), calls, "{what}");
            assert_eq!(sum(&stats.by_type, |row| row.usage.total_tokens), tokens, "{what}");
            assert_eq!(sum(&stats.by_model, |row| row.usage.total_tokens), tokens, "{what}");
            assert!(stats.by_tool.is_sorted_by(|one, other| one.tool_calls >= other.tool_calls), "{what}");
        }
    }
}
