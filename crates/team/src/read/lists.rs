//! Lists of sessions.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{
    Agent, Millis, SessionId, SessionOrder, SessionRow, Text, WORKING_SCHEMA, WorkingSession, WorkingSessions,
};
use subscope_store::{ListQuery, StoreResult};

use super::Reader;
use crate::{
    engine::{BoundValue, EngineError, TenantQuery, TenantTable, Versions},
    rows::day_name,
};

/// Keys that are read for a page of so many rows, times this, since some are of rows that were replaced.
const FACTOR: usize = 2;
/// Most keys of a query: a page is at most 1,000 rows, but a store's own suite asks for all.
const MAX_KEYS: usize = 100_000;
/// Keys whose rows are read at once: bounds the length of a query.
const ROWS_AT_ONCE: usize = 2_000;

/// Most sessions at work of an answer.
const MAX_WORKING_SESSIONS: usize = 1_000;

#[derive(Row, Deserialize)]
struct SessionDay {
    session_id: String,
    day: u16,
}

#[derive(Row, Deserialize)]
struct ListedRow {
    row: String,
    machine: String,
    user: String,
    team: String,
    project: String,
    working: String,
    tool_errors: u32,
    tools_denied: u32,
}

const COLUMNS: &str = "row, machine, user, team, project, working, tool_errors, tools_denied";

/// Returns [`SessionOrder::figure`] as an expression.
fn figure(order: SessionOrder) -> &'static str {
    match order {
        SessionOrder::Newest => "last_event_at_ms",
        SessionOrder::Cost => "ifNull(JSONExtract(row, 'cost_micro_usd', 'Nullable(Int64)'), -1)",
        SessionOrder::Tokens => "ifNull(JSONExtract(row, 'usage', 'total_tokens', 'Nullable(Int64)'), -1)",
        SessionOrder::Duration => {
            "ifNull(JSONExtract(row, 'last_event_at_ms', 'Nullable(Int64)') \
             - JSONExtract(row, 'started_at_ms', 'Nullable(Int64)'), -1)"
        }
        SessionOrder::Agents => "toInt64(agents)",
        SessionOrder::Calls => "toInt64(tool_calls)",
        SessionOrder::Errors => "toInt64(tool_errors)",
        SessionOrder::Denied => "toInt64(tools_denied)",
    }
}

impl ListedRow {
    /// Returns the row; `None` if a later version of the program wrote it.
    fn parsed(self) -> Option<WorkingSession> {
        let row: SessionRow = serde_json::from_str(&self.row).ok()?;
        let name = |name: String| (!name.is_empty()).then(|| Text::from(name));
        let Self { machine, user, team, project, working, tool_errors, tools_denied, .. } = self;
        let (machine, user, team, project) = (name(machine), name(user), name(team), name(project));
        let working: Vec<Agent> = serde_json::from_str(&working).unwrap_or_default();
        // Rows of earlier versions do not count them.
        let (tool_errors, tools_denied) = (Some(tool_errors), Some(tools_denied));
        let row = SessionRow { machine, user, team, project, tool_errors, tools_denied, ..row };
        Some(WorkingSession { row, working })
    }
}

/// Adds the condition that a session's project has a name or lies below it.
pub(super) fn of_project(select: TenantQuery, project: &str) -> TenantQuery {
    let project = BoundValue::Text(project.to_owned());
    select.matching("project = ? OR startsWith(project, concat(?, '/'))", "String", project)
}

impl Reader {
    /// Returns a page.
    pub(super) async fn page(&self, query: &ListQuery) -> StoreResult<Vec<SessionRow>> {
        Ok(self.listed(query).await?.into_iter().map(|found| found.row).collect())
    }

    /// Returns the sessions at work that were saved since a time.
    pub(super) async fn at_work(&self, since: Millis) -> StoreResult<WorkingSessions> {
        let query = ListQuery { kept_since: Some(since), ..ListQuery::live(MAX_WORKING_SESSIONS + 1) };
        let mut sessions = self.listed(&query).await?;
        let has_more = sessions.len() > MAX_WORKING_SESSIONS;
        sessions.truncate(MAX_WORKING_SESSIONS);
        Ok(WorkingSessions { schema: WORKING_SCHEMA.into(), sessions, has_more })
    }

    /// Returns a page with the agents at work. First the keys in order; for the newest without `FINAL`: a session's newest row
    /// comes first, since a newer rev never ends earlier. Then their rows with the same conditions, which only the newest
    /// ones pass.
    async fn listed(&self, query: &ListQuery) -> StoreResult<Vec<WorkingSession>> {
        let mut wanted = query.limit.saturating_mul(FACTOR).saturating_add(20).min(MAX_KEYS);
        let versions = match query.order {
            SessionOrder::Newest => Versions::All,
            SessionOrder::Cost
            | SessionOrder::Tokens
            | SessionOrder::Duration
            | SessionOrder::Agents
            | SessionOrder::Calls
            | SessionOrder::Errors
            | SessionOrder::Denied => Versions::Newest,
        };
        loop {
            let select = self
                .conditions(query, TenantQuery::new("session_id, day", TenantTable::Sessions, versions))
                .when("is_deleted = 0")
                .tail(format!("ORDER BY {} DESC, session_id LIMIT {wanted}", figure(query.order)));
            let keys: Vec<SessionDay> = self.scoped.rows(select).await?;
            let rows = self.rows_of(&keys, query).await?;
            if rows.len() >= query.limit || keys.len() < wanted || wanted == MAX_KEYS {
                return Ok(rows.into_iter().take(query.limit).collect());
            }
            wanted = wanted.saturating_mul(4).min(MAX_KEYS);
        }
    }

