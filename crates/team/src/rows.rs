//! Snapshots as rows of the tables.

use clickhouse::Row;
use serde::Serialize;
use subscope_model::{
    Agent, Flag, LivenessKind, Millis, SNAPSHOT_SCHEMA, SessionId, SessionStatus, Snapshot, ToolStatus, Tree,
    Zone,
};
use subscope_store::{agent_figures, tool_figures};

use crate::tokens::Identity;

/// Most characters of a name that a machine sends: of itself and its project.
const MAX_NAME_CHARS: usize = 200;

/// Earliest and latest day that a snapshot may have: what `Date` can hold, without what no session is from.
const DAYS: std::ops::Range<i64> = 10_957..65_000;

/// Most agents at work that are stored in the row of a session: a list shows the first.
const MAX_WORKING: usize = 4;

/// Bits of `model_floor`: what is a lower bound. The cost is one in sums by type or model, or also in sums of whole sessions.
pub(crate) const TOKENS_FLOOR: u8 = 1;
pub(crate) const COST_FLOOR: u8 = 2;
pub(crate) const SESSION_COST_FLOOR: u8 = 4;

#[derive(Clone, Debug, Default, Row, Serialize)]
pub(crate) struct SessionColumns {
    pub(crate) tenant: String,
    pub(crate) session_id: String,
    pub(crate) rev: u64,
    pub(crate) is_deleted: u8,
    pub(crate) day: u16,
    pub(crate) machine: String,
    pub(crate) user: String,
    pub(crate) team: String,
    pub(crate) project: String,
    pub(crate) harness: String,
    pub(crate) harness_version: String,
    pub(crate) title: String,
    pub(crate) status: String,
    pub(crate) started_at_ms: i64,
    pub(crate) last_event_at_ms: i64,
    pub(crate) committed_at_ms: i64,
    pub(crate) runs: u32,
    pub(crate) agents: u32,
    pub(crate) running: u32,
    pub(crate) failed: u32,
    pub(crate) tool_calls: u32,
    pub(crate) tool_errors: u32,
    pub(crate) tools_denied: u32,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    pub(crate) cache_write_tokens: u64,
    pub(crate) usage_floor: u8,
    pub(crate) cost_micro_usd: i64,
    pub(crate) cost_floor: u8,
    pub(crate) model_day: Vec<u16>,
    pub(crate) model_type: Vec<String>,
    pub(crate) model_name: Vec<String>,
    pub(crate) model_agents: Vec<u32>,
    pub(crate) model_calls: Vec<u32>,
    pub(crate) model_errors: Vec<u32>,
    pub(crate) model_denied: Vec<u32>,
    pub(crate) model_busy_ms: Vec<u64>,
    pub(crate) model_input: Vec<u64>,
    pub(crate) model_output: Vec<u64>,
    pub(crate) model_cache_read: Vec<u64>,
    pub(crate) model_cache_write: Vec<u64>,
    pub(crate) model_floor: Vec<u8>,
    pub(crate) model_cost: Vec<i64>,
    pub(crate) tool_day: Vec<u16>,
    pub(crate) tool_name: Vec<String>,
    pub(crate) tool_calls_of: Vec<u32>,
    pub(crate) tool_errors_of: Vec<u32>,
    pub(crate) tool_denied_of: Vec<u32>,
    pub(crate) tool_busy_ms: Vec<u64>,
    pub(crate) agent_ids: Vec<String>,
    pub(crate) agent_spawns: Vec<String>,
    pub(crate) agent_types: Vec<String>,
    pub(crate) agent_descriptions: Vec<String>,
    pub(crate) row: String,
    /// Level of content.
    pub(crate) level: String,
    /// Agents at work, as JSON: [`working`]; empty if there is none.
    pub(crate) working: String,
}

#[derive(Clone, Debug, Default, Row, Serialize)]
pub(crate) struct TreeColumns {
    pub(crate) tenant: String,
    pub(crate) session_id: String,
    pub(crate) rev: u64,
    pub(crate) is_deleted: u8,
    pub(crate) day: u16,
    pub(crate) body: String,
}

#[derive(Clone, Debug, Default, Row, Serialize)]
pub(crate) struct TextColumns {
    pub(crate) tenant: String,
    pub(crate) session_id: String,
    pub(crate) doc: u64,
    pub(crate) rev: u64,
    pub(crate) is_deleted: u8,
    pub(crate) day: u16,
    pub(crate) agent_id: String,
    pub(crate) kind: String,
    pub(crate) at_ms: i64,
    pub(crate) text: String,
}

/// Rows of snapshots, for one insert per table.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    pub(crate) sessions: Vec<SessionColumns>,
    pub(crate) trees: Vec<TreeColumns>,
    pub(crate) texts: Vec<TextColumns>,
}

