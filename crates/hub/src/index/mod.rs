//! Takes what stands on disk into the store: only what changed, the newest sessions first, in two passes. The first
//! commits rows, so that lists and trees are there at once; the second the full text.
//!
//! Workers read and fold, one session each; the caller's thread is the one writer. A session's rows and the state of the
//! files that they were made from are one commit, so that whatever is interrupted is done again and nothing twice.

mod duplicates;
mod facts;
mod plan;
mod text;

use std::{collections::HashSet, ops::ControlFlow, path::PathBuf, time::Duration};

pub use duplicates::elsewhere;
use subscope_collect::{CollectError, archive::Archive};
use subscope_fold::Limits;
use subscope_model::{Millis, PriceTable, Problem, SessionId};
use subscope_store::{Commit, Ledger, Location, OpenError, SqliteStore, StoreError, TextIndex};

use self::{
    duplicates::Comparison,
    plan::{Plan, Work},
};
use crate::{clock, command::IngestError, handle::HubHandle};

/// How many rows (agents and calls) are one commit at most, of several sessions, where nobody else writes: enough that
/// commits cost little, few enough that the first are seen at once.
const ALONE: usize = 50_000;
/// The same beside a hub: what is live waits for one of these, for some milliseconds. A session is not cut.
const BESIDE: usize = 2_000;

/// What an index is made with.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The folders to look into.
    pub roots: Vec<PathBuf>,
    /// Prices.
    pub prices: PriceTable,
    /// Limits of silence.
    pub limits: Limits,
    /// The moment that rows are concluded for.
    pub now_ms: Millis,
    /// How many threads read; the machine's cores where none is named.
    pub workers: Option<usize>,
    /// What is read where the harness has deleted a file.
    pub archive: Archive,
    /// Whether files are taken into the archive.
    pub archives: bool,
    /// For how long sessions are kept after their last event; for ever where nothing is named.
    pub keep_ms: Option<Millis>,
}

/// How far an index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes to be read in both passes.
    pub total_bytes: u64,
    /// Bytes read.
    pub done_bytes: u64,
    /// Sessions whose rows are committed.
    pub sessions: u64,
    /// Whether the rows of all sessions are committed.
    pub has_facts: bool,
}

