//! Removing what is kept. That there was something stays known, without what it said: files that do not change are not taken
//! in again, deliveries that come again are repeats, and a copy stays one.

use rusqlite::{Connection, Transaction, params};
use subscope_model::{Millis, SessionId};

use super::deferred_index::Filing;

/// Returns the sessions whose last event is older than a moment and of which nothing is at work. Those of which no time is
/// known have no age.
pub(super) fn old(db: &Connection, before_ms: Millis) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = db.prepare_cached(
        "SELECT id FROM sessions WHERE is_forgotten = 0 AND is_live = 0 AND last_ms > 0 AND last_ms < ?1",
    )?;
    let rows = statement.query_map([before_ms], |row| row.get::<_, String>(0))?;
    rows.map(|row| row.map(|id| SessionId(id.as_str().into()))).collect()
}

/// Returns the sessions that were removed and have not gone on since.
pub(super) fn forgotten(db: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = db.prepare_cached("SELECT id FROM sessions WHERE is_forgotten = 1")?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    rows.map(|row| row.map(|id| SessionId(id.as_str().into()))).collect()
}

/// Removes sessions and returns how many there were. What stood there is overwritten, not only marked as free.
pub(super) fn forget(
    db: &mut Connection,
    filing: &mut Filing,
    sessions: &[SessionId],
) -> rusqlite::Result<usize> {
    if sessions.is_empty() {
        return Ok(0);
    }
    db.pragma_update(None, "secure_delete", "ON")?;
    let outcome = remove(db, filing, sessions);
    db.pragma_update(None, "secure_delete", "OFF")?;
    let count = outcome?;
    // What the log still says of before is taken over into the file, and cut off. Readers may keep a part of it for a while.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(count)
}

fn remove(db: &mut Connection, filing: &mut Filing, sessions: &[SessionId]) -> rusqlite::Result<usize> {
    let transaction = db.transaction()?;
    // What is not filed would be filed later.
    let filed = Filing::everything(&transaction)?;
    let mut count = 0;
    for session in sessions {
        for what in [
            "unsettled WHERE session = ?1",
            "changes WHERE seq IN (SELECT seq FROM changes_of WHERE session = ?1)",
            "changes_of WHERE session = ?1",
        ] {
            transaction.execute(&format!("DELETE FROM {what}"), [session.as_str()])?;
        }
        received(&transaction, session)?;
        let Some(no) = super::write::number(&transaction, session)? else { continue };
        for table in ["trees", "agents", "days"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE session_no = ?1"), [no])?;
        }
        count += transaction.execute(
            "UPDATE sessions SET is_forgotten = 1, is_live = 0, deadline_ms = NULL, row = '' WHERE no = ?1",
            [no],
        )?;
    }
    transaction.commit()?;
    filing.settle(filed);
    Ok(count)
}

/// Empties what was handed over of a session and tells of no other.
fn received(db: &Transaction<'_>, session: &SessionId) -> rusqlite::Result<()> {
    let id = session.as_str();
    db.execute(
        "UPDATE inbox SET body = x'', session = NULL, sessions = NULL WHERE no IN (
             SELECT o.no FROM inbox_of o WHERE o.session = ?1
             AND NOT EXISTS (SELECT 1 FROM inbox_of other WHERE other.no = o.no AND other.session <> ?1))",
        params![id],
    )?;
    db.execute(
        "DELETE FROM inbox_parts WHERE session = ?1 AND no IN (SELECT no FROM inbox_of WHERE session = ?1)",
        params![id],
    )?;
    db.execute("DELETE FROM inbox_of WHERE session = ?1", params![id])?;
    Ok(())
}
