//! Tables: made or brought up to date when a server starts.

use subscope_program::Retention;

use crate::engine::{Engine, EngineError};

/// Schema version. A database with a later one is refused.
const VERSION: u32 = 1;

/// Oldest ClickHouse whose `ReplacingMergeTree` knows deleted rows.
const OLDEST: (u32, u32) = (23, 2);

/// Error of preparing the tables.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// ClickHouse failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Its version is too old.
    #[error("ClickHouse {0} is too old: 23.2 or later is needed")]
    TooOld(String),
    /// A later version of this program made the tables.
    #[error(
        "the tables have schema version {0}, this program knows {VERSION}: use its later version here too"
    )]
    Newer(u32),
    /// The cluster's name is none.
    #[error("{0:?} is no name of a cluster: letters, digits, - and _")]
    Cluster(String),
}

/// How the tables are made.
struct TableEngine<'c> {
    /// ` ON CLUSTER name`, or nothing.
    on_cluster: String,
    /// `Replicated`, or nothing.
    replicated: &'c str,
}

const SESSIONS: &str = "
    tenant LowCardinality(String), session_id String, rev UInt64, is_deleted UInt8, day Date,
    machine LowCardinality(String), user LowCardinality(String), team LowCardinality(String),
    project LowCardinality(String), harness LowCardinality(String), harness_version LowCardinality(String),
    title String, status LowCardinality(String),
    started_at_ms Int64, last_event_at_ms Int64, committed_at_ms Int64,
    runs UInt32, agents UInt32, running UInt32, failed UInt32, tool_calls UInt32, tool_errors UInt32,
    tools_denied UInt32,
    input_tokens UInt64, output_tokens UInt64, cache_read_tokens UInt64, cache_write_tokens UInt64,
    usage_floor UInt8, cost_micro_usd Int64, cost_floor UInt8,
    model_day Array(Date), model_type Array(LowCardinality(String)), model_name Array(LowCardinality(String)),
    model_agents Array(UInt32), model_calls Array(UInt32), model_errors Array(UInt32), model_denied Array(UInt32),
    model_busy_ms Array(UInt64), model_input Array(UInt64), model_output Array(UInt64),
    model_cache_read Array(UInt64), model_cache_write Array(UInt64), model_floor Array(UInt8),
    model_cost Array(Int64),
    tool_day Array(Date), tool_name Array(LowCardinality(String)), tool_calls_of Array(UInt32),
    tool_errors_of Array(UInt32), tool_denied_of Array(UInt32), tool_busy_ms Array(UInt64),
    agent_ids Array(String), agent_spawns Array(String), agent_types Array(LowCardinality(String)),
    agent_descriptions Array(String),
    row String CODEC(ZSTD(3)),
    level LowCardinality(String), working String CODEC(ZSTD(3)),
    INDEX agents_bf agent_ids TYPE bloom_filter(0.01) GRANULARITY 1";

/// Columns that tables made by an earlier build lack. Earlier servers leave them at their defaults.
const ADDED: &str = "ADD COLUMN IF NOT EXISTS level LowCardinality(String),
    ADD COLUMN IF NOT EXISTS working String CODEC(ZSTD(3))";

const TREES: &str = "
    tenant LowCardinality(String), session_id String, rev UInt64, is_deleted UInt8, day Date,
    body String CODEC(ZSTD(3))";

const TEXTS: &str = "
    tenant LowCardinality(String), session_id String, doc UInt64, rev UInt64, is_deleted UInt8, day Date,
    agent_id String, kind LowCardinality(String), at_ms Int64, text String CODEC(ZSTD(3))";

/// Index of words, and the one that servers without it have: both are asked for `lower(text)`.
const WORDS: &str = "INDEX words lower(text) TYPE text(tokenizer = 'splitByNonAlpha')";
const WORDS_BEFORE: &str = "INDEX words lower(text) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 1";

