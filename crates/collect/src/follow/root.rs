//! The scope of everything live below a folder of transcripts.
//!
//! A session is live once a file of it was written lately, or changes while we look. Then all of its files are
//! followed from the beginning. For idle sessions only the watches of their folders are kept.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use subscope_harness::{self as harness, Harness, Place, SessionFiles};

use super::{EventSink, FileEvent, FollowState, Scope};
use crate::{
    CollectError, Skipped, bundle,
    found::modified_ms,
    list::{Step, walk},
    peek::{Peeks, complete},
    source::is_missing,
    target::{Seen, Target, stat},
};

/// A folder of transcripts.
pub(super) struct Root {
    harness: &'static dyn Harness,
    /// As given, absolute.
    given: PathBuf,
    /// Canonical; `None` while it does not exist.
    folder: Option<PathBuf>,
    /// The sessions that are followed, by the paths of their main transcripts.
    live: HashSet<PathBuf>,
    /// Whose transcripts those of agents are that lie in folders which sessions share: each session lists them.
    peeks: Peeks,
}

impl Root {
    pub(super) fn new(root: harness::Root) -> Self {
        Self {
            harness: root.harness,
            given: root.folder,
            folder: None,
            live: HashSet::new(),
            peeks: Peeks::default(),
        }
    }

    /// Lists everything.
    fn list(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) {
        self.check_base();
        while self.folder.is_none() {
            self.folder = fs::canonicalize(&self.given).ok().filter(|folder| folder.is_dir());
            // The folder may have been created before its parent was watched: check again.
            if self.folder.is_none() && !state.watch.nearest_above(&self.given) {
                return;
            }
        }
        if let Some(root) = self.folder.clone() {
            self.scan_shared(&root, &root, state, out);
        }
    }

    /// Lists a folder of several sessions, and follows those of which a file was written lately.
    fn scan_shared(&mut self, root: &Path, folder: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let harness = self.harness;
        let since_ms = state.options.live_since_ms();
        let mut shared: HashSet<PathBuf> = HashSet::new();
        // By their main transcripts: a session may have several in a folder.
        let mut live: BTreeMap<PathBuf, SessionFiles> = BTreeMap::new();
        let (mut late_agents, mut bundles, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        walk(folder, &mut |step| match step {
            Step::Enter(folder) if harness.session_of_folder(root, folder).is_none() => {
                state.watch.folder(folder);
                shared.insert(folder.to_owned());
            }
            Step::Enter(folder) => state.watch.idle_folder(folder),
            Step::Skip(_) => {}
            Step::Bundle(path) => bundles.push(path.to_owned()),
            Step::File(path) => {
                let is_shared = || path.parent().is_some_and(|parent| shared.contains(parent));
                if state.files.is_open(path) && is_shared() {
                    return;
                }
                // There may be thousands: only the time of those not written recently is read.
                let modified_ms = fs::metadata(path).ok().and_then(|metadata| modified_ms(&metadata));
                if modified_ms.is_none_or(|at_ms| at_ms < since_ms) {
                    return;
                }
                let Some(place) = harness.classify_below(root, path) else { return };
                let is_unnamed = place.session.is_none();
                let (session, place) = match with_session(path, place) {
                    Ok(Some(named)) => named,
                    Ok(None) => return,
                    Err(unread) => return skipped.push(unread),
                };
                let files = harness.session_files(root, path, &session);
                live.entry(files.main.clone()).or_insert(files);
                if is_unnamed {
                    late_agents.push((path.to_owned(), place));
                }
            }
        });
        for Skipped { path, why } in skipped {
            out.send(FileEvent::Problem { path: &path, what: &why });
        }
        for files in live.values() {
            self.open_session(files, state, out);
        }
        for (path, place) in late_agents {
            open(&path, place, state, out);
        }
        for path in bundles {
            self.scan_bundle(root, &path, state, out);
        }
    }

    /// Follows the sessions of a bundle that were written lately.
    fn scan_bundle(&mut self, root: &Path, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let since_ms = state.options.live_since_ms();
        // Watched before it is read, so that no change comes between.
        for (folder, changed_ms) in bundle::folders(path) {
            if changed_ms >= since_ms {
                state.watch.folder(&folder);
            } else {
                state.watch.idle_folder(&folder);
            }
        }
        let sessions = bundle::names(path, since_ms).unwrap_or_else(|error| {
            // It is read after its next change, or by the index.
            out.send(FileEvent::Problem { path, what: &error.to_string() });
            Vec::new()
        });
        for (session, _) in sessions {
            let Some(place) = self.harness.classify(&session) else { continue };
            let Some(name) = place.session.clone() else { continue };
            let files = self.harness.session_files(root, &session, &name);
            if self.live.contains(&files.main) {
                // Its rows may be written later than its files.
                open(&session, place, state, out);
            } else {
                self.open_session(&files, state, out);
            }
        }
    }

    /// Lists the folder of one session, or a part of it.
    fn scan_session(
        &mut self,
        root: &Path,
        folder: &Path,
        files: &SessionFiles,
        state: &mut FollowState,
        out: &mut EventSink<'_>,
    ) {
        let mut newest = None;
        walk(folder, &mut |step| match step {
            Step::Enter(folder) => state.watch.idle_folder(folder),
            Step::File(path) if self.harness.classify_below(root, path).is_some() => {
                let metadata = fs::metadata(path).ok();
                newest = newest.max(metadata.and_then(|metadata| modified_ms(&metadata)));
            }
            Step::File(_) | Step::Bundle(_) | Step::Skip(_) => {}
        });
        let is_live = self.live.contains(&files.main);
        if is_live || newest.is_some_and(|at_ms| at_ms >= state.options.live_since_ms()) {
            self.open_session(files, state, out);
        }
    }

    /// Follows the existing files of a session. Folders that it shares with other sessions are searched for its
    /// transcripts only the first time: later files are found when they are written.
    fn open_session(&mut self, files: &SessionFiles, state: &mut FollowState, out: &mut EventSink<'_>) {
        let target = Target::Session(files.clone());
        let is_new = self.live.insert(files.main.clone());
        let mut notice = |seen: Seen<'_>| match seen {
            Seen::Folder(folder) => {
                state.watch.folder(folder);
            }
            Seen::File(found) => state.files.open(&found, out),
            // Reported once: a listing that is repeated every minute must not repeat it.
            Seen::Skipped(Skipped { path, why }) if is_new => {
                out.send(FileEvent::Problem { path: &path, what: &why });
            }
            Seen::Skipped(_) => {}
        };
        if is_new {
            target.list(&mut self.peeks, &mut notice);
            return out.send(FileEvent::Whole { session: &files.session });
        }
        for folder in &files.folders {
            target.list_below(folder, &mut self.peeks, &mut notice);
        }
        open(&files.main, files.place.clone(), state, out);
    }
}

