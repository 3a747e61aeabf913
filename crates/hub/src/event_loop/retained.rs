//! Keeps what is known of a session although it cannot be read now, or is in no file any more.
//!
//! A file that cannot be read is tried again, ever less often, and takes nothing away meanwhile. Of a file that was cut,
//! replaced or deleted, the facts stay: in memory as long as the session is loaded, and in the store
//! ([`subscope_store::StoredFacts`]) from its eviction on. A session that is loaded again and lacks something that its
//! stored rows were derived from joins them. Where they are missing too, its stored rows stay as they are.

use std::{collections::HashSet, ops::Range, path::PathBuf, sync::Arc, time::Duration};

use subscope_collect::Found;
use subscope_model::{Problem, SessionId, SourceId, Tree};
use subscope_session::{KeysCursor, SessionRouter};
use subscope_store::{Commit, FileIdentity, SourceFile, StoredFacts};

use super::{
    EventLoop,
    session_slot::{LoadedSession, Task},
};
use crate::{
    loader::{FileLoader, Unread, file_identity},
    session_sources::{RowCounts, cut_problem, is_missing},
};

/// First and longest pause before a file that could not be read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(60);

/// What could not be read of a session, or is in no file any more.
#[derive(Default)]
pub(super) struct RetainedState {
    /// Files that the driver does not tail and that could not be read to their end.
    pub(super) unread: Vec<UnreadFile>,
    /// Files that could not be looked for.
    pub(super) unfound: Vec<Unread>,
    joined: JoinedFacts,
    /// Whether its stored rows were derived from something that neither its files nor the stored facts have.
    lacks_facts: bool,
    /// Pause before the next attempt to read what could not be read.
    pause: Duration,
}

/// The stored facts of a session, and why its rows need them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JoinedFacts {
    /// They were not joined since it was loaded.
    #[default]
    No,
    /// They were joined; its files have everything.
    Unneeded,
    /// They have what a deleted file had.
    OfDeleted,
    /// They have what a file had that was cut or replaced.
    OfCut,
}

/// A file that was read up to an offset.
pub(super) struct UnreadFile {
    pub(super) found: Found,
    source: SourceId,
    /// What is left to read.
    rest: Range<u64>,
    problem: Option<Problem>,
}

/// A file could not be read to its end; its problem is recorded.
struct Failed;

impl UnreadFile {
    pub(super) fn new(found: Found, source: SourceId) -> Self {
        Self { found, source, rest: 0..u64::MAX, problem: None }
    }

    /// Reads on to the end of the file. Returns its identity from before that.
    fn read_on(
        &mut self,
        loader: &mut FileLoader,
        router: &mut SessionRouter,
    ) -> Result<FileIdentity, Failed> {
        let identity = match &self.found.kept_at {
            // The archived copy of a file that is gone has no identity.
            Some(_) => Ok(FileIdentity::default()),
            None => file_identity(&self.found.path).map_err(|error| Unread::new(&self.found.path, error)),
        };
        let read = identity.and_then(|identity| {
            loader.load_span(self.found.place(), &mut self.rest, self.source, router).map(|()| identity)
        });
        match read {
            Ok(identity) => {
                router.flush(self.source);
                Ok(identity)
            }
            Err(unread) => {
                tracing::warn!("{unread}");
                self.problem = Some(unread.problem());
                Err(Failed)
            }
        }
    }
}

impl EventLoop {
    /// Reads again what could not be read, where that is due, and derives sessions of which this has changed: `changed`
    /// are those that the driver names.
    pub(super) fn retry_unread(&mut self, changed: Vec<SessionId>) {
        // A session that is not loaded is read when it is.
        let changed: Vec<SessionId> =
            changed.into_iter().filter(|session| self.sessions.loaded(session).is_some()).collect();
        for session in &changed {
            self.schedule_retry(session);
        }
        self.mark_dirty(changed);
        let now = self.time.tick();
        for session in self.sessions.due(Task::Retry, now) {
            let before = self.unread_problems(&session);
            self.driver.retry_unread(&session, &mut self.router);
            self.read_unread(&session);
            let has_unfound = |loaded: &LoadedSession| !loaded.retained.unfound.is_empty();
            if self.sessions.loaded(&session).is_some_and(has_unfound)
                && let Some(files) = self.store.read("the files of a session", self.store.files_of(&session))
            {
                self.backfill_files(&session, &files);
            }
            self.collect_changed();
            if self.unread_problems(&session) != before {
                self.mark_dirty([session.clone()]);
            }
            self.schedule_retry(&session);
        }
    }

