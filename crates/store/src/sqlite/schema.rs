//! Tables of the store database.
//!
//! Rows are derived from transcripts and the inbox and can be rebuilt; only `inbox` and `inbox_parts` hold what exists nowhere else.

use rusqlite::{Connection, Transaction, params};
use subscope_model::{SessionRow, Tree};

use super::{
    layout::{CHECKED, LOOKS, QUARTERS, SESSIONS, TOP_AGENTS, Table},
    pack,
    query::select_one,
    write::{write_quarters, write_top_agents, write_work},
};

/// Schema version, stored as `PRAGMA user_version`; 0 in a file that has no tables yet.
pub(super) const VERSION: i64 = 8;
/// Version without the tables of [`WORK_TABLES`], which is brought up to date.
pub(super) const WITHOUT_WORK: i64 = 1;
/// Version without the column of [`REV_COLUMN`], which is brought up to date.
pub(super) const WITHOUT_REV: i64 = 2;
/// Version without the columns `sum` ([`super::layout`]) and the table of [`FACTS_TABLE`], and in which a file is a source of
/// one session only, which is brought up to date.
pub(super) const WITHOUT_SUMS: i64 = 3;
/// Version without the table of [`QUARTERS_TABLE`], with figures by day of UTC, which is brought up to date.
pub(super) const WITHOUT_QUARTERS: i64 = 4;

/// Version without the table of [`LOOKS_TABLE`], which is brought up to date.
pub(super) const WITHOUT_LOOKS: i64 = 5;
/// Version without the table of [`TOP_AGENTS_TABLE`], which is brought up to date.
pub(super) const WITHOUT_TOP_AGENTS: i64 = 6;
/// Version in which a session's row does not count failed and denied calls, and no agent is in [`TOP_AGENTS_TABLE`] for its
/// denied calls, which is brought up to date.
pub(super) const WITHOUT_DENIED: i64 = 7;

/// Bits of `quarters.floor`.
pub(super) const TOKENS_FLOOR: u8 = 1;
pub(super) const COST_FLOOR: u8 = 2;

/// * `trees`: a session's tree, whole and compressed: it is read whole and replaced whole. What is queried across sessions (list,
///   agents by id, figures by quarter-hour) has tables of its own.
/// * `sessions.kept_ms`: when the row last changed in the store; input received a moment ago may be about long ago.
/// * `agents`: search hits belong to many sessions; decompressing as many trees took most of a search's time.
/// * `held`, `holdings`: a session's keys (8 bytes each, one blob per write). Look-ups scan all blobs: an index by key would cost each
///   commit a write to nearly every page of it. `held.is_compared` is 0 if nothing is compared, 2 if keys were added after the
///   first keys had been compared, else 1.
/// * `unsettled`: sessions with input in the inbox that their rows do not contain.
/// * `inbox`, `changes`: append-only; `inbox_keys`, `inbox_of` and `changes_of` index them in batches ([`super::deferred_index`]).
///   `inbox.sessions` is JSON, NULL if the only session is the one that the sender named; it precedes `body`, which may be long.
/// * `inbox_parts`: bodies of several sessions, split by session, so that a query for one session reads its own lines only.
const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE sessions(
    no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, last_ms INTEGER NOT NULL, is_live INTEGER NOT NULL,
    deadline_ms INTEGER, is_frozen INTEGER NOT NULL DEFAULT 0, is_forgotten INTEGER NOT NULL DEFAULT 0,
    rules TEXT NOT NULL, row TEXT NOT NULL, kept_ms INTEGER NOT NULL DEFAULT 0);