impl Scope for Root {
    fn is_waiting(&self) -> bool {
        self.folder.is_none()
    }

    fn check_base(&mut self) {
        if self.folder.as_ref().is_some_and(|folder| !folder.is_dir()) {
            self.folder = None;
        }
    }

    fn scan(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) -> Result<(), CollectError> {
        self.list(state, out);
        Ok(())
    }

    fn resolve(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) -> Result<(), CollectError> {
        if self.is_waiting() {
            self.list(state, out);
        }
        Ok(())
    }

    fn enter(&mut self, folder: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let Some(root) = self.folder.clone() else { return };
        if root.starts_with(folder) {
            return self.list(state, out);
        }
        if !folder.starts_with(&root) {
            return;
        }
        match self.harness.session_of_folder(&root, folder) {
            Some(files) => self.scan_session(&root, folder, &files, state, out),
            None => self.scan_shared(&root, folder, state, out),
        }
    }

    fn take_bundle(&mut self, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        if let Some(root) = self.folder.clone().filter(|root| path.starts_with(root)) {
            self.scan_bundle(&root, path, state, out);
        }
    }

    /// The file's session is live.
    fn take(&mut self, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>) {
        let Some(root) = &self.folder else { return };
        let Some(place) = self.harness.classify_below(root, path) else { return };
        let (session, place) = match with_session(path, place) {
            Ok(Some(named)) => named,
            Ok(None) => return,
            // The next listing finds it again.
            Err(Skipped { path, why }) => return out.send(FileEvent::Problem { path: &path, what: &why }),
        };
        let files = self.harness.session_files(root, path, &session);
        if self.live.contains(&files.main) {
            open(path, place, state, out);
        } else {
            self.open_session(&files, state, out);
        }
    }
}

/// The session of a file, by its path or its first line, and what the file is to it.
///
/// # Errors
/// If the first line cannot be read.
fn with_session(path: &Path, place: Place) -> Result<Option<(String, Place)>, Skipped> {
    let skipped = |error: io::Error| Skipped { path: path.to_owned(), why: error.to_string() };
    let place = match place.session {
        Some(_) => Some(place),
        None => match complete(path, path, &place) {
            Err(error) if is_missing(&error) => None,
            found => found.map_err(skipped)?,
        },
    };
    Ok(place.and_then(|place| Some((place.session.clone()?, place))))
}

fn open(path: &Path, place: Place, state: &mut FollowState, out: &mut EventSink<'_>) {
    if state.files.is_open(path) {
        return;
    }
    match stat(path, place) {
        Ok(Some(found)) => state.files.open(&found, out),
        Ok(None) => {}
        Err(Skipped { path, why }) => out.send(FileEvent::Problem { path: &path, what: &why }),
    }
}
