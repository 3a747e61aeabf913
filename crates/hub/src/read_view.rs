//! What a question sees: the stored rows with the unsaved ones of the hub in front of them.
//!
//! Answers include everything that was acknowledged before the question: what the store lacks of it is in the overlay.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use subscope_model::{
    AgentId, AgentName, Event, HITS_SCHEMA, Hits, IdMatches, Looks, Millis, Problem, SearchQuery, SessionId,
    SessionPage, SessionRow, Stats, StatsQuery, Tree, Zone,
};
use subscope_query::{ListQuery, Queries, QueryError, QueryResult};
use subscope_store::{Access, History, OpenError, StoreError, TextIndex};

use crate::{event_loop::FullTextLocation, search::search};

/// Most agents looked at for an id or id prefix. Ids are random; a copied session has the same ones.
pub(crate) const MAX_AGENTS_PER_ID: usize = 100;

/// Time during which the same failure is not reported again.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Failed reads of all threads: counted, logged, and kept until they are reported as problems.
#[derive(Clone, Default)]
pub(crate) struct ReadFailures(Arc<Mutex<FailureCounts>>);

#[derive(Default)]
struct FailureCounts {
    count: u64,
    unreported: Option<String>,
    reported: Option<(String, Instant)>,
}

impl ReadFailures {
    /// Returns the result of a read; on failure records the error and returns `None`. `what` names what was read.
    pub(crate) fn read<T>(&self, what: &str, outcome: Result<T, StoreError>) -> Option<T> {
        outcome.map_err(|error| self.note(what, &error)).ok()
    }

    fn note(&self, what: &str, error: &StoreError) {
        let text = format!("cannot read {what}: {}", describe(error));
        tracing::warn!("{text}");
        self.update(|failures| {
            failures.count += 1;
            failures.unreported.get_or_insert(text);
        });
    }

    /// Number of reads that failed.
    pub(crate) fn count(&self) -> u64 {
        self.update(|failures| failures.count)
    }

    /// Takes the first failure since the last call, unless the same one was reported a short time ago.
    pub(crate) fn take_problem(&self, now: Instant) -> Option<Problem> {
        self.update(|failures| {
            let what = failures.unreported.take()?;
            let is_recent =
                |(text, at): &(String, Instant)| *text == what && now.duration_since(*at) < REPORT_EVERY;
            if failures.reported.as_ref().is_some_and(is_recent) {
                return None;
            }
            failures.reported = Some((what.clone(), now));
            Some(Problem { at: "store".to_owned(), what })
        })
    }

