//! Lists the main transcripts below a folder, without a look into the folders of their sessions.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use subscope_harness::{Place, Role, Root, bundle};
use subscope_model::{Millis, SessionId};

use crate::{bundle, list::MAX_DEPTH, peek::complete};

/// Returns the main transcripts below a folder, each with its session, in no order.
pub fn main_transcripts(root: &Root) -> Vec<(SessionId, PathBuf)> {
    transcripts_since(root, UNIX_EPOCH)
}

/// Returns those that were written at or after a time. Older files are not opened.
pub fn transcripts_since(root: &Root, since: SystemTime) -> Vec<(SessionId, PathBuf)> {
    let mut found = Vec::new();
    list(root, &root.folder, since, MAX_DEPTH, &mut found);
    found
}

fn session_of(place: Place) -> Option<SessionId> {
    place.session.map(|session| SessionId::from_outside(&session))
}

fn list(root: &Root, folder: &Path, since: SystemTime, depth: usize, found: &mut Vec<(SessionId, PathBuf)>) {
    let since_ms = since.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as Millis);
    let is_new = |path: &Path| {
        since == UNIX_EPOCH
            || fs::metadata(path).and_then(|file| file.modified()).is_ok_and(|modified| modified >= since)
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if bundle(&path).is_some() {
            let sessions = bundle::names(&path, since_ms).unwrap_or_default().into_iter();
            let named =
                |(path, _): (PathBuf, Millis)| Some((session_of(root.harness.classify(&path)?)?, path));
            found.extend(sessions.filter_map(named));
            continue;
        }
        match root.harness.classify_below(&root.folder, &path) {
            Some(place) if is_new(&path) => {
                // The session of a file, and that it is the main transcript, may be known from its first line only.
                let place =
                    if place.session.is_none() { complete(&path, &path, &place) } else { Some(place) };
                let main = place.filter(|place| place.role == Role::Main);
                found.extend(main.and_then(session_of).map(|session| (session, path)));
            }
            Some(_) => {}
            None => {
                let is_shared = root.harness.session_of_folder(&root.folder, &path).is_none();
                if is_shared && depth > 0 && path.is_dir() {
                    list(root, &path, since, depth - 1, found);
                }
            }
        }
    }
}
