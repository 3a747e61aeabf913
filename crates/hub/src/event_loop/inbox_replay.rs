//! What programs have handed over, by session: it is kept, and folded again when its session comes (back) into the fold.
//!
//! A session comes with the first of its bytes, whether from a file or from a program. What was handed over of it before is then
//! pushed first, as one that reads its files from their beginning does: a hub that let go of it, or has just begun, knows it whole.

use std::collections::{BTreeSet, HashMap};

use subscope_model::{Problem, SessionId, SourceId, Text};
use subscope_store::ReceivedInput;

use super::{EventLoop, derive::describe};
use crate::partitions::{InputChunk, Partitions};

/// How many bytes that were handed over of one session are folded again. One of which more was stays in the fold; where that is a
/// new one, its rows lack them once it goes on, which is told as a problem.
const AGAIN_BYTES: u64 = 64 << 20;

/// How many problems of one body are told one by one.
const PROBLEMS: usize = 100;

/// The partitions as sources of the fold, and whom they told of.
#[derive(Default)]
pub(super) struct InboxReplay {
    partitions: Partitions,
    /// Sessions of which the fold has all that was ever handed over.
    sessions: HashMap<SessionId, OfSession>,
}

#[derive(Default)]
struct OfSession {
    bytes: u64,
    sources: BTreeSet<SourceId>,
    /// Whether some of it cannot be told from what is another's, or is not to be had again.
    is_shared: bool,
}

impl InboxReplay {
    /// How many bytes were handed over of a session, if it alone is told of by them and they can be had again.
    pub(super) fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let Some(of) = self.sessions.get(session) else { return Some(0) };
        (!of.is_shared && of.bytes <= AGAIN_BYTES).then_some(of.bytes)
    }

    /// The sources that tell of a session.
    pub(super) fn sources(&self, session: &SessionId) -> impl Iterator<Item = SourceId> {
        self.sessions.get(session).into_iter().flat_map(|of| of.sources.iter().copied())
    }

    /// The fold has let go of a session.
    pub(super) fn evict(&mut self, session: &SessionId) {
        if let Some(of) = self.sessions.remove(session) {
            self.partitions.forget(&of.sources);
        }
    }

    /// Notes that these sessions were told of by bytes of a source that were said to be of the one that is named.
    fn note(&mut self, source: SourceId, named: Option<&str>, told: &[SessionId], bytes: usize) {
        for session in told {
            let of = self.sessions.entry(session.clone()).or_default();
            of.bytes += bytes as u64;
            of.sources.insert(source);
            of.is_shared |= told.len() > 1 || named != Some(session.as_str());
        }
    }
}

impl EventLoop {
    /// Folds what is handed over now. Returns the sessions that it tells of, and what is wrong with it.
    fn fold_chunk(&mut self, handed: &InputChunk<'_>) -> (Vec<SessionId>, Vec<Problem>, u64) {
        let named = self.inbox_replay.partitions.named(handed);
        if let Some(session) = named.as_deref().map(SessionId::from)
            && self.look_up(&session)
        {
            self.dirty.insert(session);
        }
        // What was wrong before is not told to whoever hands this over.
        let _ = self.fold.take_problems();
        let source = self.inbox_replay.partitions.push_named(&mut self.fold, handed, named.as_deref());
        let (problems, count) = self.fold.take_problems();
        let told = self.fold.take_changed();
        for session in &told {
            // Of whom it did not say so before.
            self.look_up(session);
        }
        self.inbox_replay.note(source, named.as_deref(), &told, handed.body.len());
        (told, problems, count)
    }

    /// Whether the store can say what was ingested before of the session that a chunk names.
    pub(super) fn is_readable(&mut self, chunk: &InputChunk<'_>) -> bool {
        let named = self.inbox_replay.partitions.named(chunk);
        named.is_none_or(|session| {
            let session = SessionId::from(session.as_str());
            self.inbox_replay.sessions.contains_key(&session)
                || self.published.has_rows(&session, &self.store).is_some()
        })
    }

