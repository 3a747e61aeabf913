//! The tables, and how older ones become today's.
//!
//! Rows are derived from sources: a migration that cannot carry them over empties them and lets the next index fill them
//! anew. `inbox` alone is not derived and is never emptied.

use rusqlite::Connection;

/// What makes the tables of each version of those of the one before, the first of none. A new store takes all of them, so
/// that there is one way to today's tables. What a release has shipped is never edited.
const STEPS: &[&str] = &[KEPT, HELD, NAMES, FILED, RECENT, PARTS];

/// The version of the tables.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// A tree is kept whole, compressed: it is asked for whole, and its rows are rebuilt whole. What is asked for across
/// sessions (the list, agents by id, figures by day) stands in tables of its own.
const KEPT: &str = "
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
CREATE TABLE changes(seq INTEGER PRIMARY KEY, session TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX changes_session ON changes(session, seq);
";

/// What sessions hold that copies of them hold too. Keys are looked for by walking through all of them (8 bytes each, a
/// session's side by side): an index by key would cost each commit a write to nearly every page of it. Rows of before say
/// nothing of it, so every session that still has its files is read again. `is_compared` is 0 where nothing is, 2 where
/// keys came behind compared heads. `unsettled` names the sessions that are told more of in the inbox, from a place on, than
/// their rows know.
const HELD: &str = "
CREATE TABLE held(
    session_no INTEGER PRIMARY KEY, began_ms INTEGER, heads BLOB NOT NULL, is_compared INTEGER NOT NULL DEFAULT 0);
CREATE INDEX held_uncompared ON held(session_no) WHERE is_compared <> 1;
CREATE TABLE holdings(no INTEGER PRIMARY KEY, session_no INTEGER NOT NULL, keys BLOB NOT NULL);
CREATE INDEX holdings_session ON holdings(session_no);
CREATE TABLE IF NOT EXISTS unsettled(session TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE kin(
    later_no INTEGER NOT NULL, earlier_no INTEGER NOT NULL, shared INTEGER NOT NULL,
    PRIMARY KEY(later_no, earlier_no)) WITHOUT ROWID;
INSERT INTO meta(key, value) SELECT 'next_rev', value FROM meta WHERE key = 'next_seq';
UPDATE sessions SET rules = '';
";

/// Who an agent is, beside its id: hits of a search are many sessions', and unpacking as many trees took most of its time.
/// Rows are made anew for it; those of sessions whose files are gone go without.
const NAMES: &str = "
ALTER TABLE agents ADD COLUMN spawned_by TEXT;
ALTER TABLE agents ADD COLUMN type TEXT;
ALTER TABLE agents ADD COLUMN description TEXT;
DROP INDEX agents_session;
CREATE INDEX agents_session ON agents(session_no, spawned_by);
UPDATE sessions SET rules = '';
";

/// What is received and told is appended; what finds it by key and by session is written in batches ([`super::deferred_index`]).
/// `sessions` is JSON, and null where the sender named the only one; it stands before the body, which may be long.
const FILED: &str = "
CREATE TABLE appended(
    no INTEGER PRIMARY KEY, source TEXT NOT NULL, session TEXT, key TEXT NOT NULL, dialect TEXT NOT NULL,
    received_ms INTEGER NOT NULL, sessions TEXT, body BLOB NOT NULL);
INSERT INTO appended SELECT no, source, session, key, dialect, received_ms, NULL, body FROM inbox ORDER BY no;
CREATE TABLE inbox_keys(source TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY(source, key)) WITHOUT ROWID;
INSERT INTO inbox_keys SELECT source, key FROM inbox ORDER BY source, key;
DROP TABLE inbox;
ALTER TABLE appended RENAME TO inbox;
CREATE TABLE changes_of(session TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(session, seq)) WITHOUT ROWID;
INSERT INTO changes_of SELECT session, seq FROM changes ORDER BY session, seq;
DROP INDEX changes_session;
INSERT INTO meta(key, value) SELECT 'indexed_up_to', ifnull(max(no), 0) FROM inbox;
INSERT INTO meta(key, value) SELECT 'filed_seq', ifnull(max(seq), 0) FROM changes;
";

/// When something new of a session was last kept: what was received a moment ago may tell of long ago. Of rows of before
/// nobody knows.
const RECENT: &str = "
ALTER TABLE sessions ADD COLUMN kept_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_kept ON sessions(kept_ms);
";

/// Bodies of several sessions are kept divided, so that who asks for one session reads its own lines alone. `undivided` names
/// those that were kept before: whoever writes next divides them, since only a reader of their dialect can.
const PARTS: &str = "
CREATE TABLE inbox_parts(
    no INTEGER NOT NULL, session TEXT NOT NULL, line INTEGER NOT NULL, offset INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX inbox_parts_of ON inbox_parts(no, session);
CREATE TABLE undivided(no INTEGER PRIMARY KEY);
INSERT INTO undivided SELECT no FROM inbox_of GROUP BY no HAVING count(*) > 1;
INSERT OR IGNORE INTO undivided SELECT no FROM inbox
    WHERE no > (SELECT value FROM meta WHERE key = 'indexed_up_to') AND json_array_length(coalesce(sessions, '[]')) > 1;
";

/// Makes or updates the tables, each step in a transaction of its own: whatever ends it, the next process goes on from
/// there. Returns `None` where they are of a newer version than this program knows.
pub(crate) fn migrate(db: &mut Connection, first_seq: i64) -> rusqlite::Result<Option<()>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > VERSION {
        return Ok(None);
    }
    for (done, step) in STEPS.iter().enumerate() {
        let number = done as i64 + 1;
        if number <= version {
            continue;
        }
        let transaction = db.transaction()?;
        transaction.execute_batch(step)?;
        if number == 1 {
            transaction.execute("INSERT INTO meta(key, value) VALUES('next_seq', ?1)", [first_seq])?;
        }
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_the_first_version_keeps_its_rows_and_is_due() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(KEPT).unwrap();
        db.execute_batch(
            "INSERT INTO meta VALUES('next_seq', 7); PRAGMA user_version = 1;
             INSERT INTO sessions(id, last_ms, is_live, rules, row) VALUES('s', 1, 0, 'r', '{}');
             INSERT INTO agents VALUES('a1', 1);
             INSERT INTO inbox VALUES(3, 'hooks', NULL, 'k', 'claude.hook', 9, x'7b7d');
             INSERT INTO inbox_of VALUES('s', 3); INSERT INTO changes VALUES(5, 's', '{}');",
        )
        .unwrap();
        assert!(migrate(&mut db, 1).unwrap().is_some());
        let row = |query: &str| db.query_row(query, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(row("SELECT id || ifnull(type, '?') FROM agents"), "a1?");
        assert_eq!(row("SELECT id || rules FROM sessions"), "s");
        assert_eq!(row("SELECT value || '' FROM meta WHERE key = 'next_seq'"), "7");
        let filed =
            "SELECT key || session || seq || body FROM inbox_keys JOIN changes_of JOIN inbox USING(key)";
        assert_eq!(row(&filed.replace("session", "changes_of.session")), "ks5{}");
        assert_eq!(row("SELECT group_concat(value) FROM meta WHERE key LIKE 'filed%' ORDER BY key"), "3,5");
        db.pragma_update(None, "user_version", VERSION + 1).unwrap();
        assert!(migrate(&mut db, 1).unwrap().is_none());
    }
}
