//! Lists the sessions below a folder, mostly by their main transcripts, without a look into the folders of these.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use memchr::memmem::Finder;
use subscope_harness::{Place, Role, Root, bundle, classify};
use subscope_model::{Millis, SessionId, true_id};

use crate::{
    bundle,
    list::{MAX_DEPTH, Step, walk},
    peek::complete,
    read::read_file,
};

/// Returns the main transcripts below a folder, each with its session, in no order.
pub fn main_transcripts(root: &Root) -> Vec<(SessionId, PathBuf)> {
    transcripts_since(root, UNIX_EPOCH)
}

/// Returns those that were written at or after a time. Older files are not opened.
pub fn transcripts_since(root: &Root, since: SystemTime) -> Vec<(SessionId, PathBuf)> {
    let mut found = Vec::new();
    list(root, &root.folder, since, MAX_DEPTH, &mut found);
    found.retain(|(role, ..)| *role == Role::Main);
    found.into_iter().map(|(_, session, path)| (session, path)).collect()
}

/// Returns the sessions below a folder, each with its main transcript, or one of its agents' where that is missing.
pub fn sessions_below(root: &Root) -> Vec<(SessionId, PathBuf)> {
    let mut found = Vec::new();
    list(root, &root.folder, UNIX_EPOCH, MAX_DEPTH, &mut found);
    found.sort_by_key(|(role, ..)| *role != Role::Main);
    let mut known = HashSet::new();
    found.retain(|(role, session, _)| known.insert(session.clone()) || *role == Role::Main);
    found.into_iter().map(|(_, session, path)| (session, path)).collect()
}

/// Returns the files below a folder that name a session somewhere although their paths name another: lines of a session
/// may be in files of others. Files that the caller `skips` are not read.
pub fn transcripts_naming(root: &Root, session: &SessionId, skips: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if !root.harness.dialects().iter().any(|dialect| dialect.names_session()) {
        return found;
    }
    let named = true_id(session);
    let (needle, mut chunk) = (Finder::new(&*named), Vec::new());
    let Ok(folder) = fs::canonicalize(&root.folder) else { return found };
    walk(&folder, &mut |step| {
        let Step::File(path) = step else { return };
        let place = root.harness.classify_below(&folder, path);
        let is_of_other = place.is_some_and(|place| {
            matches!(place.role, Role::Main | Role::Agent) && place.session.as_deref() != Some(&*named)
        });
        if is_of_other && !skips(path) && has(path, &needle, &mut chunk) {
            found.push(path.to_owned());
        }
    });
    found
}

fn session_of(place: &Place) -> Option<SessionId> {
    place.session.as_deref().map(SessionId::from_outside)
}

/// Returns the transcript of an agent in the folder of a session.
fn first_agent(root: &Root, folder: &Path) -> Option<PathBuf> {
    let mut found = None;
    walk(folder, &mut |step| {
        if let Step::File(path) = step
            && found.is_none()
            && root.harness.classify_below(&root.folder, path).is_some_and(|place| place.role == Role::Agent)
        {
            found = Some(path.to_owned());
        }
    });
    found
}

/// Whether a file has a text somewhere.
fn has(path: &Path, needle: &Finder<'_>, chunk: &mut Vec<u8>) -> bool {
    let (mut is_found, mut seam) = (false, Vec::new());
    // A file that cannot be read is reported where it is read for its own session.
    let outcome = read_file(path, 0, chunk, &mut |_, bytes| {
        let keep = needle.needle().len().saturating_sub(1);
        seam.extend_from_slice(bytes.get(..keep).unwrap_or(bytes));
        is_found = is_found || needle.find(&seam).is_some() || needle.find(bytes).is_some();
        seam.clear();
        seam.extend_from_slice(bytes.get(bytes.len().saturating_sub(keep)..).unwrap_or(bytes));
    });
    outcome.is_ok() && is_found
}

/// Classifies a main transcript that is not where its harness keeps them: the index reads such a file by its name.
fn main_elsewhere(path: &Path) -> Option<Place> {
    let place = classify(path);
    (place.role == Role::Main && place.session.is_some() && path.is_file()).then_some(place)
}

/// Adds main transcripts and those of agents outside of the folders of sessions with a main transcript.
fn list(
    root: &Root,
    folder: &Path,
    since: SystemTime,
    depth: usize,
    found: &mut Vec<(Role, SessionId, PathBuf)>,
) {
    let since_ms = since.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as Millis);
    let is_new = |path: &Path| {
        since == UNIX_EPOCH
            || fs::metadata(path).and_then(|file| file.modified()).is_ok_and(|modified| modified >= since)
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if bundle(&path).is_some() {
            let sessions = bundle::names(&path, since_ms).unwrap_or_default().into_iter();
            let named = |(path, _): (PathBuf, Millis)| {
                let place = root.harness.classify(&path).filter(|place| place.role == Role::Main)?;
                Some((Role::Main, session_of(&place)?, path))
            };
            found.extend(sessions.filter_map(named));
            continue;
        }
        match root.harness.classify_below(&root.folder, &path).or_else(|| main_elsewhere(&path)) {
            Some(place) if is_new(&path) => {
                // The session of a file, and that it is the main transcript, may be known from its first line only.
                // One that cannot be read is no transcript that could be shown.
                let place = match place.session {
                    Some(_) => Some(place),
                    None => complete(&path, &path, &place).ok().flatten(),
                };
                let place = place.filter(|place| matches!(place.role, Role::Main | Role::Agent));
                found.extend(place.and_then(|place| Some((place.role, session_of(&place)?, path))));
            }
            Some(_) => {}
            None => match root.harness.session_of_folder(&root.folder, &path) {
                None if depth > 0 && path.is_dir() => list(root, &path, since, depth - 1, found),
                // The main transcript is in the folder of its session.
                Some(files) if files.main.starts_with(&path) && files.main.is_file() => {
                    let session = SessionId::from_outside(&files.session);
                    found.extend(is_new(&files.main).then(|| (Role::Main, session, files.main.clone())));
                }
                Some(files) if !files.main.exists() && path.is_dir() => {
                    let session = SessionId::from_outside(&files.session);
                    found.extend(first_agent(root, &path).map(|agent| (Role::Agent, session, agent)));
                }
                None | Some(_) => {}
            },
        }
    }
}
