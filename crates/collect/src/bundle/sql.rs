//! Sessions of a SQLite database.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{CachedStatement, Connection, OpenFlags};
use subscope_harness::SqlBundle;
use subscope_model::Millis;

use super::{Bundled, LineIndex, Node, Window, roots};
use crate::source::SourceStat;

/// Timeout of a read while the harness holds a lock: it locks the database only briefly, when it recovers it.
const LOCKED_AT_MOST: Duration = Duration::from_millis(500);
/// How many bytes of lines are read at once.
const WINDOW_BYTES: u64 = 8 << 20;

/// Cache of a database that stays open, in KiB: its schema and the upper pages of its indexes.
const CACHE_KIB: i64 = 256;

/// An open database that no other process has open, with its metadata at the time of opening.
struct QuietDatabase {
    path: PathBuf,
    stat: SourceStat,
    database: Connection,
}

thread_local! {
    /// The database that this thread read last. Opening it again and parsing its schema takes longer than reading one
    /// of its sessions. No lock is held on it.
    static LAST_QUIET: RefCell<Option<QuietDatabase>> = const { RefCell::new(None) };
}

/// Reads a database in one transaction.
fn read<T>(path: &Path, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> io::Result<T> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut log: OsString = path.as_os_str().to_owned();
    log.push("-wal");
    // Without a log no process has the database open, or none has written yet: open it so that SQLite creates no files.
    let is_quiet = !Path::new(&log).exists();
    let read_live = || read_in(&connect(path, false)?, &read);
    let outcome = if is_quiet { read_quiet(path, &read)? } else { read_live() };
    let began_meanwhile = is_quiet && Path::new(&log).exists();
    let outcome = if began_meanwhile { read_live() } else { outcome };
    outcome.map_err(io::Error::other)
}

/// Reads a database without a write-ahead log. A writer creates a log first, so a file with the same metadata is
/// unchanged.
fn read_quiet<T>(
    path: &Path,
    read: &impl Fn(&Connection) -> rusqlite::Result<T>,
) -> io::Result<rusqlite::Result<T>> {
    let stat = SourceStat::of_path(path)?;
    let known = LAST_QUIET.take().filter(|known| known.path == path && known.stat == stat);
    let known = match known {
        Some(known) => Ok(known),
        None => connect(path, true).map(|database| QuietDatabase { path: path.to_owned(), stat, database }),
    };
    Ok(known.and_then(|known| {
        let outcome = read_in(&known.database, read)?;
        LAST_QUIET.set(Some(known));
        Ok(outcome)
    }))
}

fn read_in<T>(
    database: &Connection,
    read: &impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = database.unchecked_transaction()?;
    read(&transaction)
}

fn connect(path: &Path, is_quiet: bool) -> rusqlite::Result<Connection> {
    let mut url = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                url.push(char::from(*byte))
            }
            _ => url.push_str(&format!("%{byte:02x}")),
        }
    }
    url.push_str(if is_quiet { "?immutable=1" } else { "?mode=ro" });
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(url, flags)?;
    database.busy_timeout(LOCKED_AT_MOST)?;
    database.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(database)
}

/// Returns the first of several queries that the database understands.
fn prepare<'c>(database: &'c Connection, queries: &[&str]) -> rusqlite::Result<CachedStatement<'c>> {
    let mut last = Err(rusqlite::Error::InvalidQuery);
    for query in queries {
        last = database.prepare_cached(query);
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Returns all sessions.
pub(super) fn nodes(path: &Path, form: &SqlBundle) -> io::Result<Vec<Node>> {
    let nodes = read(path, |database| nodes_in(database, form));
    nodes.map_err(|error| explained(error, path, form))
}

/// Returns why a database is not read, or not all of it: it has sessions of another version.
pub(super) fn unread(path: &Path, form: &SqlBundle) -> Option<String> {
    let count = |database: &Connection| {
        let counts = form.unread.iter().filter_map(|(query, version)| {
            let number: i64 = database.query_row(query, [], |row| row.get(0)).ok()?;
            (number > 0).then_some((number, *version))
        });
        Ok(counts.into_iter().next())
    };
    let (number, version) = read(path, count).ok().flatten()?;
    let sessions = if number == 1 { "1 session".to_owned() } else { format!("{number} sessions") };
    Some(format!("it has {sessions} of {version}, which subscope does not read"))
}

/// Returns the error of a database that cannot be read, with the reason where that is its version.
fn explained(error: io::Error, path: &Path, form: &SqlBundle) -> io::Error {
    match unread(path, form) {
        Some(why) => io::Error::other(why),
        None => error,
    }
}

fn nodes_in(database: &Connection, form: &SqlBundle) -> rusqlite::Result<Vec<Node>> {
    let mut query = database.prepare_cached(form.sessions)?;
    let node = |row: &rusqlite::Row<'_>| {
        let modified_ms = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
        Ok(Node { session: row.get(0)?, parent: row.get(1)?, modified_ms })
    };
    query.query_map([], node)?.collect()
}

