//! Lists the main transcripts below a folder, without a look into the folders of their sessions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use subscope_harness::{Role, Root, bundle};

use crate::{bundle, list::MAX_DEPTH, peek::complete};

/// Returns the main transcripts below a folder, each with its session, in no order.
pub fn main_transcripts(root: &Root) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    list(root, &root.folder, MAX_DEPTH, &mut found);
    found
}

fn list(root: &Root, folder: &Path, depth: usize, found: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if bundle(&path).is_some() {
            let sessions = bundle::sessions(&path).unwrap_or_default();
            found.extend(
                sessions.into_iter().filter_map(|session| {
                    Some((root.harness.classify(&session.path)?.session?, session.path))
                }),
            );
            continue;
        }
        match root.harness.classify_below(&root.folder, &path) {
            Some(place) => {
                // Only its first line may say which session a file is of, and that it is the main transcript.
                let place = if place.session.is_none() { complete(&path, &place) } else { Some(place) };
                let main = place.filter(|place| place.role == Role::Main);
                found.extend(main.and_then(|place| place.session).map(|session| (session, path)));
            }
            None => {
                let is_shared = root.harness.session_of_folder(&root.folder, &path).is_none();
                if is_shared && depth > 0 && path.is_dir() {
                    list(root, &path, depth - 1, found);
                }
            }
        }
    }
}
