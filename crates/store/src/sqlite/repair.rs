//! Damage of the database: finds it, and rebuilds the store from what can be read.
//!
//! Kept: received input, which exists nowhere else; rows, since the files of some sessions are gone; source files and
//! which sessions were forgotten. All rows are due for a rebuild. Events are not kept: readers of the live feed start
//! from a snapshot.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, Transaction, ffi, params, types::Value};
use subscope_model::{Millis, SessionId, Tree};

use super::{
    Access, FILE, LOCK, OpenError, SqliteStore, clamp, connect, create_private_folder, forget, lock, pack,
    pack::Packer, schema, write,
};
use crate::{Commit, StoreError, StoreResult, salvage::DamagedFile};

/// Suffixes of a database's files.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];
/// The database while it is built.
const NEW_FILE: &str = "store.db.repaired";

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Folder with the damaged files.
    pub aside: PathBuf,
    /// Number of deliveries kept.
    pub deliveries: u64,
    /// Number of sessions with kept rows.
    pub sessions: u64,
}

/// Why a store could not be repaired. The damaged files are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The store cannot be locked.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SqliteStore {
    /// Looks for damage in the whole database. Returns what is wrong; `None` if it is intact or there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn find_damage(folder: &Path) -> Result<Option<String>, OpenError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        if is_emptied(&path) {
            return Ok(Some("the file is empty, its log is not".to_owned()));
        }
        let check = || {
            let db = connect(&path, Access::Read)?;
            let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if version == 0 && has_tables(&db)? {
                return Ok(Some("its header is damaged".to_owned()));
            }
            find_damage(&db)
        };
        match check() {
            Err(error) if crate::is_damage(&error) => Ok(Some(error.to_string())),
            found => found.map_err(|source| OpenError::Database { path: folder.to_owned(), source }),
        }
    }

    /// Rebuilds a damaged store from what can be read of it, and moves the damaged files into a folder of their own.
    /// Call it only after [`Self::find_damage`]. `now_us` is the first event number.
    ///
    /// # Errors
    ///
    /// [`RepairError`]; the store is then as it was.
    pub fn repair(folder: &Path, now_us: u64) -> Result<Repaired, RepairError> {
        let _lock = lock(folder, LOCK)?;
        Ok(repair(folder, now_us)?)
    }
}

/// Looks for damage with SQLite's own check; an error may be one of damage, too.
pub(crate) fn find_damage(db: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((found != "ok").then(|| found.replace('\n', " ")))
}

/// Whether the database is empty and its WAL is not: the file was truncated.
pub(super) fn is_emptied(path: &Path) -> bool {
    let bytes = |path: &Path| fs::metadata(path).map(|metadata| metadata.len()).ok();
    bytes(path) == Some(0) && bytes(&with_suffix(path, "-wal")).is_some_and(|bytes| bytes > 0)
}

/// Whether a database has any table.
pub(super) fn has_tables(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT EXISTS(SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Error of a database that SQLite itself does not find damaged.
pub(super) fn malformed() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None)
}

/// Returns a path with a suffix to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(path);
    path.push(suffix);
    path.into()
}

