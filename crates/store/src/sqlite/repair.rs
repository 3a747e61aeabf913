//! Damage of the database: finds it, and rebuilds the store from what can be read.
//!
//! Kept is every row that says what it said when it was written, of any version of the schema, and from the backup what
//! the file has no more. All rows are due for a rebuild. Readers of the live feed start from a snapshot, since events
//! may be lost.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{
    Connection, Transaction, ffi, params,
    types::Value::{self, Blob, Integer, Text},
};
use subscope_model::{Millis, SessionId, Tree};

use super::{
    Access, FILE, LOCK, OpenError, SqliteStore, backup, clamp, connect, create_private_folder, forget,
    layout::{
        AGENTS, AT_WORK, CHANGES, FACTS, HELD, HOLDINGS, INBOX, INBOX_PARTS, KIN, LOOKS, QUARTERS, SESSIONS,
        SLOW_CALLS, SOURCES, TOP_AGENTS, TREES, Table, UNSETTLED,
    },
    lock, looks, pack,
    pack::Packer,
    rows, schema, write,
};
use crate::{Commit, StoreError, StoreResult, salvage::DamagedFile};

/// Suffixes of a database's files.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];
/// What the name of a folder with files set aside begins with; it ends with the time in microseconds.
const DAMAGED: &str = "damaged-";
const ASIDE: [&str; 2] = [DAMAGED, "replaced-"];
/// The database while it is built.
const NEW_FILE: &str = "store.db.repaired";

/// Folders of a data folder in which repairs have set damaged files aside, and restorations those that they replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAside(Vec<PathBuf>);

