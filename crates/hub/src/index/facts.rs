//! First pass: sessions are read in parallel and committed in batches.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use subscope_collect::{Found, archive::original_of, work_tree};
use subscope_model::{Millis, Problem, SessionId, SourceId, Tree};
use subscope_session::{
    EventScope, FactDetail, KeysCursor, Now, RouterOptions, SessionRouter, SourceSpec, next_deadline,
};
use subscope_store::{
    Commit, FileIdentity, History, Ledger, Location, SessionQueries, SourceFile, SqliteStore, StoreError,
    StoredFacts, StoredSessionKeys,
};

use super::{
    CommitSink, IndexError, IndexOptions, IndexRun,
    plan::{KnownSessions, MixedFile, SessionWork},
    workers,
};
use crate::{
    clock,
    loader::{FileLoader, Unread, file_spec, load_input},
    partitions::Partitions,
    session_sources::{cut_problem, has_lost_an_end, has_more_than},
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
    facts: Vec<StoredFacts>,
    /// Sessions whose rows stay as they are, because their files cannot be read or say less.
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
        self.commit.facts.extend(read_session.facts);
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

/// Reads a session. The store is read through this worker's own connection, `store`: its inbox input, one body at a time.
fn fold_session(
    work: &SessionWork,
    reading: Reading<'_>,
    store: &mut Option<SqliteStore>,
    loader: &mut FileLoader,
) -> Result<ReadSession, IndexError> {
    let Reading { store: location, options, known, pass } = reading;
    let mut router = SessionRouter::new(RouterOptions {
        keep: FactDetail::Rows,
        cutoff: None,
        events: EventScope::Nothing,
    })
    .with_work_trees(work_tree);
    let mut read = ReadSession::default();
    let mut unread = work.problems.clone();
    let now = Now {
        at: options.now_ms,
        has_ended: false,
        is_growing: false,
        prices: &options.prices,
        limits: options.limits.clone(),
    };
    // Content that a file had before it was cut or replaced comes last: what the files have without it is compared.
    let is_former = |file: &&(Found, FileIdentity)| original_of(&file.0.path).is_some();
    let (current, former) =
        (work.files.iter().filter(|file| !is_former(file)), work.files.iter().filter(is_former));
    let mut without_former: Option<BTreeMap<SessionId, Tree>> = None;
    for file in current.chain(former) {
        let (found, _) = file;
        if without_former.is_none() && is_former(&file) {
            without_former = Some(rows_of_all(&router, &now));
        }
        let spec = SourceSpec { only: work.session.clone(), ..file_spec(found, 0, None) };
        let source = router.open(spec);
        let outcome = loader.load(found.place(), source, &mut router);
        if pass == Pass::First {
            let others = other_sessions(work, found, source, &router);
            let others = known.uncovered(&found.path, others);
            let mixed = MixedFile { file: file.clone(), session: work.session.clone(), others };
            read.mixed.extend(Some(mixed).filter(|mixed| !mixed.others.is_empty()));
        }
        match outcome {
            Ok(bytes) => read.bytes += bytes,
            Err(error) => {
                tracing::warn!("{error}");
                unread.push(error.problem());
            }
        }
    }
    read.problems.extend(unread.iter().cloned());
    let needs_former: BTreeSet<SessionId> = without_former.map_or_else(BTreeSet::new, |without| {
        let all = rows_of_all(&router, &now).into_iter();
        all.filter(|(id, tree)| without.get(id) != Some(tree)).map(|(id, _)| id).collect()
    });
    let store = match store {
        Some(store) => store,
        none => none.insert(location.open()?),
    };
    // Inbox input may touch other sessions too: their rows are not derived here.
    let mut sessions: Vec<SessionId> = router.sessions().cloned().collect();
    // What was known stays known where files cannot be read, became shorter, or say nothing any more.
    let may_be_less = !unread.is_empty() || work.is_shorter || sessions.is_empty();
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
    if may_be_less {
        sessions.extend(work.session.clone().filter(|session| !sessions.contains(session)));
    }
    let mut partitions = Partitions::default();
    if let Some(session) = &work.session {
        store.read_received(session, 0, u64::MAX, &mut |received| {
            load_input(&received, &mut partitions, &mut router, &mut |_, _| ());
        })?;
    }
    for session in &sessions {
        let stored = StoredSession::of(store, session, work)?;
        let has_lost = stored.has_lost(&mut router, session, &now)?;
        if let Some(elsewhere) = work.elsewhere.get(session) {
            router.set_owned_elsewhere(session, elsewhere.clone());
        }
        let mut tree = router.tree(session, &now);
        if !unread.is_empty() || has_lost == Lost::Rows {
            // The stored rows know more than can be read now.
            if let Some(mut known) = stored.tree {
                known.problems.retain(|problem| !problem.what.starts_with(Unread::WHAT));
                tree = Some(known);
                read.frozen.push(session.clone());
            }
        } else {
            let holdings = router.holdings(session, &mut KeysCursor::default());
            read.session_keys
                .extend(holdings.map(|holdings| StoredSessionKeys { keys: holdings, replaces: true }));
            if let Some(facts) = router.write_facts(session) {
                let is_needed = has_lost == Lost::Lines;
                read.facts.push(StoredFacts::pack(session.clone(), is_needed, &facts)?);
            }
        }
        if let Some(mut tree) = tree {
            tree.problems.extend(unread.iter().cloned());
            if needs_former.contains(session) || has_lost != Lost::Nothing && !work.is_missing {
                tree.problems.push(cut_problem(session));
            }
            tree.problems.sort();
            tree.problems.dedup();
            let deadline = next_deadline(&tree, &now);
            read.trees.push((tree, deadline));
        }
    }
    // What could not be read completely is read again by the next run, and so is a file in its place that says less than the
    // stored rows: as long as its identity is the former one, they stand in. Of a session without rows only files that are
    // known as its sources are recorded as read.
    let is_settled = unread.is_empty() && (read.frozen.is_empty() || work.is_missing);
    if let Some(session) = sessions.first().or(work.session.as_ref()).filter(|_| is_settled) {
        let is_mixed = |found: &Found| read.mixed.iter().any(|mixed| mixed.file.0.path == found.path);
        let own = work.files.iter().filter(|(found, _)| !is_mixed(found));
        read.sources.extend(own.map(|(found, identity)| source_file(found, session, *identity)));
    }
    Ok(read)
}

/// Derives the rows of all sessions that were read, without their problems.
fn rows_of_all(router: &SessionRouter, now: &Now<'_>) -> BTreeMap<SessionId, Tree> {
    let rows = |id: &SessionId| Some((id.clone(), router.tree(id, now)?.without_problems()));
    router.sessions().filter_map(rows).collect()
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

/// What the store has of a session whose files are read again.
struct StoredSession<'s> {
    store: &'s SqliteStore,
    tree: Option<Tree>,
    /// Whether everything in its rows can be expected to be derived again: they were made by these rules, or a file of it
    /// is gone or has become shorter.
    is_comparable: bool,
    /// Whether a file of it has become shorter: lines are gone, also where no count shows it.
    is_shorter: bool,
    /// The same, or one of them is gone.
    is_cut: bool,
}

/// What stored rows have that the files of their session no longer say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// Lines that the stored facts still have, which are joined now.
    Lines,
    /// More than the stored facts have, too: only the rows are left.
    Rows,
}

