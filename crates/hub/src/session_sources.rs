//! The loader of a past session: finds everything that it is made of (its files, the archive's copies of deleted ones, its input
//! in the inbox), for whoever reads it again.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use subscope_collect::{CollectError, Expanded, Found, Group, archive::Archive, expand};
use subscope_fold::FoldOptions;
use subscope_harness::Role;
use subscope_model::{SessionId, Tree};
use subscope_store::{History, LedgerError, ReceivedInput, Sqlite};

use crate::{batch::BatchRead, index::elsewhere};

/// Everything that one session is made of.
#[derive(Clone, Debug)]
pub struct SessionSources {
    session: SessionId,
    files: Vec<Found>,
    received: Vec<ReceivedInput>,
    missing: Vec<PathBuf>,
}

/// Why the sources of a session could not be found.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A file cannot be looked at.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The store cannot be asked.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl SessionSources {
    /// Finds the sources of a session. `transcripts` are the main transcripts that stand where its harness puts them; what the
    /// rows were made from and what was received is known to the store, where there is one.
    ///
    /// # Errors
    /// Where a transcript that exists cannot be looked at, or the store cannot be asked.
    pub fn find(
        session: &SessionId,
        transcripts: Vec<PathBuf>,
        store: Option<&Sqlite>,
        archive: &Archive,
    ) -> Result<Self, SourcesError> {
        let mut known = transcripts;
        let mut received = Vec::new();
        if let Some(store) = store {
            known.extend(store.files_of(session)?);
            received = store.received_of(session)?;
        }
        let (mut seen, mut files, mut missing) = (HashSet::new(), Vec::new(), Vec::new());
        for path in &known {
            let found = match path.exists() {
                true => standing(path)?,
                false => archived(path, session, archive),
            };
            if found.is_empty() {
                missing.push(path.clone());
            }
            files.extend(found.into_iter().filter(|file| seen.insert(file.path.clone())));
        }
        Ok(Self { session: session.clone(), files, received, missing })
    }

    /// Whether the session can be read again as a whole: a file that its rows were made from is neither where it stood nor in the
    /// archive.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && !self.is_empty()
    }

    /// Whether programs alone have told of it, as far as is known: its harness's files may have come and gone unseen.
    pub fn has_no_files(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.received.is_empty()
    }

    /// The files that are to be followed as TARGETs, since they may grow: the main transcripts, which stand for what belongs to
    /// them; where these are gone, the rest.
    pub fn growing(&self) -> Vec<PathBuf> {
        let standing = || self.files.iter().filter(|found| found.kept_at.is_none());
        let main: Vec<&Found> = standing().filter(|found| found.role == Role::Main).collect();
        let chosen = if main.is_empty() { standing().collect() } else { main };
        chosen.into_iter().map(|found| found.path.clone()).collect()
    }

    /// Takes the files out, as what a TARGET names.
    pub fn take_files(&mut self) -> Expanded {
        let files = std::mem::take(&mut self.files);
        let group = Group { session: Some(self.session.to_string()), files };
        Expanded { groups: vec![group], skipped: Vec::new() }
    }

    /// Joins the input that was received of it, and tells which of its responses and calls are copies, to a fold that has read its
    /// files.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn join_to(&self, cold: &mut BatchRead, store: Option<&Sqlite>) -> Result<(), LedgerError> {
        cold.receive(&self.received);
        if let Some(store) = store {
            cold.fold.set_owned_elsewhere(&self.session, elsewhere(store, &self.session)?);
        }
        Ok(())
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn read(mut self, store: Option<&Sqlite>, options: FoldOptions) -> Result<BatchRead, LedgerError> {
        let mut cold = BatchRead::read(self.take_files(), options, None);
        self.join_to(&mut cold, store)?;
        Ok(cold)
    }
}

/// Whether rows that were kept know more of a session than reading it again gave, since a file was deleted that no index has
/// seen. Facts only grow, so what is read again as a whole never knows less.
pub fn knows_more(kept: &Tree, read: &Tree) -> bool {
    let known = |tree: &Tree| (tree.summary.agents, tree.summary.tool_calls);
    let (kept, read) = (known(kept), known(read));
    kept.0 > read.0 || kept.1 > read.1
}

/// A file as it stands, with what belongs to it.
fn standing(path: &Path) -> Result<Vec<Found>, CollectError> {
    Ok(expand(path)?.groups.into_iter().flat_map(|group| group.files).collect())
}

/// The archive's copy of a file; none where it has none, or a damaged one.
fn archived(path: &Path, session: &SessionId, archive: &Archive) -> Vec<Found> {
    let kept = archive.find(path).ok().flatten();
    kept.and_then(|kept| Found::again(path, session.as_str(), Some(kept))).into_iter().collect()
}
