//! Sessions of a folder of JSON objects.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use subscope_harness::FolderBundle;
use subscope_model::Millis;

use super::{Bundled, LineIndex, Node, roots, tree_below};
use crate::fault;

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

/// Returns all sessions.
pub(super) fn nodes(at: &Path, form: &FolderBundle) -> io::Result<Vec<Node>> {
    with_files(at, form).map(|(nodes, _)| nodes)
}

/// Returns all sessions, and the file of each.
fn with_files(at: &Path, form: &FolderBundle) -> io::Result<(Vec<Node>, Vec<PathBuf>)> {
    let mut all = Vec::new();
    for project in fs::read_dir(at.join(form.sessions))? {
        for (session, path) in objects(&project?.path())? {
            // Of one that cannot be read no parent is known. It is a session of its own, of which no line can be read.
            let object = object(&path).ok().flatten().unwrap_or_default();
            let parent = object[form.parent].as_str().map(str::to_owned);
            let messages = at.join(form.messages).join(&session);
            // The harness rewrites the message's file with each part, so its folder shows the last change.
            let written = [path.clone(), messages].iter().filter_map(|path| modified_ms(path)).max();
            all.push((Node { session, parent, modified_ms: written.unwrap_or(0) }, path));
        }
    }
    Ok(all.into_iter().unzip())
}

/// Returns the objects of sessions that are no objects: nothing is understood of these.
pub(super) fn not_understood(at: &Path, form: &FolderBundle) -> Vec<PathBuf> {
    let projects = fs::read_dir(at.join(form.sessions)).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| objects(&project.path()).unwrap_or_default());
    let is_bad = |path: &PathBuf| {
        // One that cannot be read is reported where it is read.
        object(path).is_ok_and(|object| !object.is_some_and(|object| object["id"].is_string()))
    };
    files.map(|(_, path)| path).filter(is_bad).collect()
}

fn modified_ms(path: &Path) -> Option<Millis> {
    let since = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// Returns the root sessions with their sizes.
pub(super) fn sessions(at: &Path, form: &FolderBundle) -> io::Result<Vec<Bundled>> {
    let (nodes, paths) = with_files(at, form)?;
    let mut all = Vec::new();
    for root in roots(&nodes) {
        // The session whose lines cannot be read is found: its reader meets the error.
        let len = lines_of(at, form, root.session, files_of(&nodes, &paths, root.session))
            .map_or(0, |lines| lines.len() as u64);
        all.push(Bundled { path: at.join(root.session), len, modified_ms: root.modified_ms });
    }
    Ok(all)
}

/// Returns the lines of a session. All of its objects are read: no length is known before.
pub(super) fn index(at: &Path, form: &FolderBundle, root: &str) -> io::Result<LineIndex> {
    let (nodes, paths) = with_files(at, form)?;
    let tree = files_of(&nodes, &paths, root);
    let modified_ms = tree.iter().map(|(node, _)| node.modified_ms).max();
    let modified_ms = modified_ms.ok_or(io::ErrorKind::NotFound)?;
    Ok(LineIndex::new(lines_of(at, form, root, tree)?, Vec::new(), modified_ms))
}

/// Returns a session and those below it, with their files.
fn files_of<'n>(nodes: &'n [Node], paths: &'n [PathBuf], root: &str) -> Vec<(&'n Node, &'n Path)> {
    let tree = tree_below(nodes, root);
    let own = nodes.iter().zip(paths).filter(|(node, _)| tree.contains(&node.session));
    own.map(|(node, path)| (node, path.as_path())).collect()
}

/// Returns the lines of sessions: of these, then of their messages, each with its parts.
fn lines_of(at: &Path, form: &FolderBundle, root: &str, tree: Vec<(&Node, &Path)>) -> io::Result<Vec<u8>> {
    let [of_session, of_message, of_part] = form.wraps;
    let mut text = Vec::new();
    let mut messages = Vec::new();
    if tree.iter().all(|(node, _)| node.session != root) {
        // Its own object is gone; its messages may not be.
        messages.extend(objects(&at.join(form.messages).join(root))?);
    }
    for (node, path) in tree {
        wrap(path, of_session, &mut text)?;
        messages.extend(objects(&at.join(form.messages).join(&node.session))?);
    }
    messages.sort_unstable();
    for (message, path) in messages {
        wrap(&path, of_message, &mut text)?;
        for (_, part) in objects(&at.join(form.parts).join(&message))? {
            wrap(&part, of_part, &mut text)?;
        }
    }
    Ok(text)
}

/// Appends an object as a line. An object that is not complete JSON is being written: it is left out until it is
/// complete.
fn wrap(path: &Path, (before, after): (&str, &str), text: &mut Vec<u8>) -> io::Result<()> {
    if let Some(object) = object(path)?.filter(serde_json::Value::is_object) {
        writeln!(text, "{before}{object}{after}")?;
    }
    Ok(())
}

/// Reads an object; `None` if it has been deleted, or is not complete JSON.
fn object(path: &Path) -> io::Result<Option<serde_json::Value>> {
    fault::check()?;
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        json => Ok(serde_json::from_slice(&json?).ok()),
    }
}

#[cfg(test)]
mod tests {
    use subscope_harness::{Bundle, bundle};

    use super::*;

    fn write(path: PathBuf, json: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json).unwrap();
    }

    #[test]
    fn object_that_cannot_be_read_is_not_left_out() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("opencode/storage");
        for session in ["ses_one", "ses_two"] {
            write(at.join(format!("session/p/{session}.json")), &format!("{{\"id\":\"{session}\"}}"));
            let message = format!("msg_{session}");
            write(at.join(format!("message/{session}/{message}.json")), &format!("{{\"id\":\"{message}\"}}"));
            write(at.join(format!("part/{message}/prt_{session}.json")), "{\"type\":\"text\"}");
        }
        let Some(Bundle::Folders(form)) = bundle(&at) else { panic!("no bundle") };
        let whole = index(&at, form, "ses_one").unwrap().len;

        // Root may read every file; a folder is none.
        let part = at.join("part/msg_ses_one/prt_ses_one.json");
        fs::rename(&part, part.with_extension("kept")).unwrap();
        fs::create_dir(&part).unwrap();
        assert!(index(&at, form, "ses_one").is_err());
        assert!(index(&at, form, "ses_two").is_ok(), "the other session is none the worse");
        let mut found = sessions(&at, form).unwrap();
        found.sort_by(|one, other| one.path.cmp(&other.path));
        let lengths: Vec<u64> = found.iter().map(|session| session.len).collect();
        assert_eq!(lengths, [0, whole], "it is found, so that its reader meets the error");

        fs::remove_dir(&part).unwrap();
        assert!(index(&at, form, "ses_one").unwrap().len < whole, "a deleted one is left out");
        fs::rename(part.with_extension("kept"), &part).unwrap();
        assert_eq!(index(&at, form, "ses_one").unwrap().len, whole);
    }
}
