//! Replays a session's saved input from the inbox when the session is loaded into the router.
//!
//! A session is loaded by the first of its bytes, from a file or from a program. Its earlier input from programs is
//! pushed first, as a session whose files are read starts at their beginning: so a hub that evicted the session, or has
//! just started, knows all of it.

use std::collections::BTreeSet;

use subscope_model::{Problem, SessionId, Text, TraceSpan};
use subscope_store::ReceivedInput;

use super::{
    EventLoop,
    session_slot::{InboxInput, LoadedBy},
    session_table::SessionTable,
};
use crate::partitions::{InputChunk, Partitions};

/// Bytes of inbox input replayed between two publications of its events: each event holds the payload of its line.
const PAGE_BYTES: u64 = 8 << 20;

/// Most problems of one ingest that are reported individually.
const MAX_PROBLEMS: usize = 100;

impl SessionTable {
    /// Records which sessions an input touched; `named` is the session that the input names.
    fn record_input(&mut self, named: Option<&str>, touched: &[SessionId], bytes: usize) {
        for session in touched {
            let is_named = named.is_some_and(|named| {
                named == session.as_str() || TraceSpan::trace_of_session(named).is_some()
            });
            let is_own = touched.len() == 1 && is_named;
            self.change_inbox(session, |inbox| inbox.record(is_own.then_some(bytes as u64)));
        }
    }

    /// Whether a session's input from the inbox is in the router.
    pub(super) fn is_replayed(&self, session: &SessionId) -> bool {
        matches!(self.inbox(session), InboxInput::Replayed { .. })
    }
}

