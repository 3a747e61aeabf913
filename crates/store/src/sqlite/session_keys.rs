//! Keys of sessions, by which duplicated history is found, and the shared history found so far.

use hashbrown::HashSet;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use subscope_model::{SessionId, SessionKeys};

use crate::{DuplicateScan, KeySet, StoredSessionKeys};

/// Keys that a session shares with an earlier one. A key is owned by the session that started first of all that have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedHistory {
    /// Session with the duplicates.
    pub later: SessionId,
    /// Session that owns them.
    pub earlier: SessionId,
    /// Number of the later session's keys that the earlier one owns.
    pub shared: u64,
}

pub(super) fn write_keys(db: &Transaction<'_>, written: &StoredSessionKeys) -> rusqlite::Result<()> {
    let SessionKeys { session, began_ms, first_keys, keys } = &written.keys;
    let Some(no) = super::write::session_no(db, session)? else { return Ok(()) };
    db.prepare_cached(
        "INSERT INTO held(session_no, began_ms, heads) VALUES(?1, ?2, ?3)
         ON CONFLICT(session_no) DO UPDATE SET began_ms = ?2, heads = ?3,
             is_compared = CASE WHEN is_compared <> 0 AND heads = ?3 THEN 2 ELSE 0 END",
    )?
    .execute(params![no, began_ms, pack(first_keys)])?;
    if written.replaces {
        db.prepare_cached("DELETE FROM holdings WHERE session_no = ?1")?.execute([no])?;
    }
    if !keys.is_empty() {
        db.prepare_cached("INSERT INTO holdings(session_no, keys) VALUES(?1, ?2)")?
            .execute(params![no, pack(keys)])?;
    }
    Ok(())
}

fn pack(keys: &[u64]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

fn unpack(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (keys, _) = bytes.as_chunks::<8>();
    keys.iter().map(|key| u64::from_le_bytes(*key))
}

pub(super) fn first_keys(db: &Connection) -> rusqlite::Result<Vec<(SessionId, Vec<u64>)>> {
    let mut statement = db.prepare_cached("SELECT id, heads FROM held JOIN sessions ON no = session_no")?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let first_keys = row.get_ref(1)?.as_blob().map(|bytes| unpack(bytes).collect());
        all.push((session_id(row, 0)?, first_keys.unwrap_or_default()));
    }
    Ok(all)
}

pub(super) fn sessions_with_keys(db: &Connection, keys: &KeySet) -> rusqlite::Result<Vec<(SessionId, u64)>> {
    let mut statement = db.prepare_cached("SELECT session_no, keys FROM holdings")?;
    let mut rows = statement.query([])?;
    let mut found: HashSet<(i64, u64)> = HashSet::new();
    while let Some(row) = rows.next()? {
        let session: i64 = row.get(0)?;
        let bytes = row.get_ref(1)?.as_blob().unwrap_or_default();
        found.extend(unpack(bytes).filter(|key| keys.contains(key)).map(|key| (session, key)));
    }
    let mut name = db.prepare_cached("SELECT id FROM sessions WHERE no = ?1")?;
    found.into_iter().map(|(no, key)| Ok((name.query_row([no], |row| session_id(row, 0))?, key))).collect()
}

pub(super) fn session_keys(db: &Connection, session: &SessionId) -> rusqlite::Result<Option<SessionKeys>> {
    let row: Option<(i64, Option<i64>, Vec<u8>)> = db
        .prepare_cached(
            "SELECT session_no, began_ms, heads FROM held JOIN sessions ON no = session_no WHERE id = ?1",
        )?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((no, began_ms, first_keys)) = row else { return Ok(None) };
    let mut statement = db.prepare_cached("SELECT keys FROM holdings WHERE session_no = ?1")?;
    let mut rows = statement.query([no])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        keys.extend(unpack(row.get_ref(0)?.as_blob().unwrap_or_default()));
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(Some(SessionKeys {
        session: session.clone(),
        began_ms,
        first_keys: unpack(&first_keys).collect(),
        keys,
    }))
}

pub(super) fn shared_history(db: &Connection) -> rusqlite::Result<Vec<SharedHistory>> {
    let mut statement = db.prepare_cached(
        "SELECT l.id, e.id, shared FROM kin JOIN sessions l ON l.no = later_no JOIN sessions e ON e.no = earlier_no",
    )?;
    let rows = statement.query_map([], |row| {
        let shared: i64 = row.get(2)?;
        Ok(SharedHistory {
            later: session_id(row, 0)?,
            earlier: session_id(row, 1)?,
            shared: shared.unsigned_abs(),
        })
    })?;
    rows.collect()
}

/// Returns the sessions with keys that were not compared with other sessions, and whether their first keys are new too.
pub(super) fn uncompared_sessions(db: &Connection) -> rusqlite::Result<Vec<(SessionId, bool)>> {
    let mut statement = db.prepare_cached(
        "SELECT id, is_compared = 0 FROM held JOIN sessions ON no = session_no WHERE is_compared <> 1",
    )?;
    let rows = statement.query_map([], |row| Ok((session_id(row, 0)?, row.get(1)?)))?;
    rows.collect()
}

pub(super) fn write_scan(db: &Transaction<'_>, scan: &DuplicateScan) -> rusqlite::Result<()> {
    for session in &scan.sessions {
        let Some(no) = super::write::session_no(db, session)? else { continue };
        db.execute("DELETE FROM kin WHERE later_no = ?1", [no])?;
        db.execute("UPDATE held SET is_compared = 1 WHERE session_no = ?1", [no])?;
    }
    for SharedHistory { later, earlier, shared } in &scan.shared {
        let (later, earlier) = (super::write::session_no(db, later)?, super::write::session_no(db, earlier)?);
        db.execute("INSERT OR REPLACE INTO kin VALUES(?1, ?2, ?3)", params![later, earlier, *shared as i64])?;
    }
    Ok(())
}

fn session_id(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<SessionId> {
    row.get_ref(at)?.as_str().map(|id| SessionId(id.into())).map_err(Into::into)
}
