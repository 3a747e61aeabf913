//! Sums of a team's sessions by several dimensions: cost by team and model, tokens by project and day.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Text, Usage};

/// Schema version of [`Groups`].
pub const GROUPS_SCHEMA: &str = "subscope.groups/1";

/// What sums are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// Project.
    Project,
    /// Day on which the agents started, in the time zone of the machine that sent them.
    Day,
    /// Team of the user.
    Team,
    /// User.
    User,
    /// Machine.
    Machine,
    /// Harness.
    Harness,
    /// Model.
    Model,
    /// Type of agent.
    Type,
    /// Tool.
    Tool,
}

impl Dimension {
    const ALL: [Self; 9] = [
        Self::Project,
        Self::Day,
        Self::Team,
        Self::User,
        Self::Machine,
        Self::Harness,
        Self::Model,
        Self::Type,
        Self::Tool,
    ];

    /// Returns its name in queries and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Day => "day",
            Self::Team => "team",
            Self::User => "user",
            Self::Machine => "machine",
            Self::Harness => "harness",
            Self::Model => "model",
            Self::Type => "type",
            Self::Tool => "tool",
        }
    }
}

impl FromStr for Dimension {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == word)
            .ok_or_else(|| format!("by is one or more of {}, with commas between", names()))
    }
}

/// Which sums are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupQuery {
    /// The dimensions, in the order of the answer's names; none for the sum of everything.
    pub by: Vec<Dimension>,
    /// First day, `2026-11-01`.
    pub from: Option<String>,
    /// Last day.
    pub to: Option<String>,
    /// Only sessions of this harness.
    pub harness: Option<String>,
    /// Most rows.
    pub limit: usize,
}

impl GroupQuery {
    /// Parses `project,day`.
    ///
    /// # Errors
    /// An unknown or repeated word, or `tool` together with `model` or `type`: a call has a tool, an agent has a model.
    pub fn parse_by(text: &str) -> Result<Vec<Dimension>, String> {
        let by = text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse);
        let by = by.collect::<Result<Vec<Dimension>, _>>()?;
        if (1..by.len()).any(|place| by.get(..place).is_some_and(|before| before.contains(&by[place]))) {
            return Err("by names something twice".to_owned());
        }
        let of_agents = by.contains(&Dimension::Model) || by.contains(&Dimension::Type);
        if by.contains(&Dimension::Tool) && of_agents {
            return Err("tool does not go with model or type".to_owned());
        }
        Ok(by)
    }
}

/// Sums by some dimensions, the greatest cost first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Groups {
    /// Always `subscope.groups/1`.
    pub schema: Text,
    /// Names of the dimensions.
    pub by: Vec<Dimension>,
    /// One for each combination of values.
    pub rows: Vec<GroupRow>,
    /// Whether there are more rows than the limit.
    pub has_more: bool,
}

/// Sums of one combination of values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupRow {
    /// The value of each dimension, by its name.
    #[serde(flatten)]
    pub names: std::collections::BTreeMap<String, String>,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of subagents: the main agent of a session is counted as the session. 0 for tools.
    pub agents: u64,
    /// Number of calls.
    pub tool_calls: u64,
    /// Number of failed calls.
    pub tool_errors: u64,
    /// Number of denied calls.
    pub tools_denied: u64,
    /// Active time of the agents, or of the calls.
    pub busy_ms: u64,
    /// Tokens; 0 for tools.
    pub usage: Usage,
    /// Their cost, as far as prices are known.
    pub cost_micro_usd: i64,
    /// Whether the cost is a lower bound.
    pub cost_floor: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_parsed_and_others_are_not_spliced_into_a_query() {
        assert_eq!(GroupQuery::parse_by("project,day"), Ok(vec![Dimension::Project, Dimension::Day]));
        assert_eq!(GroupQuery::parse_by(""), Ok(Vec::new()));
        for wrong in ["project,project", "tenant", "project;day", "tool,model", "day) UNION ALL SELECT 1 --"]
        {
            assert!(GroupQuery::parse_by(wrong).is_err(), "{wrong}");
        }
    }
}