impl Snapshots {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len() + self.trees.len() + self.texts.len()
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.sessions.append(&mut other.sessions);
        self.trees.append(&mut other.trees);
        self.texts.append(&mut other.texts);
    }

    /// Adds a snapshot that a user sent, of a rev up to `latest`. Tenant, user and team are those of the token's user, never
    /// those in the snapshot.
    ///
    /// # Errors
    /// Why it cannot be stored.
    pub fn add(&mut self, snapshot: Snapshot, by: &Identity, latest: u64) -> Result<(), &'static str> {
        if &*snapshot.schema != SNAPSHOT_SCHEMA {
            return Err("its schema is not subscope.team/1");
        }
        let day = parse_day(&snapshot.day).ok_or("its day is none")?;
        if snapshot.rev == 0 {
            return Err("its rev is 0");
        }
        if snapshot.rev > latest {
            return Err("its field rev is a time more than a day ahead of the server's clock: \
                 set the clock of the machine that sent it");
        }
        if snapshot.row.id.is_empty() || snapshot.row.id.len() > MAX_NAME_CHARS {
            return Err("its session has no id, or one that is too long");
        }
        let body = match (&snapshot.tree, snapshot.deleted) {
            (Some(tree), false) if tree.session.id != snapshot.row.id => {
                return Err("its row and its tree name different sessions");
            }
            (Some(tree), false) => serde_json::to_string(tree).map_err(|_| "its tree cannot be written")?,
            (_, true) => String::new(),
            (None, false) => return Err("it has no tree"),
        };
        let (tenant, session_id) = (by.tenant.as_str().to_owned(), snapshot.row.id.to_string());
        let (rev, is_deleted) = (snapshot.rev, u8::from(snapshot.deleted));
        for text in &snapshot.texts {
            self.texts.push(TextColumns {
                tenant: tenant.clone(),
                session_id: session_id.clone(),
                doc: text.doc,
                rev,
                is_deleted: u8::from(text.deleted || snapshot.deleted),
                day,
                agent_id: text.agent_id.to_string(),
                kind: text.kind.to_string(),
                at_ms: text.at_ms.unwrap_or(0),
                text: text.text.to_string(),
            });
        }
        self.trees.push(TreeColumns {
            tenant: tenant.clone(),
            session_id: session_id.clone(),
            rev,
            is_deleted,
            day,
            body,
        });
        let mut row =
            SessionColumns { tenant, session_id, rev, is_deleted, day, ..SessionColumns::default() };
        row.fill(&snapshot, by)?;
        self.sessions.push(row);
        Ok(())
    }

    /// Leaves a session out.
    pub(crate) fn drop_session(&mut self, session: &SessionId) {
        self.sessions.retain(|row| row.session_id != **session);
        self.trees.retain(|row| row.session_id != **session);
        self.texts.retain(|row| row.session_id != **session);
    }

    /// Adds the row that removes a session, from its key, day and rev.
    pub(crate) fn add_tombstone(&mut self, of: &Identity, session: &SessionId, day: u16, rev: u64) {
        let (tenant, session_id) = (of.tenant.as_str().to_owned(), session.to_string());
        let user = of.user.clone();
        self.trees.push(TreeColumns {
            tenant: tenant.clone(),
            session_id: session_id.clone(),
            rev,
            is_deleted: 1,
            day,
            body: String::new(),
        });
        let row =
            SessionColumns { tenant, session_id, rev, is_deleted: 1, day, user, ..SessionColumns::default() };
        self.sessions.push(row);
    }
}

