//! Takes what stands on disk into the store: only what changed, the newest sessions first, in two passes. The first
//! commits rows, so that lists and trees are there at once; the second the full text.
//!
//! Workers read and fold, one session each; the caller's thread is the one writer. A session's rows and the state of the
//! files that they were made from are one commit, so that whatever is interrupted is done again and nothing twice.

mod copies;
mod facts;
mod plan;
mod words;

pub use copies::elsewhere;

use std::{collections::HashSet, path::PathBuf, time::Duration};

use subscope_collect::{CollectError, archive::Archive};
use subscope_fold::Limits;
use subscope_model::{Millis, PriceTable, Problem, SessionId};
use subscope_store::{LedgerError, Sqlite, Texts};

use crate::clock;

/// How many files' or sessions' results may wait for the writer: enough that neither waits for the other's bursts.
const QUEUE: usize = 32;

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
    Ledger(#[from] LedgerError),
    /// Something could not be removed from the archive.
    #[error("cannot remove it from the archive")]
    Archive(#[source] std::io::Error),
}

/// Brings a store up to date with what stands on disk. `texts` is left out where only rows are wanted.
pub fn index(
    store: &mut Sqlite,
    texts: Option<&mut Texts>,
    options: &IndexOptions,
    told: &mut dyn FnMut(Progress),
) -> Result<Report, IndexError> {
    let began = clock::tick();
    let mut report = Report::default();
    let plan = plan::plan(store, texts.as_deref(), options, &mut report)?;
    let mut progress = Progress { total_bytes: plan.fact_bytes() + plan.text_bytes(), ..Progress::default() };
    told(progress);
    store.freeze(&plan.gone)?;
    facts::write(store, &plan.groups, options, &mut report, &mut progress, told)?;
    compare(store, options)?;
    report.facts = began.elapsed();
    progress.has_facts = true;
    told(progress);
    if let Some(texts) = texts {
        let sessions = store.sources()?;
        words::write(texts, &plan.files, &sessions, options, &mut progress, told)?;
    }
    report.total = began.elapsed();
    Ok(report)
}

/// Folds sessions once more whose copies were not known as such.
fn compare(store: &mut Sqlite, options: &IndexOptions) -> Result<(), IndexError> {
    let Some(mut comparison) = copies::Comparison::look(store)? else { return Ok(()) };
    let again = plan::again(store, options, std::mem::take(&mut comparison.wrong))?;
    facts::write(store, &again, options, &mut Report::default(), &mut Progress::default(), &mut |_| {})?;
    Ok(comparison.finish(store)?)
}

/// Removes sessions from rows, full text and archive, and returns how many there were. Their files are not touched.
pub fn forget(
    store: &mut Sqlite,
    texts: &mut Texts,
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
pub fn retire(store: &mut Sqlite, texts: &mut Texts, options: &IndexOptions) -> Result<usize, IndexError> {
    let Some(keep) = options.keep_ms else { return Ok(0) };
    let old = store.old(options.now_ms.saturating_sub(keep))?;
    forget(store, texts, &options.archive, &old)
}

/// Brings the full text alone up to date, beside whoever writes the rows.
pub fn index_texts(store: &Sqlite, texts: &mut Texts, options: &IndexOptions) -> Result<u64, IndexError> {
    let mut report = Report::default();
    let plan = plan::plan(store, Some(texts), options, &mut report)?;
    let sessions = store.sources()?;
    words::write(texts, &plan.files, &sessions, options, &mut Progress::default(), &mut |_| {})?;
    Ok(plan.files.len() as u64)
}

/// How many threads read.
fn workers(options: &IndexOptions) -> usize {
    options.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}
