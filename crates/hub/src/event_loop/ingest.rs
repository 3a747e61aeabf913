//! Ingests input from programs: decoded, and saved before it is acknowledged.
//!
//! All ingests that wait in a turn share one commit (group commit). Earlier input of their sessions is replayed where
//! it is needed ([`super::inbox_replay`]).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use subscope_model::{SessionId, Text, TraceSpan};
use subscope_session::{SUBAGENT_EVENTS, TraceMove};
use subscope_store::{Commit, ReceivedInput};

use super::{EventLoop, index_commits::IndexCommits, stop::HookRequest};
use crate::{
    command::{Asks, Ingest, IngestError, IngestReceipt, ReplyCallback},
    ingest_batches::split_by_session,
    partitions::InputChunk,
};

/// Most ingests per commit: the last of them waits until the first is decoded.
const MAX_BATCH_INGESTS: usize = 256;

/// Bytes per commit beyond which no further ingest joins it; a single ingest may be bigger.
const MAX_BATCH_BYTES: usize = 32 << 20;

pub(super) type IngestReply = ReplyCallback<Result<IngestReceipt, IngestError>>;

/// Input that waits for a commit, and what of it is not derived yet.
#[derive(Default)]
pub(super) struct PendingInput {
    /// Ingests queued in this turn, in order.
    ingests: Vec<(Ingest, IngestReply)>,
    ingest_bytes: usize,
    pub(super) index_commits: IndexCommits,
    /// Traces that moved to another session, which the store does not know yet.
    pub(super) moves: Vec<TraceMove>,
    /// Acknowledged input is not derived yet: derive before answering the next query (read-your-writes).
    pub(super) has_underived: bool,
    /// Whether a stop order arrived since the last derivation: it must be derived before the next hook is answered.
    pub(super) has_new_order: bool,
}

impl PendingInput {
    pub(super) fn push(&mut self, ingest: Ingest, reply: IngestReply) {
        self.ingest_bytes += ingest.body.len();
        self.ingests.push((ingest, reply));
    }

    /// Whether there is input to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.ingests.is_empty() && self.index_commits.is_empty()
    }

    /// Whether no further ingest joins the next commit.
    pub(super) fn is_full(&self) -> bool {
        self.ingests.len() >= MAX_BATCH_INGESTS || self.ingest_bytes >= MAX_BATCH_BYTES
    }

    fn take_ingests(&mut self) -> Vec<(Ingest, IngestReply)> {
        self.ingest_bytes = 0;
        std::mem::take(&mut self.ingests)
    }
}

impl EventLoop {
    /// Decodes the queued ingests, saves them in one commit, and acknowledges them.
    pub(super) fn commit_ingests(&mut self) {
        let all = self.pending.take_ingests();
        if all.is_empty() {
            return;
        }
        let location = self.store.check_location().map_err(|error| IngestError::from(&error));
        if let Err(error) = location.and_then(|()| self.retry_failed_commit()) {
            return self.refuse(all.into_iter().map(|(_, reply)| reply), &error);
        }
        if self.pending.has_new_order && self.pending.has_underived {
            self.derive_dirty(false);
        }
        // Changes made by the driver must not count as changes of these ingests.
        self.collect_changed();
        let mut batch = IngestBatch::default();
        for (ingest, reply) in all {
            let taken = match self.is_repeated(&ingest, &batch) {
                Ok(true) => {
                    self.figures.repeats += 1;
                    Ok(IngestReceipt { is_repeat: true, ..IngestReceipt::default() })
                }
                Ok(false) => self.ingest_one(ingest, &mut batch),
                Err(error) => Err(error),
            };
            match taken {
                Ok(taken) => batch.answers.push((reply, taken)),
                Err(error) => self.refuse([reply], &error),
            }
        }
        let IngestBatch { mut received, bytes, mut sessions, answers, .. } = batch;
        let moved = self.take_moved_input(&mut received);
        moved.iter().filter(|moved| moved.is_whole).for_each(|moved| {
            let dialects = sessions.remove(&moved.from);
            sessions.entry(moved.to.clone()).or_default().extend(dialects.into_iter().flatten());
        });
        if received.is_empty() && sessions.is_empty() {
            answers.into_iter().for_each(|(reply, taken)| reply(Ok(taken)));
            return;
        }
        let largest = &mut self.pace.derive.largest_ingest_batch;
        *largest = (*largest).max(received.len());
        let count = received.len();
        match self.commit(Commit { received, moved, ..Commit::default() }) {
            Ok(()) => {
                self.figures.ingests += count as u64;
                self.figures.ingest_bytes += bytes as u64;
                answers.into_iter().for_each(|(reply, taken)| reply(Ok(taken)));
            }
            Err(error) => self.refuse(answers.into_iter().map(|(reply, _)| reply), &error),
        }
        // Derived after the acknowledgement: a caller waits only for the commit.
        self.pending.has_underived |= !sessions.is_empty();
        for (session, dialects) in sessions {
            // File content may be old; input from programs is new, whatever its timestamps.
            self.add_new_dialects(&session, &dialects);
            self.mark_dirty([session]);
        }
    }

