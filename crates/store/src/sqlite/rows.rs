//! Finds stored rows that are not as they were written, and rows on which two tables disagree.

use rusqlite::Connection;
use subscope_model::SessionId;

use super::{
    SqliteStore,
    layout::{CHANGES, CHECKED, FACTS, HELD, INBOX, INBOX_PARTS, LOOKS, SESSIONS, TREES, Table, UNSETTLED},
};
use crate::StoreResult;

/// Rows of which one table has what another lacks, by what is wrong with them.
const DISAGREEMENTS: [(&str, &str); 5] = [
    (
        // A repair leaves the rules of such a session empty: its tree may be lost for good.
        "sessions without a tree",
        "SELECT count(*) FROM sessions WHERE is_forgotten = 0 AND rules <> ''
             AND no NOT IN (SELECT session_no FROM trees)",
    ),
    (
        "trees without a session",
        "SELECT count(*) FROM trees WHERE session_no NOT IN (SELECT no FROM sessions WHERE is_forgotten = 0)",
    ),
    (
        "deliveries whose keys are not indexed",
        "SELECT count(*) FROM inbox WHERE no <= (SELECT value FROM meta WHERE key = 'indexed_inbox_no')
             AND NOT EXISTS (SELECT 1 FROM inbox_keys k WHERE k.source = inbox.source AND k.key = inbox.key)",
    ),
    (
        "deliveries that their sessions do not have",
        "SELECT count(*) FROM inbox, json_each(coalesce(sessions, json_array(session))) named
             WHERE named.value IS NOT NULL AND no <= (SELECT value FROM meta WHERE key = 'indexed_inbox_no')
             AND NOT EXISTS (SELECT 1 FROM inbox_of o WHERE o.session = named.value AND o.no = inbox.no)",
    ),
    (
        "events that their sessions do not have",
        "SELECT count(*) FROM changes WHERE seq <= (SELECT value FROM meta WHERE key = 'indexed_seq')
             AND NOT EXISTS (SELECT 1 FROM changes_of o WHERE o.session = changes.session AND o.seq = changes.seq)",
    ),
];

/// Sessions whose rows are to be derived again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamagedSessions {
    /// These.
    Some(Vec<SessionId>),
    /// All: a damaged row of a table with many rows of a session may be anybody's.
    All,
}

/// Returns what is wrong with rows; `None` if they are all as they were written.
pub(super) fn find_damaged(db: &Connection) -> rusqlite::Result<Option<String>> {
    let mut found = Vec::new();
    for table in CHECKED {
        let sql = format!("SELECT count(*) FROM {} WHERE NOT {}", table.name, table.is_intact());
        let count: i64 = db.query_row(&sql, [], |row| row.get(0))?;
        if count > 0 {
            found.push(format!("{count} in {}", table.name));
        }
    }
    if !found.is_empty() {
        return Ok(Some(format!("rows that are not as they were written: {}", found.join(", "))));
    }
    for (what, sql) in DISAGREEMENTS {
        let count: i64 = db.query_row(sql, [], |row| row.get(0))?;
        if count > 0 {
            return Ok(Some(format!("{count} {what}")));
        }
    }
    Ok(None)
}

impl SqliteStore {
    /// Returns the sessions whose tree a repair could not read, and which nothing has brought back since: their row in the
    /// list is all that is left.
    pub fn sessions_with_lost_trees(&self) -> StoreResult<Vec<SessionId>> {
        self.select_sessions(
            "SELECT id FROM sessions WHERE is_forgotten = 0 AND no NOT IN (SELECT session_no FROM trees) ORDER BY id",
            [],
        )
    }

    /// Returns the sessions with a damaged row among those that are derived. It reads all of these.
    pub fn damaged_sessions(&self) -> StoreResult<DamagedSessions> {
        let mut sessions = Vec::new();
        if !self.has_sums {
            return Ok(DamagedSessions::Some(sessions));
        }
        let derived = |table: &&&Table| {
            ![UNSETTLED.name, INBOX.name, INBOX_PARTS.name, CHANGES.name, LOOKS.name].contains(&table.name)
        };
        for table in CHECKED.iter().filter(derived) {
            let (name, is_intact) = (table.name, table.is_intact());
            if name == SESSIONS.name {
                let sql = format!("SELECT id FROM sessions WHERE NOT {is_intact}");
                sessions.extend(self.select_sessions(&sql, [])?);
            } else if [TREES.name, HELD.name, FACTS.name].contains(&name) {
                let sql =
                    format!("SELECT id FROM {name} JOIN sessions ON no = session_no WHERE NOT {is_intact}");
                sessions.extend(self.select_sessions(&sql, [])?);
            } else if self
                .db
                .prepare_cached(&format!("SELECT 1 FROM {name} WHERE NOT {is_intact}"))?
                .exists([])?
            {
                return Ok(DamagedSessions::All);
            }
        }
        Ok(DamagedSessions::Some(sessions))
    }
}
