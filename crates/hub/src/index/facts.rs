//! The first pass: sessions are folded side by side and committed in batches.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use subscope_collect::read;
use subscope_fold::{Fold, FoldOptions, Keep, Now, Told, next_deadline};
use subscope_model::{Millis, Problem, SessionId, Tree};
use subscope_store::{Commit, Held, Ledger, LedgerError, Source, Sqlite};

use super::{IndexOptions, Progress, QUEUE, Report, plan::Work, workers};
use crate::{
    clock,
    live::spec,
    partitions::{Partitions, partition_of},
};

/// How many sessions are one commit at most: enough that commits cost little, few enough that the first are seen at once.
const BATCH: usize = 64;
/// How long a batch may wait for more.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// A session as folded.
#[derive(Default)]
struct Folded {
    trees: Vec<(Tree, Option<Millis>)>,
    held: Vec<Held>,
    sources: Vec<Source>,
    problems: Vec<Problem>,
    bytes: u64,
}

/// Folds all sessions and commits their rows.
pub(super) fn write(
    store: &mut Sqlite,
    groups: &[Work],
    options: &IndexOptions,
    report: &mut Report,
    progress: &mut Progress,
    told: &mut dyn FnMut(Progress),
) -> Result<(), LedgerError> {
    if groups.is_empty() {
        return Ok(());
    }
    // A pass replaces each row once at most.
    let rev = store.reserve_revs(1)?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, folded) = sync_channel::<Folded>(QUEUE);
        for _ in 0..workers(options).min(groups.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || fold_all(groups, next, options, &sender));
        }
        drop(sender);
        let mut commit = Commit::default();
        let mut since: Option<Instant> = None;
        for one in folded {
            report.bytes += one.bytes;
            report.sessions += one.trees.len() as u64;
            report.problems.extend(one.problems);
            progress.done_bytes += one.bytes;
            progress.sessions += one.trees.len() as u64;
            for (tree, deadline) in one.trees {
                commit.deadlines.extend(deadline.map(|deadline| (tree.session.id.clone(), deadline)));
                commit.trees.push(tree);
            }
            commit.held.extend(one.held);
            commit.sources.extend(one.sources);
            let is_late = since.get_or_insert_with(clock::tick).elapsed() >= BATCH_WAIT;
            if commit.trees.len() >= BATCH || is_late {
                keep(store, rev, commit)?;
                commit = Commit::default();
                since = None;
                told(*progress);
            }
        }
        keep(store, rev, commit)
    })
}

fn keep(store: &mut Sqlite, rev: u64, mut commit: Commit) -> Result<(), LedgerError> {
    commit.trees.iter_mut().for_each(|tree| tree.stamp(rev));
    store.commit(&commit).map(|_| ())
}

/// Takes sessions until none is left. The writer's going away ends it early.
fn fold_all(groups: &[Work], next: &AtomicUsize, options: &IndexOptions, sender: &SyncSender<Folded>) {
    let mut chunk = Vec::new();
    while let Some(work) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
        if sender.send(fold(work, options, &mut chunk)).is_err() {
            return;
        }
    }
}

fn fold(work: &Work, options: &IndexOptions, chunk: &mut Vec<u8>) -> Folded {
    let mut fold = Fold::new(FoldOptions { keep: Keep::Rows, cutoff: None, events: false });
    let mut folded = Folded::default();
    for (found, _) in &work.files {
        let source = fold.open(spec(found, 0, None));
        let outcome = read::read_file(found.place(), 0, chunk, &mut |_, bytes| fold.push(source, bytes));
        fold.flush(source);
        match outcome {
            Ok(end) => folded.bytes += end,
            Err(error) => folded
                .problems
                .push(Problem { at: found.path.display().to_string(), what: error.to_string() }),
        }
    }
    // What was handed over may tell of other sessions too: these are not made here.
    let mut sessions: Vec<SessionId> = fold.sessions().cloned().collect();
    if sessions.iter().any(|session| fold.has_root(session)) {
        sessions.retain(|session| fold.has_root(session));
    }
    let mut partitions = Partitions::default();
    for one in &work.received {
        let session = one.session.as_deref();
        partitions.push(&mut fold, &partition_of(one), session, one.received_ms, &one.body);
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
            fold.set_elsewhere(session, elsewhere.clone());
        }
        let holdings = fold.holdings(session, &mut Told::default());
        folded.held.extend(holdings.map(|holdings| Held { holdings, is_whole: true }));
        if let Some(tree) = fold.tree(session, &now) {
            let deadline = next_deadline(&tree, &now);
            folded.trees.push((tree, deadline));
        }
    }
    if let Some(session) = sessions.first() {
        let source = |(found, identity): &(subscope_collect::Found, _)| Source {
            path: found.path.clone(),
            session: session.clone(),
            identity: *identity,
        };
        folded.sources.extend(work.files.iter().map(source));
    }
    folded
}
