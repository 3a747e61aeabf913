//! The loader of past sessions: reads them from files, archive and inbox, and decides when their stored rows stand in for
//! what was read.

use std::collections::HashMap;

use subscope_collect::Expanded;
use subscope_model::{Agent, Millis, SessionId, ToolUseId, Tree};
use subscope_session::{Dialect, EventScope, FactDetail, Now, RouterOptions};
use subscope_store::{SessionQueries, SqliteStore, StoreError};

use crate::{
    batch::BatchRead,
    session_sources::{SessionSources, has_lost_an_end, has_more_than},
};

/// Sessions that were read from their sources.
pub struct ReadHistory {
    /// What was read. Other input is added to it before that of the inbox.
    pub batch: BatchRead,
    sessions: Vec<PastSession>,
    /// Time of the rows; `None` for now.
    at: Option<Millis>,
    /// Whether rows are wanted, and a file could not be read.
    lacks_files: bool,
}

/// A session whose sources are read.
struct PastSession {
    sources: SessionSources,
    /// Its stored rows, if its sources are incomplete or may be.
    stored: Option<Tree>,
    /// Whether its sources are complete.
    is_whole: bool,
}

/// Rows of a session, and what they are from.
pub struct HistoryRows {
    /// The rows. Where they are stored ones, the calls that were read have their arguments and results.
    pub tree: Tree,
    /// What they are from.
    pub source: RowsSource,
}

/// What the rows of a session are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsSource {
    /// Its sources: they are complete.
    Sources,
    /// The store: its rows hold more than the sources that are left. What these say in texts can be read.
    StoreAndSources,
    /// The store: nothing can be read of its sources.
    Store,
}

impl ReadHistory {
    /// Reads a session.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read_session(
        sources: SessionSources,
        options: RouterOptions,
        store: Option<&SqliteStore>,
    ) -> Result<Self, StoreError> {
        let others = Expanded { groups: Vec::new(), skipped: Vec::new() };
        let mut history = Self::read_files(vec![sources], others, options, None, store)?;
        history.join_inbox(store)?;
        Ok(history)
    }

    /// Reads the files of sessions, and others.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read_files(
        sources: Vec<SessionSources>,
        others: Expanded,
        options: RouterOptions,
        dialect: Option<Dialect>,
        store: Option<&SqliteStore>,
    ) -> Result<Self, StoreError> {
        // Where texts are wanted, what is left of a damaged file is more than rows.
        let wants_rows = options.keep == FactDetail::Rows && options.events == EventScope::Nothing;
        let (mut files, mut sessions) = (others, Vec::new());
        for mut sources in sources {
            let is_doubtful = sources.has_less() || wants_rows && sources.may_be_less();
            let stored = if is_doubtful { stored_tree(store, sources.session())? } else { None };
            let is_whole = sources.is_whole();
            files = files.merge(sources.take_files());
            sessions.push(PastSession { sources, stored, is_whole });
        }
        let at = options.cutoff;
        let batch = BatchRead::read(files, options, dialect);
        let lacks_files = wants_rows && !batch.problems.is_empty();
        Ok(Self { batch, sessions, at, lacks_files })
    }

    /// Adds the inbox input of the sessions, and the keys that other sessions own.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn join_inbox(&mut self, store: Option<&SqliteStore>) -> Result<(), StoreError> {
        for PastSession { sources, .. } in &self.sessions {
            sources.join_to(&mut self.batch, store)?;
        }
        for PastSession { sources, stored, .. } in &mut self.sessions {
            // A file that cannot be read, or of which nothing is understood any more, takes nothing away from what it once
            // said.
            if stored.is_none() && (self.lacks_files || !self.batch.has_session(sources.session())) {
                *stored = stored_tree(store, sources.session())?;
            }
        }
        Ok(())
    }

    /// Returns the stored rows of a session that may stand in for what was read, and whether its sources are complete.
    fn stored(&self, session: &SessionId) -> Option<(&Tree, bool)> {
        let past = self.sessions.iter().find(|past| past.sources.session() == session)?;
        Some((past.stored.as_ref()?, past.is_whole))
    }

    /// Whether anything is known of a session.
    pub fn has_session(&self, session: &SessionId) -> bool {
        self.batch.has_session(session) || self.stored(session).is_some()
    }

    /// Returns a session's rows; `None` if it is empty.
    pub fn rows(&self, session: &SessionId, now: &Now<'_>) -> Option<HistoryRows> {
        let read = self.batch.router.tree(session, now);
        let has_more = |(stored, is_whole): &(&Tree, bool)| {
            let is_less = |read: &Tree| self.at.is_none() && stand_in_for(stored, read);
            !is_whole || read.as_ref().is_none_or(is_less)
        };
        let Some((stored, _)) = self.stored(session).filter(has_more) else {
            return read.map(|tree| HistoryRows { tree, source: RowsSource::Sources });
        };
        let mut tree = stored.clone();
        let source = match read.filter(has_texts) {
            Some(read) => {
                take_payloads(&mut tree, read);
                RowsSource::StoreAndSources
            }
            None => RowsSource::Store,
        };
        Some(HistoryRows { tree, source })
    }
}

/// Whether some text was read of a session.
fn has_texts(read: &Tree) -> bool {
    read.session.runs > 0 || read.agents.iter().any(|row| row.messages > 0 || !row.tools.is_empty())
}

/// Takes the arguments and results of calls that were read into stored rows, which have none.
fn take_payloads(stored: &mut Tree, read: Tree) {
    let calls = read.agents.into_iter().flat_map(|row| row.tools);
    // A forked agent has the calls of its parent, too.
    let payloads: HashMap<ToolUseId, _> =
        calls.filter_map(|call| Some((call.id?, (call.input, call.result)))).collect();
    for call in stored.agents.iter_mut().flat_map(|row| &mut row.tools) {
        if let Some(found) = call.id.as_ref().and_then(|id| payloads.get(id)) {
            (call.input, call.result) = found.clone();
        }
    }
}

fn stored_tree(store: Option<&SqliteStore>, session: &SessionId) -> Result<Option<Tree>, StoreError> {
    Ok(store.map(|store| store.tree(session)).transpose()?.flatten())
}

/// Whether stored rows stand in for those of a session whose sources may be less than they were: they have more, know its
/// agents for longer, or how one of them ended.
fn stand_in_for(stored: &Tree, read: &Tree) -> bool {
    has_more_than(stored, read) || known_ms(stored) > known_ms(read) || has_lost_an_end(stored, read)
}

/// How long the agents of a session are known in all: each from its beginning to the session's last event.
fn known_ms(tree: &Tree) -> i64 {
    let last = tree.session.ended_at_ms;
    let known = |row: &Agent| Some(last?.saturating_sub(row.started_at_ms?).max(0));
    tree.agents.iter().filter_map(known).fold(0, i64::saturating_add)
}
