//! The session list: its pages, and its rows as they are stored.

use rusqlite::{Row, params, types::ValueRef};
use subscope_model::{Millis, SessionId, SessionOrder, SessionRow};

use super::{SqliteStore, layout::SESSIONS, query::clamp};
use crate::{ListQuery, SessionQueries, StoreResult};

/// Rows of the session list, newest first.
const LIST_NEWEST: &str = "FROM sessions
    WHERE last_ms <= ?1 AND is_forgotten = 0 AND (last_ms < ?1 OR id > ?2) AND (?3 = 0 OR is_live = 1) AND ?5 = 0
        AND last_ms >= ?7
        AND (?6 = 0 OR instr(row, '\"is_own\":true') = 0)
    ORDER BY last_ms DESC, id LIMIT ?4";
const LIST_RECENTLY_CHANGED: &str = "FROM sessions INDEXED BY sessions_kept
    WHERE kept_ms >= ?5 AND is_forgotten = 0 AND last_ms <= ?1 AND (last_ms < ?1 OR id > ?2) AND (?3 = 0 OR is_live = 1)
        AND last_ms >= ?7 AND (?6 = 0 OR instr(row, '\"is_own\":true') = 0)
    ORDER BY last_ms DESC, id LIMIT ?4";
/// Places of columns of [`SESSIONS`] in a query of its checked columns, and of the columns after these.
const ID: usize = 0;
const LAST_MS: usize = 1;
const ROW: usize = 5;
pub(super) const AFTER_SESSION: usize = 7;

impl SqliteStore {
    /// Returns a page of the session list.
    pub(super) fn page(&self, query: &ListQuery) -> StoreResult<Vec<SessionRow>> {
        let is_newest = query.order == SessionOrder::Newest;
        let after = query.after.as_ref().filter(|_| is_newest);
        let (last_ms, id) = after.map_or((i64::MAX, ""), |(at, id)| (*at, id.as_str()));
        // Few of many changed recently: another index finds them.
        let sql = if query.kept_since.is_some() { LIST_RECENTLY_CHANGED } else { LIST_NEWEST };
        let kept_since = query.kept_since.unwrap_or(0);
        // What SQL does not select or order by is in the rows themselves: all of them are read.
        let is_by_sql =
            is_newest && query.words.is_empty() && query.project.is_none() && query.until.is_none();
        let limit = if is_by_sql { clamp(query.limit) } else { i64::MAX };
        let since = query.since.unwrap_or(i64::MIN);
        let values = params![last_ms, id, query.only_live, limit, kept_since, query.hides_own, since];
        let columns = SESSIONS.checked_columns(self.has_sums);
        let sql = format!("SELECT {columns}, kept_ms {sql}");
        let rows = self.select(&sql, values, |row| {
            let found = self.row_at(row)?;
            Ok(query.covers(&found).then_some(found))
        })?;
        Ok(query.select(rows.into_iter().flatten()))
    }

    /// Reads a row of the session list from a query of its checked columns and `kept_ms`. One that is damaged, or of
    /// another version of the model, is made from the session's tree, or is empty, and says so.
    pub(super) fn row_at(&self, row: &Row<'_>) -> rusqlite::Result<SessionRow> {
        let kept_ms: Millis = row.get(AFTER_SESSION)?;
        let kept_at_ms = (kept_ms > 0).then_some(kept_ms);
        if let Some(found) = session_row_at(row)? {
            return Ok(SessionRow { kept_at_ms, ..found });
        }
        let id = SessionId::from(String::from_utf8_lossy(row.get_ref(ID)?.as_bytes()?).as_ref());
        let (found, what) = match self.tree(&id) {
            Ok(Some(tree)) => {
                (SessionRow::of(&tree), "its stored row cannot be read: this one is made from its tree")
            }
            Ok(None) | Err(_) => {
                let last_event_at_ms = Some(row.get(LAST_MS)?).filter(|last| *last > 0);
                let found = SessionRow { last_event_at_ms, ..SessionRow::empty(id) };
                (found, "its stored row cannot be read, and its tree neither: its figures are missing")
            }
        };
        Ok(SessionRow { kept_at_ms, problem: Some(what.into()), ..found })
    }
}

/// Reads a row of the session list from a query of its checked columns; `None` if it is damaged, or of another version of
/// the model.
pub(super) fn session_row_at(row: &Row<'_>) -> rusqlite::Result<Option<SessionRow>> {
    if !SESSIONS.is_read_intact(row)? {
        return Ok(None);
    }
    let ValueRef::Text(json) = row.get_ref(ROW)? else { return Ok(None) };
    Ok(serde_json::from_slice(json).ok())
}