    fn update<T>(&self, change: impl FnOnce(&mut FailureCounts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The message of a store error followed by its causes.
pub(crate) fn describe(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Rows of the hub that are not saved, at the moment of a question. Cheap to clone: trees are shared.
#[derive(Clone, Default)]
pub(crate) struct RowOverlay {
    /// Unsaved rows in order of their ids, with the time since which they count as kept.
    pub(crate) unsaved: Vec<(Millis, Arc<Tree>)>,
    /// Rows in memory that the question is about; saved ones included.
    pub(crate) held: Vec<Arc<Tree>>,
    /// Last sequence number of the change log.
    pub(crate) seq: u64,
}

/// Read access to rows, events and texts.
pub(crate) struct ReadView<'a> {
    /// `None` if it could not be opened, which is recorded already: all reads of it fail.
    pub(crate) store: Option<&'a dyn History>,
    pub(crate) overlay: &'a RowOverlay,
    pub(crate) texts: Option<&'a FullTextLocation>,
    pub(crate) failures: &'a ReadFailures,
}

impl ReadView<'_> {
    /// Reads from the store; `None` if that fails, which is recorded.
    pub(crate) fn read<T>(
        &self,
        what: &str,
        read: impl FnOnce(&dyn History) -> Result<T, StoreError>,
    ) -> Option<T> {
        self.failures.read(what, read(self.store?))
    }

    fn unsaved(&self) -> impl Iterator<Item = &Tree> {
        self.overlay.unsaved.iter().map(|(_, tree)| &**tree)
    }

    fn unsaved_ids(&self) -> HashSet<&SessionId> {
        self.unsaved().map(|tree| &tree.session.id).collect()
    }

    /// Returns a session's rows as last published.
    pub(crate) fn tree(&self, session: &SessionId) -> Option<Tree> {
        let held = self.overlay.held.iter().map(|tree| &**tree);
        let in_memory = held.chain(self.unsaved()).find(|tree| tree.session.id == *session);
        in_memory.cloned().or_else(|| self.stored_tree(session))
    }

    /// Returns a session's stored rows.
    pub(crate) fn stored_tree(&self, session: &SessionId) -> Option<Tree> {
        self.read("a session's rows", |store| store.tree(session)).flatten()
    }

    /// Lists sessions, merging unsaved rows into the stored list.
    pub(crate) fn list(&self, query: &ListQuery) -> Vec<SessionRow> {
        let unsaved = &self.overlay.unsaved;
        let more = ListQuery { limit: query.limit.saturating_add(unsaved.len()), ..query.clone() };
        let mut all = self.read("the list of sessions", |store| store.list(&more)).unwrap_or_default();
        let is_unsaved = self.unsaved_ids();
        all.retain(|row| !is_unsaved.contains(&row.id));
        // Unsaved rows count as kept since their first unsaved change.
        let unsaved =
            unsaved.iter().map(|(at, tree)| SessionRow { kept_at_ms: Some(*at), ..SessionRow::of(tree) });
        query.select(all.into_iter().chain(unsaved))
    }

    /// Sessions by id prefix: unsaved ones first, then stored ones.
    fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> Vec<SessionId> {
        let stored = self.read("session ids", |store| store.sessions_with_prefix(prefix, limit));
        let stored = stored.unwrap_or_default();
        // A session that is not stored at all has just begun.
        let ids = self.unsaved().map(|tree| &tree.session.id);
        let new = ids.filter(|session| session.starts_with(prefix) && !stored.contains(session));
        let new: Vec<SessionId> = new.cloned().collect();
        new.into_iter().chain(stored).take(limit).collect()
    }

    /// Agents by id prefix, including those of unsaved sessions.
    fn agents_with_prefix(&self, prefix: &str, limit: usize) -> Vec<(SessionId, AgentId)> {
        let mut all = Vec::new();
        for tree in self.unsaved() {
            let named = tree.agents.iter().map(|row| &row.id);
            let named = named.filter(|id| !id.is_root() && id.starts_with(prefix));
            all.extend(named.map(|agent| (tree.session.id.clone(), agent.clone())));
        }
        let stored = self.read("agent ids", |store| store.agents_with_prefix(prefix, limit));
        let is_unsaved = self.unsaved_ids();
        all.extend(stored.unwrap_or_default().into_iter().filter(|(id, _)| !is_unsaved.contains(id)));
        all.truncate(limit);
        all
    }

    /// Agents by words, those of unsaved sessions first.
    fn agents_with_words(&self, words: &str, limit: usize) -> Vec<AgentName> {
        let mut all: Vec<AgentName> =
            self.unsaved().flat_map(|tree| AgentName::found_in(tree, words)).collect();
        let stored = self.read("agents", |store| store.agents_with_words(words, limit));
        let is_unsaved = self.unsaved_ids();
        all.extend(
            stored.unwrap_or_default().into_iter().filter(|name| !is_unsaved.contains(&name.session_id)),
        );
        all.truncate(limit);
        all
    }

    /// Returns the sessions that have an agent of an id.
    pub(crate) fn sessions_of_agent(&self, agent: &AgentId) -> Vec<SessionId> {
        let candidates = self.agents_with_prefix(agent.as_str(), MAX_AGENTS_PER_ID);
        candidates.into_iter().filter(|(_, id)| id == agent).map(|(session, _)| session).collect()
    }

    /// Returns at most `limit` events after a number that were logged before the question; `None` if the change log does
    /// not reach back there.
    pub(crate) fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Option<Vec<Event>> {
        // A number that was never assigned belongs to another change log.
        if seq > self.overlay.seq {
            return None;
        }
        let events = self.read("the change log", |store| store.events_after(seq, session, limit));
        let mut events = events.flatten()?;
        events.retain(|event| event.seq <= self.overlay.seq);
        Some(events)
    }
}

/// Answers of a hub. Failed reads are recorded; the answer lacks what could not be read.
pub(crate) struct HubAnswers<'a> {
    pub(crate) view: &'a ReadView<'a>,
    /// Zone whose days are counted where a question names none.
    pub(crate) zone: &'a Zone,
}

impl Queries for HubAnswers<'_> {
    fn sessions(&mut self, query: &ListQuery) -> QueryResult<SessionPage> {
        query.page(|query| Ok(self.view.list(query)))
    }

    fn tree(&mut self, session: &SessionId) -> QueryResult<Option<Tree>> {
        Ok(self.view.tree(session))
    }

    fn looks(&mut self) -> QueryResult<Looks> {
        let looks = self.view.read("what the user has seen", |store| store.looks());
        looks.ok_or_else(|| QueryError::failed("the store cannot be read"))
    }

    fn names(&mut self, prefix: &str, limit: usize) -> QueryResult<IdMatches> {
        let sessions = self.view.sessions_with_prefix(prefix, limit);
        Ok(IdMatches::of(sessions, self.view.agents_with_prefix(prefix, limit)))
    }

    fn agents_with_words(&mut self, words: &str, limit: usize) -> QueryResult<IdMatches> {
        Ok(IdMatches::of_agents(self.view.agents_with_words(words, limit)))
    }

    fn stats(&mut self, query: &StatsQuery) -> QueryResult<Stats> {
        let query =
            StatsQuery { time_zone: query.time_zone.as_ref().or(Some(self.zone)).cloned(), ..query.clone() };
        let unsaved: Vec<&Tree> = self.view.unsaved().collect();
        let stats = self.view.read("the figures", |store| store.stats_with(&query, &unsaved));
        stats.ok_or_else(|| QueryError::failed("the store cannot be read"))
    }

    /// The index is opened for each query: another process writes it and may rebuild it.
    fn search(&mut self, query: &SearchQuery) -> QueryResult<Hits> {
        let at = self.view.texts.ok_or(QueryError::NoFullText)?;
        let texts = match TextIndex::open(&at.folder, Access::Read) {
            Ok(texts) => texts,
            // It is being built: no hits yet.
            Err(OpenError::Missing(_)) => return Ok(Hits { schema: HITS_SCHEMA.into(), ..Hits::default() }),
            Err(_) => return Err(QueryError::NoFullText),
        };
        let unsaved: Vec<&Tree> = self.view.unsaved().collect();
        let search = |store: &dyn History| search(store, &unsaved, &texts, &at.archive, query);
        self.view.read("the full text", search).ok_or(QueryError::NoFullText)
    }
}
