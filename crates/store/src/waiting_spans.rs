//! Spans of other programs, such as a web server's, in traces of which no agent program has reported anything yet: they link
//! what agents report later. A small database next to the store, so that they do not delay its only writer.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::{
    StoreError, StoreResult,
    sqlite::{Access, clamp, connect, delete_database, select},
};

/// Database file in the data folder.
const FILE: &str = "waiting-spans.db";

/// Most bytes of spans that wait on disk. Above that the oldest go.
const MAX_BYTES: i64 = 64 << 20;
/// The same in memory.
const MAX_MEMORY_BYTES: i64 = 16 << 20;

/// Most traces of agent programs that are known: of one that was forgotten, spans of other programs wait in vain.
const MAX_KNOWN: i64 = 100_000;

/// `ends` is the end of a line in the sequence of all lines, in bytes: what ends a bound before the last one is too old.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS waiting(
    ends INTEGER PRIMARY KEY, session TEXT NOT NULL, key TEXT NOT NULL, dialect TEXT NOT NULL, records INTEGER NOT NULL,
    line BLOB NOT NULL, UNIQUE(session, key));
CREATE TABLE IF NOT EXISTS known(no INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE);
";

/// Spans of one trace in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedLine {
    /// Session of the trace ([`subscope_model::TraceSpan::session_of_trace`]).
    pub session: String,
    /// Key of their delivery: a second one with the same key is not kept.
    pub key: String,
    /// Name of their dialect.
    pub dialect: String,
    /// Number of spans.
    pub records: u64,
    /// The spans.
    pub line: Vec<u8>,
}

/// The spans that wait, and the traces of agent programs.
pub struct WaitingSpans {
    db: Connection,
    path: Option<PathBuf>,
}

impl WaitingSpans {
    /// Opens those of a data folder, or of this process alone. Damaged ones are deleted.
    ///
    /// # Errors
    /// If the database cannot be opened.
    pub fn open(folder: Option<&Path>) -> StoreResult<Self> {
        let path = folder.map(|folder| folder.join(FILE));
        let opened = match open(path.as_deref()) {
            Err(StoreError::Damaged(_)) => {
                path.as_deref().map(delete_database).transpose()?;
                open(path.as_deref())
            }
            opened => opened,
        };
        Ok(Self { db: opened?, path })
    }

    /// Records that an agent program has reported something in a trace. Returns the spans that wait for that; they wait
    /// until they are [removed](Self::remove).
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn know(&mut self, session: &str) -> StoreResult<Vec<KeyedLine>> {
        self.mended(|db| {
            if !is_known(db, session)? {
                db.prepare_cached("INSERT INTO known(session) VALUES(?1)")?.execute([session])?;
                let mut forget =
                    db.prepare_cached("DELETE FROM known WHERE no <= (SELECT max(no) FROM known) - ?1")?;
                forget.execute([MAX_KNOWN])?;
            }
            let sql = "SELECT key, dialect, records, line FROM waiting WHERE session = ?1 ORDER BY ends";
            select(db, sql, [session], |row| {
                Ok(KeyedLine {
                    session: session.to_owned(),
                    key: row.get(0)?,
                    dialect: row.get(1)?,
                    records: row.get::<_, i64>(2)?.unsigned_abs(),
                    line: row.get(3)?,
                })
            })
        })
    }

    /// Has spans wait, unless an agent program has reported something in their trace. Returns whether they wait.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn wait(&mut self, span: &KeyedLine) -> StoreResult<bool> {
        let max_bytes = if self.path.is_some() { MAX_BYTES } else { MAX_MEMORY_BYTES };
        self.mended(|db| {
            let KeyedLine { session, key, dialect, records, line } = span;
            if is_known(db, session)? {
                return Ok(false);
            }
            let last: Option<i64> =
                db.prepare_cached("SELECT max(ends) FROM waiting")?.query_row([], |row| row.get(0))?;
            let ends = last.unwrap_or_default().saturating_add(clamp(line.len().max(1) as u64));
            db.prepare_cached("INSERT OR IGNORE INTO waiting VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![ends, session, key, dialect, clamp(*records), line])?;
            db.prepare_cached("DELETE FROM waiting WHERE ends <= ?1")?.execute([ends - max_bytes])?;
            Ok(true)
        })
    }

    /// Removes spans, by session and key: they are kept elsewhere by now.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn remove(&mut self, spans: &BTreeSet<(String, String)>) -> StoreResult<()> {
        self.mended(|db| {
            let mut remove = db.prepare_cached("DELETE FROM waiting WHERE session = ?1 AND key = ?2")?;
            for (session, key) in spans {
                remove.execute([session, key])?;
            }
            Ok(())
        })
    }

    /// Runs a transaction; in a damaged database, again in a new one.
    fn mended<T>(&mut self, run: impl Fn(&Transaction<'_>) -> StoreResult<T>) -> StoreResult<T> {
        match transact(&mut self.db, &run) {
            Err(StoreError::Damaged(_)) => {
                if let Some(path) = self.path.as_deref() {
                    self.db = open(None)?;
                    delete_database(path)?;
                }
                self.db = open(self.path.as_deref())?;
                transact(&mut self.db, &run)
            }
            outcome => outcome,
        }
    }
}

