//! Secondary indexes of the inbox and the event log (by delivery key and by session), written in batches.
//!
//! `inbox` and `changes` are append-only. `inbox_keys`, `inbox_of` and `changes_of` are sorted otherwise: updated row
//! by row, each row would touch pages of its own there (half of all writes under load), so they are written in sorted
//! batches. Rows after the last batch are few: their delivery keys are held in memory, and queries by session scan
//! them.

use hashbrown::HashSet;
use rusqlite::{Connection, Transaction, params};

use super::layout::INBOX;
use crate::{ReceivedInput, StoreResult};

/// Rows per batch. More would delay a commit for longer; fewer would share fewer pages.
const BATCH_ROWS: usize = 1000;

/// Rows appended since the last batch.
#[derive(Debug, Default)]
pub(super) struct DeferredIndex {
    /// Sources and delivery keys of inbox rows.
    keys: HashSet<(String, String)>,
    /// Pairs of inbox row and session.
    row_sessions: usize,
    events: usize,
}

impl DeferredIndex {
    /// Indexes the rows that an earlier process left.
    pub(super) fn open(db: &mut Connection) -> rusqlite::Result<Self> {
        let transaction = db.transaction()?;
        Self::index_all(&transaction)?;
        transaction.commit()?;
        Ok(Self::default())
    }

    pub(super) fn has_received(&self, db: &Connection, source: &str, key: &str) -> rusqlite::Result<bool> {
        // A borrowed key: two owned strings would cost more than the look-up.
        if self.keys.contains(&DeliveryRef(source, key)) {
            return Ok(true);
        }
        db.prepare_cached("SELECT 1 FROM inbox_keys WHERE source = ?1 AND key = ?2")?.exists([source, key])
    }

    /// Writes the batches that are due with what a transaction appends. Call [`Self::apply`] with the result once it is
    /// committed.
    pub(super) fn write_due(
        &self,
        db: &Transaction<'_>,
        received: HashSet<(&str, &str)>,
        row_sessions: usize,
        events: usize,
    ) -> rusqlite::Result<IndexUpdate> {
        // Queries by session scan all row-session pairs that are not indexed, so they count too.
        let is_inbox_due =
            (self.keys.len() + received.len()).max(self.row_sessions + row_sessions) >= BATCH_ROWS;
        let is_log_due = self.events + events >= BATCH_ROWS;
        if is_inbox_due {
            index_inbox(db)?;
        }
        if is_log_due {
            index_events(db)?;
        }
        let owned = |(source, key): (&str, &str)| (source.to_owned(), key.to_owned());
        let keys = if is_inbox_due { None } else { Some(received.into_iter().map(owned).collect()) };
        Ok(IndexUpdate { keys, row_sessions, events: if is_log_due { None } else { Some(events) } })
    }

    /// Applies what a committed transaction did.
    pub(super) fn apply(&mut self, update: IndexUpdate) {
        match update.keys {
            Some(keys) => {
                self.keys.extend(keys);
                self.row_sessions += update.row_sessions;
            }
            None => {
                self.keys.clear();
                self.row_sessions = 0;
            }
        }
        self.events = update.events.map_or(0, |events| self.events + events);
    }

    /// Indexes all rows.
    pub(super) fn index_all(db: &Transaction<'_>) -> rusqlite::Result<IndexUpdate> {
        index_inbox(db)?;
        index_events(db)?;
        Ok(IndexUpdate { keys: None, row_sessions: 0, events: None })
    }
}

/// Borrowed source and key, for look-ups.
#[derive(Hash)]
struct DeliveryRef<'a>(&'a str, &'a str);

impl hashbrown::Equivalent<(String, String)> for DeliveryRef<'_> {
    fn equivalent(&self, (source, key): &(String, String)) -> bool {
        self.0 == source && self.1 == key
    }
}

/// Rows that a transaction appended; `None` if it wrote the batch.
#[derive(Debug)]
pub(super) struct IndexUpdate {
    keys: Option<Vec<(String, String)>>,
    row_sessions: usize,
    events: Option<usize>,
}