impl SetAside {
    /// Finds those that were made before a time, in microseconds since 1970.
    ///
    /// # Errors
    ///
    /// If the data folder cannot be read.
    pub fn before(folder: &Path, time_us: u64) -> io::Result<Self> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let time_of = |prefix| name.to_str()?.strip_prefix(prefix)?.parse::<u64>().ok();
            let made_us = ASIDE.into_iter().find_map(time_of);
            if made_us.is_some_and(|made_us| made_us < time_us) && entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        Ok(Self(found))
    }

    /// Sets the files of a store aside, in a new folder. Returns it; `None` if there are none.
    pub(super) fn store_of(folder: &Path, prefix: &str, now_us: u64) -> StoreResult<Option<PathBuf>> {
        let aside = folder.join(format!("{prefix}{now_us}"));
        let files = SUFFIXES.map(|suffix| format!("{FILE}{suffix}"));
        let there: Vec<&String> = files.iter().filter(|name| folder.join(name).exists()).collect();
        if there.is_empty() {
            return Ok(None);
        }
        create_private_folder(&aside)?;
        for name in there {
            fs::rename(folder.join(name), aside.join(name))?;
        }
        Ok(Some(aside))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Deletes them.
    ///
    /// # Errors
    ///
    /// If one cannot be deleted.
    pub fn delete(self) -> io::Result<()> {
        self.0.iter().try_for_each(fs::remove_dir_all)
    }
}

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|path| path.display().to_string()).collect();
        f.write_str(&names.join(", "))
    }
}

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Folder with the damaged files; `None` if there were none.
    pub aside: Option<PathBuf>,
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
            return Ok(Some("the file is empty, its log or its backup is not".to_owned()));
        }
        let check = || {
            let db = connect(&path, Access::Read)?;
            let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if version == 0 && has_tables(&db)? {
                return Ok(Some("its header is damaged".to_owned()));
            }
            match find_damage(&db)? {
                None if version == schema::VERSION => rows::find_damaged(&db),
                found => Ok(found),
            }
        };
        match check() {
            Err(error) if crate::is_damage(&error) => Ok(Some(error.to_string())),
            found => found.map_err(|source| OpenError::of_database(folder, source)),
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

/// Whether the database is empty and its WAL or its backup is not: the file was truncated.
pub(super) fn is_emptied(path: &Path) -> bool {
    let bytes = |path: &Path| fs::metadata(path).map(|metadata| metadata.len()).ok();
    let backup = path.parent().map(backup::path);
    let mut others = std::iter::once(with_suffix(path, "-wal")).chain(backup);
    bytes(path) == Some(0) && others.any(|path| bytes(&path).is_some_and(|bytes| bytes > 0))
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
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
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
    // An earlier repair may have been interrupted.
    delete_database(&new)?;
    let mut db = connect(&new, Access::Write)?;
    schema::create(&mut db, clamp(now_us))?;
    let transaction = db.transaction()?;
    // What the store itself has is newer than its backup.
    let mut deliveries = 0;
    let mut sessions = HashMap::new();
    for file in [path.clone(), backup::path(folder)] {
        if file.exists() {
            let file = DamagedFile::open(&file, &with_suffix(&file, "-wal"))?;
            deliveries += keep_rows(&file, &transaction, &mut sessions)?;
        }
    }
    forget::keep_forgotten(&transaction, folder)?;
    mark_due(&transaction)?;
    let count = "SELECT count(*) FROM sessions WHERE is_forgotten = 0";
    let sessions: i64 = transaction.query_row(count, [], |row| row.get(0))?;
    let sessions = sessions.unsigned_abs();
    transaction.commit()?;
    // Closing it writes its WAL into the file.
    db.close().map_err(|(_, error)| error)?;
    let aside = SetAside::store_of(folder, DAMAGED, now_us)?;
    fs::rename(&new, &path)?;
    Ok(Repaired { aside, deliveries, sessions })
}

/// A session of the store that is built.
struct KeptSession {
    id: String,
    is_frozen: bool,
    is_forgotten: bool,
    kept_ms: Millis,
    rev: i64,
    /// Highest rev of the rows of its tree; `None` without a tree.
    tree_rev: Option<u64>,
}

/// Ids of the sessions that are kept.
pub(super) type KeptIds<'s> = HashSet<&'s str>;

/// The sessions of the store that is built, by number.
type KeptSessions = HashMap<i64, KeptSession>;

/// Keeps the rows of a file that the store does not have yet. Returns the number of deliveries.
fn keep_rows(file: &DamagedFile, db: &Transaction<'_>, sessions: &mut KeptSessions) -> StoreResult<u64> {
    let known: HashSet<i64> = sessions.keys().copied().collect();
    // Session rows that are damaged still say when their session was kept, if its tree proves whose they are.
    let mut damaged: KeptSessions = HashMap::new();
    file.rows(&mut |no, values| -> StoreResult<()> {
        match SESSIONS.read(no, &values) {
            Some(row) if row.is_intact => keep_session(db, row.values, &known, sessions),
            Some(row) => {
                damaged.extend(session_of(&row.values));
                Ok(())
            }
            None => Ok(()),
        }
    })?;
    let mut packer = Packer::default();
    let with_tree: HashSet<i64> =
        sessions.iter().filter(|(_, session)| session.tree_rev.is_some()).map(|(no, _)| *no).collect();
    file.rows(&mut |no, values| -> StoreResult<()> {
        let row = TREES.read(no, &values).filter(|row| row.is_intact);
        let Some([Integer(no), Blob(body)]) = row.as_ref().map(|row| row.values.as_slice()) else {
            return Ok(());
        };
        if with_tree.contains(no) {
            return Ok(());
        }
        keep_tree(db, &mut packer, *no, body, &damaged, sessions)
    })?;
    keep_rest(file, db, sessions, &known)
}

/// Returns the session of a row of the session list, with its number.
fn session_of(row: &[Value]) -> Option<(i64, KeptSession)> {
    let [Integer(no), Text(id), _, _, _, Integer(frozen), Integer(forgotten), _, _, Integer(kept_ms), rev] =
        row
    else {
        return None;
    };
    let rev = if let Integer(rev) = rev { *rev } else { 0 };
    let (is_frozen, is_forgotten) = (*frozen != 0, *forgotten != 0);
    let session =
        KeptSession { id: id.clone(), is_frozen, is_forgotten, kept_ms: *kept_ms, rev, tree_rev: None };
    Some((*no, session))
}

/// Keeps a row of the session list: of several with the same number the newest, which a page that is no longer in use may
/// not have; and none of a session that a newer file has (`known`).
fn keep_session(
    db: &Transaction<'_>,
    mut row: Vec<Value>,
    known: &HashSet<i64>,
    sessions: &mut KeptSessions,
) -> StoreResult<()> {
    let Some((no, session)) = session_of(&row) else { return Ok(()) };
    if known.contains(&no) || sessions.get(&no).is_some_and(|kept| kept.rev >= session.rev) {
        return Ok(());
    }
    // The last column; NULL where the version of the schema has none.
    row.pop();
    row.push(Integer(session.rev));
    db.execute("DELETE FROM sessions WHERE no = ?1", [no])?;
    if SESSIONS.restore(db, &row)? {
        sessions.insert(no, session);
    }
    Ok(())
}

/// Keeps the rows of a session, if its tree can be read; also if its row in the session list is lost or damaged.
fn keep_tree(
    db: &Transaction<'_>,
    packer: &mut Packer,
    no: i64,
    body: &[u8],
    damaged: &KeptSessions,
    sessions: &mut KeptSessions,
) -> StoreResult<()> {
    let tree = pack::unpack(body.to_vec()).ok().and_then(|body| serde_json::from_slice::<Tree>(&body).ok());
    let Some(tree) = tree else { return Ok(()) };
    let id = tree.session.id.as_str();
    let is_older = |kept: &KeptSession| kept.tree_rev.is_some_and(|rev| rev >= tree.rev());
    if sessions.get(&no).is_some_and(|kept| kept.is_forgotten || kept.id != id || is_older(kept)) {
        return Ok(());
    }
    if !sessions.contains_key(&no) {
        let add = "INSERT INTO sessions(no, id, last_ms, is_live, rules, row) VALUES(?1, ?2, 0, 0, '', '')
             ON CONFLICT DO NOTHING";
        if db.prepare_cached(add)?.execute(params![no, id])? == 0 {
            return Ok(());
        }
    }
    let lost = damaged.get(&no).filter(|lost| lost.id == id);
    let (id, rev) = (id.to_owned(), clamp(tree.rev()));
    let kept = sessions.entry(no).or_insert_with(|| KeptSession {
        id,
        is_frozen: lost.is_some_and(|lost| lost.is_frozen),
        is_forgotten: false,
        kept_ms: lost.map_or(0, |lost| lost.kept_ms),
        rev,
        tree_rev: None,
    });
    kept.tree_rev = Some(tree.rev());
    let commit = Commit { is_provisional: true, at_ms: kept.kept_ms, ..Commit::default() };
    write::write_session(db, packer, "", &tree, &commit)?;
    if kept.is_frozen {
        db.execute("UPDATE sessions SET is_frozen = 1 WHERE no = ?1", [no])?;
    }
    Ok(())
}

/// Tables whose rows belong to a session, with the place of its number. The last ones are made from trees: their rows are
/// kept of sessions whose tree is lost.
const OF_SESSIONS: [(&Table, usize); 10] = [
    (&SOURCES, 1),
    (&HELD, 0),
    (&HOLDINGS, 1),
    (&KIN, 0),
    // After `holdings`, of which old rows, without a sum, look the same.
    (&FACTS, 0),
    (&AGENTS, 1),
    (&QUARTERS, 0),
    (&AT_WORK, 0),
    (&SLOW_CALLS, 0),
    (&TOP_AGENTS, 0),
];
/// How many of them are not made from trees.
const NOT_OF_TREES: usize = 5;

/// Keeps everything else. Returns the number of deliveries.
fn keep_rest(
    file: &DamagedFile,
    db: &Transaction<'_>,
    sessions: &KeptSessions,
    known: &HashSet<i64>,
) -> StoreResult<u64> {
    let mut deliveries = 0;
    let kept = sessions.values().filter(|session| !session.is_forgotten);
    let ids: KeptIds<'_> = kept.map(|session| session.id.as_str()).collect();
    let mut keep = |no: Option<i64>, values: Vec<Value>| -> StoreResult<()> {
        let intact = |table: &Table| table.read(no, &values).filter(|row| row.is_intact);
        if let Some(row) = intact(&INBOX) {
            if has_valid_sessions(&row.values) {
                deliveries += u64::from(INBOX.restore(db, &row.values)?);
            }
            return Ok(());
        }
        if let Some(row) = intact(&INBOX_PARTS) {
            // It has no key: the backup and pages that are no longer in use have it, too.
            let known = "SELECT 1 FROM inbox_parts WHERE no = ?1 AND session = ?2 AND line = ?3";
            let key = rusqlite::params_from_iter(row.values.iter().take(3));
            if !db.prepare_cached(known)?.exists(key)? {
                INBOX_PARTS.restore(db, &row.values)?;
            }
            return Ok(());
        }
        if let Some(row) = intact(&LOOKS) {
            return looks::keep_row(db, &row.values, &ids);
        }
        if let Some(row) = intact(&CHANGES) {
            CHANGES.restore(db, &row.values)?;
            return Ok(());
        }
        for (at, (table, column)) in OF_SESSIONS.iter().enumerate() {
            let Some(row) = intact(table) else { continue };
            let Some(Integer(no)) = row.values.get(*column) else { continue };
            let is_wanted = |session: &KeptSession| {
                let other = if table.name == KIN.name { row.values.get(1) } else { None };
                let has_other =
                    other.is_none_or(|other| matches!(other, Integer(no) if sessions.contains_key(no)));
                has_other && (at < NOT_OF_TREES || session.tree_rev.is_none() && !session.is_forgotten)
            };
            // What a newer file has of a session is complete.
            if !known.contains(no) && sessions.get(no).is_some_and(is_wanted) {
                table.restore(db, &row.values)?;
            }
            return Ok(());
        }
        Ok(())
    };
    file.rows(&mut keep)?;
    Ok(deliveries)
}

/// Whether the sessions of a delivery are a list of sessions.
fn has_valid_sessions(row: &[Value]) -> bool {
    let is_list = |json: &str| serde_json::from_str::<Vec<SessionId>>(json).is_ok();
    !matches!(row.get(6), Some(Text(json)) if !is_list(json))
}

/// Makes all rows due for a rebuild, and brings the counters up to date.
fn mark_due(db: &Transaction<'_>) -> StoreResult<()> {
    let unsettled = UNSETTLED.sum_with(&[("session", "named.value")]);
    db.execute_batch(&format!(
        "UPDATE sessions SET rules = '', deadline_ms = NULL, sum = {due};
         UPDATE held SET is_compared = 0;
         INSERT OR IGNORE INTO unsettled SELECT named.value, {unsettled}
             FROM inbox, json_each(coalesce(sessions, json_array(session))) named WHERE named.value IS NOT NULL
             AND named.value NOT IN (SELECT id FROM sessions WHERE is_forgotten = 1);
         UPDATE meta SET value = max(value, (SELECT ifnull(max(seq), 0) + 1 FROM changes)) WHERE key = 'next_seq';
         UPDATE meta SET value = max(value, (SELECT ifnull(max(rev), 0) + 1 FROM sessions)) WHERE key = 'next_rev';
         INSERT INTO meta SELECT 'log_from', value FROM meta WHERE key = 'next_seq';",
        due = SESSIONS.sum_with(&[("rules", "''")]),
    ))?;
    Ok(())
}
