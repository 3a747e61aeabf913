//! The scope of everything live below Claude Code's `projects` folder.
//!
//! A session is live once a file of it was written lately, or changes while we look. Then its whole group is
//! followed from the beginning. Of idle sessions nothing is kept but the watches of their folders.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use subscope_model::Millis;

use super::{FileEvent, Hands, Out};
use crate::{
    Role, Skipped,
    layout::{self, Place, TOOL_RESULTS, describe, is_transcript_name, main_place},
    list::{Kind, Step, entries, walk},
    peek::{Peeks, session_of},
    target::{Seen, Target, stat},
};

#[derive(Debug)]
pub(super) struct Projects {
    /// As given, absolute.
    given: PathBuf,
    /// Canonical; `None` while it does not exist.
    root: Option<PathBuf>,
    /// The sessions that are followed, by project's folder and id.
    live: HashSet<(PathBuf, String)>,
}

impl Projects {
    pub(super) fn new(given: PathBuf) -> Self {
        Self { given, root: None, live: HashSet::new() }
    }

    pub(super) fn given(&self) -> &Path {
        &self.given
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.root.is_none()
    }

    /// Finds out whether the root is gone.
    pub(super) fn check_base(&mut self) {
        if self.root.as_ref().is_some_and(|root| !root.is_dir()) {
            self.root = None;
        }
    }

    /// Lists everything.
    pub(super) fn scan(&mut self, hands: &mut Hands, out: &mut Out<'_>) {
        self.check_base();
        while self.root.is_none() {
            self.root = fs::canonicalize(&self.given).ok().filter(|root| root.is_dir());
            // It may have come before the folder above was watched: look again.
            if self.root.is_none() && !hands.watch.nearest_above(&self.given) {
                return;
            }
        }
        let Some(root) = self.root.clone() else { return };
        hands.watch.folder(&root);
        for (folder, kind) in entries(&root).unwrap_or_default() {
            if kind == Kind::Folder {
                self.scan_project(&folder, hands, out);
            }
        }
    }

    /// A folder is there that was not, or not so.
    pub(super) fn enter(&mut self, folder: &Path, hands: &mut Hands, out: &mut Out<'_>) {
        match self.steps(folder).as_deref() {
            None => {}
            Some([]) => self.scan(hands, out),
            Some([project]) => self.scan_project(project, hands, out),
            Some([project, session, ..]) => self.scan_session(project, session, hands, out),
        }
    }

    /// A file that is not followed was made or changed: its session is live.
    pub(super) fn take(&mut self, path: &Path, hands: &mut Hands, out: &mut Out<'_>) {
        let steps = self.steps(path);
        let Some([project, top, ..]) = steps.as_deref() else { return };
        let place = if top == path { place_in_project(path) } else { place_in_session(path, top) };
        let Some((session, place)) = place else { return };
        if self.live.contains(&(project.clone(), session.clone())) {
            open(path, place, hands, out);
        } else {
            self.open_session(project, &session, hands, out);
        }
    }

    /// Lists one project's folder.
    fn scan_project(&mut self, project: &Path, hands: &mut Hands, out: &mut Out<'_>) {
        hands.watch.folder(project);
        let since_ms = hands.options.live_since_ms();
        let mut newest: BTreeMap<String, Millis> = BTreeMap::new();
        let mut note = |session: String, at_ms: Millis| {
            let latest = newest.entry(session).or_insert(at_ms);
            *latest = at_ms.max(*latest);
        };
        let mut late_agents = Vec::new();
        for (path, kind) in entries(project).unwrap_or_default() {
            if kind == Kind::Folder && !is_transcript_name(&path) {
                let at_ms = newest_below(&path, hands);
                if let (Some(session), Some(at_ms)) = (name_of(&path), at_ms) {
                    note(session.to_owned(), at_ms);
                }
                continue;
            }
            if kind != Kind::File || hands.files.is_open(&path) {
                continue;
            }
            let Some(at_ms) =
                fs::symlink_metadata(&path).ok().and_then(|metadata| layout::modified_ms(&metadata))
            else {
                continue;
            };
            // Only what was written lately is asked for its session: there may be thousands.
            let is_agent = describe(&path).role == Role::Agent;
            if is_agent && at_ms < since_ms {
                continue;
            }
            if let Some((session, place)) = place_in_project(&path) {
                note(session, at_ms);
                if is_agent {
                    late_agents.push((path, place));
                }
            }
        }
        for (session, at_ms) in newest {
            if at_ms >= since_ms {
                self.open_session(project, &session, hands, out);
            }
        }
        for (path, place) in late_agents {
            open(&path, place, hands, out);
        }
    }

