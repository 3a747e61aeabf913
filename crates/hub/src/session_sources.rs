//! Finds all sources of a past session: its files, archived copies of deleted ones, and its input in the inbox.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use subscope_collect::{
    CollectError, Expanded, Found, Group, Skipped, archive::Archive, expand, length, transcripts_naming,
};
use subscope_harness::{Role, Root, classify};
use subscope_model::{Agent, AgentStatus, Problem, SessionId, Tree};
use subscope_session::{Dialect, RouterOptions};
use subscope_store::{FileIdentity, History, ReceivedInput, SqliteStore, StoreError};

use crate::{
    batch::BatchRead,
    index::{SessionPassage, elsewhere, passages_of},
    loader::{Unread, file_identity},
};

/// All sources of one session.
#[derive(Clone, Debug)]
pub struct SessionSources {
    session: SessionId,
    files: Vec<Found>,
    received: Vec<ReceivedInput>,
    missing: Vec<PathBuf>,
    /// Parts of the session that cannot be looked at.
    skipped: Vec<Skipped>,
    /// Whether rows were derived from something that is in no file any more.
    is_cut: bool,
    /// Whether a file has changed in another way than by growing since rows were derived from it.
    is_rewritten: bool,
}

/// Why the sources of a session could not be found.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A file cannot be read.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The store cannot be read.
    #[error(transparent)]
    Ledger(#[from] StoreError),
}

impl SessionSources {
    /// Finds the sources of a session. `transcripts` are its main transcripts in the harness's own folder; the store,
    /// where there is one, adds the files that its rows were derived from and its inbox input.
    ///
    /// # Errors
    /// If an existing transcript or the store cannot be read.
    pub fn find(
        session: &SessionId,
        transcripts: Vec<PathBuf>,
        store: Option<&SqliteStore>,
        archive: &Archive,
    ) -> Result<Self, SourcesError> {
        let (mut stored, mut received, mut is_cut) = (Vec::<PathBuf>::new(), Vec::new(), false);
        let mut is_rewritten = false;
        if let Some(store) = store {
            let sources = store.sources_of(session)?;
            is_rewritten = sources.iter().any(|source| is_rewritten_since(&source.path, source.identity));
            stored = sources.into_iter().map(|source| source.path).collect();
            stored.sort_by_key(|path| is_beside_main(path));
            received = store.received_of(session)?;
            is_cut = store.needs_facts(session)?;
        }
        let archived = |path: &Path| archived_copy(path, session, archive);
        let mut skipped = Vec::new();
        let mut expand = |path: &Path| {
            let (found, unread) = files_at(path, session)?;
            skipped.extend(unread);
            Ok(found)
        };
        let (files, missing) = find_files(&transcripts, &stored, &mut expand, &archived)?;
        Ok(Self { session: session.clone(), files, received, missing, skipped, is_cut, is_rewritten })
    }

    /// Returns the session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Whether the session can be read completely: every file that its rows were derived from is in its place or in the
    /// archive.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && !self.is_cut && !self.is_empty()
    }

    /// Whether it has no files: only programs have sent input, as far as is known; its harness's files may have come
    /// and gone unseen.
    pub fn has_no_files(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether what there is to read may be less than what rows were derived from.
    pub(crate) fn may_be_less(&self) -> bool {
        self.has_less() || self.is_rewritten || !self.skipped.is_empty()
    }

    /// Whether files that rows were derived from are gone.
    pub(crate) fn has_less(&self) -> bool {
        !self.is_whole() || self.has_no_files()
    }

    /// Whether there is nothing to read.
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.received.is_empty()
    }

    /// Files to tail as TARGETs, since they may grow: the main transcripts, from which the other files are found; if
    /// these are deleted, the other files. Not those of other sessions, which would be tailed with them.
    pub fn growing(&self) -> Vec<PathBuf> {
        let is_own = |found: &&Found| found.session_id().is_none_or(|named| named == self.session);
        let on_disk = || self.files.iter().filter(is_own).filter(|found| found.kept_at.is_none());
        let main: Vec<&Found> = on_disk().filter(|found| found.role == Role::Main).collect();
        let chosen = if main.is_empty() { on_disk().collect() } else { main };
        chosen.into_iter().map(|found| found.path.clone()).collect()
    }

    /// Returns the files.
    pub fn files(&self) -> &[Found] {
        &self.files
    }

    /// Takes the files, as the expansion of a TARGET.
    pub(crate) fn take_files(&mut self) -> Expanded {
        let files = std::mem::take(&mut self.files);
        let group = Group { session: Some(self.session.to_string()), files };
        Expanded { groups: vec![group], skipped: std::mem::take(&mut self.skipped) }
    }

    /// Adds the inbox input, and the keys that other sessions own, to a router that has read the files.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn join_to(
        &self,
        batch: &mut BatchRead,
        store: Option<&SqliteStore>,
    ) -> Result<(), StoreError> {
        batch.receive(&self.received);
        if let Some(store) = store {
            batch.router.set_owned_elsewhere(&self.session, elsewhere(store, &self.session)?);
        }
        Ok(())
    }

    /// Returns the passages of the session, each text cut to `max_bytes`.
    ///
    /// # Errors
    /// If a file cannot be read to its end.
    pub fn passages(&self, max_bytes: usize) -> Result<Vec<SessionPassage>, Unread> {
        passages_of(&self.session, &self.files, &self.received, max_bytes)
    }

    /// Reads all sources.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(
        mut self,
        store: Option<&SqliteStore>,
        options: RouterOptions,
    ) -> Result<BatchRead, StoreError> {
        let mut batch = BatchRead::read(self.take_files(), options, None);
        self.join_to(&mut batch, store)?;
        Ok(batch)
    }
}

