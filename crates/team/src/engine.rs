//! Connection to ClickHouse over its HTTP interface.

use std::time::Duration;

use clickhouse::{Client, Row, RowOwned, RowRead, query::Query};
use serde::Serialize;
use subscope_store::StoreError;

use crate::tokens::Tenant;

/// Timeout of a query, in seconds, that ClickHouse itself keeps.
const MAX_QUERY_SECONDS: &str = "30";
/// Time after which a query without an answer has failed.
const QUERY_TIMEOUT: Duration = Duration::from_secs(35);

/// Error of ClickHouse, or of the way to it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The URL is invalid or has another protocol.
    #[error("{0:?} is no address of ClickHouse: http(s)://user:password@host:8123/database")]
    Address(String),
    /// It does not answer, or refuses the query.
    #[error("ClickHouse does not answer as it should")]
    Failed(#[source] clickhouse::error::Error),
    /// It did not answer in time.
    #[error("ClickHouse did not answer within {} s", QUERY_TIMEOUT.as_secs())]
    TimedOut,
}

impl From<clickhouse::error::Error> for EngineError {
    fn from(error: clickhouse::error::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        Self::Storage(Box::new(error))
    }
}

/// A ClickHouse server, or a load balancer of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) client: Client,
    pub(crate) database: String,
}

impl std::fmt::Debug for Engine {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.database)
    }
}

impl Engine {
    /// Returns the server at a URL `http(s)://user:password@host:8123/database`; `password` is used if the URL has
    /// none. Does not connect.
    ///
    /// # Errors
    /// [`EngineError::Address`].
    pub fn new(url: &str, password: Option<&str>) -> Result<Self, EngineError> {
        // Without user and password: the message is printed.
        let wrong = || EngineError::Address(url.rsplit('@').next().unwrap_or_default().to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        if !matches!(scheme, "http" | "https") {
            return Err(wrong());
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let database = path.trim_end_matches('/');
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if host.is_empty() || !is_name(database) {
            return Err(wrong());
        }
        let (user, own_password) = login.split_once(':').unwrap_or((login, ""));
        let decoded = |text: &str| percent_decoded(text).ok_or_else(wrong);
        let mut client = Client::default()
            .with_url(format!("{scheme}://{host}"))
            .with_product_info("subscope", env!("CARGO_PKG_VERSION"));
        if !user.is_empty() {
            client = client.with_user(decoded(user)?);
        }
        match (own_password, password) {
            ("", Some(password)) => client = client.with_password(password),
            ("", None) => {}
            (own, _) => client = client.with_password(decoded(own)?),
        }
        let database = if database.is_empty() { "subscope" } else { database };
        Ok(Self { client, database: database.to_owned() })
    }

    /// Client whose tables are those of the database.
    pub(crate) fn in_database(&self) -> Client {
        self.client.clone().with_database(&self.database)
    }

    /// Runs a statement that returns nothing.
    pub(crate) async fn execute(&self, query: Query) -> Result<(), EngineError> {
        within(query.execute()).await
    }

    /// Whether ClickHouse answers.
    ///
    /// # Errors
    /// If it does not.
    pub async fn ping(&self) -> Result<(), EngineError> {
        within(self.client.query("SELECT 1").fetch_one::<u8>()).await.map(|_| ())
    }

    /// Checks that ClickHouse answers and has the tables.
    ///
    /// # Errors
    /// If it does not answer, or lacks the tables.
    pub(crate) async fn is_ready(&self) -> Result<(), EngineError> {
        let query = self.in_database().query("SELECT 1 FROM sessions WHERE 0");
        within(query.fetch_optional::<u8>()).await.map(|_| ())
    }

    /// Returns a view of one tenant's rows: the only way to read them.
    pub(crate) fn scoped(&self, tenant: &Tenant) -> Scoped {
        Scoped { client: self.in_database(), tenant: tenant.clone() }
    }
}

async fn within<T>(
    query: impl Future<Output = Result<T, clickhouse::error::Error>>,
) -> Result<T, EngineError> {
    tokio::time::timeout(QUERY_TIMEOUT, query).await.map_err(|_| EngineError::TimedOut)?.map_err(Into::into)
}

/// Decodes `%41`; `None` if the result is no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A table with rows of tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TenantTable {
    Sessions,
    Trees,
    Texts,
}

impl TenantTable {
    fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Trees => "trees",
            Self::Texts => "texts",
        }
    }
}

/// Whether rows that were replaced are left out (`FINAL`), which reads more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Only the newest row of each key, and no deleted one.
    Newest,
    /// All stored rows.
    All,
}

/// A value bound to a placeholder; no text of a request becomes part of a query otherwise.
#[derive(Clone, Debug)]
pub(crate) enum BoundValue {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
}

/// A query over one table. Its parts are constants of this crate and numbers of placeholders; values are bound.
#[derive(Clone, Debug)]
pub(crate) struct TenantQuery {
    columns: String,
    table: TenantTable,
    versions: Versions,
    join: String,
    conditions: Vec<String>,
    tail: String,
    values: Vec<(String, BoundValue)>,
}

impl TenantQuery {
    pub(crate) fn new(columns: impl Into<String>, table: TenantTable, versions: Versions) -> Self {
        Self {
            columns: columns.into(),
            table,
            versions,
            join: String::new(),
            conditions: Vec::new(),
            tail: String::new(),
            values: Vec::new(),
        }
    }

    /// Adds an `ARRAY JOIN`.
    pub(crate) fn join(mut self, join: impl Into<String>) -> Self {
        self.join = join.into();
        self
    }

