//! Replays a session's saved input from the inbox when the session is loaded into the fold.
//!
//! A session is loaded by the first of its bytes, from a file or from a program. Its earlier input from programs is
//! pushed first, as a session whose files are read starts at their beginning: so a hub that evicted the session, or has
//! just started, knows all of it.

use std::collections::{BTreeSet, HashMap};

use subscope_model::{Problem, SessionId, SourceId, Text};
use subscope_store::ReceivedInput;

use super::{EventLoop, derive::describe};
use crate::partitions::{InputChunk, Partitions};

/// Most bytes of inbox input replayed per session. A session above it is never evicted; after a restart its rows miss
/// that input and a problem is reported.
const AGAIN_BYTES: u64 = 64 << 20;

/// Most problems of one ingest that are reported individually.
const PROBLEMS: usize = 100;

/// Inbox partitions as sources of the fold, and the sessions that each touched.
#[derive(Default)]
pub(super) struct InboxReplay {
    partitions: Partitions,
    /// Sessions whose inbox input is completely in the fold.
    sessions: HashMap<SessionId, OfSession>,
}

#[derive(Default)]
struct OfSession {
    bytes: u64,
    sources: BTreeSet<SourceId>,
    /// Whether some of its input belongs to several sessions or cannot be replayed.
    is_shared: bool,
}

impl InboxReplay {
    /// Bytes of a session's input from programs; `None` if it shares input with other sessions or has too much to
    /// replay.
    pub(super) fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let Some(of) = self.sessions.get(session) else { return Some(0) };
        (!of.is_shared && of.bytes <= AGAIN_BYTES).then_some(of.bytes)
    }

    /// The partition sources with input of a session.
    pub(super) fn sources(&self, session: &SessionId) -> impl Iterator<Item = SourceId> {
        self.sessions.get(session).into_iter().flat_map(|of| of.sources.iter().copied())
    }

    /// Forgets an evicted session and its partitions.
    pub(super) fn evict(&mut self, session: &SessionId) {
        if let Some(of) = self.sessions.remove(session) {
            self.partitions.forget(&of.sources);
        }
    }

    /// Records which sessions an input of a source touched; `named` is the session that the input names.
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
    /// Folds a chunk of new input. Returns the sessions that it touched, its problems and their number.
    fn fold_chunk(&mut self, handed: &InputChunk<'_>) -> (Vec<SessionId>, Vec<Problem>, u64) {
        let named = self.inbox_replay.partitions.named(handed);
        if let Some(session) = named.as_deref().map(SessionId::from)
            && self.look_up(&session)
        {
            self.dirty.insert(session);
        }
        // Earlier problems are not this caller's.
        let _ = self.fold.take_problems();
        let source = self.inbox_replay.partitions.push_named(&mut self.fold, handed, named.as_deref());
        let (problems, count) = self.fold.take_problems();
        let told = self.fold.take_changed();
        for session in &told {
            // A session that the chunk touches without naming it.
            self.look_up(session);
        }
        self.inbox_replay.note(source, named.as_deref(), &told, handed.body.len());
        (told, problems, count)
    }

    /// Whether the store can be read for the session that a chunk names, so that its earlier input can be replayed
    /// first.
    pub(super) fn is_readable(&mut self, chunk: &InputChunk<'_>) -> bool {
        let named = self.inbox_replay.partitions.named(chunk);
        named.is_none_or(|session| {
            let session = SessionId::from(session.as_str());
            self.inbox_replay.sessions.contains_key(&session)
                || self.published.has_rows(&session, &self.store).is_some()
        })
    }

    /// Folds the chunks of one body, which may belong to several sessions. Returns the touched sessions, their problems
    /// (at most [`MAX_PROBLEMS`]) and the number of problems.
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

    /// Replays the inbox input of a session that was just loaded, unless that is done. Returns whether there was any.
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
            // The store cannot be read: try again when the session gets more input.
            None => {}
        }
        false
    }

    /// Replays the inbox input of a session, and of other sessions that this input touches. Returns the dialects of the
    /// input.
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
                        // Try again when the session gets more input.
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
        // The programs that sent the input got these problems.
        let _ = self.fold.take_problems();
        dialects
    }

    /// Replays the inbox input of a session that the fold has forgotten.
    pub(super) fn fold_handed_again(&mut self, session: &SessionId) {
        let bytes = self.inbox_replay.reloadable_bytes(session);
        self.inbox_replay.evict(session);
        if bytes.is_some_and(|bytes| bytes > 0) {
            self.fold_again(session);
        }
    }
}
