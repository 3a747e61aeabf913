//! What was received and what was told, found again by key and by session.
//!
//! Both are appended as they come, to the end of their tables. What finds them by anything else than their place stands
//! in tables that are sorted otherwise: written row by row each row would touch pages of its own there (half of all that
//! was written under load), so they are written in batches, sorted. Rows behind the last batch are few: this module
//! knows their keys, and whoever asks by session looks through them.

use hashbrown::HashSet;
use rusqlite::{Connection, Transaction, params};
use subscope_model::SessionId;

use crate::ReceivedInput;

/// How many rows are filed at once. More would hold up a commit for longer; fewer would share fewer pages.
const BATCH: usize = 1000;

/// What was appended since the last batch.
#[derive(Debug, Default)]
pub(super) struct Filing {
    /// Sources and keys.
    keys: HashSet<(String, String)>,
    /// How many sessions are told of, each counted with every row.
    sessions: usize,
    told: usize,
}

impl Filing {
    /// Files what a process of before has left.
    pub(super) fn begin(db: &mut Connection) -> rusqlite::Result<Self> {
        let transaction = db.transaction()?;
        Self::everything(&transaction)?;
        transaction.commit()?;
        Ok(Self::default())
    }

    pub(super) fn has_received(&self, db: &Connection, source: &str, key: &str) -> rusqlite::Result<bool> {
        // Two owned strings a question would cost more than the question.
        if self.keys.contains(&Named(source, key)) {
            return Ok(true);
        }
        db.prepare_cached("SELECT 1 FROM inbox_keys WHERE source = ?1 AND key = ?2")?.exists([source, key])
    }

    /// Notes what a transaction has appended, and files it where it is enough. What it says holds once that is committed.
    pub(super) fn take(
        &self,
        db: &Transaction<'_>,
        received: HashSet<(&str, &str)>,
        sessions: usize,
        told: usize,
    ) -> rusqlite::Result<Taken> {
        // Whoever asks for a session looks through all that are told of by what is not filed.
        let file_received = (self.keys.len() + received.len()).max(self.sessions + sessions) >= BATCH;
        let file_told = self.told + told >= BATCH;
        if file_received {
            file_all_received(db)?;
        }
        if file_told {
            file_all_told(db)?;
        }
        let own = |(source, key): (&str, &str)| (source.to_owned(), key.to_owned());
        let keys = if file_received { None } else { Some(received.into_iter().map(own).collect()) };
        Ok(Taken { keys, sessions, told: if file_told { None } else { Some(told) } })
    }

    /// The transaction is committed.
    pub(super) fn settle(&mut self, taken: Taken) {
        match taken.keys {
            Some(keys) => {
                self.keys.extend(keys);
                self.sessions += taken.sessions;
            }
            None => {
                self.keys.clear();
                self.sessions = 0;
            }
        }
        self.told = taken.told.map_or(0, |told| self.told + told);
    }

    /// Files all there is.
    pub(super) fn everything(db: &Transaction<'_>) -> rusqlite::Result<Taken> {
        file_all_received(db)?;
        file_all_told(db)?;
        Ok(Taken { keys: None, sessions: 0, told: None })
    }
}

/// A source and a key that are looked for.
#[derive(Hash)]
struct Named<'a>(&'a str, &'a str);

impl hashbrown::Equivalent<(String, String)> for Named<'_> {
    fn equivalent(&self, (source, key): &(String, String)) -> bool {
        self.0 == source && self.1 == key
    }
}

/// What a transaction has added behind the last batch; `None` where it has filed a batch.
#[derive(Debug)]
pub(super) struct Taken {
    keys: Option<Vec<(String, String)>>,
    sessions: usize,
    told: Option<usize>,
}

