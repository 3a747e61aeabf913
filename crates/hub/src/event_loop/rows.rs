//! Rows of sessions in memory: a write-back cache before the store.
//!
//! Rows can be derived again from saved input, so no caller waits for them to be saved: a session that changes all the
//! time is saved once per [`SAVE_INTERVAL`], and queries are answered from memory. What a process that dies has not
//! saved is found by the store ([`subscope_store::Ledger::sessions_with_unprocessed_input`]) and by the state of the
//! source files.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use subscope_model::{Change, Millis, SessionId, Tree, Update};
use subscope_store::Commit;

use super::{
    EventLoop,
    duty_cycle::DutyCycle,
    publish_dedup::PublishedEvents,
    session_slot::{Shown, Task},
    session_table::SessionTable,
};
use crate::{command::IngestError, read_view::RowOverlay};

/// Delay before changed rows are saved.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Target duration of a save: everything else waits for it.
const SAVE_TIME: Duration = Duration::from_millis(4);
/// Pause after a save, as a multiple of its duration.
const SAVE_PAUSE: u32 = 7;
/// Cost of saving a session itself, in rows.
const SESSION_ROWS: usize = 50;

/// How much is saved at once, and how often.
pub(super) struct SavePace {
    /// Rows per save; adjusted by the duration of the last saves.
    slice: usize,
    pause: DutyCycle,
}

impl Default for SavePace {
    fn default() -> Self {
        Self { slice: SESSION_ROWS * 8, pause: DutyCycle::new(SAVE_PAUSE) }
    }
}

impl SavePace {
    /// Time until rows are due to be saved; `None` if all are saved.
    pub(super) fn due_in(&self, sessions: &SessionTable, now: Instant) -> Option<Duration> {
        Some(sessions.due_in(Task::Save, now)?.max(self.pause.pause_left(now)))
    }

    fn record(&mut self, rows: usize, began: Instant, ended: Instant) {
        let took = ended.duration_since(began).as_secs_f64();
        let fit = rows as f64 * SAVE_TIME.as_secs_f64() / took.max(1e-6);
        // Move half way: one slow write is no trend.
        self.slice = (self.slice + fit as usize) / 2;
        self.pause.record(began, ended);
    }
}

impl EventLoop {
    /// Returns a session's rows as last published; `None` also if the store cannot be read.
    pub(super) fn tree(&self, session: &SessionId) -> Option<Tree> {
        let stored = || self.store.read("a session's rows", self.store.tree(session)).flatten();
        self.sessions.tree(session).map(|tree| Tree::clone(tree)).or_else(stored)
    }

    /// Takes derived rows and schedules that they are saved and broadcast. A new session is published at once.
    pub(super) fn update_rows(&mut self, trees: Vec<Tree>) {
        if trees.is_empty() {
            return;
        }
        let (now, rev) = (self.time.tick(), self.store.next_rev());
        for tree in trees {
            let session = tree.session.id.clone();
            if self.sessions.show(tree, rev, now, SAVE_INTERVAL) == Shown::First {
                self.sessions.record_change(&session, self.figures.seq);
                if let Some(tree) = self.sessions.tree(&session).map(|tree| Tree::clone(tree)) {
                    self.publish(&Update::snapshot(tree));
                }
            }
        }
        self.broadcast_rows(false);
    }

    /// Publishes the changed rows that are due; with `is_all`, all of them.
    pub(super) fn broadcast_rows(&mut self, is_all: bool) {
        let now = self.time.tick();
        let due = match is_all {
            true => self.sessions.with_task(Task::Broadcast),
            false => self.sessions.due(Task::Broadcast, now),
        };
        let readers = self.subscribers.len();
        for session in due {
            self.sessions.schedule(&session, Task::Broadcast, None);
            let Some(rows) = self.sessions.rows_mut(&session) else { continue };
            let Some(change) = rows.broadcast.take_change(&rows.tree, readers, now) else { continue };
            let seq = self.figures.seq;
            self.sessions.record_change(&session, seq);
            self.publish(&Update::change(Change { seq, ..change }));
        }
    }

