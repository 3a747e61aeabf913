//! Lists folders: sorted, bounded in depth. A symbolic link to a file is that file; those to folders are not followed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use subscope_harness::{Role, bundle, classify, harness_of, recognize, skips_folder};

use crate::{Skipped, fault, read::read_head};

/// Greatest depth of a listing: transcripts of a home folder are 8 deep. The bound ends a loop of mounts.
pub(crate) const MAX_DEPTH: usize = 12;

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File,
    Link,
    Special,
}

/// An entry found by a walk, in order.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A folder that is about to be listed: a watch that begins now misses nothing.
    Enter(&'a Path),
    /// A regular file.
    File(&'a Path),
    /// A file or folder that holds many sessions. It is not listed.
    Bundle(&'a Path),
    /// Something that looked like a transcript, or could hold some, but cannot be read.
    Skip(Skipped),
}

/// Whether a file has the ending of recordings and of most transcripts.
pub(crate) fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Endings of recorded output.
const RECORDING_ENDINGS: [&str; 3] = ["jsonl", "ndjson", "json"];

/// Whether a file has an ending of recorded output.
pub fn is_recording_name(path: &Path) -> bool {
    path.extension().is_some_and(|ending| RECORDING_ENDINGS.iter().any(|known| ending == *known))
}

/// Whether a file begins as output of a harness; one that cannot be read does not.
pub fn is_harness_output(path: &Path) -> bool {
    let dialect = read_head(path).ok().and_then(|head| recognize(&head));
    dialect.is_some_and(|dialect| harness_of(dialect).is_some())
}

/// Whether a file of this name would be read if it were one.
fn is_transcript_name(path: &Path) -> bool {
    is_jsonl(path) || classify(path).role != Role::Other
}

/// Returns the entries of a folder, by name.
pub(crate) fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, Kind)>> {
    fault::check()?;
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_file() => Kind::File,
            Ok(kind) if kind.is_dir() => Kind::Folder,
            Ok(kind) if kind.is_symlink() => Kind::Link,
            Ok(_) => Kind::Special,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        all.push((entry.path(), kind));
    }
    all.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    Ok(all)
}

/// Lists a folder and those below it. A folder that vanishes meanwhile is no problem.
pub(crate) fn walk(folder: &Path, each: &mut dyn FnMut(Step<'_>)) {
    walk_down(folder, folder, MAX_DEPTH, each);
}

fn walk_down(root: &Path, folder: &Path, depth: usize, each: &mut dyn FnMut(Step<'_>)) {
    each(Step::Enter(folder));
    let entries = match entries(folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                each(Step::Skip(Skipped { path: folder.to_owned(), why: error.to_string() }));
            }
            return;
        }
    };
    for (path, kind) in entries {
        match kind {
            Kind::File | Kind::Folder if bundle(&path).is_some() => each(Step::Bundle(&path)),
            Kind::File => each(Step::File(&path)),
            Kind::Folder if is_transcript_name(&path) => each(skip(path, "a folder, not a file")),
            Kind::Folder if path.file_name().is_some_and(skips_folder) => {}
            Kind::Folder if depth == 0 => each(skip(path, "too deep below the target to be listed")),
            Kind::Folder => walk_down(root, &path, depth - 1, each),
            Kind::Link => follow_link(root, &path, depth == MAX_DEPTH, each),
            Kind::Special if is_transcript_name(&path) => each(skip(path, "not a regular file")),
            Kind::Special => {}
        }
    }
}

/// Lists a symbolic link: a file that is kept elsewhere is listed under the name of the link, once. What cannot be followed is
/// named where a transcript was expected.
fn follow_link(root: &Path, link: &Path, is_top: bool, each: &mut dyn FnMut(Step<'_>)) {
    let is_bundle = bundle(link).is_some();
    let is_expected = is_bundle || is_transcript_name(link);
    match fs::metadata(link) {
        Ok(metadata) if is_bundle && (metadata.is_file() || metadata.is_dir()) => each(Step::Bundle(link)),
        // It is listed where it is.
        Ok(metadata) if metadata.is_file() && is_listed_itself(root, link) => {}
        Ok(metadata) if metadata.is_file() && is_expected => each(Step::File(link)),
        Ok(metadata) if metadata.is_dir() && is_expected => {
            each(skip(link.to_owned(), "a folder, not a file"))
        }
        // A project that is kept elsewhere. Deeper links belong to projects, and may lead anywhere.
        Ok(metadata) if metadata.is_dir() && is_top => {
            let why = "a symbolic link to a folder, not followed: name that folder itself";
            each(skip(link.to_owned(), why));
        }
        Ok(metadata) if is_expected && !metadata.is_dir() => {
            each(skip(link.to_owned(), "not a regular file"));
        }
        Err(error) if is_expected || is_top && error.kind() != io::ErrorKind::NotFound => {
            each(skip(link.to_owned(), &format!("a symbolic link that cannot be followed: {error}")));
        }
        Ok(_) | Err(_) => {}
    }
}

/// Whether a link leads to a file below the same folder that is listed as the same.
fn is_listed_itself(root: &Path, link: &Path) -> bool {
    let Ok(file) = fs::canonicalize(link) else { return false };
    file.starts_with(root) && file != link && classify(&file) == classify(link)
}

fn skip(path: PathBuf, why: &str) -> Step<'static> {
    Step::Skip(Skipped { path, why: why.to_owned() })
}