impl SessionColumns {
    fn fill(&mut self, snapshot: &Snapshot, by: &Identity) -> Result<(), &'static str> {
        let name = |name: &str| name.chars().take(MAX_NAME_CHARS).collect::<String>();
        let row = &snapshot.row;
        self.machine = name(&snapshot.machine);
        self.user.clone_from(&by.user);
        self.team.clone_from(&by.team);
        self.project = name(snapshot.project.as_deref().unwrap_or_default());
        self.harness = row.harness.as_deref().unwrap_or_default().to_owned();
        self.title = row.title.as_deref().unwrap_or_default().to_owned();
        self.status = status_name(row.status).to_owned();
        self.started_at_ms = row.started_at_ms.unwrap_or(0);
        self.last_event_at_ms = row.last_event_at_ms.unwrap_or(0);
        self.committed_at_ms = row.kept_at_ms.unwrap_or(0);
        (self.runs, self.agents, self.running, self.failed) = (row.runs, row.agents, row.running, row.failed);
        self.tool_calls = row.tool_calls;
        let usage = row.usage.unwrap_or_default();
        [self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens] =
            usage.kinds();
        self.usage_floor = u8::from(usage.floor);
        self.cost_micro_usd = row.cost_micro_usd.unwrap_or(0);
        self.level = snapshot.level.as_str().to_owned();
        self.row = serde_json::to_string(row).map_err(|_| "its row cannot be written")?;
        if let Some(tree) = snapshot.tree.as_ref().filter(|_| !snapshot.deleted) {
            // One that this server does not know is no reason to refuse the session.
            let zone = snapshot.time_zone.as_deref().and_then(Zone::named).unwrap_or_default();
            self.fill_from_tree(tree, &zone);
            let working = working(tree);
            if !working.is_empty() {
                self.working = serde_json::to_string(&working).map_err(|_| "its agents cannot be written")?;
            }
        }
        Ok(())
    }

    /// Counts the agents and calls of a tree, on the days of a zone.
    fn fill_from_tree(&mut self, tree: &Tree, zone: &Zone) {
        self.harness_version = tree.session.harness_version.as_deref().unwrap_or_default().to_owned();
        self.tool_errors = tree.summary.tool_errors;
        self.tools_denied = tree.summary.tools_denied;
        self.cost_floor = u8::from(tree.summary.cost_floor);
        // Where the session's own cost is exact, what it has of no price is in the cost of another element.
        let is_exact = tree.summary.cost_micro_usd.is_some() && !tree.summary.cost_floor;
        for figures in agent_figures(tree, zone) {
            let row = &figures.row;
            let [input, output, cache_read, cache_write] = row.usage.kinds();
            self.model_day.push(date_of(figures.day));
            self.model_type.push(figures.agent_type);
            self.model_name.push(figures.model);
            self.model_agents.push(clamp(row.agents));
            self.model_calls.push(clamp(row.tool_calls));
            self.model_errors.push(clamp(row.tool_errors));
            self.model_denied.push(clamp(row.tools_denied));
            self.model_busy_ms.push(row.busy_ms);
            self.model_input.push(input);
            self.model_output.push(output);
            self.model_cache_read.push(cache_read);
            self.model_cache_write.push(cache_write);
            self.model_floor.push(
                u8::from(row.usage.floor) * TOKENS_FLOOR
                    + u8::from(row.cost_floor) * COST_FLOOR
                    + u8::from(row.cost_floor && !is_exact) * SESSION_COST_FLOOR,
            );
            self.model_cost.push(figures.cost_micro_usd);
        }
        for (day, row) in tool_figures(tree, zone) {
            self.tool_day.push(date_of(day));
            self.tool_name.push(row.name.to_string());
            self.tool_calls_of.push(clamp(row.tool_calls));
            self.tool_errors_of.push(clamp(row.tool_errors));
            self.tool_denied_of.push(clamp(row.tools_denied));
            self.tool_busy_ms.push(row.busy_ms);
        }
        for agent in tree.agents.iter().filter(|agent| !agent.id.is_root()) {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            self.agent_ids.push(agent.id.to_string());
            self.agent_spawns.push(text(agent.spawned_by.as_deref()));
            self.agent_types.push(text(agent.agent_type.as_deref()));
            self.agent_descriptions.push(text(agent.description.as_deref()));
        }
    }
}

/// Returns the agents at work of a session without what they were asked and have done: those that wait for a person
/// first, then those that are stalled, then those that began something last.
fn working(tree: &Tree) -> Vec<Agent> {
    let mut agents: Vec<&Agent> = tree.agents.iter().filter(|agent| agent.is_at_work()).collect();
    agents.sort_by_cached_key(|agent| {
        let live = agent.liveness.as_ref();
        let waits = live.is_some_and(|live| live.kind == LivenessKind::Children);
        let since: Millis = live.and_then(|live| live.since_ms).or(agent.started_at_ms).unwrap_or(0);
        (!agent.waits_for_person(), !agent.has(Flag::Stalled), waits, std::cmp::Reverse(since))
    });
    let brief = |agent: &&Agent| Agent {
        tools: agent.tools.iter().filter(|call| call.status == ToolStatus::Open).cloned().collect(),
        intervals: Vec::new(),
        prompt: None,
        result: None,
        error: None,
        ..(*agent).clone()
    };
    agents.iter().take(MAX_WORKING).map(brief).collect()
}

pub(crate) fn status_name(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Live => "live",
        SessionStatus::Ended => "ended",
    }
}

fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns a day since 1970 as `Date`, the nearest that it can hold.
fn date_of(day: i64) -> u16 {
    u16::try_from(day.max(0)).unwrap_or(u16::MAX)
}

/// Parses `2026-11-21` to days since 1970; `None` if it is no date, or one of no session.
pub(crate) fn parse_day(text: &str) -> Option<u16> {
    let midnight = subscope_model::parse_rfc3339(&format!("{text}T00:00:00Z"))?;
    let day = midnight.div_euclid(86_400_000);
    // A day that no month has is read as one of the next.
    Some(day).filter(|day| DAYS.contains(day)).map(date_of).filter(|day| day_name(*day) == text)
}

/// Returns a day since 1970 as `2026-11-21`.
pub(crate) fn day_name(day: u16) -> String {
    subscope_model::iso8601(i64::from(day) * 86_400_000).chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates_of_sessions() {
        assert_eq!(parse_day("2026-11-22"), Some(20_779));
        assert_eq!(day_name(20_779), "2026-11-22");
        for wrong in
            ["", "2026-11-31", "1970-01-01", "9999-01-01", "2026-11-22T00:00:00Z", "yesterday", "2026-1-2"]
        {
            assert_eq!(parse_day(wrong), None, "{wrong}");
        }
    }
}
