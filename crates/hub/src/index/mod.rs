//! Indexes the files on disk into the store: only changed ones, newest sessions first, in two passes. The first commits
//! rows, so that lists and trees are available early; the second the full text.
//!
//! Workers read one session each; the caller's thread is the only writer. A session's rows and the identity
//! of the files that they were derived from are one commit, so that an interrupted index repeats unfinished work only.

mod duplicates;
mod facts;
mod plan;
mod remote_texts;
mod text;

use std::{collections::HashSet, io, ops::ControlFlow, path::PathBuf, time::Duration};

pub use duplicates::elsewhere;
pub use remote_texts::RemoteTexts;
use subscope_collect::{
    CollectError, Skipped,
    archive::{Archive, ArchivedOriginals},
};
use subscope_model::{Millis, PriceTable, Problem, SessionId};
use subscope_session::Limits;
use subscope_store::{Commit, Ledger, Location, OpenError, SqliteStore, StoreError, TextIndex};
pub use text::SessionPassage;
pub(crate) use text::passages_of;

use self::{
    duplicates::DuplicateComparison,
    facts::Pass,
    plan::{Plan, SessionWork},
};
use crate::{clock, command::IngestError, handle::HubHandle};

/// Most rows (agents and calls) per commit, of several sessions, without a hub: enough that commits cost little, few
/// enough that the first rows are visible early.
const ROWS_PER_COMMIT: usize = 50_000;
/// The same with a hub, whose live input waits some milliseconds for each commit. A session is never divided.
const HUB_ROWS_PER_COMMIT: usize = 2_000;

/// Options of an index run.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// Folders to index.
    pub roots: Vec<PathBuf>,
    /// Token prices.
    pub prices: PriceTable,
    /// Silence limits.
    pub limits: Limits,
    /// Time for which rows are derived.
    pub now_ms: Millis,
    /// Number of worker threads; by default the number of cores.
    pub workers: Option<usize>,
    /// Archive that is read where the harness has deleted a file.
    pub archive: Archive,
    /// Whether files are copied into the archive.
    pub archives: bool,
    /// Retention after a session's last event; `None` for ever.
    pub keep_ms: Option<Millis>,
}

/// Progress of an index run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes to read in both passes.
    pub total_bytes: u64,
    /// Bytes read.
    pub done_bytes: u64,
    /// Sessions whose rows are committed.
    pub sessions: u64,
    /// Sessions to read. More are committed where a file turns out to have lines of several.
    pub total_sessions: u64,
    /// Whether the rows of all sessions are committed.
    pub has_facts: bool,
}

/// Result of an index run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files found.
    pub files: u64,
    /// Sessions read.
    pub sessions: u64,
    /// Bytes read for rows.
    pub bytes: u64,
    /// Time until all rows were committed.
    pub facts: Duration,
    /// Time until everything was committed.
    pub total: Duration,
    /// Read errors.
    pub problems: Vec<Problem>,
}

