//! Sessions of a folder of tasks, each a folder of documents that are rewritten as a whole.
//!
//! The line of a document is as long as the document and what is around it: no document is read to learn the length of a
//! session.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde_json::{Value, value::RawValue};
use subscope_harness::TaskBundle;
use subscope_model::Millis;

use super::{Bundled, LineIndex, Node, roots, tree_below};
use crate::fault;

/// What stands in place of a document that is not complete.
const UNFINISHED: &[u8] = b"\"\"";
/// Most bytes read of a document about a task.
const MOST_ABOUT: u64 = 4 << 20;

/// Returns all tasks.
pub(super) fn nodes(at: &Path, form: &TaskBundle) -> io::Result<Vec<Node>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(at)? {
        let path = entry?.path();
        let Some(task) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let written = documents(&path, form).map(|(_, _, metadata)| modified_ms(&metadata)).max();
        // Whose a task is must not be guessed: of one whose document about it cannot be read there is nothing.
        let parent = parent_of(&path.join(form.about), form.parent).ok().flatten();
        if let (Some(modified_ms), Some(parent)) = (written, parent) {
            let parent = Some(parent).filter(|parent| !parent.is_empty());
            all.push(Node { session: task.to_owned(), parent, modified_ms });
        }
    }
    Ok(all)
}

/// Returns the folder of all tasks, which counts as changed at any time, and those of tasks.
pub(super) fn folders(at: &Path, form: &TaskBundle) -> Vec<(PathBuf, Millis)> {
    let entries = fs::read_dir(at).into_iter().flatten().flatten().map(|entry| entry.path());
    let tasks = entries.filter(|path| path.is_dir()).map(|path| {
        let written = documents(&path, form).map(|(_, _, metadata)| modified_ms(&metadata)).max();
        // One without documents has just been made.
        (path, written.unwrap_or(Millis::MAX))
    });
    std::iter::once((at.to_owned(), Millis::MAX)).chain(tasks).collect()
}

/// Returns the task that a document about one names as its parent, empty without one; `None` where the document is not
/// complete.
fn parent_of(about: &Path, field: &str) -> io::Result<Option<String>> {
    fault::check()?;
    let text = match fs::metadata(about) {
        Ok(metadata) if metadata.is_file() && metadata.len() <= MOST_ABOUT => fs::read(about)?,
        Ok(_) => return Ok(None),
        // Not all versions write one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(String::new())),
        Err(error) => return Err(error),
    };
    let about: Value = serde_json::from_slice(&text).unwrap_or_default();
    Ok(about.is_object().then(|| about[field].as_str().unwrap_or_default().to_owned()))
}

/// The documents of a task that exist: type of the line, path and metadata.
fn documents<'f>(
    task: &'f Path,
    form: &'f TaskBundle,
) -> impl Iterator<Item = (&'static str, PathBuf, fs::Metadata)> + 'f {
    form.documents.iter().filter_map(move |(name, kind)| {
        let path = task.join(name);
        let metadata = fs::metadata(&path).ok()?;
        (metadata.is_file() && metadata.len() >= UNFINISHED.len() as u64).then_some((*kind, path, metadata))
    })
}

fn modified_ms(metadata: &fs::Metadata) -> Millis {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| Millis::try_from(since.as_millis()).ok()).unwrap_or(0)
}

/// Returns the documents that are none: nothing is understood of these. Each has the path of its task.
pub(super) fn not_understood(at: &Path, form: &TaskBundle) -> Vec<(PathBuf, PathBuf)> {
    let tasks = fs::read_dir(at).into_iter().flatten().flatten().map(|entry| entry.path());
    let bad = tasks.flat_map(|task| {
        let all: Vec<PathBuf> = documents(&task, form).map(|(_, path, _)| path).collect();
        // One that cannot be read is reported where it is read.
        let is_bad = |path: &PathBuf| read(path).is_ok_and(|text| text.trim_ascii() == UNFINISHED);
        all.into_iter().filter(is_bad).map(|path| (task.clone(), path)).collect::<Vec<_>>()
    });
    bad.collect()
}

/// Returns the root tasks with their sizes.
pub(super) fn sessions(at: &Path, form: &TaskBundle) -> io::Result<Vec<Bundled>> {
    let nodes = nodes(at, form)?;
    let mut all = Vec::new();
    for root in roots(&nodes) {
        let mut len = 0;
        for node in in_tree(&nodes, &root.tree) {
            for (kind, _, metadata) in documents(&at.join(&node.session), form) {
                let (before, after) = around(kind, node, root.session);
                len += metadata.len() + (before.len() + after.len()) as u64;
            }
        }
        all.push(Bundled { path: at.join(root.session), len, modified_ms: root.modified_ms });
    }
    Ok(all)
}

