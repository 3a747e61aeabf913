//! First pass: sessions are read in parallel and committed in batches.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use subscope_collect::Found;
use subscope_model::{Millis, Problem, SessionId, SourceId, Tree};
use subscope_session::{
    EventScope, FactDetail, KeysCursor, Now, RouterOptions, SessionRouter, SourceSpec, next_deadline,
};
use subscope_store::{Commit, FileIdentity, Ledger, Location, SourceFile, SqliteStore, StoredSessionKeys};

use super::{
    CommitSink, IndexError, IndexOptions, IndexRun,
    plan::{KnownSessions, MixedFile, SessionWork},
    workers,
};
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

/// Which sessions of its files a work derives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Those that its files are named after. Others are gathered afterwards, from all their files.
    First,
    /// The one that it is about.
    Gather,
}

/// Result of reading one session's files.
#[derive(Default)]
struct ReadSession {
    trees: Vec<(Tree, Option<Millis>)>,
    /// Files with lines of sessions that are read from other files too.
    mixed: Vec<MixedFile>,
    session_keys: Vec<StoredSessionKeys>,
    sources: Vec<SourceFile>,
    /// Sessions whose archived copy is damaged: their rows stay as they are.
    frozen: Vec<SessionId>,
    problems: Vec<Problem>,
    bytes: u64,
}

/// Reads all sessions and commits their rows, about `max_rows` per commit. Returns the files that turned out to have lines
/// of other sessions: they are not recorded as read yet.
pub(super) fn write(
    run: &mut IndexRun<'_>,
    groups: &[SessionWork],
    pass: Pass,
    max_rows: usize,
    sink: CommitSink<'_>,
) -> Result<Vec<MixedFile>, IndexError> {
    let (next, options, store) = (AtomicUsize::new(0), run.options, run.store.clone());
    let (known, mut mixed) = (std::mem::take(&mut run.plan.sessions), Vec::new());
    std::thread::scope(|scope| {
        let (sender, read) = sync_channel::<Result<ReadSession, IndexError>>(QUEUE);
        for _ in 0..workers(options).min(groups.len()) {
            let (sender, next, read) =
                (sender.clone(), &next, Reading { store: &store, options, known: &known, pass });
            scope.spawn(move || fold_all(groups, next, read, &sender));
        }
        drop(sender);
        let mut batch = CommitBatch::default();
        for read_session in read {
            let mut read_session = read_session?;
            mixed.append(&mut read_session.mixed);
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
    })?;
    run.plan.sessions = known;
    Ok(mixed)
}

/// What workers read with.
#[derive(Clone, Copy)]
struct Reading<'r> {
    store: &'r Location,
    options: &'r IndexOptions,
    known: &'r KnownSessions,
    pass: Pass,
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
    reading: Reading<'_>,
    sender: &SyncSender<Result<ReadSession, IndexError>>,
) {
    let (mut loader, mut inbox) = (FileLoader::default(), None);
    while let Some(work) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
        if sender.send(fold_session(work, reading, &mut inbox, &mut loader)).is_err() {
            return;
        }
    }
}

/// Reads a session. Its inbox input is read through this worker's own connection, `inbox`, one body at a time.
fn fold_session(
    work: &SessionWork,
    reading: Reading<'_>,
    inbox: &mut Option<SqliteStore>,
    loader: &mut FileLoader,
) -> Result<ReadSession, IndexError> {
    let Reading { store, options, known, pass } = reading;
    let mut router = SessionRouter::new(RouterOptions {
        keep: FactDetail::Rows,
        cutoff: None,
        events: EventScope::Nothing,
    });
    let mut read = ReadSession::default();
    let mut is_damaged = false;
    for file in &work.files {
        let (found, _) = file;
        let spec = SourceSpec { only: work.session.clone(), ..file_spec(found, 0, None) };
        let (source, outcome) = loader.load(found.place(), spec, &mut router);
        if pass == Pass::First {
            let others = other_sessions(work, found, source, &router);
            let others = known.uncovered(&found.path, others);
            let mixed = MixedFile { file: file.clone(), session: work.session.clone(), others };
            read.mixed.extend(Some(mixed).filter(|mixed| !mixed.others.is_empty()));
        }
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
    match pass {
        // A file without a session in its path is one of several files of its sessions.
        Pass::First if work.session.is_none() => sessions.clear(),
        Pass::First => {}
        // A line alone, below the main thread of a session that has no file, makes no session.
        Pass::Gather => sessions.retain(|session| {
            let is_other =
                |(found, _): &(Found, _)| found.session_id().is_some_and(|named| named != *session);
            router.has_root(session) || !work.files.iter().all(is_other)
        }),
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
    // Of a session without rows only files that are known as its sources are recorded as read.
    if let Some(session) = sessions.first().or(work.session.as_ref()) {
        let is_mixed = |found: &Found| read.mixed.iter().any(|mixed| mixed.file.0.path == found.path);
        let own = work.files.iter().filter(|(found, _)| !is_mixed(found));
        read.sources.extend(own.map(|(found, identity)| source_file(found, session, *identity)));
    }
    Ok(read)
}

/// Returns the sessions of a file that its work does not derive.
fn other_sessions(
    work: &SessionWork,
    found: &Found,
    source: SourceId,
    router: &SessionRouter,
) -> BTreeSet<SessionId> {
    let Some(session) = &work.session else {
        return router.named_in(source).chain(router.session_of(source)).cloned().collect();
    };
    // Of a file of another session that session's own work finds the others.
    let is_own = found.session_id().is_none_or(|named| named == *session);
    router.named_in(source).filter(|named| is_own && *named != session).cloned().collect()
}

fn source_file(found: &Found, session: &SessionId, identity: FileIdentity) -> SourceFile {
    SourceFile { path: found.path.clone(), session: session.clone(), identity }
}

/// Derives the sessions of which lines turned up in files of others, each from all its files. Records the files as read.
pub(super) fn gather(
    run: &mut IndexRun<'_>,
    mixed: &[MixedFile],
    max_rows: usize,
    sink: CommitSink<'_>,
) -> Result<(), IndexError> {
    let elsewhere = run.plan.elsewhere.clone();
    let works = run.plan.sessions.gather(mixed, &elsewhere);
    // It reads no other content: figures stay, but for sessions that only other files have.
    let (bytes, done) = (run.report.bytes, run.progress.done_bytes);
    write(run, &works, Pass::Gather, max_rows, sink)?;
    (run.report.bytes, run.progress.done_bytes) = (bytes, done);
    let read = |mixed: &MixedFile| {
        let (found, identity) = &mixed.file;
        mixed.session.as_ref().map(|session| source_file(found, session, *identity))
    };
    sink(Commit { sources: mixed.iter().filter_map(read).collect(), ..Commit::default() })
}