    /// Reads the files of a session that the driver does not tail and that are not read to their end.
    pub(super) fn read_unread(&mut self, session: &SessionId) {
        let Some(loaded) = self.sessions.loaded_mut(session) else { return };
        let mut loader = FileLoader::default();
        self.router.receive_at(None);
        for mut file in std::mem::take(&mut loaded.retained.unread) {
            match file.read_on(&mut loader, &mut self.router) {
                Ok(identity) => {
                    let read = SourceFile { path: file.found.path, session: session.clone(), identity };
                    loaded.backfilled.push(read.clone());
                    loaded.unsaved_files.extend(Some(read).filter(|file| file.identity.inode > 0));
                    loaded.input.record_reread();
                }
                Err(Failed) => loaded.retained.unread.push(file),
            }
        }
        // The index has already reported these problems.
        let _ = self.router.take_problems();
    }

    /// Schedules the next attempt to read what could not be read of a session, each after a longer pause.
    pub(super) fn schedule_retry(&mut self, session: &SessionId) {
        let has_unread = self.has_unread(session);
        let now = self.time.tick();
        let Some(loaded) = self.sessions.loaded_mut(session) else { return };
        let pause = (loaded.retained.pause * 2).clamp(RETRY_AFTER, RETRY_AFTER_AT_MOST);
        loaded.retained.pause = if has_unread { pause } else { Duration::ZERO };
        self.sessions.schedule(session, Task::Retry, has_unread.then(|| now + pause));
    }

    /// Whether something of a session cannot be read now that its rows were derived from, or should be.
    pub(super) fn has_unread(&self, session: &SessionId) -> bool {
        let own = self.sessions.loaded(session).map(|loaded| &loaded.retained);
        own.is_some_and(|own| !own.unread.is_empty() || !own.unfound.is_empty())
            || self.driver.is_incomplete(session)
    }

    /// Why files of a session cannot be read.
    fn unread_problems(&self, session: &SessionId) -> Vec<Problem> {
        let mut problems = self.driver.unread(session);
        if let Some(loaded) = self.sessions.loaded(session) {
            problems.extend(loaded.retained.unread.iter().filter_map(|file| file.problem.clone()));
            problems.extend(loaded.retained.unfound.iter().map(Unread::problem));
        }
        problems
    }

    /// Joins the stored facts of a session that was just loaded, if its files lack some of them. `None` if the store
    /// cannot be read.
    pub(super) fn restore_facts(&mut self, session: &SessionId) -> Option<()> {
        if self.has_stored_rows(session) != Some(true) || self.sessions.has_rows(session) {
            return Some(());
        }
        let is_needed = self.store.read("the facts of a session", self.store.needs_facts(session))?;
        if is_needed || self.lacks_keys(session)? || self.lacks_files(session)? {
            self.join_facts(session)?;
        }
        Some(())
    }

    /// Whether the stored rows of a session were derived from calls or responses that the router does not have. `None`
    /// if the store cannot be read.
    fn lacks_keys(&self, session: &SessionId) -> Option<bool> {
        let stored = self.store.read("the keys of a session", self.store.session_keys(session))?;
        let Some(stored) = stored.filter(|stored| !stored.keys.is_empty()) else { return Some(false) };
        let own = self.router.holdings(session, &mut KeysCursor::default());
        let own: HashSet<u64> = own.into_iter().flat_map(|own| own.keys).collect();
        Some(stored.keys.iter().any(|key| !own.contains(key)))
    }

    /// Whether a file that the stored rows of a session were derived from is gone, and not in the archive. `None` if the
    /// store cannot be read.
    fn lacks_files(&self, session: &SessionId) -> Option<bool> {
        let files = self.store.read("the files of a session", self.store.files_of(session))?;
        let is_gone = |file: &PathBuf| {
            is_missing(file) && self.find_file(session, file).is_ok_and(|found| found.is_empty())
        };
        Some(files.iter().any(is_gone))
    }

    /// Joins the stored facts of a session. `None` if the store cannot be read.
    fn join_facts(&mut self, session: &SessionId) -> Option<()> {
        let from_files = self.without_problems(session);
        let stored = self.store.read("the facts of a session", self.store.facts_of(session))?;
        let facts = stored.and_then(|stored| self.store.read("the facts of a session", stored.unpack()));
        let is_joined = facts.is_some_and(|facts| self.router.join_facts(session, &facts));
        let has_unread = self.has_unread(session);
        let files = self.store.read("the files of a session", self.store.files_of(session))?;
        let is_deleted = files.iter().any(|file| is_missing(file));
        // Rows may hold what no key tells, as a title.
        let lacks_facts = self.lacks_keys(session)? || !is_joined && self.lacks_files(session)?;
        // A file that was cut may say everything again.
        let is_needed = !has_unread && (lacks_facts || self.without_problems(session) != from_files);
        tracing::debug!(%session, is_joined, is_needed, lacks_facts, "stored facts were joined");
        let retained = &mut self.sessions.loaded_mut(session)?.retained;
        retained.joined = match (is_needed, is_deleted) {
            (false, _) => JoinedFacts::Unneeded,
            (true, true) => JoinedFacts::OfDeleted,
            (true, false) => JoinedFacts::OfCut,
        };
        retained.lacks_facts = lacks_facts;
        Some(())
    }