/// What an index did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files that were found.
    pub files: u64,
    /// Sessions that were read.
    pub sessions: u64,
    /// Bytes that were read for rows.
    pub bytes: u64,
    /// From the beginning until all rows were committed.
    pub facts: Duration,
    /// From the beginning until all was committed.
    pub total: Duration,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// Why an index ended early. What was committed before stays.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A folder cannot be read.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// Something could not be kept.
    #[error(transparent)]
    Ledger(#[from] StoreError),
    /// What was handed over cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something could not be removed from the archive.
    #[error("cannot remove it from the archive")]
    Archive(#[source] std::io::Error),
    /// The hub could not keep something.
    #[error(transparent)]
    Hub(#[from] IngestError),
    /// Whoever is told of the progress wants no more.
    #[error("the index was stopped")]
    Stopped,
}

/// Who is told how far it is, and says whether it goes on.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Keeps a commit, whoever writes.
type Keep<'a> = &'a mut dyn FnMut(Commit) -> Result<(), IndexError>;

/// Brings a store up to date with what stands on disk. `texts` is left out where only rows are wanted.
pub fn index(
    store: &mut SqliteStore,
    texts: Option<&mut TextIndex>,
    options: &IndexOptions,
    told: ProgressCallback<'_>,
) -> Result<Report, IndexError> {
    let began = clock::tick();
    let mut run = Run::new(store, texts.as_deref(), options, told)?;
    // A pass replaces each row once at most.
    let rev = if run.plan.groups.is_empty() { 0 } else { store.reserve_revs(1)? };
    run.rows(ALONE, &mut |commit| keep(store, rev, commit))?;
    if let Some(comparison) = Comparison::look(store)? {
        let again = plan::again(store, options, &comparison)?;
        let rev = if again.is_empty() { 0 } else { store.reserve_revs(1)? };
        run.compared(&again, comparison, ALONE, &mut |commit| keep(store, rev, commit))?;
    }
    run.report.facts = began.elapsed();
    if let Some(texts) = texts {
        run.words(store, texts)?;
    }
    run.report.total = began.elapsed();
    Ok(run.report)
}

/// Does the same beside a hub, which writes the rows when nothing that is live waits. `store` is only read.
pub fn index_beside(
    hub: &HubHandle,
    store: &SqliteStore,
    texts: &mut TextIndex,
    options: &IndexOptions,
    told: ProgressCallback<'_>,
) -> Result<Report, IndexError> {
    let began = clock::tick();
    let mut run = Run::new(store, Some(texts), options, told)?;
    let mut keep = |commit| Ok(hub.commit_index_batch(commit)?);
    run.rows(BESIDE, &mut keep)?;
    if let Some(comparison) = Comparison::look(store)? {
        let again = plan::again(store, options, &comparison)?;
        run.compared(&again, comparison, BESIDE, &mut keep)?;
    }
    run.report.facts = began.elapsed();
    run.words(store, texts)?;
    run.report.total = began.elapsed();
    Ok(run.report)
}

fn keep(store: &mut SqliteStore, rev: u64, mut commit: Commit) -> Result<(), IndexError> {
    commit.trees.iter_mut().for_each(|tree| tree.stamp(rev));
    commit.at_ms = clock::now_ms();
    store.commit(&commit)?;
    Ok(())
}

/// Removes sessions from rows, full text and archive, and returns how many there were. Their files are not touched.
pub fn forget(
    store: &mut SqliteStore,
    texts: &mut TextIndex,
    archive: &Archive,
    sessions: &[SessionId],
) -> Result<usize, IndexError> {
    if sessions.is_empty() {
        return Ok(0);
    }
    texts.forget(sessions)?;
    let all: HashSet<&SessionId> = sessions.iter().collect();
    for source in store.sources()?.iter().filter(|source| all.contains(&source.session)) {
        archive.remove(&source.path).map_err(IndexError::Archive)?;
    }
    // The rows last: they say what there is to forget, if something ended this before its end.
    Ok(store.forget(sessions)?)
}

/// Removes the sessions that have been kept for long enough, and returns how many there were.
pub fn retire(
    store: &mut SqliteStore,
    texts: &mut TextIndex,
    options: &IndexOptions,
) -> Result<usize, IndexError> {
    let Some(keep) = options.keep_ms else { return Ok(0) };
    let old = store.sessions_older_than(options.now_ms.saturating_sub(keep))?;
    forget(store, texts, &options.archive, &old)
}

/// Brings the full text alone up to date, beside whoever writes the rows.
pub fn index_texts(
    store: &SqliteStore,
    texts: &mut TextIndex,
    options: &IndexOptions,
    told: ProgressCallback<'_>,
) -> Result<(), IndexError> {
    Run::new(store, Some(texts), options, told)?.words(store, texts)
}

/// An index under way.
struct Run<'a> {
    plan: Plan,
    store: Location,
    options: &'a IndexOptions,
    report: Report,
    progress: Progress,
    told: ProgressCallback<'a>,
}

impl<'a> Run<'a> {
    fn new(
        store: &SqliteStore,
        texts: Option<&TextIndex>,
        options: &'a IndexOptions,
        told: ProgressCallback<'a>,
    ) -> Result<Self, IndexError> {
        let mut report = Report::default();
        let plan = plan::plan(store, texts, options, &mut report)?;
        let total_bytes = plan.fact_bytes() + plan.text_bytes();
        let mut run = Self {
            plan,
            store: store.location().clone(),
            options,
            report,
            progress: Progress { total_bytes, ..Progress::default() },
            told,
        };
        run.tell()?;
        Ok(run)
    }

    fn tell(&mut self) -> Result<(), IndexError> {
        match (self.told)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(IndexError::Stopped),
        }
    }

    /// The first pass.
    fn rows(&mut self, most_rows: usize, keep: Keep<'_>) -> Result<(), IndexError> {
        let gone = std::mem::take(&mut self.plan.gone);
        if !gone.is_empty() {
            keep(Commit { frozen: gone, ..Commit::default() })?;
        }
        let groups = std::mem::take(&mut self.plan.groups);
        facts::write(self, &groups, &self.store.clone(), most_rows, keep)?;
        self.progress.has_facts = true;
        self.tell()
    }

    /// Behind the first pass: what has to be folded once more, since not all of its copies were known as such.
    fn compared(
        &mut self,
        again: &[Work],
        comparison: Comparison,
        most_rows: usize,
        keep: Keep<'_>,
    ) -> Result<(), IndexError> {
        // Nothing new is read by it.
        let before = (self.report.clone(), self.progress);
        facts::write(self, again, &self.store.clone(), most_rows, keep)?;
        (self.report, self.progress) = before;
        keep(comparison.finish())
    }

    /// The second pass.
    fn words(&mut self, store: &SqliteStore, texts: &mut TextIndex) -> Result<(), IndexError> {
        let files = std::mem::take(&mut self.plan.files);
        text::write(self, texts, &files, &store.sources()?)?;
        text::write_inbox(self, store, texts)
    }
}

/// How many threads read.
fn workers(options: &IndexOptions) -> usize {
    options.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}
