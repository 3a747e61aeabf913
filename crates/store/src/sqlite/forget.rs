//! Deletion of sessions.
//!
//! Ids, source files, delivery keys and session keys stay: an unchanged file is not indexed again, a repeated delivery
//! stays a repeat, and a duplicate of a forgotten session stays a duplicate.

use rusqlite::{Connection, Transaction, params};
use subscope_model::SessionId;

use super::deferred_index::DeferredIndex;

/// Deletes sessions and returns their number. Deleted content is overwritten with zeros (`secure_delete`).
pub(super) fn forget(
    db: &mut Connection,
    index: &mut DeferredIndex,
    sessions: &[SessionId],
) -> rusqlite::Result<usize> {
    if sessions.is_empty() {
        return Ok(0);
    }
    db.pragma_update(None, "secure_delete", "ON")?;
    let outcome = delete_sessions(db, index, sessions);
    db.pragma_update(None, "secure_delete", "OFF")?;
    let count = outcome?;
    // The WAL still has the old pages. Readers may keep a part of it for a while.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(count)
}

fn delete_sessions(
    db: &mut Connection,
    index: &mut DeferredIndex,
    sessions: &[SessionId],
) -> rusqlite::Result<usize> {
    let transaction = db.transaction()?;
    // Deletion finds rows by the secondary tables: bring them up to date.
    let indexed = DeferredIndex::index_all(&transaction)?;
    let mut count = 0;
    for session in sessions {
        for table_and_filter in [
            "unsettled WHERE session = ?1",
            "changes WHERE seq IN (SELECT seq FROM changes_of WHERE session = ?1)",
            "changes_of WHERE session = ?1",
        ] {
            transaction.execute(&format!("DELETE FROM {table_and_filter}"), [session.as_str()])?;
        }
        delete_received(&transaction, session)?;
        let Some(no) = super::write::session_no(&transaction, session)? else { continue };
        for table in ["trees", "agents", "days"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE session_no = ?1"), [no])?;
        }
        count += transaction.execute(
            "UPDATE sessions SET is_forgotten = 1, is_live = 0, deadline_ms = NULL, row = '' WHERE no = ?1",
            [no],
        )?;
    }
    transaction.commit()?;
    index.apply(indexed);
    Ok(count)
}

/// Deletes a session's received input: empties inbox rows that are about no other session, and deletes its parts of the
/// others.
fn delete_received(db: &Transaction<'_>, session: &SessionId) -> rusqlite::Result<()> {
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