    /// Answers ingests with an error.
    fn refuse(&mut self, replies: impl IntoIterator<Item = IngestReply>, error: &IngestError) {
        for reply in replies {
            self.figures.refused += 1;
            reply(Err(error.clone()));
        }
    }

    /// Whether this key was ingested before, in this turn included.
    fn is_repeated(&self, ingest: &Ingest, batch: &IngestBatch) -> Result<bool, IngestError> {
        if batch.keys.contains(&(ingest.source.clone(), ingest.key.clone())) {
            return Ok(true);
        }
        self.store.has_received(&ingest.source, &ingest.key).map_err(|error| IngestError::from(&error))
    }

    /// Decodes an ingest and adds it to the batch. A hook that asks whether to continue is answered from the rows
    /// before it.
    ///
    /// # Errors
    /// If the store cannot be read for a session that the ingest names.
    pub(super) fn ingest_one(
        &mut self,
        ingest: Ingest,
        batch: &mut IngestBatch,
    ) -> Result<IngestReceipt, IngestError> {
        let Ingest { source, session, dialect, key, received_ms, mut body, begins, asks } = ingest;
        if body.last().is_some_and(|last| *last != b'\n') {
            body.push(b'\n');
        }
        let received_ms = received_ms.unwrap_or_else(|| self.time.now_ms());
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        let parts = if session.is_none() { split_by_session(dialect, begins, &body) } else { Vec::new() };
        let whole = InputChunk {
            source: &source,
            dialect,
            session: session.as_deref(),
            received_ms,
            begins: None,
            body: &body,
        };
        let chunks =
            if parts.is_empty() { vec![whole] } else { parts.iter().map(|part| whole.part(part)).collect() };
        let Some(named) = self.sessions_of_chunks(&chunks) else {
            return Err(IngestError::Store("the store cannot be read".to_owned()));
        };
        batch.keys.insert((source.clone(), key.clone()));
        let (sessions, problems, problem_count) = self.fold_chunks(&chunks, &named);
        self.figures.problems += problem_count;
        if asks != Asks::Nothing || dialect == Some(SUBAGENT_EVENTS) {
            self.find_replayed_orders(&sessions);
        }
        let answer = self.stop_answer(asks, &HookRequest { dialect, key: &key, body: &body }, batch);
        let to_stop = if dialect == Some(SUBAGENT_EVENTS) {
            self.sessions.agents_to_stop(&sessions)
        } else {
            Vec::new()
        };
        let dialect = dialect.map(|dialect| dialect.as_str().to_owned()).unwrap_or_default();
        for session in &sessions {
            batch.sessions.entry(session.clone()).or_default().insert(Text::from(dialect.as_str()));
        }
        // Its trace finds it, whatever session that turns out to be of.
        let trace = session.as_deref().filter(|named| TraceSpan::trace_of_session(named).is_some());
        let trace = trace.map(SessionId::from).filter(|trace| !sessions.contains(trace));
        let touched = trace.into_iter().chain(sessions.iter().cloned()).collect();
        batch.bytes += body.len();
        if !parts.is_empty() {
            body.clear();
        }
        batch.received.push(ReceivedInput {
            source,
            session,
            dialect,
            key,
            received_ms,
            body,
            parts,
            sessions: touched,
        });
        let lines = lines as u64;
        Ok(IngestReceipt { is_repeat: false, lines, sessions, problems, problem_count, answer, to_stop })
    }
}

/// Contents of one commit.
#[derive(Default)]
pub(super) struct IngestBatch {
    keys: HashSet<(String, String)>,
    received: Vec<ReceivedInput>,
    bytes: usize,
    /// Touched sessions, with the dialects of their input.
    sessions: BTreeMap<SessionId, BTreeSet<Text>>,
    answers: Vec<(IngestReply, IngestReceipt)>,
}
