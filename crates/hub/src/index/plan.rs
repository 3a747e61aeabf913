//! What is to be done: which sessions have files that are new or other than they were, and which are due anyway.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use subscope_collect::{CollectError, Found, Group, Role, expand};
use subscope_model::{Problem, SessionId};
use subscope_store::{Identity, Received, Sqlite, Texts};

use super::{IndexError, IndexOptions, Report};

/// What is to be done.
pub(super) struct Plan {
    /// Sessions to fold, the newest first.
    pub(super) groups: Vec<Work>,
    /// Transcripts whose words are to be read, the newest first.
    pub(super) files: Vec<(Found, Identity)>,
    /// Sessions of which a file is gone: their rows stay as they are.
    pub(super) gone: Vec<SessionId>,
}

/// A session to fold.
pub(super) struct Work {
    /// Its files as they stood just before they are read.
    pub(super) files: Vec<(Found, Identity)>,
    /// What programs handed over of it: rows are made of all that is known of a session.
    pub(super) received: Vec<Received>,
}

impl Plan {
    /// How many bytes are read for rows.
    pub(super) fn fact_bytes(&self) -> u64 {
        self.groups.iter().flat_map(|work| &work.files).map(|(found, _)| found.len).sum()
    }

    /// How many bytes are read for words.
    pub(super) fn text_bytes(&self) -> u64 {
        self.files.iter().map(|(found, _)| found.len).sum()
    }
}

pub(super) fn plan(
    store: &Sqlite,
    texts: Option<&Texts>,
    options: &IndexOptions,
    report: &mut Report,
) -> Result<Plan, IndexError> {
    let known: HashMap<PathBuf, (SessionId, Identity)> =
        store.sources()?.into_iter().map(|source| (source.path, (source.session, source.identity))).collect();
    let due: HashSet<SessionId> = store.due(options.now_ms)?.into_iter().collect();
    let indexed: HashMap<PathBuf, Identity> =
        texts.map(Texts::files).transpose()?.unwrap_or_default().into_iter().collect();
    let mut groups: Vec<Group> = Vec::new();
    for root in &options.roots {
        if !root.exists() {
            continue;
        }
        let expanded = match expand(root) {
            Ok(expanded) => expanded,
            // A harness that was never used has a folder all the same.
            Err(CollectError::Empty { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        groups.extend(expanded.groups);
        report.problems.extend(
            expanded
                .skipped
                .into_iter()
                .map(|it| Problem { at: it.path.display().to_string(), what: it.why }),
        );
    }
    let mut gone: HashSet<SessionId> = HashSet::new();
    let found: HashSet<&Path> =
        groups.iter().flat_map(|group| &group.files).map(|found| found.path.as_path()).collect();
    for (path, (session, _)) in &known {
        if !found.contains(path.as_path()) && !path.exists() {
            gone.insert(session.clone());
        }
    }
    let mut plan = Plan { groups: Vec::new(), files: Vec::new(), gone: Vec::new() };
    for group in groups {
        let files: Vec<(Found, Identity)> = group
            .files
            .into_iter()
            .map(|found| (identity(&found.path), found))
            .map(|(id, it)| (it, id))
            .collect();
        report.files += files.len() as u64;
        let of = |found: &Found| known.get(&found.path).map(|(session, _)| session);
        if files.iter().any(|(found, _)| of(found).is_some_and(|session| gone.contains(session))) {
            continue;
        }
        let is_new = |(found, now): &(Found, Identity)| {
            known.get(&found.path).is_none_or(|(_, identity)| identity != now)
        };
        let is_due = files.iter().any(|(found, _)| of(found).is_some_and(|session| due.contains(session)));
        let is_text = |(found, _): &&(Found, Identity)| matches!(found.role, Role::Main | Role::Agent);
        let unread =
            files.iter().filter(is_text).filter(|(found, now)| indexed.get(&found.path) != Some(now));
        plan.files.extend(unread.cloned());
        if is_due || files.iter().any(is_new) {
            let session = files.iter().find_map(|(found, _)| found.session.as_deref()).map(SessionId::from);
            let received =
                session.map(|session| store.received_of(&session)).transpose()?.unwrap_or_default();
            plan.groups.push(Work { files, received });
        }
    }
    plan.gone = gone.into_iter().collect();
    plan.groups.sort_by_key(|work| std::cmp::Reverse(work.files.iter().map(|(_, it)| it.modified_ns).max()));
    plan.files.sort_by_key(|(_, identity)| std::cmp::Reverse(identity.modified_ns));
    Ok(plan)
}

/// How a file stands now; all zero where it is gone.
fn identity(path: &Path) -> Identity {
    let Ok(metadata) = fs::metadata(path) else { return Identity::default() };
    Identity {
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
    }
}