    /// Derives the rows of a session from what the router has, without its problems.
    fn without_problems(&self, session: &SessionId) -> Option<Tree> {
        let now = self.options.now(self.driver.now(), false, self.limits());
        self.router.tree(session, &now).map(Tree::without_problems)
    }

    /// Whether a session is to be derived once more: it has less than its stored rows, and the stored facts are joined now.
    pub(super) fn joins_facts_for(&mut self, session: &SessionId, derived: &Tree) -> bool {
        let Some(loaded) = self.sessions.loaded(session) else { return false };
        let has_more = !self.sessions.has_rows(session)
            && loaded.published.as_ref().is_some_and(|it| it.has_more_than(derived));
        let is_due = has_more && loaded.retained.joined == JoinedFacts::No;
        if is_due
            && self.join_facts(session).is_none()
            && let Some(loaded) = self.sessions.loaded_mut(session)
        {
            // Its stored rows are kept.
            (loaded.retained.joined, loaded.retained.lacks_facts) = (JoinedFacts::Unneeded, true);
        }
        is_due
    }

    /// Returns the rows to serve: the derived ones, or those that are known, if these have more because something cannot be
    /// read. Adds the problems of reading.
    pub(super) fn retain_rows(&self, session: &SessionId, derived: Tree) -> Tree {
        let Some(loaded) = self.sessions.loaded(session) else { return derived };
        let mut problems = self.unread_problems(session);
        if loaded.retained.joined == JoinedFacts::OfCut || self.driver.is_cut(session) {
            problems.push(cut_problem(session));
        }
        let is_suspect = loaded.retained.lacks_facts || self.has_unread(session);
        let has_more = |known: &Tree| RowCounts::of(known).exceed(RowCounts::of(&derived));
        let stored = || self.store.read("a session's rows", self.store.tree(session)).flatten();
        let known = match self.sessions.tree(session) {
            _ if !is_suspect => None,
            Some(known) => Some(known).filter(|known| has_more(known)).cloned(),
            None => stored().filter(has_more).map(Arc::new),
        };
        let mut rows = known.map_or(derived, Arc::unwrap_or_clone);
        rows.problems.retain(|problem| !problem.what.starts_with(Unread::WHAT));
        rows.problems.extend(problems);
        rows.problems.sort();
        rows.problems.dedup();
        rows
    }

    /// Whether the rows of a session are not derived from all that its stored rows were derived from, so that its stored
    /// keys and facts must stay.
    pub(super) fn lacks_input(&self, session: &SessionId) -> bool {
        self.has_unread(session) || self.sessions.loaded(session).is_some_and(|it| it.retained.lacks_facts)
    }

    /// Whether rows of a session depend on facts that are in no file.
    pub(super) fn needs_facts(&self, session: &SessionId) -> bool {
        let is_needed = |facts| matches!(facts, JoinedFacts::OfDeleted | JoinedFacts::OfCut);
        self.driver.is_cut(session)
            || self.sessions.loaded(session).is_some_and(|it| is_needed(it.retained.joined))
    }

    /// Returns the facts of a session as they are stored; `None` if the stored ones may have more.
    pub(super) fn facts_to_store(&self, session: &SessionId) -> Option<StoredFacts> {
        if self.lacks_input(session) {
            return None;
        }
        let facts = self.router.write_facts(session)?;
        let packed = StoredFacts::pack(session.clone(), self.needs_facts(session), &facts);
        self.store.read("the facts of a session", packed)
    }

    /// Stores the facts of all sessions in memory.
    pub(super) fn save_facts(&mut self) {
        let sessions = self.sessions.with_rows().map(|(session, _)| session);
        let facts: Vec<StoredFacts> = sessions.filter_map(|session| self.facts_to_store(session)).collect();
        if !facts.is_empty() && !self.store.has_failed_commit() {
            let _ = self.commit(Commit { facts, ..Commit::default() });
        }
    }
}
