//! Queries over one tenant's rows. [`Reader`] answers the questions of [`Queries`], and those of [`SessionQueries`], which
//! the stores of a machine answer too.

mod agents;
mod lists;
mod people;
mod search;
mod stats;

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{
    AgentId, AgentName, GroupQuery, Groups, Hits, IdMatches, Looks, Millis, People, SearchQuery, SessionId,
    SessionPage, SessionRow, Stats, StatsQuery, Tree, WorkingSessions,
};
use subscope_query::{ListQuery, Queries, QueryError, QueryResult};
use subscope_store::{SessionQueries, StoreError, StoreResult};
use tokio::runtime::Handle;

use crate::{
    engine::{BoundValue, Engine, EngineError, Scoped, TenantQuery, TenantTable, Versions},
    tokens::Tenant,
};

/// Which sessions of a tenant are meant; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct TeamFilter {
    /// Only sessions of this project.
    pub project: Option<String>,
    /// Only sessions of this user.
    pub user: Option<String>,
    /// Only sessions of this team's users.
    pub team: Option<String>,
    /// Only sessions of this machine.
    pub machine: Option<String>,
    /// Only this session; an empty id selects none.
    pub session: Option<String>,
    /// Only sessions that are `live` or `ended`.
    pub status: Option<String>,
    /// Only sessions that began on this day (UTC), such as 2026-11-21.
    pub day: Option<String>,
}

impl TeamFilter {
    /// Adds its conditions to a query over sessions.
    fn add_to(&self, mut select: TenantQuery) -> TenantQuery {
        let columns = [
            ("project = ?", &self.project),
            ("user = ?", &self.user),
            ("team = ?", &self.team),
            ("machine = ?", &self.machine),
            ("session_id = ?", &self.session),
            ("status = ?", &self.status),
            // A day that is none matches nothing, and is no error.
            ("day = toDateOrZero(?)", &self.day),
        ];
        for (condition, value) in columns {
            if let Some(value) = value {
                select = select.matching(condition, "String", BoundValue::Text(value.clone()));
            }
        }
        select
    }
}

/// The read side of one tenant's store. Its methods block: call them outside of the runtime's own threads.
pub struct Reader {
    scoped: Scoped,
    filter: TeamFilter,
    runtime: Handle,
}

/// What is stored of a session under one day.
#[derive(Debug)]
pub(crate) struct StoredSession {
    pub(crate) user: String,
    pub(crate) day: u16,
    pub(crate) rev: u64,
    /// Number of its passages.
    pub(crate) texts: u64,
}

/// A column of one text.
#[derive(Row, Deserialize)]
struct TreeBody {
    body: String,
    is_deleted: u8,
}

impl Reader {
    /// Returns the reader of a tenant's sessions. `runtime` does the waiting.
    pub fn new(engine: &Engine, tenant: &Tenant, filter: TeamFilter, runtime: Handle) -> Self {
        Self { scoped: engine.scoped(tenant), filter, runtime }
    }

    /// Returns sums by some dimensions.
    ///
    /// # Errors
    /// If ClickHouse does not answer.
    pub fn groups(&self, query: &GroupQuery) -> StoreResult<Groups> {
        Ok(self.runtime.block_on(self.sums(query))?)
    }

    /// Returns the sessions at work that their machines have saved since a time, the newest event first.
    ///
    /// # Errors
    /// If ClickHouse does not answer.
    pub fn working(&self, since: Millis) -> StoreResult<WorkingSessions> {
        self.runtime.block_on(self.at_work(since))
    }

    /// Returns users with their machines, and sums over days (`2026-11-01`) of what each of them ran. A session is at work
    /// if its machine has saved it since `working_since`.
    ///
    /// # Errors
    /// If ClickHouse does not answer.
    pub fn people(
        &self,
        from: Option<String>,
        to: Option<String>,
        working_since: Millis,
    ) -> StoreResult<People> {
        Ok(self.runtime.block_on(self.users(from, to, working_since))?)
    }

    /// Returns each machine with the time at which its newest session was saved there.
    ///
    /// # Errors
    /// If ClickHouse does not answer.
    pub(crate) fn machines(&self) -> StoreResult<Vec<(String, i64)>> {
        #[derive(Row, Deserialize)]
        struct MachineAge {
            machine: String,
            last: i64,
        }
        let select =
            TenantQuery::new("machine, max(committed_at_ms) AS last", TenantTable::Sessions, Versions::All)
                .when("is_deleted = 0")
                .tail("GROUP BY machine ORDER BY machine LIMIT 10000");
        let rows: Vec<MachineAge> = self.runtime.block_on(self.scoped.rows(select))?;
        Ok(rows.into_iter().map(|row| (row.machine, row.last)).collect())
    }

    /// Returns the sessions of a user with their days and revs, deleted ones left out.
    pub(crate) fn sessions_of(&self, user: &str) -> StoreResult<Vec<(SessionId, u16, u64)>> {
        #[derive(Row, Deserialize)]
        struct UserSession {
            session_id: String,
            day: u16,
            rev: u64,
        }
        let select = TenantQuery::new("session_id, day, rev", TenantTable::Sessions, Versions::Newest)
            .matching("user = ?", "String", BoundValue::Text(user.to_owned()))
            .tail("ORDER BY session_id");
        let rows: Vec<UserSession> = self.runtime.block_on(self.scoped.rows(select))?;
        Ok(rows.into_iter().map(|row| (SessionId(row.session_id.into()), row.day, row.rev)).collect())
    }