    /// Binds a value that other parts name as `{name:type}`.
    pub(crate) fn bind(mut self, name: &str, value: BoundValue) -> Self {
        self.values.push((name.to_owned(), value));
        self
    }

    /// Adds a condition without a value.
    pub(crate) fn when(mut self, condition: &str) -> Self {
        self.conditions.push(condition.to_owned());
        self
    }

    /// Adds a condition on a value; each `?` in it is replaced by the placeholder `{name:type}`.
    pub(crate) fn matching(mut self, condition: &str, of_type: &str, value: BoundValue) -> Self {
        let name = format!("p{}", self.values.len());
        self.conditions.push(condition.replace('?', &format!("{{{name}:{of_type}}}")));
        self.values.push((name, value));
        self
    }

    /// Makes one condition of the last `count`, of which one must hold.
    pub(crate) fn either(mut self, count: usize) -> Self {
        let from = self.conditions.len().saturating_sub(count);
        let some = self.conditions.split_off(from);
        self.conditions.push(some.join(" OR "));
        self
    }

    /// Adds what follows the conditions: grouping, order, limit.
    pub(crate) fn tail(mut self, tail: impl Into<String>) -> Self {
        self.tail = tail.into();
        self
    }

    fn sql(&self) -> String {
        let Self { columns, table, versions, join, conditions, tail, .. } = self;
        let (table, newest) = (table.name(), if *versions == Versions::Newest { "FINAL" } else { "" });
        let conditions: String = conditions.iter().map(|one| format!(" AND ({one})")).collect();
        format!(
            "SELECT {columns} FROM {table} {newest} {join} WHERE tenant = {{tenant:String}}{conditions} {tail}"
        )
    }
}

/// One tenant's rows: adds the tenant to every query.
pub(crate) struct Scoped {
    client: Client,
    tenant: Tenant,
}

impl Scoped {
    fn query(&self, select: &TenantQuery) -> Query {
        // Weekly parts are independent of each other, since a session's day never changes.
        let mut query = self
            .client
            .query_raw(&select.sql())
            .with_setting("max_execution_time", MAX_QUERY_SECONDS)
            .param("tenant", self.tenant.as_str());
        if select.versions == Versions::Newest {
            query = query.with_setting("do_not_merge_across_partitions_select_final", "1");
        }
        for (name, value) in &select.values {
            query = match value {
                BoundValue::Text(text) => query.param(name, text),
                BoundValue::Texts(texts) => query.param(name, texts),
                BoundValue::Number(number) => query.param(name, number),
            };
        }
        query
    }

    /// Returns the rows of a query.
    pub(crate) async fn rows<T: RowOwned + RowRead>(
        &self,
        select: TenantQuery,
    ) -> Result<Vec<T>, EngineError> {
        within(self.query(&select).fetch_all()).await
    }

    /// Returns the first row of a query.
    pub(crate) async fn first<T: RowOwned + RowRead>(
        &self,
        select: TenantQuery,
    ) -> Result<Option<T>, EngineError> {
        within(self.query(&select).fetch_optional()).await
    }

    /// Deletes the rows of sessions at once.
    pub(crate) async fn delete(&self, table: TenantTable, sessions: &[String]) -> Result<(), EngineError> {
        let sql = format!(
            "DELETE FROM {} WHERE tenant = {{tenant:String}} AND session_id IN {{ids:Array(String)}}",
            table.name()
        );
        let query = self.client.query_raw(&sql).param("tenant", self.tenant.as_str()).param("ids", sessions);
        within(query.execute()).await
    }
}

/// Inserts rows into a table in one request. Nothing is inserted if there are none.
pub(crate) async fn insert<T>(client: &Client, table: &'static str, rows: &[T]) -> Result<(), EngineError>
where
    T: Row + Serialize + clickhouse::RowWrite,
    for<'a> T: Row<Value<'a> = T>,
{
    if rows.is_empty() {
        return Ok(());
    }
    let mut insert = client
        .insert::<T>(table)
        .await?
        .with_timeouts(Some(Duration::from_secs(30)), Some(Duration::from_secs(60)));
    for row in rows {
        insert.write(row).await?;
    }
    Ok(insert.end().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_passwords_are_not_shown() {
        let engine = Engine::new("http://me:p%40ss@host:8123/db", None).unwrap();
        assert_eq!(engine.database, "db");
        assert_eq!(Engine::new("https://host", Some("x")).unwrap().database, "subscope");
        for wrong in [
            "host:8123",
            "tcp://host:9000",
            "http://",
            "http://me:secret@/db",
            "http://h/a.b",
            "http://me:secret@h/a;b",
        ] {
            let error = Engine::new(wrong, None).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert_eq!(percent_decoded("a%2Fb").as_deref(), Some("a/b"));
        assert_eq!(percent_decoded("%zz"), None);
    }

    #[test]
    fn every_query_names_the_tenant_and_binds_its_values() {
        let hostile = "' OR 1=1 --";
        let select = TenantQuery::new("row", TenantTable::Sessions, Versions::Newest)
            .matching("session_id = ?", "String", BoundValue::Text(hostile.to_owned()))
            .tail("LIMIT 1");
        let sql = select.sql();
        assert_eq!(
            sql,
            "SELECT row FROM sessions FINAL  WHERE tenant = {tenant:String} AND (session_id = {p0:String}) LIMIT 1"
        );
        assert!(!sql.contains(hostile));
    }
}