/// Whether stored rows have more than the re-read session: a file was deleted that no index had archived. Facts only grow,
/// so a complete re-read never has less.
pub(crate) fn has_more_than(stored: &Tree, read: &Tree) -> bool {
    RowCounts::of(stored).exceed(RowCounts::of(read))
}

/// Whether an agent that had ended is lost in the re-read session, though nothing newer is known of it.
pub(crate) fn has_lost_an_end(stored: &Tree, read: &Tree) -> bool {
    let ended = stored.agents.iter().filter(|row| !row.status.is_live() && row.status != AgentStatus::Lost);
    let mut both = ended.filter_map(|row| Some((row, read.agents.iter().find(|now| now.id == row.id)?)));
    both.any(|(row, now)| now.status == AgentStatus::Lost && now.last_event_at_ms <= row.last_event_at_ms)
}

/// How much the rows of a session hold: numbers of agents, tool calls, API responses, runs, questions for a permission, and
/// known attributes of agents (type, name, description, model, parent), and whether the session has a title.
#[derive(Clone, Copy)]
pub(crate) struct RowCounts([u32; 7]);

impl RowCounts {
    pub(crate) fn of(tree: &Tree) -> Self {
        let attributes = |row: &Agent| {
            let texts = [&row.agent_type, &row.name, &row.description, &row.model];
            let is_linked = row.spawned_by.is_some() || row.parent_id.is_some();
            texts.into_iter().flatten().count() as u32 + u32::from(is_linked)
        };
        let messages = tree.agents.iter().map(|row| row.messages).sum();
        let attributes = tree.agents.iter().map(attributes).sum();
        let has_title = u32::from(tree.session.title.is_some());
        Self([
            tree.summary.agents,
            tree.summary.tool_calls,
            messages,
            tree.session.runs,
            tree.summary.permissions_asked.unwrap_or(0),
            attributes,
            has_title,
        ])
    }

    /// Whether rows have agents, attributes of agents or a title that these lack. The other numbers fall when another session
    /// turns out to own some calls or responses.
    pub(crate) fn exceed_in_agents(self, others: Self) -> bool {
        let ([agents, .., known, title], [other_agents, .., other_known, other_title]) = (self.0, others.0);
        agents > other_agents || known > other_known || title > other_title
    }

    /// Whether any of them is more than in others.
    pub(crate) fn exceed(self, others: Self) -> bool {
        self.0.iter().zip(others.0).any(|(own, other)| *own > other)
    }
}

/// Whether a file has changed in another way than by growing.
fn is_rewritten_since(path: &Path, then: FileIdentity) -> bool {
    let is_rewritten =
        |now: FileIdentity| now != then && (now.inode != then.inode || now.bytes <= then.bytes);
    file_identity(path).is_ok_and(is_rewritten)
}

/// Whether a file that rows were derived from is gone. One that was cut to nothing is as good as deleted; one that cannot be
/// looked at is not gone.
pub(crate) fn is_missing(path: &Path) -> bool {
    matches!(length(path), Ok(None | Some(0)))
}

/// The problem of a session some of whose input is in no file any more.
pub(crate) fn cut_problem(session: &SessionId) -> Problem {
    let what = "a transcript was cut or replaced; what it said before stays known";
    Problem { at: session.to_string(), what: what.to_owned() }
}

/// Whether a file is no main transcript. Those are read first: a main transcript comes with the files of its agents, and
/// says more of them than they do alone.
pub(crate) fn is_beside_main(path: &Path) -> bool {
    classify(path).role != Role::Main
}

