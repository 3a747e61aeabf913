//! Keys of sessions, by which duplicated history is found, and the shared history found so far.

use rusqlite::{Transaction, params, types::ValueRef};
use subscope_model::{SessionId, SessionKeys};

use super::{
    layout::{HOLDINGS, KIN},
    write::session_no,
};
use crate::{DuplicateScan, StoredSessionKeys};

/// Keys that a session shares with an earlier one. A key is owned by the session that started first of all that have
/// it.
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
    let Some(no) = session_no(db, session)? else { return Ok(()) };
    db.prepare_cached(
        "INSERT INTO held(session_no, began_ms, heads, sum) VALUES(?1, ?2, ?3, row_sum('held', ?1, ?2, ?3))
         ON CONFLICT(session_no) DO UPDATE SET began_ms = ?2, heads = ?3, sum = excluded.sum,
             is_compared = CASE WHEN is_compared <> 0 AND heads = ?3 THEN 2 ELSE 0 END",
    )?
    .execute(params![no, began_ms, pack(first_keys)])?;
    if written.replaces {
        db.prepare_cached("DELETE FROM holdings WHERE session_no = ?1")?.execute([no])?;
    }
    if !keys.is_empty() {
        db.prepare_cached(HOLDINGS.insert())?.execute(params![no, pack(keys)])?;
    }
    Ok(())
}

fn pack(keys: &[u64]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

/// Returns the keys in a column.
pub(super) fn unpack_keys(column: ValueRef<'_>) -> impl Iterator<Item = u64> {
    let (keys, _) = column.as_blob().unwrap_or_default().as_chunks::<8>();
    keys.iter().map(|key| u64::from_le_bytes(*key))
}

pub(super) fn write_scan(db: &Transaction<'_>, scan: &DuplicateScan) -> rusqlite::Result<()> {
    for session in &scan.sessions {
        let Some(no) = session_no(db, session)? else { continue };
        db.execute("DELETE FROM kin WHERE later_no = ?1", [no])?;
        db.execute("UPDATE held SET is_compared = 1 WHERE session_no = ?1", [no])?;
    }
    for SharedHistory { later, earlier, shared } in &scan.shared {
        let (later, earlier) = (session_no(db, later)?, session_no(db, earlier)?);
        db.execute(KIN.insert(), params![later, earlier, *shared as i64])?;
    }
    Ok(())
}