    /// Saves the rows that are due, a few milliseconds' worth, the oldest first. Skips sessions with changes: saved
    /// rows must include all input saved for their session.
    pub(super) fn save_due_rows(&mut self) {
        let began = self.time.tick();
        if self.store.has_failed_commit()
            || self.pace.save.due_in(&self.sessions, began).is_none_or(|wait| !wait.is_zero())
        {
            return;
        }
        let may_save = |session: &SessionId| !self.sessions.is_dirty(session);
        let due = self.sessions.scheduled(Task::Save).take_while(|(at, _)| *at <= began);
        let (mut sessions, mut rows) = (Vec::new(), 0);
        for (_, session) in due.filter(|(_, session)| may_save(session)) {
            let count = self.sessions.tree(session).map_or(SESSION_ROWS, |tree| row_count(tree));
            if rows > 0 && rows + count > self.pace.save.slice {
                break;
            }
            rows += count;
            sessions.push(session.clone());
        }
        let _ = self.save_trees(&sessions);
        self.pace.save.record(rows, began, self.time.tick());
    }

    /// Derives dirty sessions and saves all unsaved rows.
    pub(super) fn save_rows(&mut self) -> Result<(), IngestError> {
        self.retry_failed_commit()?;
        self.derive_dirty(self.startup.has_ended);
        self.save_unsaved()
    }

    /// Saves all unsaved rows.
    pub(super) fn save_unsaved(&mut self) -> Result<(), IngestError> {
        self.save_trees(&self.sessions.with_task(Task::Save))
    }

    pub(super) fn save_trees(&mut self, sessions: &[SessionId]) -> Result<(), IngestError> {
        let trees: Vec<Tree> = sessions.iter().filter_map(|session| self.tree(session)).collect();
        if trees.is_empty() || self.store.has_failed_commit() {
            return Ok(());
        }
        let deadline =
            |tree: &Tree| Some((tree.session.id.clone(), self.sessions.deadline_of(&tree.session.id)?));
        let deadlines = trees.iter().filter_map(deadline).collect();
        let mut session_keys = self.duplicates.take_unsaved(sessions);
        for keys in session_keys.iter_mut().filter(|it| self.lacks_input(&it.keys.session)) {
            // Those that are stored show what is missing.
            keys.replaces = false;
        }
        let needed = sessions.iter().filter(|session| self.needs_facts(session));
        let facts = needed.filter_map(|session| self.facts_to_store(session)).collect();
        let mut sources = Vec::new();
        for tree in &trees {
            sources.extend(self.driver.take_read_files(&tree.session.id));
            if let Some(loaded) = self.sessions.loaded_mut(&tree.session.id) {
                sources.append(&mut loaded.unsaved_files);
                loaded.published.iter_mut().for_each(PublishedEvents::end_first_content);
            }
        }
        let rows = Commit { trees, deadlines, session_keys, sources, facts, ..Commit::default() };
        let outcome = self.commit(Commit { is_provisional: true, ..rows });
        self.publish_failure(outcome)
    }

    /// Returns what the store lacks: the unsaved rows. They are shared, not copied.
    pub(super) fn overlay(&self) -> RowOverlay {
        let (now, now_ms) = (self.time.tick(), self.time.now_ms());
        let age = |at: Instant| i64::try_from(now.duration_since(at).as_millis()).unwrap_or(0);
        let scheduled = self.sessions.scheduled(Task::Save);
        let unsaved = scheduled.filter_map(|(due, session)| {
            Some((now_ms - age(due - SAVE_INTERVAL), Arc::clone(self.sessions.tree(session)?)))
        });
        let mut unsaved: Vec<(Millis, Arc<Tree>)> = unsaved.collect();
        unsaved.sort_unstable_by(|(_, one), (_, other)| one.session.id.cmp(&other.session.id));
        RowOverlay { unsaved, held: Vec::new(), seq: self.figures.seq }
    }
}

/// Approximate number of rows of a session.
pub(super) fn row_count(tree: &Tree) -> usize {
    SESSION_ROWS + tree.agents.len() + tree.summary.tool_calls as usize
}