impl EventLoop {
    /// Returns the session that each chunk names. `None` if the store cannot be read for one of them: its earlier input
    /// could not be replayed first.
    pub(super) fn sessions_of_chunks(&mut self, chunks: &[InputChunk<'_>]) -> Option<Vec<Option<String>>> {
        let mut all = Vec::new();
        for chunk in chunks {
            let named = self.partitions.session_of(chunk).map(|named| self.session_of_input(named));
            if let Some(session) = named.as_deref().map(SessionId::from)
                && !self.sessions.is_replayed(&session)
            {
                self.has_stored_rows(&session)?;
            }
            all.push(named);
        }
        Some(all)
    }

    /// Reads the chunks of one body of new input, each with the session that it names. Returns the touched sessions, their problems
    /// (at most [`MAX_PROBLEMS`]) and the number of problems.
    pub(super) fn fold_chunks(
        &mut self,
        chunks: &[InputChunk<'_>],
        named: &[Option<String>],
    ) -> (Vec<SessionId>, Vec<Problem>, u64) {
        let (mut touched, mut problems, mut count) = (BTreeSet::new(), Vec::new(), 0);
        for (chunk, named) in chunks.iter().zip(named) {
            if let Some(session) = named.as_deref().map(SessionId::from)
                && self.ensure_replayed(&session)
            {
                self.mark_dirty([session]);
            }
            // Earlier problems are not this caller's.
            let _ = self.router.take_problems();
            self.partitions.push_named(&mut self.router, chunk, named.as_deref());
            let (found, more) = self.router.take_problems();
            let moves = self.router.take_moves();
            for moved in moves.iter().filter(|moved| moved.is_whole) {
                self.publish_emptied(&moved.from);
                touched.remove(&moved.from);
            }
            let mut sessions = self.router.take_changed();
            if sessions.is_empty() && more > 0 && Partitions::names_session(chunk) {
                // Its problems are shown with the session once that has rows: they are replayed with it.
                sessions.extend(named.as_deref().map(SessionId::from));
            }
            for session in &sessions {
                // A session that the chunk touches without naming it.
                self.ensure_replayed(session);
            }
            self.sessions.record_input(named.as_deref(), &sessions, chunk.body.len());
            self.forget_moved(&moves, named.as_deref());
            self.pending.moves.extend(moves);
            touched.extend(sessions);
            problems.extend(found);
            count += more;
        }
        problems.truncate(MAX_PROBLEMS);
        (touched.into_iter().collect(), problems, count)
    }

    /// Replays the inbox input of a session that was just loaded, unless that is done. Returns whether there was any.
    pub(super) fn ensure_replayed(&mut self, session: &SessionId) -> bool {
        let before = self.sessions.inbox(session);
        let may_have_input = match before {
            InboxInput::Replayed { .. } => return false,
            InboxInput::Unprocessed => Some(true),
            InboxInput::Stored if Self::may_be_trace(session) => Some(true),
            InboxInput::Stored => self.has_stored_rows(session),
        };
        match may_have_input {
            Some(true) => {
                let dialects = self.replay_inbox(session);
                if before == InboxInput::Unprocessed {
                    // File content may be old; this is new, whatever its timestamps.
                    self.add_new_dialects(session, &dialects);
                }
                return !dialects.is_empty();
            }
            // A session without rows has no input in the inbox.
            Some(false) => self.sessions.change_inbox(session, InboxInput::begin_replay),
            // The store cannot be read: try again when the session is derived.
            None => {}
        }
        false
    }

    /// Replays the inbox input of a session, and of other sessions that this input touches. Returns the dialects of the
    /// input.
    fn replay_inbox(&mut self, session: &SessionId) -> BTreeSet<Text> {
        let (mut dialects, mut queue) =
            (BTreeSet::new(), vec![(session.clone(), self.sessions.inbox(session))]);
        let mut seen = BTreeSet::new();
        while let Some((session, before)) = queue.pop() {
            if !seen.insert(session.clone()) {
                continue;
            }
            self.sessions.load(&session, LoadedBy::Input);
            self.sessions.change_inbox(&session, InboxInput::begin_replay);
            // They are read again.
            let _ = self.router.take_waiting_problems(session.as_str());
            if !self.store.keeps_received() {
                // No store but that of one process drops input, and only beyond its limit.
                self.sessions.change_inbox(&session, |inbox| inbox.record(None));
                let what = "not all of its input is kept, and none is replayed".to_owned();
                self.publish_problem(Problem { at: session.to_string(), what });
                continue;
            }
            let (mut after, mut has_input) = (0, false);
            loop {
                let Self { store, partitions, router, sessions, .. } = self;
                let mut changed = Vec::new();
                let mut replay = |received: ReceivedInput| {
                    for chunk in InputChunk::of(&received) {
                        let named = partitions.session_of(&chunk);
                        partitions.push_named(router, &chunk, named.as_deref());
                        let touched = router.take_changed();
                        for other in touched.iter().filter(|touched| **touched != session) {
                            if !sessions.is_replayed(other) {
                                queue.push((other.clone(), sessions.inbox(other)));
                                sessions.change_inbox(other, InboxInput::begin_replay);
                            }
                            changed.push(other.clone());
                        }
                        sessions.record_input(named.as_deref(), &touched, chunk.body.len());
                    }
                    dialects.insert(Text::from(received.dialect.as_str()));
                    has_input = true;
                };
                let outcome = store.read_received(&session, after, PAGE_BYTES, &mut replay);
                self.mark_dirty(changed);
                if has_input {
                    self.sessions.record_reread(&session);
                    self.sessions.loaded_mut(&session).into_iter().for_each(|it| it.stop_orders.expect());
                }
                match self.store.read("the input of a session", outcome) {
                    Some(Some(next)) => {
                        after = next;
                        self.publish_events(&session);
                    }
                    Some(None) => break,
                    // All of it is replayed again when the session is derived: joining facts is idempotent.
                    None => {
                        self.sessions.change_inbox(&session, |inbox| inbox.abandon_replay(before));
                        break;
                    }
                }
            }
            if has_input {
                tracing::debug!(%session, "input replayed");
            }
        }
        // The programs that sent the input got these problems, and the store has moved what was moved.
        let _ = self.router.take_problems();
        let moves = self.router.take_moves();
        self.forget_moved(&moves, None);
        dialects
    }
}