/// Returns the root sessions with their sizes.
pub(super) fn sessions(path: &Path, form: &SqlBundle) -> io::Result<Vec<Bundled>> {
    let found = read(path, |database| {
        let nodes = nodes_in(database, form)?;
        let roots = roots(&nodes);
        let all: Vec<&str> = roots.iter().flat_map(|root| root.tree.iter().copied()).collect();
        let sizes = sizes(database, form, &all)?;
        let mut found = Vec::new();
        for root in roots {
            let len = length(database, form, &sizes, &root.tree)?;
            found.push(Bundled { path: path.join(root.session), len, modified_ms: root.modified_ms });
        }
        Ok(found)
    });
    found.map_err(|error| explained(error, path, form))
}

/// Returns where the lines of a session are.
pub(super) fn index(at: &Path, form: &SqlBundle, session: &str) -> io::Result<LineIndex> {
    read(at, |database| index_in(database, form, session))?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns where the lines of a session are, with those at an offset.
pub(super) fn open(
    at: &Path,
    form: &SqlBundle,
    session: &str,
    offset: u64,
) -> io::Result<(LineIndex, Window)> {
    let found = read(at, |database| {
        let Some(index) = index_in(database, form, session)? else { return Ok(None) };
        let window = window_in(database, form, &index, offset)?;
        Ok(Some((index, window)))
    })?;
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns lines of one session: see [`super::window`].
pub(super) fn window(at: &Path, form: &SqlBundle, index: &LineIndex, offset: u64) -> io::Result<Window> {
    read(at, |database| window_in(database, form, index, offset))
}

/// Returns `None` if the session does not exist.
fn index_in(database: &Connection, form: &SqlBundle, session: &str) -> rusqlite::Result<Option<LineIndex>> {
    let (tree, modified_ms) = tree(database, form, session)?;
    if tree.is_empty() {
        return Ok(None);
    }
    let tree: Vec<&str> = tree.iter().map(String::as_str).collect();
    let mut silent = tree.clone();
    let mut numbered = Vec::new();
    let mut lengths = prepare(database, form.lengths)?;
    let mut lengths = lengths.query([json_array(&tree)])?;
    while let Some(row) = lengths.next()? {
        numbered.push((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        if !silent.is_empty() {
            let session = row.get_ref(2)?.as_bytes()?;
            silent.retain(|other| other.as_bytes() != session);
        }
    }
    let first = if silent.is_empty() { Vec::new() } else { rows(database, form, &silent)? };
    Ok(Some(LineIndex::new(first, numbered, modified_ms)))
}

fn window_in(
    database: &Connection,
    form: &SqlBundle,
    index: &LineIndex,
    offset: u64,
) -> rusqlite::Result<Window> {
    let mut window = Window { from: index.first.len() as u64, bytes: Vec::new() };
    if offset < window.from {
        return Ok(Window::default());
    }
    let mut line = prepare(database, form.line)?;
    for (number, length) in &index.numbered {
        if window.bytes.is_empty() && window.from + length <= offset {
            window.from += length;
            continue;
        }
        let mut found = line.query([number])?;
        if let Some(row) = found.next()? {
            window.bytes.extend_from_slice(row.get_ref(0)?.as_bytes()?);
            window.bytes.push(b'\n');
        }
        if window.bytes.len() as u64 >= WINDOW_BYTES {
            break;
        }
    }
    Ok(window)
}

/// Returns a session and those below it, and when one of them was last changed; nothing if none of them exists.
fn tree(database: &Connection, form: &SqlBundle, root: &str) -> rusqlite::Result<(Vec<String>, Millis)> {
    let mut query = database.prepare_cached(form.tree)?;
    let (mut tree, mut modified_ms) = (Vec::new(), Millis::MIN);
    let mut found = query.query([root])?;
    while let Some(row) = found.next()? {
        tree.push(row.get(0)?);
        modified_ms = modified_ms.max(row.get::<_, Option<i64>>(1)?.unwrap_or(0));
    }
    if !tree.is_empty() && tree.iter().all(|session| session != root) {
        // Its row was deleted. Its events, messages or those below it may still be there.
        tree.push(root.to_owned());
    }
    Ok((tree, modified_ms))
}

/// Returns the bytes of the lines of sessions, for those that have some.
fn sizes(
    database: &Connection,
    form: &SqlBundle,
    sessions: &[&str],
) -> rusqlite::Result<HashMap<String, u64>> {
    let mut query = prepare(database, form.sizes)?;
    let size = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
    query.query_map([json_array(sessions)], size)?.collect()
}

/// Returns the number of bytes of a session's lines.
fn length(
    database: &Connection,
    form: &SqlBundle,
    sizes: &HashMap<String, u64>,
    tree: &[&str],
) -> rusqlite::Result<u64> {
    let silent: Vec<&str> = tree.iter().copied().filter(|session| !sizes.contains_key(*session)).collect();
    let rest = if silent.is_empty() { 0 } else { rows(database, form, &silent)?.len() as u64 };
    Ok(tree.iter().filter_map(|session| sizes.get(*session)).sum::<u64>() + rest)
}

/// Returns the lines of sessions that have no events.
fn rows(database: &Connection, form: &SqlBundle, sessions: &[&str]) -> rusqlite::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut query = database.prepare_cached(form.rows)?;
    let mut rows = query.query([json_array(sessions)])?;
    while let Some(row) = rows.next()? {
        text.extend_from_slice(row.get_ref(0)?.as_bytes()?);
        text.push(b'\n');
    }
    Ok(text)
}

/// Returns lines of the totals that the database states of a session and those below it; none where it is of a version that
/// states none.
pub(super) fn totals(at: &Path, form: &SqlBundle, session: &str) -> io::Result<Vec<u8>> {
    read(at, |database| {
        let (tree, _) = tree(database, form, session)?;
        let tree: Vec<&str> = tree.iter().map(String::as_str).collect();
        let Ok(mut query) = database.prepare_cached(form.totals) else { return Ok(Vec::new()) };
        let mut rows = query.query([json_array(&tree)])?;
        let mut text = Vec::new();
        while let Some(row) = rows.next()? {
            text.extend_from_slice(row.get_ref(0)?.as_bytes()?);
            text.push(b'\n');
        }
        Ok(text)
    })
}

/// Ids hold no quotes; what does is left out.
fn json_array(ids: &[&str]) -> String {
    let plain = ids.iter().filter(|id| !id.contains(['"', '\\']));
    let quoted: Vec<String> = plain.map(|id| format!("\"{id}\"")).collect();
    format!("[{}]", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{read_file, read_span};

    #[test]
    fn lines_from_any_offset_are_the_end_of_all_lines() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode/1.18.33");
        let path = crate::newest_session(&fixtures.join("two_parallel/opencode.db")).unwrap().unwrap();
        let mut all = Vec::new();
        read_file(&path, 0, &mut Vec::new(), &mut |_, bytes| all.extend_from_slice(bytes)).unwrap();
        assert_eq!(super::super::stat(&path).unwrap().len, all.len() as u64);
        for offset in (0..all.len()).step_by(397) {
            let end = all.len().min(offset + 1_000);
            let span = read_span(&path, offset as u64, end - offset).unwrap();
            assert_eq!(span, all[offset..end], "{offset}");
        }
        assert!(read_span(&path, all.len() as u64, 1).is_err());
    }

    #[test]
    fn a_database_that_stays_open_is_read_as_it_is_now() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode/1.18.33");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        let copy = |scenario: &str| {
            let copied = folder.path().join("copy.db");
            fs::copy(fixtures.join(scenario).join("opencode.db"), &copied).unwrap();
            fs::rename(copied, &path).unwrap();
        };
        let lines = |session: &Path| {
            let mut all = Vec::new();
            read_file(session, 0, &mut Vec::new(), &mut |_, bytes| all.extend_from_slice(bytes)).unwrap();
            all
        };
        let is_kept = || LAST_QUIET.with_borrow(|last| last.as_ref().is_some_and(|last| last.path == path));
        copy("two_parallel");
        let first = crate::newest_session(&path).unwrap().unwrap();
        let before = lines(&first);
        assert!(is_kept());
        assert_eq!(lines(&first), before);
        // Written by the harness, first into its log.
        let harness = Connection::open(&path).unwrap();
        harness.pragma_update(None, "journal_mode", "WAL").unwrap();
        harness.execute("UPDATE event SET data = replace(data, 'a', 'b')", []).unwrap();
        let changed = lines(&first);
        assert_ne!(changed, before);
        harness.close().unwrap();
        assert_eq!(lines(&first), changed, "the log is gone");
        assert!(is_kept());
        // Replaced by another database.
        copy("nested");
        let other = crate::newest_session(&path).unwrap().unwrap();
        assert_ne!(other, first);
        assert!(!lines(&other).is_empty());
    }
}
