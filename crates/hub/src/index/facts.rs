//! First pass: sessions are read in parallel and committed in batches.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use subscope_model::{Millis, Problem, SessionId, Tree};
use subscope_session::{
    EventScope, FactDetail, KeysCursor, Now, RouterOptions, SessionRouter, next_deadline,
};
use subscope_store::{Commit, Ledger, Location, SourceFile, SqliteStore, StoredSessionKeys};

use super::{CommitSink, IndexError, IndexOptions, IndexRun, plan::SessionWork, workers};
use crate::{
    clock,
    loader::{FileLoader, file_spec, load_input},
    partitions::Partitions,
};

/// Capacity of the queue of sessions that were read: enough that neither workers nor writer wait for the other's
/// bursts.
const QUEUE: usize = 8;
/// Longest time that a batch waits for more sessions.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Result of reading one session's files.
#[derive(Default)]
struct ReadSession {
    trees: Vec<(Tree, Option<Millis>)>,
    session_keys: Vec<StoredSessionKeys>,
    sources: Vec<SourceFile>,
    /// Sessions whose archived copy is damaged: their rows stay as they are.
    frozen: Vec<SessionId>,
    problems: Vec<Problem>,
    bytes: u64,
}

/// Reads all sessions and commits their rows, about `max_rows` per commit.
pub(super) fn write(
    run: &mut IndexRun<'_>,
    groups: &[SessionWork],
    store: &Location,
    max_rows: usize,
    sink: CommitSink<'_>,
) -> Result<(), IndexError> {
    let (next, options) = (AtomicUsize::new(0), run.options);
    std::thread::scope(|scope| {
        let (sender, read) = sync_channel::<Result<ReadSession, IndexError>>(QUEUE);
        for _ in 0..workers(options).min(groups.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || fold_all(groups, next, store, options, &sender));
        }
        drop(sender);
        let mut batch = CommitBatch::default();
        for read_session in read {
            let read_session = read_session?;
            let rows = read_session.trees.iter().map(|(tree, _)| rows(tree)).sum::<usize>();
            if batch.rows > 0 && batch.rows + rows > max_rows {
                batch.commit(run, sink)?;
            }
            batch.rows += rows;
            batch.add(run, read_session);
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
    fn add(&mut self, run: &mut IndexRun<'_>, read_session: ReadSession) {
        self.bytes += read_session.bytes;
        self.sessions += read_session.trees.len() as u64;
        run.report.problems.extend(read_session.problems);
        for (tree, deadline) in read_session.trees {
            self.commit.deadlines.extend(deadline.map(|deadline| (tree.session.id.clone(), deadline)));
            self.commit.trees.push(tree);
        }
        self.commit.session_keys.extend(read_session.session_keys);
        self.commit.sources.extend(read_session.sources);
        self.commit.frozen.extend(read_session.frozen);
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

/// Worker: reads sessions until none is left or the writer is gone.
fn fold_all(
    groups: &[SessionWork],
    next: &AtomicUsize,
    store: &Location,
    options: &IndexOptions,
    sender: &SyncSender<Result<ReadSession, IndexError>>,
) {
    let (mut loader, mut inbox) = (FileLoader::default(), None);
    while let Some(work) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
        if sender.send(fold_session(work, store, &mut inbox, options, &mut loader)).is_err() {
            return;
        }
    }
}

/// Reads a session. Its inbox input is read through this worker's own connection, `inbox`, one body at a time.
fn fold_session(
    work: &SessionWork,
    store: &Location,
    inbox: &mut Option<SqliteStore>,
    options: &IndexOptions,
    loader: &mut FileLoader,
) -> Result<ReadSession, IndexError> {
    let mut router = SessionRouter::new(RouterOptions {
        keep: FactDetail::Rows,
        cutoff: None,
        events: EventScope::Nothing,
    });
    let mut read = ReadSession::default();
    let mut is_damaged = false;
    for (found, _) in &work.files {
        let (_, outcome) = loader.load(found.place(), file_spec(found, 0, None), &mut router);
        match outcome {
            Ok(end) => read.bytes += end,
            Err(error) => {
                is_damaged |= found.kept_at.is_some();
                let at = found.place().display().to_string();
                read.problems.push(Problem { at, what: error.to_string() });
            }
        }
    }
    if is_damaged && work.has_rows {
        read.frozen = router.sessions().cloned().collect();
        return Ok(read);
    }
    // Inbox input may touch other sessions too: their rows are not derived here.
    let mut sessions: Vec<SessionId> = router.sessions().cloned().collect();
    if sessions.iter().any(|session| router.has_root(session)) {
        sessions.retain(|session| router.has_root(session));
    }
    let mut partitions = Partitions::default();
    if let Some(session) = &work.session {
        let inbox = match inbox {
            Some(inbox) => inbox,
            none => none.insert(store.open()?),
        };
        inbox.read_received(session, 0, u64::MAX, &mut |received| {
            load_input(&received, &mut partitions, &mut router, &mut |_, _| ());
        })?;
    }
    if work.files.is_empty() {
        sessions.extend(work.session.clone());
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
            router.set_owned_elsewhere(session, elsewhere.clone());
        }
        let holdings = router.holdings(session, &mut KeysCursor::default());
        read.session_keys
            .extend(holdings.map(|holdings| StoredSessionKeys { keys: holdings, replaces: true }));
        if let Some(tree) = router.tree(session, &now) {
            let deadline = next_deadline(&tree, &now);
            read.trees.push((tree, deadline));
        }
    }
    if let Some(session) = sessions.first() {
        let source = |(found, identity): &(subscope_collect::Found, _)| SourceFile {
            path: found.path.clone(),
            session: session.clone(),
            identity: *identity,
        };
        read.sources.extend(work.files.iter().map(source));
    }
    Ok(read)
}
