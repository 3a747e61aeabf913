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
const MAX_REPLAY_BYTES: u64 = 64 << 20;

/// Most problems of one ingest that are reported individually.
const MAX_PROBLEMS: usize = 100;

/// Inbox partitions as sources of the fold, and the sessions that each touched.
#[derive(Default)]
pub(super) struct InboxReplay {
    partitions: Partitions,
    /// Sessions whose inbox input is completely in the fold.
    sessions: HashMap<SessionId, SessionInput>,
}

#[derive(Default)]
struct SessionInput {
    bytes: u64,
    sources: BTreeSet<SourceId>,
    /// Whether some of its input belongs to several sessions or cannot be replayed.
    is_shared: bool,
}

impl InboxReplay {
    /// Bytes of a session's input from programs; `None` if it shares input with other sessions or has too much to
    /// replay.
    pub(super) fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let Some(input) = self.sessions.get(session) else { return Some(0) };
        (!input.is_shared && input.bytes <= MAX_REPLAY_BYTES).then_some(input.bytes)
    }

    /// The partition sources with input of a session.
    pub(super) fn sources(&self, session: &SessionId) -> impl Iterator<Item = SourceId> {
        self.sessions.get(session).into_iter().flat_map(|input| input.sources.iter().copied())
    }

    /// Forgets an evicted session and its partitions.
    pub(super) fn evict(&mut self, session: &SessionId) {
        if let Some(input) = self.sessions.remove(session) {
            self.partitions.remove(&input.sources);
        }
    }

    /// Records which sessions an input of a source touched; `named` is the session that the input names.
    fn record(&mut self, source: SourceId, named: Option<&str>, touched: &[SessionId], bytes: usize) {
        for session in touched {
            let input = self.sessions.entry(session.clone()).or_default();
            input.bytes += bytes as u64;
            input.sources.insert(source);
            input.is_shared |= touched.len() > 1 || named != Some(session.as_str());
        }
    }
}

impl EventLoop {
    /// Folds a chunk of new input of the named session. Returns the sessions that it touched, its problems and their number.
    fn fold_chunk(
        &mut self,
        chunk: &InputChunk<'_>,
        named: Option<&str>,
    ) -> (Vec<SessionId>, Vec<Problem>, u64) {
        if let Some(session) = named.map(SessionId::from)
            && self.ensure_replayed(&session)
        {
            self.dirty.insert(session);
        }
        // Earlier problems are not this caller's.
        let _ = self.fold.take_problems();
        let source = self.inbox_replay.partitions.push_named(&mut self.fold, chunk, named);
        let (problems, count) = self.fold.take_problems();
        let touched = self.fold.take_changed();
        for session in &touched {
            // A session that the chunk touches without naming it.
            self.ensure_replayed(session);
        }
        self.inbox_replay.record(source, named, &touched, chunk.body.len());
        (touched, problems, count)
    }

