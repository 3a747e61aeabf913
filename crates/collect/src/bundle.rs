//! Reads bundles ([`subscope_harness::Bundle`]): databases and folders in which a harness keeps many sessions.
//!
//! A session in one is a source like a file: `BUNDLE/SESSION` is its path, its lines are its bytes. Nothing is written:
//! a database is opened read-only for one transaction, and without its write-ahead log no file is made beside it.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use rusqlite::{Connection, OpenFlags, Statement};
use subscope_harness::{Bundle, FolderBundle, SqlBundle, bundle, classify};
use subscope_model::Millis;

/// How long a read waits for the harness: it locks the database for a moment only when it recovers it.
const LOCKED_AT_MOST: Duration = Duration::from_millis(500);

/// A session of a bundle: a root with those below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundled {
    /// Its path: `BUNDLE/SESSION`.
    pub(crate) path: PathBuf,
    /// The number of bytes of its lines.
    pub(crate) len: u64,
    /// When it was last changed.
    pub(crate) modified_ms: Millis,
}

/// A session and its parent.
struct Node {
    session: String,
    parent: Option<String>,
    modified_ms: Millis,
}

/// Returns the bundle that a path is inside of, and its form.
pub(crate) fn bundle_of(path: &Path) -> Option<(&Path, &'static Bundle)> {
    let above = path.parent()?;
    Some((above, bundle(above)?)).filter(|_| classify(path).session.is_some())
}

/// Returns the bundle that a changed file belongs to: the database of a write-ahead log, or the folder above an object.
pub(crate) fn bundle_changed_by(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let of_log = name.strip_suffix("-wal").map(|name| path.with_file_name(name));
    let itself_or_above = || path.ancestors().take(4).map(Path::to_owned);
    of_log.into_iter().chain(itself_or_above()).find(|path| bundle(path).is_some())
}

