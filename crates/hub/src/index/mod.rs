//! Takes what stands on disk into the store: only what changed, the newest sessions first, in two passes. The first
//! commits rows, so that lists and trees are there at once; the second the full text.
//!
//! Workers read and fold, one session each; the caller's thread is the one writer. A session's rows and the state of the
//! files that they were made from are one commit, so that whatever is interrupted is done again and nothing twice.

mod facts;
mod plan;
mod words;

use std::{path::PathBuf, time::Duration};

use subscope_collect::CollectError;
use subscope_fold::Limits;
use subscope_model::{Millis, PriceTable, Problem};
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
