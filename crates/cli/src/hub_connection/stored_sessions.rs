//! Who answers questions without a hub: the store in this process, or nothing where no data folder is.

use subscope_collect::archive::Archive;
use subscope_hub::search::search;
use subscope_model::{
    Agent, Attention, HITS_SCHEMA, Hits, IdMatches, Looks, Millis, STATS_SCHEMA, SearchQuery, SessionId,
    SessionPage, SessionRow, SessionStatus, Stats, StatsQuery, Status, Tree,
};
use subscope_query::{ListQuery, Queries, QueryError, QueryResult};
use subscope_store::{History, SessionQueries, SqliteStore, TextIndex};

use crate::{
    command::target::{ReadOptions, load_session},
    context::Context,
};

/// The store, opened by this process alone or read while another process writes it.
pub(crate) struct StoredSessions {
    pub(super) store: SqliteStore,
    /// The full text, if it is needed.
    pub(super) texts: Option<(TextIndex, Archive)>,
    /// Rows are as they were when last written: no hub has marked silent sessions as lost. Those silent for longer are
    /// not at work.
    pub(super) silent_since: Millis,
}

impl Queries for StoredSessions {
    fn sessions(&mut self, query: &ListQuery) -> QueryResult<SessionPage> {
        let mut page = query.page(|query| self.store.list(query))?;
        page.sessions.iter_mut().for_each(unheard);
        page.sessions.retain(|row| !query.only_live || row.last_heard_ms.is_none());
        Ok(page)
    }

    fn tree(&mut self, session: &SessionId) -> QueryResult<Option<Tree>> {
        let tree = self.store.tree(session)?;
        Ok(match tree {
            Some(tree) if was_heard_at_work(&tree) => {
                let row = self.store.session_row(session)?;
                let heard = row.and_then(|row| row.kept_at_ms).or(tree.session.ended_at_ms);
                Some(tree.unheard(heard.unwrap_or(0)))
            }
            tree => tree,
        })
    }

    fn names(&mut self, prefix: &str, limit: usize) -> QueryResult<IdMatches> {
        let agents = self.store.agents_with_prefix(prefix, limit)?;
        Ok(IdMatches::of(self.store.sessions_with_prefix(prefix, limit)?, agents))
    }

    fn agents_with_words(&mut self, words: &str, limit: usize) -> QueryResult<IdMatches> {
        Ok(IdMatches::of_agents(self.store.agents_with_words(words, limit)?))
    }

    fn stats(&mut self, query: &StatsQuery) -> QueryResult<Stats> {
        Ok(self.store.stats(query)?)
    }

    fn search(&mut self, query: &SearchQuery) -> QueryResult<Hits> {
        let (texts, archive) = self.texts.as_ref().ok_or(QueryError::NoFullText)?;
        Ok(search(&self.store, &[], texts, archive, query)?)
    }

    fn live_sessions(&mut self, limit: usize) -> QueryResult<Vec<SessionRow>> {
        let rows = self.store.list(&ListQuery::live(limit))?.into_iter();
        // No hub hears another machine.
        Ok(rows
            .filter(|row| row.machine.is_none() && row.last_event_at_ms >= Some(self.silent_since))
            .collect())
    }

    fn looks(&mut self) -> QueryResult<Looks> {
        Ok(self.store.looks()?)
    }
}

/// Whether a session is of another machine, and was at work when its rows were stored: no hub hears it now.
fn was_heard_at_work(tree: &Tree) -> bool {
    let is_open = tree.session.machine.is_some() && tree.session.last_heard_ms.is_none();
    is_open && tree.agents.iter().any(Agent::is_at_work)
}

/// Marks a row of another machine, which no hub hears now.
fn unheard(row: &mut SessionRow) {
    if row.machine.is_some() && row.status == SessionStatus::Live {
        row.last_heard_ms = row.last_heard_ms.or(row.kept_at_ms).or(row.last_event_at_ms);
        (row.status, row.attention, row.need, row.running) =
            (SessionStatus::Ended, Attention::Ended, None, 0);
    }
}

/// There is no data folder, and none is created for a question.
pub(crate) struct UnstoredSessions<'c> {
    /// The sessions with a transcript: nothing else is known of them, unless one is named.
    pub(super) on_disk: Vec<SessionId>,
    pub(super) context: &'c Context,
}

impl Queries for UnstoredSessions<'_> {
    fn sessions(&mut self, query: &ListQuery) -> QueryResult<SessionPage> {
        Ok(SessionPage::of(Vec::new(), query.limit, query.order))
    }

    fn tree(&mut self, _: &SessionId) -> QueryResult<Option<Tree>> {
        Ok(None)
    }

    fn names(&mut self, prefix: &str, limit: usize) -> QueryResult<IdMatches> {
        let matching = self.on_disk.iter().filter(|session| session.starts_with(prefix));
        Ok(IdMatches::of(matching.take(limit).cloned().collect(), Vec::new()))
    }

    fn agents_with_words(&mut self, _: &str, _: usize) -> QueryResult<IdMatches> {
        Ok(IdMatches::of_agents(Vec::new()))
    }

    fn looks(&mut self) -> QueryResult<Looks> {
        Ok(Looks::default())
    }

    fn stats(&mut self, _: &StatsQuery) -> QueryResult<Stats> {
        Ok(Stats { schema: STATS_SCHEMA.into(), ..Stats::default() })
    }

    fn search(&mut self, _: &SearchQuery) -> QueryResult<Hits> {
        Ok(Hits { schema: HITS_SCHEMA.into(), ..Hits::default() })
    }

    fn status(&mut self, session: Option<&SessionId>, now: Millis) -> QueryResult<Status> {
        let read = |session| load_session(session, &ReadOptions::ROWS, self.context).ok();
        let tree = session.and_then(read).map(|loaded| loaded.tree);
        Ok(Status::of(tree.as_slice(), now))
    }
}