CREATE INDEX sessions_newest ON sessions(last_ms DESC, id);
CREATE INDEX sessions_due ON sessions(deadline_ms) WHERE deadline_ms IS NOT NULL;
CREATE INDEX sessions_kept ON sessions(kept_ms);
CREATE TABLE trees(session_no INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE agents(
    id TEXT NOT NULL, session_no INTEGER NOT NULL, spawned_by TEXT, type TEXT, description TEXT,
    PRIMARY KEY(id, session_no)) WITHOUT ROWID;
CREATE INDEX agents_session ON agents(session_no, spawned_by);
CREATE TABLE held(
    session_no INTEGER PRIMARY KEY, began_ms INTEGER, heads BLOB NOT NULL, is_compared INTEGER NOT NULL DEFAULT 0);
CREATE INDEX held_uncompared ON held(session_no) WHERE is_compared <> 1;
CREATE TABLE holdings(no INTEGER PRIMARY KEY, session_no INTEGER NOT NULL, keys BLOB NOT NULL);
CREATE INDEX holdings_session ON holdings(session_no);
CREATE TABLE kin(
    later_no INTEGER NOT NULL, earlier_no INTEGER NOT NULL, shared INTEGER NOT NULL,
    PRIMARY KEY(later_no, earlier_no)) WITHOUT ROWID;
CREATE TABLE unsettled(session TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE inbox(
    no INTEGER PRIMARY KEY, source TEXT NOT NULL, session TEXT, key TEXT NOT NULL, dialect TEXT NOT NULL,
    received_ms INTEGER NOT NULL, sessions TEXT, body BLOB NOT NULL);
CREATE TABLE inbox_parts(
    no INTEGER NOT NULL, session TEXT NOT NULL, line INTEGER NOT NULL, offset INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX inbox_parts_of ON inbox_parts(no, session);
CREATE TABLE inbox_keys(source TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY(source, key)) WITHOUT ROWID;
CREATE TABLE inbox_of(session TEXT NOT NULL, no INTEGER NOT NULL, PRIMARY KEY(session, no)) WITHOUT ROWID;
CREATE TABLE changes(seq INTEGER PRIMARY KEY, session TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE changes_of(session TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(session, seq)) WITHOUT ROWID;
INSERT INTO meta(key, value) VALUES('indexed_inbox_no', 0), ('indexed_seq', 0);
";

/// Tables that version 1 does not have.
///
/// * `at_work`: the intervals of a session's agents, JSON: how many agents were at work at the same time cannot be
///   summed.
/// * `slow_calls`: the slowest calls of a session, JSON, by their place.
const WORK_TABLES: &str = "
CREATE TABLE at_work(session_no INTEGER PRIMARY KEY, intervals TEXT NOT NULL);
CREATE TABLE slow_calls(
    session_no INTEGER NOT NULL, place INTEGER NOT NULL, call TEXT NOT NULL,
    PRIMARY KEY(session_no, place)) WITHOUT ROWID;
";

/// Column that versions 1 and 2 do not have: the highest rev of a session's rows, by which another process sees what is
/// new. 0 in rows of earlier versions: another process reads them when it does not know their session.
const REV_COLUMN: &str = "
ALTER TABLE sessions ADD COLUMN rev INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_rev ON sessions(rev);
";

/// Table that versions 1 to 3 do not have: what the transcripts of a session have reported (JSON, compressed), so that rows
/// stay exact when a transcript is cut, replaced or deleted. `is_needed`: no file has some of it any more.
const FACTS_TABLE: &str = "
CREATE TABLE facts(session_no INTEGER PRIMARY KEY, is_needed INTEGER NOT NULL, body BLOB NOT NULL);
";

/// Table that versions 1 to 4 do not have: a session's figures by quarter-hour since 1970. Queries make days of them, in any
/// time zone. `floor`: what is a lower bound: 1 the tokens, 2 the cost, 3 both.
const QUARTERS_TABLE: &str = "
CREATE TABLE quarters(
    session_no INTEGER NOT NULL, quarter INTEGER NOT NULL, by INTEGER NOT NULL, name TEXT NOT NULL,
    agents INTEGER NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL, denied INTEGER NOT NULL,
    busy_ms INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL, floor INTEGER NOT NULL, cost INTEGER NOT NULL,
    PRIMARY KEY(session_no, quarter, by, name)) WITHOUT ROWID;
";

/// Table that versions 1 to 5 do not have: what the user has seen. Of a session, the facts that the user has dismissed (JSON);
/// of the session without an id, until when everything that ended was seen.
const LOOKS_TABLE: &str = "
CREATE TABLE looks(session TEXT PRIMARY KEY, facts TEXT NOT NULL, at_ms INTEGER NOT NULL) WITHOUT ROWID;
";

/// Table that versions 1 to 6 do not have: the subagents of a session with the greatest figures, their own.
const TOP_AGENTS_TABLE: &str = "
CREATE TABLE top_agents(
    session_no INTEGER NOT NULL, agent TEXT NOT NULL, started_ms INTEGER, name TEXT NOT NULL,
    agents INTEGER NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL, denied INTEGER NOT NULL,
    busy_ms INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL, floor INTEGER NOT NULL, cost INTEGER NOT NULL,
    PRIMARY KEY(session_no, agent)) WITHOUT ROWID;
";

/// Files that the rows of sessions were derived from, each with its state when the rows were: a file may have lines of
/// several sessions.
const SOURCES: &str = "
CREATE TABLE sources(
    path BLOB NOT NULL, session_no INTEGER NOT NULL, inode INTEGER NOT NULL, bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL, PRIMARY KEY(path, session_no)) WITHOUT ROWID;
CREATE INDEX sources_session ON sources(session_no);
";

/// Adds what version 3 lacks to tables. Rows that are there have no sum until they are written again.
fn add_sums(db: &Transaction<'_>, tables: &[&Table]) -> rusqlite::Result<()> {
    for table in tables {
        db.execute_batch(&format!("ALTER TABLE {} ADD COLUMN sum BLOB", table.name))?;
    }
    Ok(())
}

/// Adds what an older version lacks, and fills it from the trees, in one transaction.
pub(super) fn upgrade(db: &mut Connection, found: i64) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    if found < WITHOUT_DENIED {
        transaction.execute_batch(TOP_AGENTS_TABLE)?;
    }
    if found < WITHOUT_TOP_AGENTS {
        transaction.execute_batch(LOOKS_TABLE)?;
    }
    if found < WITHOUT_LOOKS {
        transaction.execute_batch("DROP TABLE days")?;
        transaction.execute_batch(QUARTERS_TABLE)?;
    }
    if found < WITHOUT_QUARTERS {
        transaction.execute_batch(FACTS_TABLE)?;
        transaction
            .execute_batch("ALTER TABLE sources RENAME TO old_sources; DROP INDEX sources_session;")?;
        transaction.execute_batch(SOURCES)?;
        transaction
            .execute_batch("INSERT INTO sources SELECT * FROM old_sources; DROP TABLE old_sources;")?;
    }
    if found < WITHOUT_SUMS {
        transaction.execute_batch(REV_COLUMN)?;
    }
    if found == WITHOUT_WORK {
        transaction.execute_batch(WORK_TABLES)?;
    }
    let lack_sums: &[&Table] = match found {
        WITHOUT_DENIED => &[],
        WITHOUT_TOP_AGENTS => &[&TOP_AGENTS],
        WITHOUT_LOOKS => &[&TOP_AGENTS, &LOOKS],
        WITHOUT_QUARTERS => &[&TOP_AGENTS, &LOOKS, &QUARTERS],
        _ => &CHECKED,
    };
    add_sums(&transaction, lack_sums)?;
    fill_from_trees(&transaction, found)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Fills what an older version lacks, and what is made from trees.
fn fill_from_trees(transaction: &Transaction<'_>, found: i64) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare("SELECT session_no, body FROM trees")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let tree = pack::unpack(row.get(1)?).ok().and_then(|body| serde_json::from_slice::<Tree>(&body).ok());
        // A tree of another version of the model has other rules: the next index run rebuilds it.
        let Some(tree) = tree else { continue };
        write_top_agents(transaction, row.get(0)?, &tree)?;
        count_denied(transaction, row.get(0)?, &tree)?;
        if found < WITHOUT_LOOKS {
            write_quarters(transaction, row.get(0)?, &tree)?;
        }
        if found == WITHOUT_WORK {
            write_work(transaction, row.get(0)?, &tree)?;
        }
    }
    Ok(())
}

/// Adds the counts of failed and denied calls to a session's row, unless it is damaged or has them.
fn count_denied(transaction: &Transaction<'_>, no: i64, tree: &Tree) -> rusqlite::Result<()> {
    let sql = format!("SELECT row FROM sessions WHERE no = ?1 AND {}", SESSIONS.is_intact());
    let Some(json) = select_one(transaction, &sql, [no], |row| row.get::<_, String>(0))? else {
        return Ok(());
    };
    let Ok(row) = serde_json::from_str::<SessionRow>(&json) else { return Ok(()) };
    let (tool_errors, tools_denied) = (Some(tree.summary.tool_errors), Some(tree.summary.tools_denied));
    let row = serde_json::to_string(&SessionRow { tool_errors, tools_denied, ..row });
    let row = row.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let sum = SESSIONS.sum_with(&[("row", "?2")]);
    let sql = format!("UPDATE sessions SET row = ?2, sum = {sum} WHERE no = ?1");
    transaction.prepare_cached(&sql)?.execute(params![no, row])?;
    Ok(())
}

/// Creates the tables in one transaction. `first` is the first event number and the first rev.
pub(super) fn create(db: &mut Connection, first: i64) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(SOURCES)?;
    transaction.execute_batch(WORK_TABLES)?;
    transaction.execute_batch(REV_COLUMN)?;
    transaction.execute_batch(FACTS_TABLE)?;
    transaction.execute_batch(QUARTERS_TABLE)?;
    transaction.execute_batch(LOOKS_TABLE)?;
    transaction.execute_batch(TOP_AGENTS_TABLE)?;
    add_sums(&transaction, &CHECKED)?;
    transaction.execute("INSERT INTO meta(key, value) VALUES('next_seq', ?1), ('next_rev', ?1)", [first])?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}
