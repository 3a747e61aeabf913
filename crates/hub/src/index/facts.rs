//! First pass: sessions are folded in parallel and committed in batches.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use subscope_fold::{FactDetail, Fold, FoldOptions, KeysCursor, Now, next_deadline};
use subscope_model::{Millis, Problem, SessionId, Tree};
use subscope_store::{Commit, Ledger, Location, SourceFile, SqliteStore, StoredSessionKeys};

use super::{CommitSink, IndexError, IndexOptions, IndexRun, plan::SessionWork, workers};
use crate::{
    clock,
    loader::{FileLoader, file_spec, load_input},
    partitions::Partitions,
};

/// Capacity of the queue of folded sessions: enough that neither workers nor writer wait for the other's bursts.
const QUEUE: usize = 8;
/// Longest time that a batch waits for more sessions.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Result of folding one session's files.
#[derive(Default)]
struct FoldedSession {
    trees: Vec<(Tree, Option<Millis>)>,
    session_keys: Vec<StoredSessionKeys>,
    sources: Vec<SourceFile>,
    /// Sessions whose archived copy is damaged: their rows stay as they are.
    frozen: Vec<SessionId>,
    problems: Vec<Problem>,
    bytes: u64,
}

/// Folds all sessions and commits their rows, about `max_rows` per commit.
pub(super) fn write(
    run: &mut IndexRun<'_>,
    groups: &[SessionWork],
    store: &Location,
    max_rows: usize,
    sink: CommitSink<'_>,
) -> Result<(), IndexError> {
    let (next, options) = (AtomicUsize::new(0), run.options);
    std::thread::scope(|scope| {
        let (sender, folded) = sync_channel::<Result<FoldedSession, IndexError>>(QUEUE);
        for _ in 0..workers(options).min(groups.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || fold_all(groups, next, store, options, &sender));
        }
        drop(sender);
        let mut batch = CommitBatch::default();
        for folded_session in folded {
            let folded_session = folded_session?;
            let rows = folded_session.trees.iter().map(|(tree, _)| rows(tree)).sum::<usize>();
            if batch.rows > 0 && batch.rows + rows > max_rows {
                batch.commit(run, sink)?;
            }
            batch.rows += rows;
            batch.add(run, folded_session);
            let is_late = batch.since.get_or_insert_with(clock::tick).elapsed() >= BATCH_WAIT;
            if batch.rows >= max_rows || is_late {
                batch.commit(run, sink)?;
            }
        }
        batch.commit(run, sink)
    })
}

/// Sessions of one commit.
#[derive(Default)]
struct CommitBatch {
    commit: Commit,
    rows: usize,
    sessions: u64,
    bytes: u64,
    since: Option<Instant>,
}

impl CommitBatch {
    fn add(&mut self, run: &mut IndexRun<'_>, folded_session: FoldedSession) {
        self.bytes += folded_session.bytes;
        self.sessions += folded_session.trees.len() as u64;
        run.report.problems.extend(folded_session.problems);
        for (tree, deadline) in folded_session.trees {
            self.commit.deadlines.extend(deadline.map(|deadline| (tree.session.id.clone(), deadline)));
            self.commit.trees.push(tree);
        }
        self.commit.session_keys.extend(folded_session.session_keys);
        self.commit.sources.extend(folded_session.sources);
        self.commit.frozen.extend(folded_session.frozen);
    }

    fn commit(&mut self, run: &mut IndexRun<'_>, sink: CommitSink<'_>) -> Result<(), IndexError> {
        let Self { commit, sessions, bytes, .. } = std::mem::take(self);
        if !commit.trees.is_empty() || !commit.sources.is_empty() || !commit.frozen.is_empty() {
            sink(commit)?;
        }
        run.report.bytes += bytes;
        run.report.sessions += sessions;
        run.progress.done_bytes += bytes;
        run.progress.sessions += sessions;
        run.report_progress()
    }
}

/// Number of rows of a tree.
fn rows(tree: &Tree) -> usize {
    tree.agents.len() + tree.agents.iter().map(|agent| agent.tools.len()).sum::<usize>()
}

/// Worker: folds sessions until none is left or the writer is gone.
fn fold_all(
    groups: &[SessionWork],
    next: &AtomicUsize,
    store: &Location,
    options: &IndexOptions,
    sender: &SyncSender<Result<FoldedSession, IndexError>>,
) {
    let (mut loader, mut inbox) = (FileLoader::default(), None);
    while let Some(work) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
        if sender.send(fold_session(work, store, &mut inbox, options, &mut loader)).is_err() {
            return;
        }
    }
}

/// Folds a session. Its inbox input is read through this worker's own connection, `inbox`, one body at a time.
fn fold_session(
    work: &SessionWork,
    store: &Location,
    inbox: &mut Option<SqliteStore>,
    options: &IndexOptions,
    loader: &mut FileLoader,
) -> Result<FoldedSession, IndexError> {
    let mut fold = Fold::new(FoldOptions { keep: FactDetail::Rows, cutoff: None, events: false });
    let mut folded = FoldedSession::default();
    let mut is_damaged = false;
    for (found, _) in &work.files {
        let (_, outcome) = loader.load(found.place(), file_spec(found, 0, None), &mut fold);
        match outcome {
            Ok(end) => folded.bytes += end,
            Err(error) => {
                is_damaged |= found.kept_at.is_some();
                let at = found.place().display().to_string();
                folded.problems.push(Problem { at, what: error.to_string() });
            }
        }
    }
    if is_damaged && work.has_rows {
        folded.frozen = fold.sessions().cloned().collect();
        return Ok(folded);
    }
    // Inbox input may touch other sessions too: their rows are not derived here.
    let mut sessions: Vec<SessionId> = fold.sessions().cloned().collect();
    if sessions.iter().any(|session| fold.has_root(session)) {
        sessions.retain(|session| fold.has_root(session));
    }
    let mut partitions = Partitions::default();
    if let Some(session) = &work.session {
        let inbox = match inbox {
            Some(inbox) => inbox,
            none => none.insert(store.open()?),
        };
        inbox.read_received(session, u64::MAX, &mut |received| {
            load_input(&received, &mut partitions, &mut fold);
        })?;
    }
    let now = Now {
        at: options.now_ms,
        has_ended: false,
        is_growing: false,
        prices: &options.prices,
        limits: options.limits.clone(),
    };
    for session in &sessions {
        if let Some(elsewhere) = work.elsewhere.get(session) {
            fold.set_owned_elsewhere(session, elsewhere.clone());
        }
        let holdings = fold.holdings(session, &mut KeysCursor::default());
        folded
            .session_keys
            .extend(holdings.map(|holdings| StoredSessionKeys { keys: holdings, replaces: true }));
        if let Some(tree) = fold.tree(session, &now) {
            let deadline = next_deadline(&tree, &now);
            folded.trees.push((tree, deadline));
        }
    }
    if let Some(session) = sessions.first() {
        let source = |(found, identity): &(subscope_collect::Found, _)| SourceFile {
            path: found.path.clone(),
            session: session.clone(),
            identity: *identity,
        };
        folded.sources.extend(work.files.iter().map(source));
    }
    Ok(folded)
}
