//! Reads bundles ([`subscope_harness::Bundle`]): databases and folders in which a harness keeps many sessions.
//!
//! A session in one is a source like a file: `BUNDLE/SESSION` is its path, its lines are its bytes. [`sql`] reads
//! databases, [`mod@folders`] folders of objects, [`tasks`] folders of tasks. Nothing is written: a
//! database is opened read-only for one transaction, and if it has no write-ahead log, reading creates none.

mod folders;
mod sql;
mod tasks;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use subscope_harness::{Bundle, SqlBundle, bundle, classify};
use subscope_model::Millis;

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

/// A root session, when its tree was last changed, and the sessions of that.
struct Root<'n> {
    session: &'n str,
    modified_ms: Millis,
    tree: Vec<&'n str>,
}

/// Snapshot of the positions of a session's lines.
pub(crate) struct LineIndex {
    /// The unnumbered lines, which come first.
    pub(crate) first: Vec<u8>,
    /// Number and length of each line after them.
    numbered: Vec<(i64, u64)>,
    /// The number of bytes of all lines.
    pub(crate) len: u64,
    /// When the session was last changed.
    modified_ms: Millis,
}

impl LineIndex {
    fn new(first: Vec<u8>, numbered: Vec<(i64, u64)>, modified_ms: Millis) -> Self {
        let len = first.len() as u64 + numbered.iter().map(|(_, len)| len).sum::<u64>();
        Self { first, numbered, len, modified_ms }
    }
}