/// Deletes a database with its WAL, if it exists.
pub(crate) fn delete_database(path: &Path) -> io::Result<()> {
    for suffix in SUFFIXES {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn repair(folder: &Path, now_us: u64) -> StoreResult<Repaired> {
    let (path, new) = (folder.join(FILE), folder.join(NEW_FILE));
    let damaged = DamagedFile::open(&path, &with_suffix(&path, "-wal"))?;
    // An earlier repair may have been interrupted.
    delete_database(&new)?;
    let mut db = connect(&new, Access::Write)?;
    schema::create(&mut db, clamp(now_us))?;
    let transaction = db.transaction()?;
    let sessions = keep_sessions(&damaged, &transaction)?;
    let deliveries = keep_rest(&damaged, &transaction, &sessions)?;
    forget::keep_forgotten(&transaction, folder)?;
    let count = "SELECT count(*) FROM sessions WHERE is_forgotten = 0";
    let sessions: i64 = transaction.query_row(count, [], |row| row.get(0))?;
    let sessions = sessions.unsigned_abs();
    transaction.commit()?;
    // Closing it writes its WAL into the file.
    db.close().map_err(|(_, error)| error)?;
    let aside = folder.join(format!("damaged-{now_us}"));
    create_private_folder(&aside)?;
    for suffix in SUFFIXES {
        let name = format!("{FILE}{suffix}");
        match fs::rename(folder.join(&name), aside.join(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    fs::rename(&new, &path)?;
    Ok(Repaired { aside, deliveries, sessions })
}

/// A session whose row was found.
struct KeptSession {
    id: String,
    is_frozen: bool,
    is_forgotten: bool,
    kept_ms: Millis,
}

/// Keeps the rows of the session list. Returns the sessions by number.
fn keep_sessions(damaged: &DamagedFile, db: &Transaction<'_>) -> StoreResult<HashMap<i64, KeptSession>> {
    use Value::{Integer, Null, Text};
    let mut sessions: HashMap<i64, KeptSession> = HashMap::new();
    damaged.rows(&mut |no, values| -> StoreResult<()> {
        let Ok(
            [
                Null,
                Text(id),
                Integer(last),
                Integer(live),
                Null | Integer(_),
                Integer(frozen),
                Integer(forgotten),
                Text(_),
                Text(row),
                Integer(kept_ms),
            ],
        ) = <[Value; 10]>::try_from(values)
        else {
            return Ok(());
        };
        let Some(no) = no else { return Ok(()) };
        // No program has these rules: the rows are due.
        let added = db
            .prepare_cached(
                "INSERT INTO sessions(no, id, last_ms, is_live, is_frozen, is_forgotten, rules, row, kept_ms)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, '', ?7, ?8) ON CONFLICT DO NOTHING",
            )?
            .execute(params![no, id, last, live, frozen, forgotten, row, kept_ms])?;
        if added > 0 {
            let (is_frozen, is_forgotten) = (frozen != 0, forgotten != 0);
            sessions.insert(no, KeptSession { id, is_frozen, is_forgotten, kept_ms });
        }
        Ok(())
    })?;
    Ok(sessions)
}

/// Keeps everything else. Returns the number of deliveries.
fn keep_rest(
    damaged: &DamagedFile,
    db: &Transaction<'_>,
    sessions: &HashMap<i64, KeptSession>,
) -> StoreResult<u64> {
    use Value::{Blob, Integer, Null, Text};
    let (mut deliveries, mut packer) = (0, Packer::default());
    damaged.rows(&mut |no, values| -> StoreResult<()> {
        match (no, values.as_slice()) {
            (
                Some(no),
                [Null, Text(_), Text(_) | Null, Text(_), Text(_), Integer(_), Text(_) | Null, Blob(_)],
            ) => {
                deliveries += keep_delivery(db, no, &values)? as u64;
            }
            (Some(_), [Integer(no), Text(session), Integer(line), Integer(offset), Blob(body)]) => {
                db.prepare_cached(
                    "INSERT INTO inbox_parts(no, session, line, offset, body) VALUES(?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![no, session, line, offset, body])?;
            }
            (Some(no), [Null, Blob(body)]) => {
                let session = sessions.get(&no);
                if session.is_none_or(|session| !session.is_forgotten) {
                    keep_tree(db, &mut packer, session, body)?;
                }
            }
            (None, [Blob(path), Integer(no), Integer(inode), Integer(bytes), Integer(modified_ns)])
                if sessions.contains_key(no) =>
            {
                db.prepare_cached("INSERT OR IGNORE INTO sources VALUES(?1, ?2, ?3, ?4, ?5)")?
                    .execute(params![path, no, inode, bytes, modified_ns])?;
            }
            (Some(no), [Null, began @ (Integer(_) | Null), Blob(heads), Integer(_)])
                if sessions.contains_key(&no) =>
            {
                db.prepare_cached(
                    "INSERT OR IGNORE INTO held(session_no, began_ms, heads) VALUES(?1, ?2, ?3)",
                )?
                .execute(params![no, began, heads])?;
            }
            (Some(no), [Null, Integer(session_no), Blob(keys)]) if sessions.contains_key(session_no) => {
                db.prepare_cached("INSERT OR IGNORE INTO holdings(no, session_no, keys) VALUES(?1, ?2, ?3)")?
                    .execute(params![no, session_no, keys])?;
            }
            _ => {}
        }
        Ok(())
    })?;
    // Rows of these sessions may lack input.
    db.execute_batch(
        "INSERT OR IGNORE INTO unsettled SELECT named.value
             FROM inbox, json_each(coalesce(sessions, json_array(session))) named WHERE named.value IS NOT NULL;",
    )?;
    Ok(deliveries)
}

/// Keeps a delivery. Returns how many were added: 0 if it is already stored.
fn keep_delivery(db: &Transaction<'_>, no: i64, values: &[Value]) -> StoreResult<usize> {
    let [_, source, session, key, dialect, received_ms, sessions, body] = values else { return Ok(0) };
    let is_list = |json: &str| serde_json::from_str::<Vec<SessionId>>(json).is_ok();
    if matches!(sessions, Value::Text(json) if !is_list(json)) {
        return Ok(0);
    }
    let mut add = db.prepare_cached(
        "INSERT INTO inbox(no, source, session, key, dialect, received_ms, sessions, body)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
    )?;
    Ok(add.execute(params![no, source, session, key, dialect, received_ms, sessions, body])?)
}

/// Keeps the rows of a session, if its tree can be read; also if its row in the session list is lost.
fn keep_tree(
    db: &Transaction<'_>,
    packer: &mut Packer,
    session: Option<&KeptSession>,
    body: &[u8],
) -> StoreResult<()> {
    let tree = pack::unpack(body.to_vec()).ok().and_then(|body| serde_json::from_slice::<Tree>(&body).ok());
    let is_its = |tree: &Tree| session.is_none_or(|session| tree.session.id.as_str() == session.id);
    let Some(tree) = tree.filter(is_its) else { return Ok(()) };
    let kept_ms = session.map_or(0, |session| session.kept_ms);
    let commit = Commit { is_provisional: true, at_ms: kept_ms, ..Commit::default() };
    write::write_session(db, packer, "", &tree, &commit)?;
    if session.is_some_and(|session| session.is_frozen) {
        db.execute("UPDATE sessions SET is_frozen = 1 WHERE id = ?1", [tree.session.id.as_str()])?;
    }
    Ok(())
}