/// Makes or updates the tables in the engine's database, which is made too. `cluster` is the cluster on which to make
/// them replicated.
///
/// # Errors
/// [`TableError`].
pub async fn prepare(
    engine: &Engine,
    retention: Option<Retention>,
    cluster: Option<&str>,
) -> Result<(), TableError> {
    if let Some(name) = cluster
        && (name.is_empty()
            || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)))
    {
        return Err(TableError::Cluster(name.to_owned()));
    }
    let found: String =
        engine.client.query("SELECT version()").fetch_one().await.map_err(EngineError::from)?;
    if version(&found).is_none_or(|version| version < OLDEST) {
        return Err(TableError::TooOld(found));
    }
    let dialect = TableEngine {
        on_cluster: cluster.map(|name| format!(" ON CLUSTER '{name}'")).unwrap_or_default(),
        replicated: if cluster.is_some() { "Replicated" } else { "" },
    };
    let database = &engine.database;
    let make = format!("CREATE DATABASE IF NOT EXISTS {database}{}", dialect.on_cluster);
    if let Err(error) = engine.execute(engine.client.query(&make)).await {
        // A user without that right uses an existing database.
        let known = "SELECT count() FROM system.databases WHERE name = ?";
        let count = engine.client.query(known).bind(database).fetch_one::<u64>().await;
        if count.map_err(EngineError::from)? == 0 {
            return Err(error.into());
        }
    }
    let meta = "key String, value String, rev UInt64";
    let engine_of_meta = format!("{}ReplacingMergeTree(rev) ORDER BY key", dialect.replicated);
    run(
        engine,
        &format!("CREATE TABLE IF NOT EXISTS meta{} ({meta}) ENGINE = {engine_of_meta}", dialect.on_cluster),
    )
    .await?;
    let stored = "SELECT toUInt32OrZero(value) FROM meta WHERE key = 'schema' ORDER BY rev DESC LIMIT 1";
    let stored =
        engine.in_database().query(stored).fetch_optional::<u32>().await.map_err(EngineError::from)?;
    if let Some(newer) = stored.filter(|stored| *stored > VERSION) {
        return Err(TableError::Newer(newer));
    }
    let kept = retention.unwrap_or_default();
    make_table(engine, &dialect, "sessions", SESSIONS, "session_id", kept.sessions, 1024).await?;
    add_columns(engine, &dialect).await?;
    make_table(engine, &dialect, "trees", TREES, "session_id", kept.trees, 64).await?;
    let texts = |index: &str| format!("{TEXTS}, {index}");
    if make_table(engine, &dialect, "texts", &texts(WORDS), "session_id, doc", kept.texts, 256).await.is_err()
    {
        make_table(engine, &dialect, "texts", &texts(WORDS_BEFORE), "session_id, doc", kept.texts, 256)
            .await?;
    }
    if let Some(kept) = retention {
        for (table, days) in [("sessions", kept.sessions), ("trees", kept.trees), ("texts", kept.texts)] {
            keep(engine, &dialect, table, days).await?;
        }
    }
    if stored != Some(VERSION) {
        run(engine, &format!("INSERT INTO meta VALUES ('schema', '{VERSION}', {VERSION})")).await?;
    }
    Ok(())
}

/// Returns major and minor version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

async fn run(engine: &Engine, sql: &str) -> Result<(), EngineError> {
    // `query_raw`: the statements have no placeholders.
    engine.execute(engine.in_database().query_raw(sql)).await
}

async fn make_table(
    engine: &Engine,
    dialect: &TableEngine<'_>,
    name: &str,
    columns: &str,
    key: &str,
    days: u16,
    granularity: u32,
) -> Result<(), EngineError> {
    let TableEngine { on_cluster, replicated } = dialect;
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {name}{on_cluster} ({columns})
         ENGINE = {replicated}ReplacingMergeTree(rev, is_deleted)
         PARTITION BY toMonday(day) ORDER BY (tenant, {key}) TTL day + INTERVAL {days} DAY DELETE
         SETTINGS index_granularity = {granularity}"
    );
    run(engine, &sql).await
}

/// Adds the columns of [`ADDED`] to a table that lacks them.
async fn add_columns(engine: &Engine, dialect: &TableEngine<'_>) -> Result<(), EngineError> {
    let known = "SELECT count() FROM system.columns
        WHERE database = ? AND table = 'sessions' AND name IN ('level', 'working')";
    let known: u64 = engine.client.query(known).bind(&engine.database).fetch_one().await?;
    if known == 2 {
        return Ok(());
    }
    run(engine, &format!("ALTER TABLE sessions{} {ADDED}", dialect.on_cluster)).await
}

/// Changes how long a table's rows are kept, unless it is so already: the change reads all of the table.
async fn keep(engine: &Engine, dialect: &TableEngine<'_>, table: &str, days: u16) -> Result<(), EngineError> {
    let made = "SELECT engine_full FROM system.tables WHERE database = ? AND name = ?";
    let made: String = engine.client.query(made).bind(&engine.database).bind(table).fetch_one().await?;
    if made.contains(&format!("toIntervalDay({days})")) {
        return Ok(());
    }
    let on_cluster = &dialect.on_cluster;
    run(engine, &format!("ALTER TABLE {table}{on_cluster} MODIFY TTL day + INTERVAL {days} DAY DELETE")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("26.9.2.1"), Some((26, 9)));
        assert!(version("9.12").unwrap() < OLDEST && version("23.2.1").unwrap() >= OLDEST);
        assert_eq!(version("new"), None);
    }
}