/// A part of the numbered lines of a session.
#[derive(Default)]
pub(crate) struct Window {
    /// The offset of its first byte, which begins a line.
    pub(crate) from: u64,
    pub(crate) bytes: Vec<u8>,
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

/// Returns the path of the root session of a bundle that was changed last; `None` where it has none.
///
/// # Errors
/// `InvalidInput` for anything but a bundle; else where it cannot be read.
pub fn newest_session(path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(names(path, Millis::MIN)?.into_iter().max_by_key(|(_, at)| *at).map(|(path, _)| path))
}

/// Returns the paths of the root sessions of a bundle that were changed at or after a time, and when that was. Of equally
/// new ones the last is that with the smallest name.
///
/// # Errors
/// Where the bundle cannot be read.
pub(crate) fn names(path: &Path, since_ms: Millis) -> io::Result<Vec<(PathBuf, Millis)>> {
    let nodes = match bundle(path) {
        Some(Bundle::Sql(form)) => sql::nodes(path, form)?,
        Some(Bundle::Folders(form)) => folders::nodes(path, form)?,
        Some(Bundle::Tasks(form)) => tasks::nodes(path, form)?,
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let is_new = |root: &Root<'_>| root.modified_ms >= since_ms;
    let named = |root: Root<'_>| (path.join(root.session), root.modified_ms);
    let mut all: Vec<_> = roots(&nodes).into_iter().filter(is_new).map(named).collect();
    all.retain(|(path, _)| classify(path).session.is_some());
    all.sort_unstable_by(|left, right| right.0.cmp(&left.0));
    Ok(all)
}

/// Returns the folders of a bundle that are to be watched, each with when it was last changed: those of its tasks, which are
/// written in place.
pub(crate) fn folders(path: &Path) -> Vec<(PathBuf, Millis)> {
    match bundle(path) {
        Some(Bundle::Tasks(form)) => tasks::folders(path, form),
        Some(Bundle::Sql(_) | Bundle::Folders(_)) | None => Vec::new(),
    }
}

/// Returns the root sessions of a bundle, by path.
///
/// # Errors
/// Where the bundle cannot be read.
pub(crate) fn sessions(path: &Path) -> io::Result<Vec<Bundled>> {
    let mut all = match bundle(path) {
        Some(Bundle::Sql(form)) => sql::sessions(path, form)?,
        Some(Bundle::Folders(form)) => folders::sessions(path, form)?,
        Some(Bundle::Tasks(form)) => tasks::sessions(path, form)?,
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    all.retain(|session| classify(&session.path).session.is_some());
    all.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(all)
}

/// Returns size and time of one session.
///
/// # Errors
/// `NotFound` where the bundle has no such session; else where it cannot be read.
pub(crate) fn stat(path: &Path) -> io::Result<Bundled> {
    let index = index(path)?;
    Ok(Bundled { path: path.to_owned(), len: index.len, modified_ms: index.modified_ms })
}

/// Returns where the lines of a session are.
///
/// # Errors
/// As of [`stat`].
pub(crate) fn index(path: &Path) -> io::Result<LineIndex> {
    match bundle_of(path) {
        Some((at, Bundle::Sql(form))) => sql::index(at, form, &name_of(path)),
        Some((at, Bundle::Folders(form))) => folders::index(at, form, &name_of(path)),
        Some((at, Bundle::Tasks(form))) => tasks::index(at, form, &name_of(path)),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns where the lines of a session are, with those at an offset as [`window`] returns them.
///
/// # Errors
/// As of [`stat`].
pub(crate) fn open(path: &Path, offset: u64) -> io::Result<(LineIndex, Window)> {
    match bundle_of(path) {
        Some((at, Bundle::Sql(form))) => sql::open(at, form, &name_of(path), offset),
        Some((at, Bundle::Folders(form))) => {
            Ok((folders::index(at, form, &name_of(path))?, Window::default()))
        }
        Some((at, Bundle::Tasks(form))) => Ok((tasks::index(at, form, &name_of(path))?, Window::default())),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns numbered lines of a session, from that of an offset on: as many as give some megabytes, at least one; none if
/// the offset is not in one.
///
/// # Errors
/// Where the bundle cannot be read.
pub(crate) fn window(path: &Path, index: &LineIndex, offset: u64) -> io::Result<Window> {
    match bundle_of(path) {
        Some((at, Bundle::Sql(form))) => sql::window(at, form, index, offset),
        Some((_, Bundle::Folders(_) | Bundle::Tasks(_))) => Ok(Window::default()),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns lines of the totals that a bundle itself states of a session, beside its lines; none of other files.
///
/// # Errors
/// Where the bundle cannot be read.
pub fn stated_totals(path: &Path) -> io::Result<Vec<u8>> {
    match bundle_of(path) {
        Some((at, Bundle::Sql(form))) => sql::totals(at, form, &name_of(path)),
        Some((_, Bundle::Folders(_) | Bundle::Tasks(_))) | None => Ok(Vec::new()),
    }
}

/// Returns why a database is not read, or not all of it; `None` where it is.
pub(crate) fn unread(path: &Path, form: &SqlBundle) -> Option<String> {
    sql::unread(path, form)
}

/// Returns the files of a bundle that tell of sessions, and of which nothing is understood; each with the path that its session
/// would have.
pub(crate) fn not_understood(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    match bundle(path) {
        Some(Bundle::Folders(form)) => {
            let files = folders::not_understood(path, form).into_iter();
            files.filter_map(|file| Some((path.join(file.file_stem()?), file))).collect()
        }
        Some(Bundle::Tasks(form)) => tasks::not_understood(path, form),
        Some(Bundle::Sql(_)) | None => Vec::new(),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns a session and all below it, of sessions that exist; nothing if neither it nor one below it does. Of a root that was
/// deleted the ones below it stay.
fn tree_below(nodes: &[Node], root: &str) -> Vec<String> {
    let mut below: HashMap<&str, Vec<&str>> = HashMap::new();
    for node in nodes {
        if let Some(parent) = &node.parent {
            below.entry(parent).or_default().push(&node.session);
        }
    }
    if !below.contains_key(root) && nodes.iter().all(|node| node.session != root) {
        return Vec::new();
    }
    let mut tree = vec![root.to_owned()];
    let mut at = 0;
    while let Some(session) = tree.get(at).cloned() {
        // A session is taken once, even if its parents form a cycle.
        for child in below.remove(session.as_str()).unwrap_or_default() {
            if child != root {
                tree.push(child.to_owned());
            }
        }
        at += 1;
    }
    tree
}

/// Returns each session's root: the uppermost that is named, also where it does not exist any more. Of sessions whose parents
/// form a cycle it is the one with the smallest name.
fn roots_of(nodes: &[Node]) -> HashMap<&str, &str> {
    let parents: HashMap<&str, &str> = nodes
        .iter()
        .filter_map(|node| Some((node.session.as_str(), node.parent.as_deref()?)))
        .filter(|(_, parent)| !parent.is_empty())
        .collect();
    let root_of = |session| {
        let up = |at: &&'_ str| parents.get(*at).copied();
        match std::iter::successors(Some(session), up).nth(nodes.len() + 1) {
            None => std::iter::successors(Some(session), up).last().unwrap_or(session),
            Some(in_cycle) => {
                let around = std::iter::successors(Some(in_cycle), up).skip(1);
                around.take_while(|at| *at != in_cycle).chain([in_cycle]).min().unwrap_or(in_cycle)
            }
        }
    };
    nodes.iter().map(|node| (node.session.as_str(), root_of(&node.session))).collect()
}

/// Returns the roots of sessions. The tree of one that does not exist any more has it all the same: a bundle may still have
/// lines of it.
fn roots(nodes: &[Node]) -> Vec<Root<'_>> {
    let own = roots_of(nodes);
    let mut all: HashMap<&str, Root<'_>> = HashMap::new();
    for node in nodes {
        let session = own.get(node.session.as_str()).copied().unwrap_or(&node.session);
        let is_gone = !own.contains_key(session);
        let new = || Root {
            session,
            modified_ms: Millis::MIN,
            tree: if is_gone { vec![session] } else { Vec::new() },
        };
        let root = all.entry(session).or_insert_with(new);
        root.modified_ms = root.modified_ms.max(node.modified_ms);
        root.tree.push(&node.session);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(session: &str, parent: Option<&str>) -> Node {
        Node { session: session.to_owned(), parent: parent.map(str::to_owned), modified_ms: 1 }
    }

    #[test]
    fn each_session_is_in_one_tree_whatever_its_parents_are() {
        let nodes = [
            node("root", None),
            node("child", Some("root")),
            node("of_gone", Some("gone")),
            node("below", Some("of_gone")),
            node("b", Some("a")),
            node("a", Some("b")),
            node("into_cycle", Some("b")),
            node("own", Some("own")),
            node("empty", Some("")),
        ];
        let mut found: Vec<(&str, Vec<&str>)> =
            roots(&nodes).into_iter().map(|root| (root.session, root.tree)).collect();
        found.iter_mut().for_each(|(_, tree)| tree.sort_unstable());
        found.sort();
        let expected = [
            ("a", vec!["a", "b", "into_cycle"]),
            ("empty", vec!["empty"]),
            ("gone", vec!["below", "gone", "of_gone"]),
            ("own", vec!["own"]),
            ("root", vec!["child", "root"]),
        ];
        assert_eq!(found, expected);
        for (root, tree) in &expected {
            let mut below = tree_below(&nodes, root);
            below.sort();
            assert_eq!(below, *tree, "{root}");
        }
        assert_eq!(tree_below(&nodes, "nobody"), [""; 0]);
    }
}
