//! Deletion of sessions.
//!
//! Ids, source files, delivery keys and session keys stay: an unchanged file is not indexed again, a repeated delivery
//! stays a repeat, and a duplicate of a forgotten session stays a duplicate. Which sessions were forgotten, with their
//! files, is also recorded in a file next to the database, which survives damage of the database.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use rusqlite::{Connection, Transaction, params, types::ValueRef};
use subscope_model::SessionId;
use subscope_platform::path_bytes;

use super::{
    deferred_index::DeferredIndex,
    layout::{INBOX, SESSIONS, UNSETTLED},
    private_file_options,
    query::{clamp, identity_at, path_at, select, select_one},
};
use crate::{FileIdentity, MovedInput, StoreResult};

/// Record of the forgotten sessions in the data folder, and the file in which it is written.
pub(super) const RECORD: &str = "forgotten.jsonl";
const NEW_RECORD: &str = "forgotten.jsonl.new";

/// A forgotten session, and one of its files if it has any.
pub(super) type Forgotten = (String, Option<(Vec<u8>, FileIdentity)>);

/// Deletes sessions and returns their number; they get this rev. Deleted content is overwritten with zeros (`secure_delete`).
pub(super) fn forget(
    db: &mut Connection,
    index: &mut DeferredIndex,
    folder: &Path,
    sessions: &[SessionId],
    rev: u64,
) -> StoreResult<usize> {
    db.pragma_update(None, "secure_delete", "ON")?;
    let outcome = delete_sessions(db, index, sessions, rev);
    // Pages that SQLite once divided may still have what was moved out of them: it writes all of them anew.
    let count = outcome.and_then(|count| db.execute_batch("VACUUM").map(|()| count));
    db.pragma_update(None, "secure_delete", "OFF")?;
    let count = count?;
    write_record(db, folder)?;
    // The WAL still has the old pages. Readers may keep a part of it for a while.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(count)
}