    /// Returns the session that each chunk names. `None` if the store cannot be read for one of them: its earlier input could
    /// not be replayed first.
    pub(super) fn sessions_of_chunks(&mut self, chunks: &[InputChunk<'_>]) -> Option<Vec<Option<String>>> {
        let Self { inbox_replay, published, store, .. } = self;
        let mut is_readable = |named: &str| {
            let session = SessionId::from(named);
            inbox_replay.sessions.contains_key(&session) || published.has_rows(&session, store).is_some()
        };
        let named = chunks.iter().map(|chunk| inbox_replay.partitions.session_of(chunk));
        named.map(|named| named.as_deref().is_none_or(&mut is_readable).then_some(named)).collect()
    }

    /// Folds the chunks of one body, each with the session that it names. Returns the touched sessions, their problems (at
    /// most [`MAX_PROBLEMS`]) and the number of problems.
    pub(super) fn fold_chunks(
        &mut self,
        chunks: &[InputChunk<'_>],
        named: &[Option<String>],
    ) -> (Vec<SessionId>, Vec<Problem>, u64) {
        let (mut touched, mut problems, mut count) = (BTreeSet::new(), Vec::new(), 0);
        for (chunk, named) in chunks.iter().zip(named) {
            let (sessions, found, more) = self.fold_chunk(chunk, named.as_deref());
            touched.extend(sessions);
            problems.extend(found);
            count += more;
        }
        problems.truncate(MAX_PROBLEMS);
        (touched.into_iter().collect(), problems, count)
    }

    /// Replays the inbox input of a session that was just loaded, unless that is done. Returns whether there was any.
    pub(super) fn ensure_replayed(&mut self, session: &SessionId) -> bool {
        if self.inbox_replay.sessions.contains_key(session) {
            return false;
        }
        if self.startup_replay.unprocessed.contains(session) {
            return !self.replay_inbox(session).is_empty();
        }
        match self.published.has_rows(session, &self.store) {
            Some(true) => return !self.replay_inbox(session).is_empty(),
            // A session without rows has no input in the inbox.
            Some(false) => {
                self.inbox_replay.sessions.insert(session.clone(), SessionInput::default());
            }
            // The store cannot be read: try again when the session gets more input.
            None => {}
        }
        false
    }

    /// Replays the inbox input of a session, and of other sessions that this input touches. Returns the dialects of the
    /// input.
    pub(super) fn replay_inbox(&mut self, session: &SessionId) -> BTreeSet<Text> {
        let (mut dialects, mut queue) = (BTreeSet::new(), vec![session.clone()]);
        let mut seen = BTreeSet::new();
        while let Some(session) = queue.pop() {
            if !seen.insert(session.clone()) {
                continue;
            }
            self.startup_replay.unprocessed.remove(&session);
            self.inbox_replay.sessions.entry(session.clone()).or_default();
            let Self { store, inbox_replay, fold, dirty, .. } = self;
            let mut has_input = false;
            let mut replay = |received: ReceivedInput| {
                for chunk in InputChunk::of(&received) {
                    let named = inbox_replay.partitions.session_of(&chunk);
                    let source = inbox_replay.partitions.push_named(fold, &chunk, named.as_deref());
                    let touched = fold.take_changed();
                    let others = || touched.iter().filter(|touched| **touched != session).cloned();
                    queue.extend(others().filter(|other| !inbox_replay.sessions.contains_key(other)));
                    dirty.extend(others());
                    inbox_replay.record(source, named.as_deref(), &touched, chunk.body.len());
                }
                dialects.insert(Text::from(received.dialect.as_str()));
                has_input = true;
            };
            match store.read_received(&session, MAX_REPLAY_BYTES, &mut replay) {
                Ok(true) => {}
                Ok(false) => {
                    self.inbox_replay.sessions.entry(session.clone()).or_default().is_shared = true;
                    let limit = MAX_REPLAY_BYTES >> 20;
                    let what = format!("its stored input exceeds {limit} MiB and is not replayed");
                    self.publish_problem(Problem { at: session.to_string(), what });
                }
                Err(error) => {
                    if !has_input {
                        // Try again when the session gets more input.
                        self.inbox_replay.sessions.remove(&session);
                    }
                    self.publish_problem(Problem { at: session.to_string(), what: describe(&error) });
                }
            }
            if has_input {
                tracing::debug!(%session, "input replayed");
                self.reloading.insert(session);
            }
        }
        // The programs that sent the input got these problems.
        let _ = self.fold.take_problems();
        dialects
    }

    /// Replays the inbox input of a session that the fold has forgotten.
    pub(super) fn replay_after_reset(&mut self, session: &SessionId) {
        let bytes = self.inbox_replay.reloadable_bytes(session);
        self.inbox_replay.evict(session);
        if bytes.is_some_and(|bytes| bytes > 0) {
            self.replay_inbox(session);
        }
    }
}