/// Returns the root sessions of a bundle, by path.
///
/// # Errors
/// Where the bundle cannot be read.
pub(crate) fn sessions(path: &Path) -> io::Result<Vec<Bundled>> {
    let roots = match bundle(path) {
        Some(Bundle::Sql(form)) => read_sql(path, |database| sql_sessions(database, form))?,
        Some(Bundle::Folders(form)) => folder_sessions(path, form)?,
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut all: Vec<Bundled> = roots
        .into_iter()
        .map(|(session, len, modified_ms)| Bundled { path: path.join(session), len, modified_ms })
        .filter(|session| classify(&session.path).session.is_some())
        .collect();
    all.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(all)
}

/// Returns what there is of one session.
///
/// # Errors
/// `NotFound` where the bundle has no such session; else where it cannot be read.
pub(crate) fn stat(path: &Path) -> io::Result<Bundled> {
    let found = |(session, len, modified_ms): Size| Bundled {
        path: path.parent().unwrap_or(path).join(session),
        len,
        modified_ms,
    };
    match bundle_of(path) {
        Some((at, Bundle::Sql(form))) => {
            let session = name_of(path);
            let size = read_sql(at, |database| {
                let nodes = sql_nodes(database, form)?;
                let tree = tree_below(&nodes, &session);
                let own: Vec<Node> = nodes.into_iter().filter(|node| tree.contains(&node.session)).collect();
                sizes_of(database, form, own)
            })?;
            size.into_iter().next().map(found).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        Some((at, Bundle::Folders(form))) => {
            let modified_ms = folder_sessions(at, form)?
                .into_iter()
                .find(|(session, ..)| path.ends_with(session))
                .map(|(.., modified_ms)| modified_ms);
            let len = lines(path)?.len() as u64;
            modified_ms
                .map(|at| found((name_of(path), len, at)))
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns the lines of one session, each with its line end.
///
/// # Errors
/// `NotFound` where the bundle has no such session; else where it cannot be read.
pub(crate) fn lines(path: &Path) -> io::Result<Vec<u8>> {
    let session = name_of(path);
    match bundle_of(path) {
        Some((at, Bundle::Sql(form))) => read_sql(at, |database| {
            let nodes = sql_nodes(database, form)?;
            let tree = tree_below(&nodes, &session);
            sql_lines(database, form, &tree)
        })?
        .ok_or_else(|| io::ErrorKind::NotFound.into()),
        Some((at, Bundle::Folders(form))) => folder_lines(at, form, &session),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Session, bytes of its lines, last change.
type Size = (String, u64, Millis);

/// Returns a session and all below it; nothing where it is not there.
fn tree_below(nodes: &[Node], root: &str) -> Vec<String> {
    let mut below: HashMap<&str, Vec<&str>> = HashMap::new();
    for node in nodes {
        if let Some(parent) = &node.parent {
            below.entry(parent).or_default().push(&node.session);
        }
    }
    let mut tree: Vec<String> =
        nodes.iter().filter(|node| node.session == root).map(|node| node.session.clone()).take(1).collect();
    let mut at = 0;
    while let Some(session) = tree.get(at).cloned() {
        // A session is taken once, also where parents make a circle.
        for child in below.remove(session.as_str()).unwrap_or_default() {
            if child != root {
                tree.push(child.to_owned());
            }
        }
        at += 1;
    }
    tree
}

/// Returns each session's root; one whose parent is not there is a root.
fn roots_of(nodes: &[Node]) -> HashMap<&str, &str> {
    let parents: HashMap<&str, Option<&str>> =
        nodes.iter().map(|node| (node.session.as_str(), node.parent.as_deref())).collect();
    let root_of = |session| {
        let mut at = session;
        for _ in 0..nodes.len() {
            match parents.get(at).copied().flatten().filter(|parent| parents.contains_key(parent)) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at
    };
    nodes.iter().map(|node| (node.session.as_str(), root_of(&node.session))).collect()
}

fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

/// Reads a database in one transaction.
fn read_sql<T>(path: &Path, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> io::Result<T> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut log: OsString = path.as_os_str().to_owned();
    log.push("-wal");
    // Without a log nobody has it open, or nothing is written yet: then no file is to be made beside it.
    let is_quiet = !Path::new(&log).exists();
    let outcome = read_sql_as(path, is_quiet, &read);
    let began_meanwhile = is_quiet && Path::new(&log).exists();
    if began_meanwhile { read_sql_as(path, false, &read).map_err(failed) } else { outcome.map_err(failed) }
}

fn read_sql_as<T>(
    path: &Path,
    is_quiet: bool,
    read: &impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
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
    let transaction = database.unchecked_transaction()?;
    read(&transaction)
}

/// Returns the first of several queries that the database understands.
fn prepare<'c>(database: &'c Connection, queries: &[&str]) -> rusqlite::Result<Statement<'c>> {
    let mut last = Err(rusqlite::Error::InvalidQuery);
    for query in queries {
        last = database.prepare(query);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn sql_nodes(database: &Connection, form: &SqlBundle) -> rusqlite::Result<Vec<Node>> {
    let mut query = prepare(database, form.sessions)?;
    let node = |row: &rusqlite::Row<'_>| {
        Ok(Node {
            session: row.get(0)?,
            parent: row.get(1)?,
            modified_ms: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
        })
    };
    query.query_map([], node)?.collect()
}

fn sql_sessions(database: &Connection, form: &SqlBundle) -> rusqlite::Result<Vec<Size>> {
    let nodes = sql_nodes(database, form)?;
    sizes_of(database, form, nodes)
}

/// Returns the size of each root among these sessions.
fn sizes_of(database: &Connection, form: &SqlBundle, nodes: Vec<Node>) -> rusqlite::Result<Vec<Size>> {
    let mut query = prepare(database, form.sizes)?;
    let size = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
    let ids: Vec<&str> = nodes.iter().map(|node| node.session.as_str()).collect();
    let sizes: HashMap<String, u64> =
        query.query_map([json_array(&ids)], size)?.collect::<rusqlite::Result<_>>()?;
    let roots = roots_of(&nodes);
    let mut found: HashMap<&str, (u64, Millis, Vec<&str>)> = HashMap::new();
    for node in &nodes {
        let root = roots.get(node.session.as_str()).copied().unwrap_or(&node.session);
        let (len, modified_ms, silent) = found.entry(root).or_default();
        *modified_ms = node.modified_ms.max(*modified_ms);
        match sizes.get(&node.session) {
            Some(bytes) => *len += bytes,
            None => silent.push(&node.session),
        }
    }
    let mut all = Vec::new();
    for (root, (len, modified_ms, silent)) in found {
        let rest = if silent.is_empty() { 0 } else { sql_rows(database, form, &silent)?.len() as u64 };
        all.push((root.to_owned(), len + rest, modified_ms));
    }
    Ok(all)
}

/// Returns the lines of sessions that have no events.
fn sql_rows(database: &Connection, form: &SqlBundle, sessions: &[&str]) -> rusqlite::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut query = database.prepare(form.rows)?;
    let mut rows = query.query([json_array(sessions)])?;
    while let Some(row) = rows.next()? {
        text.extend_from_slice(row.get_ref(0)?.as_bytes()?);
        text.push(b'\n');
    }
    Ok(text)
}

/// Returns the lines of a session's tree; `None` where it is empty.
fn sql_lines(database: &Connection, form: &SqlBundle, tree: &[String]) -> rusqlite::Result<Option<Vec<u8>>> {
    if tree.is_empty() {
        return Ok(None);
    }
    let mut sizes = prepare(database, form.sizes)?;
    let all: Vec<&str> = tree.iter().map(String::as_str).collect();
    let logged: HashSet<String> =
        sizes.query_map([json_array(&all)], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let silent: Vec<&str> = all.iter().filter(|session| !logged.contains(**session)).copied().collect();
    let mut text = if silent.is_empty() { Vec::new() } else { sql_rows(database, form, &silent)? };
    let mut query = prepare(database, form.lines)?;
    let mut rows = query.query([json_array(&all)])?;
    while let Some(row) = rows.next()? {
        text.extend_from_slice(row.get_ref(0)?.as_bytes()?);
        text.push(b'\n');
    }
    Ok(Some(text))
}

/// Ids hold no quotes; what does is left out.
fn json_array(ids: &[&str]) -> String {
    let plain = ids.iter().filter(|id| !id.contains(['"', '\\']));
    let quoted: Vec<String> = plain.map(|id| format!("\"{id}\"")).collect();
    format!("[{}]", quoted.join(","))
}

/// The objects of a folder, by the names of their files without the ending.
fn objects(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut all = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".json"));
        if let Some(name) = name {
            all.push((name.to_owned(), path.clone()));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// All sessions of a folder, with their files.
fn folder_nodes(at: &Path, form: &FolderBundle) -> io::Result<Vec<(Node, PathBuf)>> {
    let mut all = Vec::new();
    for project in fs::read_dir(at.join(form.sessions))? {
        for (session, path) in objects(&project?.path())? {
            let object: serde_json::Value =
                fs::read(&path).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
            let parent = object[form.parent].as_str().map(str::to_owned);
            let messages = at.join(form.messages).join(&session);
            // A message is written anew with each of its parts.
            let written = [path.clone(), messages].iter().filter_map(|path| modified_ms(path)).max();
            all.push((Node { session, parent, modified_ms: written.unwrap_or(0) }, path));
        }
    }
    Ok(all)
}

fn modified_ms(path: &Path) -> Option<Millis> {
    let since = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// The sizes are those of the sessions' own files: a line's length is known only once it is read.
fn folder_sessions(at: &Path, form: &FolderBundle) -> io::Result<Vec<Size>> {
    let nodes: Vec<Node> = folder_nodes(at, form)?.into_iter().map(|(node, _)| node).collect();
    let roots = roots_of(&nodes);
    let mut found: HashMap<&str, Millis> = HashMap::new();
    for node in &nodes {
        let root = roots.get(node.session.as_str()).copied().unwrap_or(&node.session);
        let newest = found.entry(root).or_default();
        *newest = node.modified_ms.max(*newest);
    }
    let mut all = Vec::new();
    for (root, modified_ms) in found {
        all.push((root.to_owned(), folder_lines(at, form, root)?.len() as u64, modified_ms));
    }
    Ok(all)
}

fn folder_lines(at: &Path, form: &FolderBundle, root: &str) -> io::Result<Vec<u8>> {
    let (nodes, paths): (Vec<Node>, Vec<PathBuf>) = folder_nodes(at, form)?.into_iter().unzip();
    let tree = tree_below(&nodes, root);
    if tree.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let [of_session, of_message, of_part] = form.wraps;
    let mut text = Vec::new();
    let mut messages = Vec::new();
    for session in &tree {
        let own = nodes.iter().zip(&paths).filter(|(node, _)| node.session == *session);
        own.for_each(|(_, path)| wrap(path, of_session, &mut text));
        messages.extend(objects(&at.join(form.messages).join(session))?);
    }
    messages.sort_unstable();
    for (message, path) in messages {
        wrap(&path, of_message, &mut text);
        for (_, part) in objects(&at.join(form.parts).join(&message))? {
            wrap(&part, of_part, &mut text);
        }
    }
    Ok(text)
}

/// Appends a line with an object. One that is being written is left out: it comes whole later.
fn wrap(path: &Path, (before, after): (&str, &str), text: &mut Vec<u8>) {
    let object: Option<serde_json::Value> =
        fs::read(path).ok().and_then(|json| serde_json::from_slice(&json).ok());
    if let Some(object) = object.filter(serde_json::Value::is_object) {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{before}{object}{after}");
    }
}
