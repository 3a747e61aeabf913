//! Turns a TARGET into files, grouped by session.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use subscope_harness::{Role, classify, recognize};

use crate::{
    CollectError, Found,
    list::{Kind, entries, is_harness_output, is_jsonl, is_recording_name},
    peek::Peeks,
    read::read_head,
    target::{Seen, Target, stat},
};

/// The files of a TARGET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// Ordered by the path of their first file. A session is in one group only; files without a known
    /// session are groups of their own.
    pub groups: Vec<Group>,
    /// What looked like a part of the TARGET but cannot be read, by path.
    pub skipped: Vec<Skipped>,
}

/// The files of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The session, by path or first line.
    pub session: Option<String>,
    /// The main transcript first, then by path; never empty, no file twice.
    pub files: Vec<Found>,
}

/// Something that is not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Its path.
    pub path: PathBuf,
    /// Why it is not read; a lower-case fragment.
    pub why: String,
}

/// Returns the files of a TARGET: of a session if it is a main transcript or a session's folder, else those
/// below a folder, else the one file.
///
/// A subagent's transcript comes alone with the note about it. A folder without transcripts gives the recordings directly
/// in it: `.jsonl` files, and JSON files that begin as output of a harness. Symbolic links to files are followed, those to folders for the TARGET itself only.
///
/// # Errors
///
/// Where nothing is at the path, where it is a pipe or device, and where a folder holds nothing readable.
pub fn expand(target: &Path) -> Result<Expanded, CollectError> {
    let kind = Target::classify(target)?;
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    let mut take = |seen: Seen<'_>| match seen {
        Seen::Folder(_) => {}
        Seen::File(found) => files.push(found),
        Seen::Skipped(skip) => skipped.push(skip),
    };
    kind.list(&mut Peeks::default(), &mut take);
    if let Target::Tree { root } = &kind
        && files.is_empty()
    {
        recordings(root, &mut files, &mut skipped);
    }
    if files.is_empty() && skipped.is_empty() {
        return Err(CollectError::Empty { path: target.to_owned() });
    }
    Ok(Expanded::of(files, skipped))
}

impl Expanded {
    /// Adds the files of another TARGET; files of both are listed once, and a session of both is one group.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let groups = self.groups.into_iter().chain(other.groups);
        let files = groups.flat_map(|group| group.files).collect();
        Self::of(files, self.skipped.into_iter().chain(other.skipped).collect())
    }

    /// Adds files whose lines name no session to the session of the other files, where these are of one session.
    #[must_use]
    pub fn with_anonymous(self) -> Self {
        let mut sessions: BTreeSet<String> =
            self.groups.iter().filter_map(|group| group.session.clone()).collect();
        if sessions.len() > 1 {
            return self;
        }
        let mut anonymous: HashSet<PathBuf> = HashSet::new();
        let unnamed = self.groups.iter().filter(|group| group.session.is_none());
        for found in unnamed.flat_map(|group| &group.files).filter(|_| self.groups.len() > 1) {
            let head = read_head(found.place()).unwrap_or_default();
            match found.dialect.or_else(|| recognize(&head)) {
                Some(dialect) if dialect.is_anonymous() => drop(anonymous.insert(found.path.clone())),
                Some(dialect) => sessions.extend(dialect.session_of(&head)),
                None => {}
            }
        }
        let (Some(only), 1) = (sessions.pop_first(), sessions.len() + 1) else { return self };
        let mut files: Vec<Found> = self.groups.into_iter().flat_map(|group| group.files).collect();
        for found in files.iter_mut().filter(|found| anonymous.contains(&found.path)) {
            found.what.session = Some(only.clone());
        }
        Self::of(files, self.skipped)
    }

    fn of(files: Vec<Found>, mut skipped: Vec<Skipped>) -> Self {
        let mut seen = HashSet::new();
        let mut sessions: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        let mut groups = Vec::new();
        for found in files {
            // Paths are canonical, so an equal file has an equal path.
            if !seen.insert(found.path.clone()) {
                continue;
            }
            match &found.session {
                Some(session) => sessions.entry(session.clone()).or_default().push(found),
                None => groups.push(Group { session: None, files: vec![found] }),
            }
        }
        for (session, mut files) in sessions {
            files.sort_by(|left, right| (rank(left), &left.path).cmp(&(rank(right), &right.path)));
            groups.push(Group { session: Some(session), files });
        }
        groups.sort_by(|left, right| first_path(left).cmp(&first_path(right)));
        skipped.sort();
        skipped.dedup();
        Self { groups, skipped }
    }
}

/// Finds the recordings directly in a folder. A folder that cannot be listed was skipped before.
fn recordings(folder: &Path, files: &mut Vec<Found>, skipped: &mut Vec<Skipped>) {
    let is_recording = |path: &Path| is_jsonl(path) || is_recording_name(path) && is_harness_output(path);
    let entries = entries(folder).unwrap_or_default();
    for (path, _) in entries.into_iter().filter(|(path, kind)| *kind == Kind::File && is_recording(path)) {
        match stat(&path, classify(&path)) {
            Ok(found) => files.extend(found),
            Err(unread) => skipped.push(unread),
        }
    }
}

fn rank(found: &Found) -> bool {
    found.role != Role::Main
}

fn first_path(group: &Group) -> Option<&PathBuf> {
    group.files.first().map(|found| &found.path)
}