/// Why an index run ended early. Everything committed before stays.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A folder cannot be read.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] StoreError),
    /// The store cannot be opened for reading the inbox.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file could not be removed from the archive.
    #[error("cannot remove it from the archive")]
    Archive(#[source] io::Error),
    /// The texts of other machines' sessions cannot be read or removed.
    #[error("the texts of other machines' sessions cannot be read or removed")]
    RemoteTexts(#[source] io::Error),
    /// The hub could not commit a batch.
    #[error(transparent)]
    Hub(#[from] IngestError),
    /// The progress callback cancelled the run.
    #[error("the index was stopped")]
    Stopped,
}

/// Progress callback; return `Break` to cancel.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Commits a batch, directly or through a hub.
type CommitSink<'a> = &'a mut dyn FnMut(Commit) -> Result<(), IndexError>;

/// Brings a store up to date with the files on disk. Without `texts` only rows are indexed.
///
/// # Errors
/// If a folder, the store, the full text or the archive cannot be read or written, or the callback cancels.
pub fn index(
    store: &mut SqliteStore,
    texts: Option<&mut TextIndex>,
    options: &IndexOptions,
    callback: ProgressCallback<'_>,
) -> Result<Report, IndexError> {
    let began = clock::tick();
    let mut run = IndexRun::new(store, true, texts.as_deref(), options, callback)?;
    run.plan.add_received(store)?;
    // A pass replaces each row once at most, so one revision is enough.
    let rev = if run.plan.groups.is_empty() { 0 } else { store.reserve_revs(1)? };
    run.index_rows(ROWS_PER_COMMIT, &mut |commit| keep(store, rev, commit))?;
    if let Some(comparison) = DuplicateComparison::compare(store)? {
        let again = plan::derive_again(store, options, &comparison)?;
        let rev = if again.is_empty() { 0 } else { store.reserve_revs(1)? };
        run.derive_again(&again, comparison, ROWS_PER_COMMIT, &mut |commit| keep(store, rev, commit))?;
    }
    run.report.facts = began.elapsed();
    if let Some(texts) = texts {
        run.index_text(store, texts)?;
    }
    run.report.total = began.elapsed();
    // Both passes may have met the same.
    run.report.problems.sort();
    run.report.problems.dedup();
    Ok(run.report)
}

/// Does the same while a hub runs, which writes the rows when no live input waits. `store` is only read.
///
/// # Errors
/// As [`index`], and if the hub has ended.
pub fn index_beside(
    hub: &HubHandle,
    store: &SqliteStore,
    texts: &mut TextIndex,
    options: &IndexOptions,
    callback: ProgressCallback<'_>,
) -> Result<Report, IndexError> {
    let began = clock::tick();
    let mut run = IndexRun::new(store, true, Some(texts), options, callback)?;
    run.index_beside(store, &mut |commit| Ok(hub.commit_index_batch(commit)?))?;
    run.report.facts = began.elapsed();
    run.index_text(store, texts)?;
    run.report.total = began.elapsed();
    // Both passes may have met the same.
    run.report.problems.sort();
    run.report.problems.dedup();
    Ok(run.report)
}

/// Passes the commits of an index run without full text to a sink, while a hub runs.
#[cfg(test)]
pub(crate) fn index_rows(
    store: &SqliteStore,
    options: &IndexOptions,
    sink: CommitSink<'_>,
) -> Result<(), IndexError> {
    IndexRun::new(store, true, None, options, &mut |_| ControlFlow::Continue(()))?.index_beside(store, sink)
}

fn keep(store: &mut SqliteStore, rev: u64, mut commit: Commit) -> Result<(), IndexError> {
    commit.trees.iter_mut().for_each(|tree| tree.stamp(rev));
    commit.at_ms = clock::now_ms();
    store.commit(&commit)?;
    Ok(())
}

/// Removes sessions from the store, full text and archive, and returns their number. Their files are not touched.
///
/// # Errors
/// If one of the three cannot be written.
pub fn forget(
    store: &mut SqliteStore,
    texts: &mut TextIndex,
    archive: &Archive,
    sessions: &[SessionId],
) -> Result<usize, IndexError> {
    if sessions.is_empty() {
        return Ok(0);
    }
    // A trace that turned out to be of one of them has its texts still under its own id.
    let forgotten = store.forgotten_sessions()?.into_iter().collect();
    let files = texts.inbox_files().map_err(IndexError::from);
    match files.and_then(|files| text::move_traces(store, texts, files, &forgotten)) {
        // A damaged index has been deleted: nothing is left to forget.
        Ok(()) | Err(IndexError::Ledger(StoreError::TextsDamaged)) => {}
        Err(failed) => return Err(failed),
    }
    texts.forget(sessions)?;
    RemoteTexts::of(store.location().folder()).remove(sessions).map_err(IndexError::RemoteTexts)?;
    forget_archived(store, archive, sessions)?;
    // The rows last: after an interruption they show what is still to be removed.
    Ok(store.forget(sessions)?)
}

/// Removes the archived files of sessions.
///
/// # Errors
/// If the archive cannot be read or written, or has a file that cannot be read: it may be of one of them.
pub fn forget_archived(
    store: &SqliteStore,
    archive: &Archive,
    sessions: &[SessionId],
) -> Result<(), IndexError> {
    let all: HashSet<&SessionId> = sessions.iter().collect();
    for source in store.sources()?.iter().filter(|source| all.contains(&source.session)) {
        archive.remove(&source.path).map_err(IndexError::Archive)?;
    }
    // Also files that no row knows.
    let ArchivedOriginals { known, unread } = archive.originals().map_err(IndexError::Archive)?;
    for (original, session) in known {
        if all.contains(&SessionId::from(session.as_str())) {
            archive.remove(&original).map_err(IndexError::Archive)?;
        }
    }
    if let Some(Skipped { path, why }) = unread.into_iter().next() {
        return Err(IndexError::Archive(io::Error::other(format!("{}: {why}", path.display()))));
    }
    Ok(())
}

/// Removes the sessions past their retention, and returns their number.
///
/// # Errors
/// As [`forget`].
pub fn retire(
    store: &mut SqliteStore,
    texts: &mut TextIndex,
    options: &IndexOptions,
) -> Result<usize, IndexError> {
    let Some(keep) = options.keep_ms else { return Ok(0) };
    let old = store.sessions_older_than(options.now_ms.saturating_sub(keep))?;
    forget(store, texts, &options.archive, &old)
}

/// Brings only the full text up to date, while another process or thread writes the rows.
///
/// # Errors
/// If a folder, the store or the full text cannot be read or written, or the callback cancels.
pub fn index_texts(
    store: &SqliteStore,
    texts: &mut TextIndex,
    options: &IndexOptions,
    callback: ProgressCallback<'_>,
) -> Result<(), IndexError> {
    IndexRun::new(store, false, Some(texts), options, callback)?.index_text(store, texts)
}

/// A running index.
struct IndexRun<'a> {
    plan: Plan,
    store: Location,
    options: &'a IndexOptions,
    report: Report,
    progress: Progress,
    callback: ProgressCallback<'a>,
}

impl<'a> IndexRun<'a> {
    fn new(
        store: &SqliteStore,
        writes_rows: bool,
        texts: Option<&TextIndex>,
        options: &'a IndexOptions,
        callback: ProgressCallback<'a>,
    ) -> Result<Self, IndexError> {
        let mut report = Report::default();
        let plan = plan::plan(store, writes_rows, texts, options, &mut report)?;
        let total_bytes = plan.fact_bytes() + plan.text_bytes();
        let total_sessions = plan.groups.len() as u64;
        let mut run = Self {
            plan,
            store: store.location().clone(),
            options,
            report,
            progress: Progress { total_bytes, total_sessions, ..Progress::default() },
            callback,
        };
        run.report_progress()?;
        Ok(run)
    }

    /// Brings the rows of a store up to date that a hub writes.
    fn index_beside(&mut self, store: &SqliteStore, sink: CommitSink<'_>) -> Result<(), IndexError> {
        self.index_rows(HUB_ROWS_PER_COMMIT, sink)?;
        if let Some(comparison) = DuplicateComparison::compare(store)? {
            let again = plan::derive_again(store, self.options, &comparison)?;
            self.derive_again(&again, comparison, HUB_ROWS_PER_COMMIT, sink)?;
        }
        Ok(())
    }

    fn report_progress(&mut self) -> Result<(), IndexError> {
        match (self.callback)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(IndexError::Stopped),
        }
    }

    /// First pass: rows.
    fn index_rows(&mut self, max_rows: usize, sink: CommitSink<'_>) -> Result<(), IndexError> {
        let frozen = std::mem::take(&mut self.plan.frozen);
        if !frozen.is_empty() {
            sink(Commit { frozen, ..Commit::default() })?;
        }
        let groups = std::mem::take(&mut self.plan.groups);
        let mixed = facts::write(self, &groups, Pass::First, max_rows, sink)?;
        if !mixed.is_empty() {
            facts::gather(self, &mixed, max_rows, sink)?;
        }
        self.progress.has_facts = true;
        self.report_progress()
    }

    /// After the first pass: derives sessions again whose duplicates were not completely known.
    fn derive_again(
        &mut self,
        again: &[SessionWork],
        comparison: DuplicateComparison,
        max_rows: usize,
        sink: CommitSink<'_>,
    ) -> Result<(), IndexError> {
        // It reads nothing new: figures stay.
        let before = (self.report.clone(), self.progress);
        facts::write(self, again, Pass::Gather, max_rows, sink)?;
        (self.report, self.progress) = before;
        sink(comparison.finish())
    }

    /// Second pass: full text.
    fn index_text(&mut self, store: &SqliteStore, texts: &mut TextIndex) -> Result<(), IndexError> {
        let files = std::mem::take(&mut self.plan.files);
        let forgotten = store.forgotten_sessions()?.into_iter().collect();
        text::write(self, texts, &files, &store.sources()?, &forgotten)?;
        text::write_inbox(self, store, texts)?;
        RemoteTexts::of(store.location().folder()).index(texts, &forgotten)
    }
}

/// Number of worker threads.
fn workers(options: &IndexOptions) -> usize {
    options.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}