/// Appends an inbox row and returns its number.
pub(super) fn append(db: &Transaction<'_>, row: &ReceivedInput, packed: &[u8]) -> StoreResult<i64> {
    let ReceivedInput { source, session, key, dialect, received_ms, .. } = row;
    let mut add = db.prepare_cached(INBOX.insert())?;
    Ok(add.insert(params![source, session, key, dialect, received_ms, sessions_json(row)?, packed])?)
}

/// Returns the sessions of a row as JSON; `None` if the only one is the one that the sender named.
fn sessions_json(row: &ReceivedInput) -> serde_json::Result<Option<String>> {
    if let ([only], Some(named)) = (row.sessions.as_slice(), &row.session)
        && only.as_str() == named
    {
        return Ok(None);
    }
    serde_json::to_string(&row.sessions).map(Some)
}

fn index_inbox(db: &Transaction<'_>) -> rusqlite::Result<()> {
    db.execute_batch(
        "INSERT OR IGNORE INTO inbox_keys
             SELECT source, key FROM inbox
             WHERE no > (SELECT value FROM meta WHERE key = 'indexed_inbox_no') ORDER BY source, key;
         INSERT OR IGNORE INTO inbox_of
             SELECT named.value, no FROM inbox, json_each(coalesce(sessions, json_array(session))) named
             WHERE no > (SELECT value FROM meta WHERE key = 'indexed_inbox_no') ORDER BY named.value, no;
         UPDATE meta SET value = (SELECT ifnull(max(no), 0) FROM inbox) WHERE key = 'indexed_inbox_no';",
    )
}

fn index_events(db: &Transaction<'_>) -> rusqlite::Result<()> {
    db.execute_batch(
        "INSERT OR IGNORE INTO changes_of
             SELECT session, seq FROM changes
             WHERE seq > (SELECT value FROM meta WHERE key = 'indexed_seq') ORDER BY session, seq;
         UPDATE meta SET value = (SELECT ifnull(max(seq), 0) FROM changes) WHERE key = 'indexed_seq';",
    )
}

/// Selects the inbox row numbers of a session, `?1`, indexed or not.
pub(super) const INBOX_ROWS_OF_SESSION: &str = "
    SELECT no FROM inbox_of WHERE session = ?1
    UNION
    SELECT no FROM inbox, json_each(coalesce(sessions, json_array(inbox.session))) named
        WHERE no > (SELECT value FROM meta WHERE key = 'indexed_inbox_no') AND named.value = ?1";

/// Selects the events of a session, `?1`, after a number, `?2`, at most `?3`, indexed or not. Both halves come sorted
/// and are merged, so that no more rows are read than returned.
pub(super) const EVENTS_OF_SESSION: &str = "
    SELECT entry.seq, body FROM changes_of entry CROSS JOIN changes ON changes.seq = entry.seq
        WHERE entry.session = ?1 AND entry.seq > ?2
    UNION ALL
    SELECT seq, body FROM changes
        WHERE seq > max(?2, (SELECT value FROM meta WHERE key = 'indexed_seq')) AND session = ?1
    ORDER BY 1 LIMIT ?3";

/// Selects the last events of a session, `?1`, newest first, at most `?2`.
pub(super) const LATEST_EVENTS_OF_SESSION: &str = "
    SELECT entry.seq, body FROM changes_of entry CROSS JOIN changes ON changes.seq = entry.seq
        WHERE entry.session = ?1
    UNION ALL
    SELECT seq, body FROM changes
        WHERE seq > (SELECT value FROM meta WHERE key = 'indexed_seq') AND session = ?1
    ORDER BY 1 DESC LIMIT ?2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_by_session_do_not_sort() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::schema::create(&mut db, 1).unwrap();
        for query in [EVENTS_OF_SESSION, LATEST_EVENTS_OF_SESSION] {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let parameters = vec![1; statement.parameter_count()];
            let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
            let plan: Vec<String> = rows.map(Result::unwrap).collect();
            let is_searched = plan.iter().any(|step| step.contains("SEARCH entry USING PRIMARY KEY"));
            assert!(is_searched && !plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        }
    }
}