/// Records the forgotten sessions, one file per line.
fn write_record(db: &Connection, folder: &Path) -> StoreResult<()> {
    let sql = "SELECT id, path, inode, bytes, modified_ns FROM sessions LEFT JOIN sources ON session_no = no
        WHERE is_forgotten = 1";
    let forgotten: Vec<Forgotten> = select(db, sql, [], |row| {
        let has_file = row.get_ref(1)? != ValueRef::Null;
        let path = |row| path_at(row, 1).map(|path| path_bytes(&path).into_owned());
        let file = if has_file { Some((path(row)?, identity_at(row, 2)?)) } else { None };
        Ok((row.get(0)?, file))
    })?;
    let new = folder.join(NEW_RECORD);
    let mut file = io::BufWriter::new(private_file_options().truncate(true).open(&new)?);
    for (session, source) in forgotten {
        let source = source
            .map(|(path, FileIdentity { inode, bytes, modified_ns })| (path, inode, bytes, modified_ns));
        serde_json::to_writer(&mut file, &(session, source))?;
        file.write_all(b"\n")?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(fs::rename(new, folder.join(RECORD))?)
}

/// Returns what the record of a data folder says.
pub(super) fn recorded(folder: &Path) -> io::Result<Vec<Forgotten>> {
    type Source = Option<(Vec<u8>, u64, u64, i64)>;
    let record = match fs::read_to_string(folder.join(RECORD)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        record => record?,
    };
    // A line that is no longer one is a forgotten session less.
    let lines = record.lines().filter_map(|line| serde_json::from_str::<(String, Source)>(line).ok());
    let file = |(path, inode, bytes, modified_ns)| (path, FileIdentity { inode, bytes, modified_ns });
    Ok(lines.map(|(session, source)| (session, source.map(file))).collect())
}

/// Adds the sessions of the record to a database that replaces the store, unless it has them.
pub(super) fn keep_forgotten(db: &Transaction<'_>, folder: &Path) -> StoreResult<()> {
    for (session, source) in recorded(folder)? {
        db.prepare_cached(
            "INSERT INTO sessions(id, last_ms, is_live, is_forgotten, rules, row, sum)
             VALUES(?1, 0, 0, 1, '', '', row_sum('sessions', ?1, 0, 0, 1, '', '')) ON CONFLICT DO NOTHING",
        )?
        .execute([&session])?;
        let Some((path, FileIdentity { inode, bytes, modified_ns })) = source else { continue };
        db.prepare_cached(
            "INSERT OR IGNORE INTO sources SELECT ?1, no, ?2, ?3, ?4, row_sum('sources', ?1, no, ?2, ?3, ?4)
                 FROM sessions WHERE id = ?5 AND is_forgotten = 1",
        )?
        .execute(params![path, inode.cast_signed(), bytes.cast_signed(), modified_ns, session])?;
    }
    Ok(())
}

fn delete_sessions(
    db: &mut Connection,
    index: &mut DeferredIndex,
    sessions: &[SessionId],
    rev: u64,
) -> rusqlite::Result<usize> {
    let transaction = db.transaction()?;
    // Deletion finds rows by the secondary tables: bring them up to date.
    let indexed = DeferredIndex::index_all(&transaction)?;
    let mut count = 0;
    for session in sessions {
        delete_received(&transaction, session)?;
        count += delete_rows(&transaction, session, rev)?;
    }
    transaction.commit()?;
    index.apply(indexed);
    Ok(count)
}

/// Deletes the rows and events of a session. Returns how many sessions that were.
fn delete_rows(db: &Transaction<'_>, session: &SessionId, rev: u64) -> rusqlite::Result<usize> {
    for table_and_filter in [
        "unsettled WHERE session = ?1",
        "looks WHERE session = ?1",
        "changes WHERE seq IN (SELECT seq FROM changes_of WHERE session = ?1)",
        "changes_of WHERE session = ?1",
    ] {
        db.execute(&format!("DELETE FROM {table_and_filter}"), [session.as_str()])?;
    }
    let Some(no) = super::write::session_no(db, session)? else { return Ok(0) };
    for table in ["trees", "agents", "quarters", "at_work", "slow_calls", "top_agents", "facts"] {
        db.execute(&format!("DELETE FROM {table} WHERE session_no = ?1"), [no])?;
    }
    db.execute(
        &format!(
            "UPDATE sessions SET is_forgotten = 1, is_live = 0, deadline_ms = NULL, row = '', rev = max(rev, ?2),
                 sum = {}
             WHERE no = ?1",
            SESSIONS.sum_with(&[("is_forgotten", "1"), ("is_live", "0"), ("row", "''")])
        ),
        params![no, clamp(rev)],
    )
}

/// Removes a session of another machine, which has forgotten it: unless the user has, nothing of it stays.
pub(super) fn remove_session(db: &Transaction<'_>, session: &SessionId) -> rusqlite::Result<()> {
    let kept = "SELECT 1 FROM sessions WHERE id = ?1 AND is_forgotten = 1";
    if select_one(db, kept, [session.as_str()], |_| Ok(()))?.is_none() {
        delete_rows(db, session, 0)?;
        db.execute("DELETE FROM sessions WHERE id = ?1", [session.as_str()])?;
    }
    Ok(())
}

/// Makes earlier input be about another session. Everything must be indexed.
pub(super) fn move_input(db: &Transaction<'_>, moved: &MovedInput) -> rusqlite::Result<()> {
    let MovedInput { named, from, to, is_whole } = moved;
    let (named, from_id, to) = (named.as_str(), from.as_str(), to.as_str());
    let of_sender =
        "SELECT o.no FROM inbox_of o JOIN inbox i ON i.no = o.no WHERE o.session = ?1 AND i.session = ?2";
    db.execute(
        &format!("INSERT OR IGNORE INTO inbox_of SELECT ?3, no FROM ({of_sender})"),
        params![from_id, named, to],
    )?;
    let both = "json_array(?2, ?3)";
    db.execute(
        &format!(
            "UPDATE inbox SET sessions = {both}, sum = {} WHERE no IN ({of_sender})",
            INBOX.sum_with(&[("sessions", both)])
        ),
        params![from_id, named, to],
    )?;
    if from_id != named {
        db.execute(
            &format!("DELETE FROM inbox_of WHERE session = ?1 AND no IN ({of_sender})"),
            [from_id, named],
        )?;
    }
    if *is_whole {
        delete_rows(db, from, 0)?;
    }
    db.execute(UNSETTLED.insert(), [to])?;
    Ok(())
}

/// Deletes a session's received input: empties inbox rows that are about no other session, and deletes its parts of the
/// others.
fn delete_received(db: &Transaction<'_>, session: &SessionId) -> rusqlite::Result<()> {
    let id = session.as_str();
    db.execute(
        &format!(
            "UPDATE inbox SET body = x'', session = NULL, sessions = NULL, sum = {} WHERE no IN (
                 SELECT o.no FROM inbox_of o WHERE o.session = ?1
                 AND NOT EXISTS (SELECT 1 FROM inbox_of other WHERE other.no = o.no AND other.session <> ?1))",
            INBOX.sum_with(&[("body", "x''"), ("session", "NULL"), ("sessions", "NULL")])
        ),
        params![id],
    )?;
    db.execute(
        "DELETE FROM inbox_parts WHERE session = ?1 AND no IN (SELECT no FROM inbox_of WHERE session = ?1)",
        params![id],
    )?;
    // A delivery about others too is no longer about this session, also once its index is made again.
    let others = "(SELECT json_group_array(value) FROM json_each(inbox.sessions) WHERE value <> ?1)";
    db.execute(
        &format!(
            "UPDATE inbox SET sessions = {others}, sum = {}
                 WHERE sessions IS NOT NULL AND no IN (SELECT no FROM inbox_of WHERE session = ?1)",
            INBOX.sum_with(&[("sessions", others)])
        ),
        params![id],
    )?;
    db.execute("DELETE FROM inbox_of WHERE session = ?1", params![id])?;
    Ok(())
}
