//! Bytes that programs hand over: folded, and kept before they are acknowledged.
//!
//! All that wait in a turn share one commit. Each partition (source and dialect) is one source of the fold and stays
//! open, so that order within it counts and what it said before is known.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use subscope_fold::{Fold, Limits, Now};
use subscope_model::{Millis, Problem, SessionId, Text};
use subscope_store::{Commit, Recalled, Received};

use super::{Loop, conclude::describe, stop::Asked};
use crate::{
    clock,
    command::{Ingest, IngestError, Reply, Taken},
    partitions::{Partition, Partitions, partition_of},
};

/// How many ingests share a commit at most: the last of them waits until the first is folded.
const GROUP_INGESTS: usize = 256;

/// How many bytes share a commit at most, beyond which no further ingest joins it; one alone may be bigger.
const GROUP_BYTES: usize = 32 << 20;

/// How many bytes of ingests are held to fold them again when a followed file is cut or replaced. What is older than
/// that keeps its rows as they are, but is missing from sessions that change afterwards; it is told as a problem.
const AGAIN_BYTES: usize = 64 << 20;

pub(super) type Answer = Reply<Result<Taken, IngestError>>;

/// Ingests of this turn, in order.
#[derive(Default)]
pub(super) struct Waiting {
    all: Vec<(Ingest, Answer)>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn push(&mut self, ingest: Ingest, reply: Answer) {
        self.bytes += ingest.body.len();
        self.all.push((ingest, reply));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= GROUP_INGESTS || self.bytes >= GROUP_BYTES
    }
}

/// The partitions as sources of the fold, and what they were told.
#[derive(Default)]
pub(super) struct Handed {
    partitions: Partitions,
    again: VecDeque<(About, Box<[u8]>)>,
    again_bytes: usize,
    /// Whether ingests were dropped from `again`.
    is_incomplete: bool,
}

/// What is known of some bytes.
struct About {
    partition: Partition,
    session: Option<String>,
    received_ms: Millis,
}

impl Handed {
    fn push(&mut self, fold: &mut Fold, told: &About, body: &[u8]) {
        self.partitions.push(fold, &told.partition, told.session.as_deref(), told.received_ms, body);
    }

    fn remember(&mut self, told: About, body: &[u8]) {
        if body.len() > AGAIN_BYTES {
            self.is_incomplete = true;
            return;
        }
        self.again_bytes += body.len();
        self.again.push_back((told, body.into()));
        while self.again_bytes > AGAIN_BYTES {
            let Some((_, oldest)) = self.again.pop_front() else { return };
            self.again_bytes -= oldest.len();
            self.is_incomplete = true;
        }
    }
}

impl Loop {
    /// Folds what waits, keeps it in one commit, and answers.
    pub(super) fn settle_ingests(&mut self) {
        let Waiting { all, .. } = std::mem::take(&mut self.waiting);
        if all.is_empty() {
            return;
        }
        if let Err(error) = self.keep_again() {
            self.figures.refused += all.len() as u64;
            for (_, reply) in all {
                reply(Err(IngestError::Store(error.clone())));
            }
            return;
        }
        if self.has_new_order && self.owes {
            self.conclude_pending(false);
        }
        // What the driver changed before is not these ingests' doing.
        self.take_changed();
        let mut group = Group::default();
        for (ingest, reply) in all {
            match self.is_known(&ingest, &group) {
                Ok(true) => {
                    self.figures.repeats += 1;
                    group.answers.push((reply, Taken { is_repeat: true, ..Taken::default() }));
                }
                Ok(false) => {
                    let taken = self.take_one(ingest, &mut group);
                    group.answers.push((reply, taken));
                }
                Err(error) => {
                    self.figures.refused += 1;
                    reply(Err(IngestError::Store(error)));
                }
            }
        }
        let Group { received, sessions, answers, .. } = group;
        if received.is_empty() && sessions.is_empty() {
            answers.into_iter().for_each(|(reply, taken)| reply(Ok(taken)));
            return;
        }
        self.last_group = self.last_group.max(received.len());
        let (count, bytes) = (received.len(), received.iter().map(|it| it.body.len()).sum::<usize>());
        match self.keep(Commit { received, ..Commit::default() }) {
            Ok(()) => {
                self.figures.ingests += count as u64;
                self.figures.ingest_bytes += bytes as u64;
                answers.into_iter().for_each(|(reply, taken)| reply(Ok(taken)));
            }
            Err(error) => {
                self.figures.refused += answers.len() as u64;
                for (reply, _) in answers {
                    reply(Err(IngestError::Store(error.clone())));
                }
            }
        }
        // Concluded behind the answer: whoever hands something over waits for its keeping alone.
        self.owes |= !sessions.is_empty();
        self.make_whole(&sessions);
        self.pending.extend(sessions.into_keys());
    }

    /// Whether that key was received before, also in this turn.
    fn is_known(&self, ingest: &Ingest, group: &Group) -> Result<bool, String> {
        if group.keys.contains(&(ingest.source.clone(), ingest.key.clone())) {
            return Ok(true);
        }
        self.keeper.has_received(&ingest.source, &ingest.key).map_err(|error| describe(&error))
    }

