//! What the user has seen: dismissed facts of sessions, and until when everything that ended was seen.

use rusqlite::{Connection, params, types::Value};
use subscope_model::{Looks, Millis, SessionId, Text};

use super::{layout::LOOKS, query::select, repair::KeptIds};
use crate::StoreResult;

/// Key of the row that is about all sessions.
const EVERYTHING: &str = "";

/// Replaces the dismissed facts of a session.
pub(super) fn write_dismissal(
    db: &Connection,
    session: &SessionId,
    facts: &[Text],
    at_ms: Millis,
) -> StoreResult<()> {
    if session.as_str() == EVERYTHING {
        return Ok(());
    }
    let facts = serde_json::to_string(facts)?;
    db.prepare_cached(LOOKS.insert())?.execute(params![session.as_str(), facts, at_ms])?;
    Ok(())
}

/// Moves the time until which everything was seen; never back.
pub(super) fn write_seen(db: &Connection, until_ms: Millis) -> StoreResult<()> {
    if read_looks(db)?.seen_until_ms < Some(until_ms) {
        db.prepare_cached(LOOKS.insert())?.execute(params![EVERYTHING, "[]", until_ms])?;
    }
    Ok(())
}

/// Returns what the user has seen. A damaged row was not seen.
pub(super) fn read_looks(db: &Connection) -> StoreResult<Looks> {
    let sql = format!("SELECT session, facts, at_ms FROM looks WHERE {}", LOOKS.is_intact());
    let rows = select(db, &sql, [], |row| {
        Ok((row.get::<_, Text>(0)?, row.get::<_, String>(1)?, row.get::<_, Millis>(2)?))
    })?;
    let mut looks = Looks::default();
    for (session, facts, at_ms) in rows {
        if &*session == EVERYTHING {
            looks.seen_until_ms = Some(at_ms);
        } else if let Ok(facts) = serde_json::from_str(&facts) {
            looks.dismissed.insert(SessionId(session), facts);
        }
    }
    Ok(looks)
}

/// Keeps a row of a damaged store, unless a later one is there: of all sessions, and of those that are kept.
pub(super) fn keep_row(db: &Connection, row: &[Value], sessions: &KeptIds<'_>) -> StoreResult<()> {
    let [Value::Text(session), _, Value::Integer(at_ms)] = row else { return Ok(()) };
    if session != EVERYTHING && !sessions.contains(session.as_str()) {
        return Ok(());
    }
    db.execute("DELETE FROM looks WHERE session = ?1 AND at_ms < ?2", params![session, at_ms])?;
    LOOKS.restore(db, row)?;
    Ok(())
}