/// Returns the lines of a task and of those below it.
pub(super) fn index(at: &Path, form: &TaskBundle, root: &str) -> io::Result<LineIndex> {
    parent_of(&at.join(root).join(form.about), form.parent)?;
    let nodes = nodes(at, form)?;
    let tree = tree_below(&nodes, root);
    let tree: Vec<&str> = tree.iter().map(String::as_str).collect();
    let own = in_tree(&nodes, &tree);
    let modified_ms = own.iter().map(|node| node.modified_ms).max().ok_or(io::ErrorKind::NotFound)?;
    let mut text = Vec::new();
    for node in own {
        for (kind, path, _) in documents(&at.join(&node.session), form) {
            let document = match read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                document => document?,
            };
            let (before, after) = around(kind, node, root);
            text.extend_from_slice(before.as_bytes());
            text.extend_from_slice(&document);
            text.extend_from_slice(after.as_bytes());
        }
    }
    Ok(LineIndex::new(text, Vec::new(), modified_ms))
}

/// Returns the tasks of a tree, by name.
fn in_tree<'n>(nodes: &'n [Node], tree: &[&str]) -> Vec<&'n Node> {
    let mut own: Vec<&Node> = nodes.iter().filter(|node| tree.contains(&node.session.as_str())).collect();
    own.sort_unstable_by(|one, other| one.session.cmp(&other.session));
    own
}

/// Returns what is before and after a document in its line.
fn around(kind: &str, node: &Node, root: &str) -> (String, &'static str) {
    let [kind, task, root] = [kind, &node.session, root].map(Value::from);
    let parent = node.parent.as_deref().map_or(Value::Null, Value::from);
    let before =
        format!("{{\"type\":{kind},\"task\":{task},\"root\":{root},\"parent\":{parent},\"content\":");
    (before, "}\n")
}

/// Reads a document as a part of a line, as long as it is. Text in front of it, which people and programs add, is left out.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    fault::check()?;
    let mut text = fs::read(path)?;
    let begins = |line: &[u8]| matches!(line.first(), Some(b'[' | b'{'));
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if begins(line.trim_ascii_start()) {
            break;
        }
        start += line.len();
    }
    let (before, document) = text.split_at_mut(start);
    before.fill(b' ');
    let is_whole =
        std::str::from_utf8(document).is_ok_and(|json| serde_json::from_str::<&RawValue>(json).is_ok());
    for byte in document.iter_mut() {
        // Between values only: in texts they are escaped.
        if !is_whole || matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    if !is_whole && let Some(place) = text.get_mut(..UNFINISHED.len()) {
        place.copy_from_slice(UNFINISHED);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use subscope_harness::{Bundle, bundle};

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_document_is_a_line_as_long_as_it_is_and_an_unfinished_one_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("rooveterinaryinc.roo-cline/tasks");
        let Some(Bundle::Tasks(form)) = bundle(&at) else { panic!("no bundle") };
        write(
            at.join("one-task-1/ui_messages.json"),
            "A header\n[\n  {\"ts\": 1,\n  \"text\": \"a\\nb\"}\n]\n",
        );
        write(at.join("two-task-2/history_item.json"), r#"{"id":"two-task-2","parentTaskId":"one-task-1"}"#);
        write(at.join("two-task-2/ui_messages.json"), "[{\"ts\":2,\"te");
        write(at.join("not-of-it/other.json"), "[]");
        write(at.join("_index.json"), "{}");
        // Whose this one is is not known.
        write(at.join("of-nobody-3/history_item.json"), r#"{"id":"of-nobody-3","parentTas"#);
        write(at.join("of-nobody-3/ui_messages.json"), "[]");
        let all = sessions(&at, form).unwrap();
        let index = index(&at, form, "one-task-1").unwrap();
        assert_eq!(
            all,
            [Bundled { path: at.join("one-task-1"), len: index.len, modified_ms: all[0].modified_ms }]
        );
        let lines: Vec<Value> = index
            .first
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let [messages, about, unfinished] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(messages["content"][0]["text"], "a\nb");
        assert_eq!(
            (&about["task"], &about["root"], &about["parent"]),
            (&"two-task-2".into(), &"one-task-1".into(), &"one-task-1".into())
        );
        assert_eq!(unfinished["content"], "");
        let mut bad = not_understood(&at, form);
        bad.sort();
        let unfinished = [("of-nobody-3", "history_item.json"), ("two-task-2", "ui_messages.json")];
        assert_eq!(bad, unfinished.map(|(task, name)| (at.join(task), at.join(task).join(name))));
        assert!(super::index(&at, form, "nobody").is_err());
    }
}