    /// Folds one and puts it to what is to be kept. Whoever asks something is answered from what was known before.
    pub(super) fn take_one(&mut self, ingest: Ingest, group: &mut Group) -> Taken {
        let Ingest { source, session, dialect, key, received_ms, mut body, asks } = ingest;
        if body.last().is_some_and(|last| *last != b'\n') {
            body.push(b'\n');
        }
        let received_ms = received_ms.unwrap_or_else(clock::now_ms);
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        group.keys.insert((source.clone(), key.clone()));
        let told = About { partition: (source.clone(), dialect), session: session.clone(), received_ms };
        // What was wrong in files before is not told to whoever hands this over.
        let _ = self.fold.take_problems();
        self.handed.push(&mut self.fold, &told, &body);
        self.handed.remember(told, &body);
        let (problems, problem_count) = self.fold.take_problems();
        self.figures.problems += problem_count;
        let sessions = self.fold.take_changed();
        let answer = self.answer(asks, &Asked { dialect, key: &key, body: &body }, group);
        let dialect = dialect.map(|dialect| dialect.as_str().to_owned()).unwrap_or_default();
        for session in &sessions {
            group.sessions.entry(session.clone()).or_default().insert(Text::from(dialect.as_str()));
        }
        let touched = sessions.clone();
        group.received.push(Received { source, session, dialect, key, received_ms, body, sessions: touched });
        Taken { is_repeat: false, lines: lines as u64, sessions, problems, problem_count, answer }
    }

    /// Folds what a process of before was handed, as far as it is held to be folded again: sessions that go on are then whole.
    /// What that process told is not told again; what it acknowledged and did not come to conclude is concluded now.
    pub(super) fn recall(&mut self) {
        let Ok(Recalled { received, settled, unsettled }) = self.keeper.recall(AGAIN_BYTES as u64) else {
            return;
        };
        let mut changed: BTreeSet<SessionId> = BTreeSet::new();
        let fresh: BTreeSet<Text> =
            received.iter().skip(settled).map(|one| Text::from(one.dialect.as_str())).collect();
        for (place, one) in received.into_iter().enumerate() {
            if place == settled {
                changed.extend(self.fold.take_changed());
                self.pass_over(&changed.iter().cloned().collect::<Vec<_>>());
            }
            let partition = partition_of(&one);
            let told = About { partition, session: one.session, received_ms: one.received_ms };
            self.handed.push(&mut self.fold, &told, &one.body);
            self.handed.remember(told, &one.body);
        }
        changed.extend(self.fold.take_changed());
        changed.retain(|session| !unsettled.contains(session));
        self.recalled = changed.into_iter().collect();
        self.pass_over(&self.recalled.clone());
        self.owes |= !unsettled.is_empty();
        self.has_recalled = self.owes;
        let unsettled = unsettled.into_iter().map(|session| (session, fresh.clone())).collect();
        self.make_whole(&unsettled);
        self.pending.extend(unsettled.into_keys());
        let _ = self.fold.take_problems();
    }

    /// Sessions of before that go on, as far as is known: time alone may change them. One of which more was kept than is
    /// folded again keeps its rows as they are.
    pub(super) fn recalled_at_work(&mut self) -> Vec<SessionId> {
        let mut sessions = std::mem::take(&mut self.recalled);
        let (at, limits) = (self.driver.now(), Limits::endless());
        let now = Now { at, has_ended: false, is_growing: true, prices: &self.options.prices, limits };
        sessions.retain(|session| {
            let kept = self.keeper.tree(session).ok().flatten();
            let kept = kept.filter(|kept| kept.agents.iter().any(|row| row.status.is_live()));
            kept.zip(self.fold.tree(session, &now)).is_some_and(|(kept, folded)| {
                folded.agents.len() >= kept.agents.len()
                    && folded.session.ended_at_ms >= kept.session.ended_at_ms
            })
        });
        sessions
    }

    /// Folds again what was handed over, for a fold that knows nothing.
    pub(super) fn fold_ingests_again(&mut self) {
        self.handed.partitions.clear();
        let again = std::mem::take(&mut self.handed.again);
        for (told, body) in &again {
            self.handed.push(&mut self.fold, told, body);
        }
        self.handed.again = again;
        let sessions = self.fold.take_changed();
        self.make_whole(&sessions.iter().map(|session| (session.clone(), BTreeSet::new())).collect());
        self.pending.extend(sessions);
        if self.handed.is_incomplete {
            self.publish_problem(Problem {
                at: "ingest".to_owned(),
                what: format!(
                    "a followed file was replaced, and only the last {} MiB of what was handed over are read again",
                    AGAIN_BYTES >> 20
                ),
            });
        }
    }
}

/// What one commit takes.
#[derive(Default)]
pub(super) struct Group {
    keys: HashSet<(String, String)>,
    received: Vec<Received>,
    /// The sessions that it tells of, with the dialects.
    sessions: BTreeMap<SessionId, BTreeSet<Text>>,
    answers: Vec<(Answer, Taken)>,
}
