//! The tables, and how older ones become today's.
//!
//! Rows are derived from sources: a migration that cannot carry them over empties them and lets the next index fill them
//! anew. `inbox` alone is not derived and is never emptied.

use rusqlite::Connection;

/// The version of the tables below.
pub(crate) const VERSION: i64 = 1;

/// A tree is kept whole, compressed: it is asked for whole, and its rows are rebuilt whole. What is asked for across
/// sessions (the list, agents by id, figures by day) stands in tables of its own. `unsettled` names the sessions that
/// are told more of in the inbox, from a place on, than their rows know.
const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE sessions(
    no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, last_ms INTEGER NOT NULL, is_live INTEGER NOT NULL,
    deadline_ms INTEGER, is_frozen INTEGER NOT NULL DEFAULT 0, is_forgotten INTEGER NOT NULL DEFAULT 0,
    rules TEXT NOT NULL, row TEXT NOT NULL);
CREATE INDEX sessions_newest ON sessions(last_ms DESC, id);
CREATE INDEX sessions_due ON sessions(deadline_ms) WHERE deadline_ms IS NOT NULL;
CREATE TABLE trees(session_no INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE agents(id TEXT NOT NULL, session_no INTEGER NOT NULL, PRIMARY KEY(id, session_no)) WITHOUT ROWID;
CREATE INDEX agents_session ON agents(session_no);
CREATE TABLE days(
    session_no INTEGER NOT NULL, day INTEGER NOT NULL, by INTEGER NOT NULL, name TEXT NOT NULL,
    agents INTEGER NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL, denied INTEGER NOT NULL,
    busy_ms INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL, floor INTEGER NOT NULL, cost INTEGER NOT NULL,
    PRIMARY KEY(session_no, day, by, name)) WITHOUT ROWID;
CREATE TABLE sources(
    path BLOB PRIMARY KEY, session_no INTEGER NOT NULL, inode INTEGER NOT NULL, bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX sources_session ON sources(session_no);
CREATE TABLE inbox(
    no INTEGER PRIMARY KEY, source TEXT NOT NULL, session TEXT, key TEXT NOT NULL, dialect TEXT NOT NULL,
    received_ms INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE(source, key));
CREATE TABLE inbox_of(session TEXT NOT NULL, no INTEGER NOT NULL, PRIMARY KEY(session, no)) WITHOUT ROWID;
CREATE TABLE unsettled(session TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE changes(seq INTEGER PRIMARY KEY, session TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX changes_session ON changes(session, seq);
";

/// Makes or updates the tables. Returns `None` where they are of a newer version than this program knows.
pub(crate) fn migrate(db: &mut Connection, first_seq: i64) -> rusqlite::Result<Option<()>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > VERSION {
        return Ok(None);
    }
    if version == 0 {
        let transaction = db.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO meta(key, value) VALUES('next_seq', ?1)", [first_seq])?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
    }
    Ok(Some(()))
}