    /// Folds the chunks of one body, which may be of several sessions. Returns the sessions that they touch and their problems.
    pub(super) fn fold_chunks(&mut self, parts: &[InputChunk<'_>]) -> (Vec<SessionId>, Vec<Problem>, u64) {
        let (mut told, mut problems, mut count) = (BTreeSet::new(), Vec::new(), 0);
        for part in parts {
            let (sessions, found, more) = self.fold_chunk(part);
            told.extend(sessions);
            problems.extend(found);
            count += more;
        }
        problems.truncate(PROBLEMS);
        (told.into_iter().collect(), problems, count)
    }

    /// Sees to it that the fold has what was handed over of a session that has come into it. Returns whether there was any.
    pub(super) fn look_up(&mut self, session: &SessionId) -> bool {
        if self.inbox_replay.sessions.contains_key(session) {
            return false;
        }
        if self.recall.unsettled.contains(session) {
            return !self.fold_again(session).is_empty();
        }
        match self.published.has_rows(session, &self.store) {
            Some(true) => return !self.fold_again(session).is_empty(),
            // A session without rows has no input in the inbox.
            Some(false) => {
                self.inbox_replay.sessions.insert(session.clone(), OfSession::default());
            }
            // The store cannot say: it is asked again when the session is next touched.
            None => {}
        }
        false
    }

    /// Folds what was handed over of a session, and returns in which dialects. So are others that it tells of.
    pub(super) fn fold_again(&mut self, session: &SessionId) -> BTreeSet<Text> {
        let (mut dialects, mut wanted) = (BTreeSet::new(), vec![session.clone()]);
        let mut seen = BTreeSet::new();
        while let Some(session) = wanted.pop() {
            if !seen.insert(session.clone()) {
                continue;
            }
            self.recall.unsettled.remove(&session);
            self.inbox_replay.sessions.entry(session.clone()).or_default();
            let Self { store, inbox_replay, fold, dirty, .. } = self;
            let mut is_any = false;
            let mut take = |one: ReceivedInput| {
                for part in InputChunk::of(&one) {
                    let named = inbox_replay.partitions.named(&part);
                    let source = inbox_replay.partitions.push_named(fold, &part, named.as_deref());
                    let told = fold.take_changed();
                    let others = || told.iter().filter(|told| **told != session).cloned();
                    wanted.extend(others().filter(|other| !inbox_replay.sessions.contains_key(other)));
                    dirty.extend(others());
                    inbox_replay.note(source, named.as_deref(), &told, part.body.len());
                }
                dialects.insert(Text::from(one.dialect.as_str()));
                is_any = true;
            };
            match store.read_received(&session, AGAIN_BYTES, &mut take) {
                Ok(true) => {}
                Ok(false) => {
                    self.inbox_replay.sessions.entry(session.clone()).or_default().is_shared = true;
                    let limit = AGAIN_BYTES >> 20;
                    let what =
                        format!("more than {limit} MiB were handed over of it: they are not read again");
                    self.publish_problem(Problem { at: session.to_string(), what });
                }
                Err(error) => {
                    if !is_any {
                        // It is looked for again when more comes of it.
                        self.inbox_replay.sessions.remove(&session);
                    }
                    self.publish_problem(Problem { at: session.to_string(), what: describe(&error) });
                }
            }
            if is_any {
                tracing::debug!(%session, "input replayed");
                self.reloading.insert(session);
            }
        }
        // They were told to whoever handed it over.
        let _ = self.fold.take_problems();
        dialects
    }

    /// Folds again what was handed over of a session that the fold has forgotten.
    pub(super) fn fold_handed_again(&mut self, session: &SessionId) {
        let bytes = self.inbox_replay.reloadable_bytes(session);
        self.inbox_replay.evict(session);
        if bytes.is_some_and(|bytes| bytes > 0) {
            self.fold_again(session);
        }
    }
}