/// Appends what was received and returns its place.
pub(super) fn append(db: &Transaction<'_>, row: &ReceivedInput, packed: &[u8]) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "INSERT INTO inbox(source, session, key, dialect, received_ms, sessions, body)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .insert(params![
        row.source,
        row.session,
        row.key,
        row.dialect,
        row.received_ms,
        sessions(row)?,
        packed
    ])
}

/// The sessions that a row tells of, as JSON; `None` where it is the one that its sender named.
fn sessions(row: &ReceivedInput) -> rusqlite::Result<Option<String>> {
    if let ([only], Some(named)) = (row.sessions.as_slice(), &row.session)
        && only.as_str() == named
    {
        return Ok(None);
    }
    let ids: Vec<&str> = row.sessions.iter().map(SessionId::as_str).collect();
    let text = serde_json::to_string(&ids);
    text.map(Some).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn file_all_received(db: &Transaction<'_>) -> rusqlite::Result<()> {
    db.execute_batch(
        "INSERT OR IGNORE INTO inbox_keys
             SELECT source, key FROM inbox
             WHERE no > (SELECT value FROM meta WHERE key = 'indexed_inbox_no') ORDER BY source, key;
         INSERT OR IGNORE INTO inbox_of
             SELECT told.value, no FROM inbox, json_each(coalesce(sessions, json_array(session))) told
             WHERE no > (SELECT value FROM meta WHERE key = 'indexed_inbox_no') ORDER BY told.value, no;
         UPDATE meta SET value = (SELECT ifnull(max(no), 0) FROM inbox) WHERE key = 'indexed_inbox_no';",
    )
}

fn file_all_told(db: &Transaction<'_>) -> rusqlite::Result<()> {
    db.execute_batch(
        "INSERT OR IGNORE INTO changes_of
             SELECT session, seq FROM changes
             WHERE seq > (SELECT value FROM meta WHERE key = 'indexed_seq') ORDER BY session, seq;
         UPDATE meta SET value = (SELECT ifnull(max(seq), 0) FROM changes) WHERE key = 'indexed_seq';",
    )
}

/// The places in the inbox of what tells of a session, `?1`, filed or not.
pub(super) const RECEIVED_OF: &str = "
    SELECT no FROM inbox_of WHERE session = ?1
    UNION
    SELECT no FROM inbox, json_each(coalesce(sessions, json_array(inbox.session))) told
        WHERE no > (SELECT value FROM meta WHERE key = 'indexed_inbox_no') AND told.value = ?1";

/// Events of a session, `?1`, behind a place, `?2`, at most `?3`, filed or not. Both halves come sorted and are merged: no
/// more of them is read than is asked for.
pub(super) const TOLD_OF: &str = "
    SELECT filed.seq AS place, body FROM changes_of filed CROSS JOIN changes ON changes.seq = filed.seq
        WHERE filed.session = ?1 AND filed.seq > ?2
    UNION ALL
    SELECT seq, body FROM changes
        WHERE seq > max(?2, (SELECT value FROM meta WHERE key = 'indexed_seq')) AND session = ?1
    ORDER BY 1 LIMIT ?3";

/// The last events of a session, `?1`, the newest first, at most `?2`.
pub(super) const TOLD_LAST_OF: &str = "
    SELECT filed.seq AS place, body FROM changes_of filed CROSS JOIN changes ON changes.seq = filed.seq
        WHERE filed.session = ?1
    UNION ALL
    SELECT seq, body FROM changes
        WHERE seq > (SELECT value FROM meta WHERE key = 'indexed_seq') AND session = ?1
    ORDER BY 1 DESC LIMIT ?2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_for_a_session_sort_nothing() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::schema::create(&mut db, 1).unwrap();
        for query in [TOLD_OF, TOLD_LAST_OF] {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let parameters = vec![1; statement.parameter_count()];
            let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
            let plan: Vec<String> = rows.map(Result::unwrap).collect();
            let is_searched = plan.iter().any(|step| step.contains("SEARCH filed USING PRIMARY KEY"));
            assert!(is_searched && !plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        }
    }
}