    /// Lists the folder of one session, or a part of it.
    fn scan_session(&mut self, project: &Path, folder: &Path, hands: &mut Hands, out: &mut Out<'_>) {
        let Some(session) = name_of(folder) else { return };
        let is_live = self.live.contains(&(project.to_owned(), session.to_owned()));
        let at_ms = newest_below(folder, hands);
        if is_live || at_ms.is_some_and(|at_ms| at_ms >= hands.options.live_since_ms()) {
            self.open_session(project, session, hands, out);
        }
    }

    /// Follows what there is of a session. The subagents beside it are looked for only the first time: later
    /// ones are found by being written.
    fn open_session(&mut self, project: &Path, session: &str, hands: &mut Hands, out: &mut Out<'_>) {
        let target = Target::Session { project: project.to_owned(), session: session.to_owned() };
        let is_new = self.live.insert((project.to_owned(), session.to_owned()));
        let mut notice = |seen: Seen<'_>| match seen {
            Seen::Folder(folder) => {
                hands.watch.folder(folder);
            }
            Seen::File(found) => hands.files.open(&found, out),
            // Told once: a listing that is repeated every minute must not repeat it.
            Seen::Skipped(Skipped { path, why }) if is_new => {
                out.send(FileEvent::Problem { path: &path, what: &why });
            }
            Seen::Skipped(_) => {}
        };
        if is_new {
            target.list(&mut Peeks::default(), &mut notice);
            return out.send(FileEvent::Whole { session });
        }
        target.list_below(&project.join(session), &mut Peeks::default(), &mut notice);
        let main = layout::main_path(project, session);
        open(&main, main_place(session), hands, out);
    }

    /// The folders from below the root down to a path, the path included; `None` outside the root.
    fn steps(&self, path: &Path) -> Option<Vec<PathBuf>> {
        let root = self.root.as_ref()?;
        let below = path.strip_prefix(root).ok()?;
        let mut at = root.clone();
        Some(
            below
                .iter()
                .map(|name| {
                    at.push(name);
                    at.clone()
                })
                .collect(),
        )
    }
}

/// The session of a file that stands in a project's folder, and what the file is to it.
fn place_in_project(path: &Path) -> Option<(String, Place)> {
    let mut place = describe(path);
    match place.role {
        Role::Agent => place.session = session_of(path),
        Role::Main => {}
        Role::Other if path.extension().is_some_and(|extension| extension == "jsonl") => {
            place = main_place(path.file_stem()?.to_str()?);
        }
        Role::Meta | Role::Journal | Role::Other => return None,
    }
    Some((place.session.clone()?, place))
}

/// The session of a file below its folder, and what the file is to it.
fn place_in_session(path: &Path, folder: &Path) -> Option<(String, Place)> {
    let mut place = describe(path);
    if matches!(place.role, Role::Other | Role::Main) {
        return None;
    }
    let session = name_of(folder)?.to_owned();
    place.session = Some(session.clone());
    Some((session, place))
}

/// Watches a session's folder and those below it, and returns when a file there was last written.
fn newest_below(folder: &Path, hands: &mut Hands) -> Option<Millis> {
    if name_of(folder) == Some(TOOL_RESULTS) {
        return None;
    }
    let mut newest = None;
    walk(folder, &mut |step| match step {
        Step::Enter(folder) => hands.watch.idle_folder(folder),
        Step::File(path) if describe(path).role != Role::Other => {
            let metadata = fs::symlink_metadata(path).ok();
            newest = newest.max(metadata.and_then(|metadata| layout::modified_ms(&metadata)));
        }
        Step::File(_) | Step::Skip(_) => {}
    });
    newest
}

fn open(path: &Path, place: Place, hands: &mut Hands, out: &mut Out<'_>) {
    if hands.files.is_open(path) {
        return;
    }
    match stat(path, place) {
        Ok(Some(found)) => hands.files.open(&found, out),
        Ok(None) => {}
        Err(Skipped { path, why }) => out.send(FileEvent::Problem { path: &path, what: &why }),
    }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}
