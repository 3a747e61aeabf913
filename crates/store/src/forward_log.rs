//! Record of the sessions that a team's server has from this machine: a small database next to the store, so that it
//! does not delay the store's only writer.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, params};
use subscope_model::{ContentLevel, SessionId, Text};

use crate::{
    Access, OpenError, StoreResult,
    sqlite::{clamp, connect, lock, select},
};

/// Database file in the data folder.
const FILE: &str = "team.db";
/// Lock file: held by the one forwarder of a data folder.
const LOCK: &str = "team.lock";

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS forwarded(
    team TEXT NOT NULL, session TEXT NOT NULL, rev INTEGER NOT NULL, sent_rev INTEGER NOT NULL, day TEXT NOT NULL,
    level TEXT NOT NULL, is_deleted INTEGER NOT NULL, project TEXT NOT NULL, docs BLOB NOT NULL,
    PRIMARY KEY(team, session)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS teams(team TEXT PRIMARY KEY, since_us INTEGER NOT NULL) WITHOUT ROWID;
";

/// What a team's server has of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Rev of the session's rows in the store.
    pub rev: u64,
    /// Rev under which the server has them: greater if they were sent again without being new.
    pub sent_rev: u64,
    /// Day of the session for the server; it never changes.
    pub day: Text,
    /// Level of content.
    pub level: ContentLevel,
    /// Whether the server was asked to remove it.
    pub is_deleted: bool,
    /// Name of its project.
    pub project: Text,
    /// Passages that the server has.
    pub docs: Vec<u64>,
}

/// The record of one forwarder. There is one per data folder, by a lock.
pub struct ForwardLog {
    db: Connection,
    team: String,
    _lock: Option<File>,
}

impl ForwardLog {
    /// Opens the record of what a team's server, named by its URL, has. A writer creates a missing one, which begins at
    /// `now_us`, in microseconds since 1970.
    ///
    /// # Errors
    /// [`OpenError`]: another forwarder, nothing to read, or an I/O or database error.
    pub fn open(folder: &Path, access: Access, team: &str, now_us: u64) -> Result<Self, OpenError> {
        let lock = match access {
            Access::Read => None,
            Access::Write => Some(lock(folder, LOCK)?),
        };
        let path: PathBuf = folder.join(FILE);
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let database_error = |source| OpenError::Database { path: folder.to_owned(), source };
        let db = connect(&path, access).map_err(database_error)?;
        if access == Access::Write {
            db.execute_batch(TABLES).map_err(database_error)?;
            let begin = "INSERT OR IGNORE INTO teams VALUES(?1, ?2)";
            db.execute(begin, params![team, clamp(now_us)]).map_err(database_error)?;
        }
        Ok(Self { db, team: team.to_owned(), _lock: lock })
    }

    /// Whether a process forwards the sessions of a data folder.
    pub fn is_forwarding(folder: &Path) -> bool {
        let lock = File::open(folder.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock)))
    }

    /// Returns when the record began, in microseconds since 1970; `None` for a record that no writer has opened for this
    /// team. What the server has from an earlier record is older.
    pub fn since_us(&self) -> StoreResult<Option<u64>> {
        let sql = "SELECT since_us FROM teams WHERE team = ?1";
        let rows: Vec<i64> = select(&self.db, sql, [&self.team], |row| row.get(0))?;
        Ok(rows.first().map(|at| at.unsigned_abs()))
    }

    /// Returns what the server has of each session, without its passages.
    pub fn all(&self) -> StoreResult<HashMap<SessionId, Forwarded>> {
        let sql =
            "SELECT session, rev, sent_rev, day, level, is_deleted, project FROM forwarded WHERE team = ?1";
        let rows = select(&self.db, sql, [&self.team], |row| {
            let level: String = row.get(4)?;
            let forwarded = Forwarded {
                rev: row.get::<_, i64>(1)?.unsigned_abs(),
                sent_rev: row.get::<_, i64>(2)?.unsigned_abs(),
                day: row.get(3)?,
                level: parse_level(&level),
                is_deleted: row.get(5)?,
                project: row.get(6)?,
                docs: Vec::new(),
            };
            Ok((SessionId(row.get(0)?), forwarded))
        })?;
        Ok(rows.into_iter().collect())
    }

    /// Returns the passages that the server has of a session.
    pub fn docs(&self, session: &SessionId) -> StoreResult<Vec<u64>> {
        let sql = "SELECT docs FROM forwarded WHERE team = ?1 AND session = ?2";
        let rows: Vec<Vec<u8>> =
            select(&self.db, sql, params![self.team, session.as_str()], |row| row.get(0))?;
        let (numbers, _) = rows.first().map(Vec::as_slice).unwrap_or_default().as_chunks::<8>();
        Ok(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }

    /// Records what the server has acknowledged, in one transaction.
    pub fn record(&mut self, acknowledged: &[(SessionId, Forwarded)]) -> StoreResult<()> {
        let transaction = self.db.transaction()?;
        {
            let mut add = transaction.prepare_cached(
                "INSERT OR REPLACE INTO forwarded VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for (session, forwarded) in acknowledged {
                let Forwarded { rev, sent_rev, day, level, is_deleted, project, docs } = forwarded;
                let docs: Vec<u8> = docs.iter().flat_map(|doc| doc.to_le_bytes()).collect();
                add.execute(params![
                    self.team,
                    session.as_str(),
                    clamp(*rev),
                    clamp(*sent_rev),
                    day,
                    level.as_str(),
                    is_deleted,
                    project,
                    docs
                ])?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Parses a level; one of a later version counts as the most, so that all is sent again.
fn parse_level(word: &str) -> ContentLevel {
    ContentLevel::ALL.into_iter().find(|level| level.as_str() == word).unwrap_or(ContentLevel::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_sessions_are_found_again_by_team_and_one_forwarder_writes() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(ForwardLog::open(folder.path(), Access::Read, "a", 5), Err(OpenError::Missing(_))));
        let mut log = ForwardLog::open(folder.path(), Access::Write, "a", 5).unwrap();
        assert!(ForwardLog::is_forwarding(folder.path()));
        assert_eq!(log.since_us().unwrap(), Some(5));
        assert!(matches!(ForwardLog::open(folder.path(), Access::Write, "a", 5), Err(OpenError::Locked(_))));
        let forwarded = Forwarded {
            rev: 7,
            sent_rev: 9,
            day: "2026-11-21".into(),
            level: ContentLevel::Titles,
            is_deleted: false,
            project: "shop".into(),
            docs: vec![1, u64::MAX],
        };
        let session = SessionId::from("s");
        log.record(&[(session.clone(), Forwarded { rev: 1, ..forwarded.clone() })]).unwrap();
        log.record(&[(session.clone(), forwarded.clone())]).unwrap();
        assert_eq!(log.docs(&session).unwrap(), [1, u64::MAX]);
        assert_eq!(log.all().unwrap()[&session], Forwarded { docs: Vec::new(), ..forwarded });
        drop(log);
        assert!(!ForwardLog::is_forwarding(folder.path()));
        assert_eq!(ForwardLog::open(folder.path(), Access::Read, "b", 6).unwrap().since_us().unwrap(), None);
        assert_eq!(
            ForwardLog::open(folder.path(), Access::Write, "a", 6).unwrap().since_us().unwrap(),
            Some(5)
        );
        let other = ForwardLog::open(folder.path(), Access::Write, "b", 5).unwrap();
        assert!(other.all().unwrap().is_empty() && other.docs(&session).unwrap().is_empty());
    }
}