    /// Returns the rows of these sessions, one for each day under which they are stored; sessions that are unknown or
    /// deleted are left out.
    pub(crate) fn stored(
        &self,
        sessions: &[SessionId],
    ) -> StoreResult<HashMap<SessionId, Vec<StoredSession>>> {
        #[derive(Row, Deserialize)]
        struct SessionHead {
            session_id: String,
            user: String,
            day: u16,
            rev: u64,
        }
        #[derive(Row, Deserialize)]
        struct TextCount {
            session_id: String,
            count: u64,
        }
        let ids: Vec<String> = sessions.iter().map(ToString::to_string).collect();
        let of_these = |select: TenantQuery| {
            select.matching("session_id IN ?", "Array(String)", BoundValue::Texts(ids.clone()))
        };
        let columns = "session_id, user, day, rev";
        let select = of_these(TenantQuery::new(columns, TenantTable::Sessions, Versions::Newest));
        let heads: Vec<SessionHead> = self.runtime.block_on(self.scoped.rows(select))?;
        let columns = "session_id, count() AS count";
        let select = of_these(TenantQuery::new(columns, TenantTable::Texts, Versions::Newest));
        let counts: Vec<TextCount> =
            self.runtime.block_on(self.scoped.rows(select.tail("GROUP BY session_id")))?;
        let counts: HashMap<String, u64> =
            counts.into_iter().map(|row| (row.session_id, row.count)).collect();
        let mut stored: HashMap<SessionId, Vec<StoredSession>> = HashMap::new();
        for SessionHead { session_id, user, day, rev } in heads {
            let texts = counts.get(&session_id).copied().unwrap_or(0);
            let row = StoredSession { user, day, rev, texts };
            stored.entry(SessionId(session_id.into())).or_default().push(row);
        }
        Ok(stored)
    }

    /// Deletes trees and passages of sessions at once.
    pub(crate) fn delete_bodies(&self, sessions: &[SessionId]) -> StoreResult<()> {
        self.delete_from(&[TenantTable::Texts, TenantTable::Trees], sessions)
    }

    /// Deletes all rows of sessions at once, whatever their revs.
    pub(crate) fn delete_rows(&self, sessions: &[SessionId]) -> StoreResult<()> {
        self.delete_from(&[TenantTable::Sessions, TenantTable::Texts, TenantTable::Trees], sessions)
    }

    fn delete_from(&self, tables: &[TenantTable], sessions: &[SessionId]) -> StoreResult<()> {
        let ids: Vec<String> = sessions.iter().map(ToString::to_string).collect();
        for ids in ids.chunks(1000) {
            for table in tables {
                self.runtime.block_on(self.scoped.delete(*table, ids))?;
            }
        }
        Ok(())
    }

    async fn find_tree(&self, session: &SessionId) -> Result<Option<String>, EngineError> {
        // The newest row of the key: without FINAL, which would read all parts.
        let select = TenantQuery::new("body, is_deleted", TenantTable::Trees, Versions::All)
            .matching("session_id = ?", "String", BoundValue::Text(session.to_string()))
            .tail("ORDER BY rev DESC LIMIT 1");
        let found: Option<TreeBody> = self.scoped.first(select).await?;
        Ok(found.filter(|found| found.is_deleted == 0).map(|found| found.body))
    }
}

impl SessionQueries for Reader {
    fn list(&self, query: &ListQuery) -> StoreResult<Vec<SessionRow>> {
        self.runtime.block_on(self.page(query))
    }

    fn session_row(&self, session: &SessionId) -> StoreResult<Option<SessionRow>> {
        self.runtime.block_on(self.row(session))
    }

    fn tree(&self, session: &SessionId) -> StoreResult<Option<Tree>> {
        let body = self.runtime.block_on(self.find_tree(session))?;
        Ok(body.map(|body| serde_json::from_str(&body)).transpose()?)
    }

    fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<SessionId>> {
        Ok(self.runtime.block_on(self.named(prefix, limit))?)
    }

    fn agents_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<(SessionId, AgentId)>> {
        Ok(self.runtime.block_on(self.agents(prefix, limit))?)
    }

    fn agents_with_words(&self, words: &str, limit: usize) -> StoreResult<Vec<AgentName>> {
        Ok(self.runtime.block_on(Self::agents_with_words(self, words, limit))?)
    }

    fn stats(&self, query: &StatsQuery) -> StoreResult<Stats> {
        self.runtime.block_on(self.statistics(query))
    }
}

impl Queries for Reader {
    fn sessions(&mut self, query: &ListQuery) -> QueryResult<SessionPage> {
        Ok(query.page(|query| self.list(query))?)
    }

    fn tree(&mut self, session: &SessionId) -> QueryResult<Option<Tree>> {
        Ok(SessionQueries::tree(self, session)?)
    }

    fn names(&mut self, prefix: &str, limit: usize) -> QueryResult<IdMatches> {
        let agents = self.agents_with_prefix(prefix, limit)?;
        Ok(IdMatches::of(self.sessions_with_prefix(prefix, limit)?, agents))
    }

    fn agents_with_words(&mut self, words: &str, limit: usize) -> QueryResult<IdMatches> {
        Ok(IdMatches::of_agents(SessionQueries::agents_with_words(self, words, limit)?))
    }

    fn looks(&mut self) -> QueryResult<Looks> {
        Err(QueryError::Unsupported("a team's server does not keep what its readers have seen"))
    }

    fn stats(&mut self, query: &StatsQuery) -> QueryResult<Stats> {
        Ok(SessionQueries::stats(self, query)?)
    }

    fn search(&mut self, query: &SearchQuery) -> QueryResult<Hits> {
        if query.tool.is_some() || query.only_failed {
            return Err(QueryError::Unsupported(
                "tool and failed are known on the machine of a session only",
            ));
        }
        Ok(self.runtime.block_on(self.find(query)).map_err(StoreError::from)?)
    }
}