impl<'s> StoredSession<'s> {
    fn of(store: &'s SqliteStore, session: &SessionId, work: &SessionWork) -> Result<Self, IndexError> {
        let tree = match store.tree(session) {
            // It is derived again.
            Err(StoreError::DamagedRow(_)) => None,
            other => other?,
        };
        let is_comparable =
            tree.is_some() && (work.is_shorter || work.is_missing || store.has_current_rows(session)?);
        let is_cut = work.is_shorter || work.is_missing;
        Ok(Self { store, tree, is_comparable, is_shorter: work.is_shorter, is_cut })
    }

    /// Finds out what was lost, and joins stored facts that replace it.
    fn has_lost(
        &self,
        router: &mut SessionRouter,
        session: &SessionId,
        now: &Now<'_>,
    ) -> Result<Lost, IndexError> {
        let needs_facts = self.store.needs_facts(session)?;
        let may_have_lost = self.tree.is_some()
            && (needs_facts
                || self.is_shorter
                || self.is_comparable && self.has_more(router, session, now)?);
        if !may_have_lost {
            return Ok(Lost::Nothing);
        }
        let facts = self.store.facts_of(session)?.map(|facts| facts.unpack()).transpose()?;
        let from_files = router.tree(session, now).map(Tree::without_problems);
        let is_joined = facts.is_some_and(|facts| router.join_facts(session, &facts));
        if !is_joined && needs_facts || self.has_more(router, session, now)? {
            return Ok(Lost::Rows);
        }
        // A file that was cut may say everything again.
        let is_whole = router.tree(session, now).map(Tree::without_problems) == from_files;
        Ok(if is_whole { Lost::Nothing } else { Lost::Lines })
    }

    fn has_more(
        &self,
        router: &SessionRouter,
        session: &SessionId,
        now: &Now<'_>,
    ) -> Result<bool, IndexError> {
        let Some(stored) = &self.tree else { return Ok(false) };
        let own = router.holdings(session, &mut KeysCursor::default());
        let own: HashSet<u64> = own.into_iter().flat_map(|own| own.keys).collect();
        let keys = self.store.session_keys(session)?;
        if keys.is_some_and(|stored| stored.keys.iter().any(|key| !own.contains(key))) {
            return Ok(true);
        }
        // Nothing is owned elsewhere yet: these rows have all that the stored ones may have. Ends of turns in streams are
        // not among stored facts.
        let has_more = |derived: Tree| {
            has_more_than(stored, &derived) || self.is_cut && has_lost_an_end(stored, &derived)
        };
        Ok(router.tree(session, now).is_none_or(has_more))
    }
}