    async fn rows_of(
        &self,
        keys: &[SessionDay],
        query: &ListQuery,
    ) -> Result<Vec<WorkingSession>, EngineError> {
        let mut days: HashMap<&str, u16> = HashMap::new();
        for key in keys {
            days.insert(&key.session_id, key.day);
        }
        let mut days: Vec<(&str, u16)> = days.into_iter().collect();
        days.sort_unstable();
        let mut all = Vec::new();
        for some in days.chunks(ROWS_AT_ONCE) {
            let mut of: Vec<String> = some.iter().map(|(_, day)| day_name(*day)).collect();
            of.sort_unstable();
            of.dedup();
            let ids = some.iter().map(|(id, _)| (*id).to_owned()).collect();
            // The days select the weeks to query.
            let select = TenantQuery::new(COLUMNS, TenantTable::Sessions, Versions::Newest)
                .matching("day IN ?", "Array(Date)", BoundValue::Texts(of))
                .matching("session_id IN ?", "Array(String)", BoundValue::Texts(ids));
            let rows: Vec<ListedRow> = self.scoped.rows(self.conditions(query, select)).await?;
            all.extend(rows.into_iter().filter_map(ListedRow::parsed));
        }
        all.sort_by_cached_key(|found: &WorkingSession| query.order.place(&found.row));
        Ok(all)
    }

    fn conditions(&self, query: &ListQuery, select: TenantQuery) -> TenantQuery {
        let mut select = self.filter.add_to(select);
        if let Some((last, id)) = &query.after {
            let figure = figure(query.order);
            select = select
                .matching(&format!("{figure} <= ?"), "Int64", BoundValue::Number(*last))
                .matching(&format!("{figure} < ?"), "Int64", BoundValue::Number(*last))
                .matching("session_id > ?", "String", BoundValue::Text(id.to_string()))
                .either(2);
        }
        if query.only_live {
            select = select.when("status = 'live'");
        }
        if let Some(since) = query.kept_since {
            select = select.matching("committed_at_ms >= ?", "Int64", BoundValue::Number(since));
        }
        if query.hides_own {
            select = select.when("NOT JSONExtractBool(row, 'is_own')");
        }
        if let Some(project) = &query.project {
            select = of_project(select, project);
        }
        if let Some(since) = query.since {
            select = select.matching("last_event_at_ms >= ?", "Int64", BoundValue::Number(since));
        }
        if let Some(until) = query.until {
            select = select.matching(
                "JSONExtract(row, 'started_at_ms', 'Nullable(Int64)') < ?",
                "Int64",
                BoundValue::Number(until),
            );
        }
        for word in query.words.split_whitespace() {
            select = match word {
                SessionRow::WITH_OWN => select,
                SessionRow::FAILED => select.when("failed > 0 OR JSONExtractString(row, 'root') = 'failed'"),
                SessionRow::DENIED => select.when("tools_denied > 0"),
                _ => match word.strip_prefix(SessionRow::HARNESS) {
                    Some(name) => select.matching("harness = ?", "String", BoundValue::Text(name.to_owned())),
                    None => select.matching(
                        "position(lowerUTF8(concatWithSeparator('\\n', title, project, user, session_id, harness)), ?) > 0",
                        "String",
                        BoundValue::Text(word.to_lowercase()),
                    ),
                },
            };
        }
        select
    }

    pub(super) async fn row(&self, session: &SessionId) -> StoreResult<Option<SessionRow>> {
        let select = TenantQuery::new(format!("{COLUMNS}, is_deleted"), TenantTable::Sessions, Versions::All)
            .matching("session_id = ?", "String", BoundValue::Text(session.to_string()))
            .tail("ORDER BY rev DESC LIMIT 1");
        #[derive(Row, Deserialize)]
        struct NewestRow {
            row: String,
            machine: String,
            user: String,
            team: String,
            project: String,
            working: String,
            tool_errors: u32,
            tools_denied: u32,
            is_deleted: u8,
        }
        let found: Option<NewestRow> = self.scoped.first(select).await?;
        let Some(found) = found.filter(|found| found.is_deleted == 0) else { return Ok(None) };
        let NewestRow { row, machine, user, team, project, working, tool_errors, tools_denied, .. } = found;
        let listed = ListedRow { row, machine, user, team, project, working, tool_errors, tools_denied };
        Ok(listed.parsed().map(|found| found.row))
    }

    pub(super) async fn named(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, EngineError> {
        #[derive(Row, Deserialize)]
        struct IdColumn {
            session_id: String,
        }
        let select = TenantQuery::new("session_id", TenantTable::Sessions, Versions::Newest)
            .matching("startsWith(session_id, ?)", "String", BoundValue::Text(prefix.to_owned()))
            .tail(format!("ORDER BY last_event_at_ms DESC, session_id LIMIT {limit}"));
        let rows: Vec<IdColumn> = self.scoped.rows(select).await?;
        Ok(rows.into_iter().map(|row| SessionId(row.session_id.into())).collect())
    }
}
