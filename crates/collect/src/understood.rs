//! Finds what is in known places and is not read: files of which no line is understood, and sessions in tables of a
//! database that this version does not know. They are named, since a person would take them for no sessions at all.

use std::{
    cmp::Reverse,
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use subscope_decode::Dialect;
use subscope_harness::{Bundle, Role, Root, bundle, recognize, unsupported_program};

use crate::{
    Skipped,
    bundle::{not_understood as bundled_not_understood, unread},
    list::{Step, walk},
    read::read_head,
};

/// Returns the files below a folder of which nothing is understood, each with the reason. Reads the beginning of each file
/// but those that the caller knows to be understood, of at most `most` files: the newest.
pub fn not_understood(root: &Root, most: usize, is_known: &dyn Fn(&Path) -> bool) -> Vec<Skipped> {
    let Ok(folder) = fs::canonicalize(&root.folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = Vec::new();
    walk(&folder, &mut |step| {
        if let Step::File(path) = step
            && !is_known(path)
        {
            files.push(path.to_owned());
        }
    });
    let root = Root { folder, ..root.clone() };
    files.retain(|path| is_transcript(&root, path));
    if files.len() > most {
        files.sort_by_cached_key(|path| Reverse(fs::metadata(path).and_then(|file| file.modified()).ok()));
        files.truncate(most);
        files.sort();
    }
    let named = |path: PathBuf| Some(Skipped { why: why_not_understood(&root, &path)?, path });
    files.into_iter().filter_map(named).collect()
}

/// Why a file is named of which nothing is understood.
const NOTHING: &str = "no line of it is understood";

fn is_transcript(root: &Root, path: &Path) -> bool {
    let place = root.harness.classify_below(&root.folder, path);
    place.is_some_and(|place| matches!(place.role, Role::Main | Role::Agent))
}

/// Returns the databases below a folder with sessions that this version does not read, and the objects of sessions in folders
/// of which nothing is understood.
pub fn unread_databases(root: &Root) -> Vec<Skipped> {
    let entries = std::fs::read_dir(&root.folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: PathBuf| match bundle(&path) {
        Some(Bundle::Sql(form)) => {
            unread(&path, form).map(|why| Skipped { why, path }).into_iter().collect::<Vec<_>>()
        }
        Some(Bundle::Folders(_) | Bundle::Tasks(_)) => {
            let files = bundled_not_understood(&path).into_iter();
            files.map(|(_, path)| Skipped { path, why: NOTHING.to_owned() }).collect()
        }
        None => Vec::new(),
    };
    entries.flat_map(named).collect()
}

/// Returns the paths of the sessions below a folder that are listed and of which nothing is understood: those of files that
/// [`not_understood`] and [`unread_databases`] name.
pub fn sessions_not_understood(root: &Root) -> HashSet<PathBuf> {
    let entries = fs::read_dir(&root.folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let bundled = entries.flat_map(|path| bundled_not_understood(&path)).map(|(session, _)| session);
    let files = not_understood(root, usize::MAX, &|_| false).into_iter().map(|skip| skip.path);
    // The paths of a listing are below the folder as it is named.
    let folder = fs::canonicalize(&root.folder).unwrap_or_default();
    let named =
        |path: PathBuf| path.strip_prefix(&folder).map_or(path.clone(), |rest| root.folder.join(rest));
    bundled.chain(files.map(named)).collect()
}

fn why_not_understood(root: &Root, path: &Path) -> Option<String> {
    let place = root.harness.classify_below(&root.folder, path)?;
    // A file that cannot be read is reported where it is read.
    let head = read_head(path).ok()?;
    // A line that is being written may be half a line.
    let is_object =
        || place.dialect.is_some_and(Dialect::is_object) || path.extension().is_some_and(|it| it == "json");
    let is_whole = head.contains(&b'\n') || !head.is_empty() && is_object();
    if !is_whole || recognize(&head).is_some() {
        return None;
    }
    Some(match unsupported_program(path, &head) {
        Some(title) => format!("it looks like a session of {title}, which subscope does not read"),
        None => NOTHING.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use subscope_harness::{claude_code::ClaudeCode, opencode::OPENCODE};

    use super::*;

    #[test]
    fn what_is_in_a_known_place_and_not_understood_is_named() {
        let home = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(home.path()).unwrap().join("projects");
        let project = folder.join("p");
        fs::create_dir_all(&project).unwrap();
        let file = |number: u32| project.join(format!("aaaaaaaa-0000-4000-8000-00000000000{number}.jsonl"));
        fs::write(file(1), "{\"foo\":1}\n{\"bar\":2}\n").unwrap();
        fs::write(file(2), "{\"type\":\"user\",\"sessionId\":\"s\",\"parentUuid\":null}\n").unwrap();
        fs::write(file(3), "{\"half").unwrap();
        fs::write(file(4), "{\"type\":\"session_start\",\"id\":\"1\",\"cwd\":\"/w\"}\n").unwrap();
        let root = Root { harness: &ClaudeCode, folder };
        let found = not_understood(&root, usize::MAX, &|_| false);
        let named: Vec<_> = found.iter().map(|skip| (skip.path.clone(), skip.why.as_str())).collect();
        let of_other = "it looks like a session of Factory Droid, which subscope does not read";
        assert_eq!(named, [(file(1), "no line of it is understood"), (file(4), of_other)]);
        assert_eq!(not_understood(&root, usize::MAX, &|path| path == file(1)), found[1..]);
        assert_eq!(not_understood(&root, 0, &|_| false), []);
    }

    #[test]
    fn sessions_in_tables_of_another_version_are_counted() {
        let home = tempfile::tempdir().unwrap();
        let root = Root { harness: &OPENCODE, folder: home.path().to_owned() };
        let path = home.path().join("opencode-beta.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch("CREATE TABLE session_v2(id text primary key)").unwrap();
        assert_eq!(unread_databases(&root), []);
        database.execute_batch("INSERT INTO session_v2 VALUES('ses_1'), ('ses_2')").unwrap();
        let why = "it has 2 sessions of OpenCode 2, which subscope does not read".to_owned();
        assert_eq!(unread_databases(&root), [Skipped { path: path.clone(), why: why.clone() }]);
        let expanded = format!("{:?}", crate::expand(&path));
        assert!(expanded.contains(&why), "{expanded}");
    }
}