/// Returns the files of a session, and the paths at which there is nothing any more. `expand` returns a file with those
/// that belong to it: a main transcript comes with the files of all its agents, which are not expanded again.
fn find_files(
    transcripts: &[PathBuf],
    stored: &[PathBuf],
    expand: &mut dyn FnMut(&Path) -> Result<Vec<Found>, CollectError>,
    archived: &dyn Fn(&Path) -> Vec<Found>,
) -> Result<(Vec<Found>, Vec<PathBuf>), CollectError> {
    let is_stored: HashSet<&PathBuf> = stored.iter().collect();
    // Paths of found files are canonical, as those that a hub stores, whatever the path of its root.
    let mut seen: HashSet<PathBuf> = HashSet::new();
    // Those that hold something: one that was cut to nothing is looked for in the archive.
    let mut whole: HashSet<PathBuf> = HashSet::new();
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for path in transcripts.iter().chain(stored) {
        if whole.contains(path) {
            continue;
        }
        let found = match length(path) {
            Ok(None) => archived(path),
            Ok(Some(0)) if is_stored.contains(path) => archived(path),
            // Something else may be in its place: a folder, a file of another program.
            Ok(Some(_)) if is_stored.contains(path) => expand(path).unwrap_or_default(),
            Ok(Some(_)) => expand(path)?,
            // It is not gone, but nothing can be read of it.
            Err(_) => Vec::new(),
        };
        if found.is_empty() {
            missing.push(path.clone());
        }
        for file in found {
            if seen.insert(file.path.clone()) {
                whole.extend((file.len > 0).then(|| file.path.clone()));
                files.push(file);
            }
        }
    }
    Ok((files, missing))
}

/// Returns a file of a session and those that belong to it; of the main transcript of another session that file alone. And
/// what was skipped because it cannot be read.
pub(crate) fn files_at(path: &Path, session: &SessionId) -> Result<(Vec<Found>, Vec<Skipped>), CollectError> {
    let Expanded { groups, skipped } = expand(path)?;
    let files = groups.into_iter().flat_map(|Group { session: named, files }| {
        let is_other = named.is_some_and(|named| SessionId::from_outside(&named) != *session)
            && files.iter().any(names_session);
        files.into_iter().take(if is_other { 1 } else { usize::MAX })
    });
    // Where the line that names its session is gone, the file still belongs to it.
    let files = files.map(|found| found.or_of_session(session.as_str()));
    Ok((files.collect(), skipped))
}

fn names_session(found: &Found) -> bool {
    found.dialect.is_some_and(Dialect::names_session)
}

/// Returns the files below these roots that name a session although their paths name others, and that the store has not
/// read as they are: those that it has read are known to it ([`History::files_of`]).
///
/// # Errors
/// If the store cannot be read.
pub fn unread_files_naming(
    session: &SessionId,
    roots: &[Root],
    store: Option<&SqliteStore>,
) -> Result<Vec<PathBuf>, StoreError> {
    let sources = store.map(SqliteStore::sources).transpose()?.unwrap_or_default();
    let read: HashSet<(PathBuf, FileIdentity)> =
        sources.into_iter().map(|source| (source.path, source.identity)).collect();
    let is_read =
        |path: &Path| file_identity(path).is_ok_and(|identity| read.contains(&(path.to_owned(), identity)));
    Ok(roots.iter().flat_map(|root| transcripts_naming(root, session, &is_read)).collect())
}

/// Returns the archived copy of a file; empty if there is none, or it is damaged.
fn archived_copy(path: &Path, session: &SessionId, archive: &Archive) -> Vec<Found> {
    let stored = archive.find(path).ok().flatten();
    stored.and_then(|stored| Found::again(path, session.as_str(), Some(stored))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Looking for files costs a dozen system calls each: a session of 20,000 agents must not pay for each twice.
    #[test]
    fn main_transcript_brings_the_files_of_all_agents_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let projects = fs::canonicalize(folder.path()).unwrap().join("projects/-p");
        let agents = projects.join("s/subagents");
        fs::create_dir_all(&agents).unwrap();
        let main = projects.join("s.jsonl");
        let mut stored = vec![main.clone()];
        stored.extend((0..200).map(|number| agents.join(format!("agent-a{number:03}.jsonl"))));
        for path in &stored {
            fs::write(path, "{}\n").unwrap();
        }
        let emptied = agents.join("agent-empty.jsonl");
        fs::write(&emptied, "").unwrap();
        let gone = agents.join("agent-gone.jsonl");
        stored.extend([emptied.clone(), gone.clone()]);
        let mut expanded = Vec::new();
        let mut expand = |path: &Path| {
            expanded.push(path.to_owned());
            files_at(path, &SessionId::from("s")).map(|(found, _)| found)
        };
        let looked_for = std::cell::RefCell::new(Vec::new());
        let archived = |path: &Path| {
            looked_for.borrow_mut().push(path.to_owned());
            Vec::new()
        };
        let transcripts = [main.clone()];
        let (files, missing) = find_files(&transcripts, &stored, &mut expand, &archived).unwrap();
        assert_eq!(expanded, transcripts);
        assert_eq!(files.len(), 202, "{files:?}");
        assert_eq!(missing, [emptied, gone]);
        assert_eq!(looked_for.into_inner(), missing);
    }
}