/// Writes the database of a data folder anew, so that nothing of removed spans is left in unused parts of its pages. A
/// damaged one is deleted.
pub(crate) fn rewrite(folder: &Path) -> StoreResult<()> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(());
    }
    let rewritten = open(Some(&path)).and_then(|db| {
        db.execute_batch("VACUUM")?;
        Ok(db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    });
    match rewritten {
        Err(StoreError::Damaged(_)) => Ok(delete_database(&path)?),
        rewritten => rewritten,
    }
}

fn open(path: Option<&Path>) -> StoreResult<Connection> {
    let db = path.map_or_else(Connection::open_in_memory, |path| connect(path, Access::Write))?;
    db.execute_batch(TABLES)?;
    Ok(db)
}

fn transact<T>(db: &mut Connection, run: impl Fn(&Transaction<'_>) -> StoreResult<T>) -> StoreResult<T> {
    let transaction = db.transaction()?;
    let result = run(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

fn is_known(db: &Transaction<'_>, session: &str) -> StoreResult<bool> {
    let mut known = db.prepare_cached("SELECT 1 FROM known WHERE session = ?1")?;
    Ok(known.query_row([session], |_| Ok(())).optional()?.is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::SqliteStore;

    fn span(trace: &str, key: &str, bytes: usize) -> KeyedLine {
        let (session, key, dialect) = (trace.to_owned(), key.to_owned(), "otel".to_owned());
        KeyedLine { session, key, dialect, records: 3, line: vec![b'x'; bytes] }
    }

    fn remove(spans: &mut WaitingSpans, taken: &[KeyedLine]) {
        let keys = taken.iter().map(|span| (span.session.clone(), span.key.clone())).collect();
        spans.remove(&keys).unwrap();
    }

    #[test]
    fn spans_wait_until_their_trace_is_known_and_they_are_kept_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        for folder in [None, Some(folder.path())] {
            let mut spans = WaitingSpans::open(folder).unwrap();
            for (trace, key) in [("a", "1"), ("b", "1"), ("a", "2"), ("a", "1")] {
                assert!(spans.wait(&span(trace, key, 10)).unwrap());
            }
            if folder.is_some() {
                spans = WaitingSpans::open(folder).unwrap();
            }
            let expected = [span("a", "1", 10), span("a", "2", 10)];
            assert_eq!(spans.know("a").unwrap(), expected);
            assert_eq!(spans.know("a").unwrap(), expected, "nobody has them yet");
            assert!(!spans.wait(&span("a", "3", 10)).unwrap(), "they need not wait");
            remove(&mut spans, &expected);
            assert_eq!(spans.know("a").unwrap(), []);
            assert_eq!(spans.know("b").unwrap(), [span("b", "1", 10)]);
        }
    }

    #[test]
    fn oldest_spans_go_above_the_bound() {
        let mut spans = WaitingSpans::open(None).unwrap();
        let bytes = MAX_MEMORY_BYTES as usize / 4;
        (0..6).for_each(|trace| assert!(spans.wait(&span(&trace.to_string(), "1", bytes)).unwrap()));
        let waiting: Vec<bool> =
            (0..6).map(|trace| !spans.know(&trace.to_string()).unwrap().is_empty()).collect();
        assert_eq!(waiting, [false, false, true, true, true, true]);
        assert!(spans.wait(&span("long", "1", 2 * MAX_MEMORY_BYTES as usize)).unwrap());
        assert_eq!(spans.know("5").unwrap(), []);
        assert_eq!(spans.know("long").unwrap().len(), 1, "alone it is kept, whatever its length");
    }

    #[test]
    fn nothing_of_removed_spans_is_left_once_a_session_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut spans = WaitingSpans::open(Some(folder.path())).unwrap();
        let taken = span("a", "1", 10_000);
        assert!(spans.wait(&taken).unwrap());
        remove(&mut spans, &[taken]);
        let is_left = || {
            let files = fs::read_dir(folder.path()).unwrap();
            files
                .map(|file| fs::read(file.unwrap().path()).unwrap())
                .any(|bytes| bytes.windows(100).any(|window| window == [b'x'; 100]))
        };
        assert!(is_left());
        let mut store = SqliteStore::open(folder.path(), Access::Write, "rules", 1).unwrap();
        store.forget(&["a session".into()]).unwrap();
        assert!(!is_left());
        assert!(spans.wait(&span("b", "1", 10)).unwrap(), "the hub goes on");
    }

    #[test]
    fn damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "no database, of more bytes than a header has ".repeat(100)).unwrap();
        let mut spans = WaitingSpans::open(Some(folder.path())).unwrap();
        assert!(spans.wait(&span("a", "1", 10)).unwrap());
        drop(spans);
        let mut bytes = fs::read(&path).unwrap();
        bytes[4096..].fill(0xff);
        let damaged = bytes.clone();
        fs::write(&path, bytes).unwrap();
        let mut spans = WaitingSpans::open(Some(folder.path())).unwrap();
        assert!(spans.wait(&span("a", "2", 10)).unwrap());
        assert_eq!(spans.know("a").unwrap().len(), 1);
        drop(spans);
        fs::write(&path, damaged).unwrap();
        let mut store = SqliteStore::open(folder.path(), Access::Write, "rules", 1).unwrap();
        store.forget(&["a session".into()]).unwrap();
        assert!(!path.exists(), "damage of it keeps nobody from forgetting");
    }
}
