//! Routes observations of sources to their sessions, and derives rows and events of each.

mod eviction;
mod input;
mod options;
mod routes;
mod traces;

use hashbrown::HashMap;
use slab::Slab;
use subscope_decode::Dialect;
use subscope_model::{
    AgentId, Event, EventRecord, Millis, Problem, SessionDetail, SessionId, SessionKeys, SessionText,
    SourceId, Tree, WorkTree,
};
use subscope_track::{HookCoverage, KeysCursor, Now, OwnedElsewhere};

pub use self::options::{EventScope, RouterOptions};
use self::routes::SessionRoutes;
pub(crate) use self::routes::UnreadLines;
pub use self::traces::TraceMove;
use self::traces::TracePlaces;
use crate::{
    feed::SessionFeed,
    session::{Session, SessionUpdate},
    source::OpenSource,
};

/// Number of the first source of stored facts: above those of all open sources.
const STORED_SOURCES: u32 = 1 << 24;

/// Decodes sources into their sessions.
pub struct SessionRouter {
    options: RouterOptions,
    /// Open sources by their number, [`SourceId`].
    sources: Slab<OpenSource>,
    /// Session that the transcripts of each group named first.
    groups: HashMap<u32, SessionId>,
    /// Number above those of all groups.
    next_group: u32,
    sessions: SessionRoutes,
    traces: TracePlaces,
    /// Receive time of the pushed bytes; `None` while existing content is read.
    received: Option<Millis>,
    /// Finds the linked work tree that a working directory is in.
    find_work_tree: Option<WorkTreeFinder>,
}

/// Returns the linked work tree that a working directory is in.
pub type WorkTreeFinder = fn(cwd: &str) -> Option<WorkTree>;

impl SessionRouter {
    /// Creates a router without sources.
    pub fn new(options: RouterOptions) -> Self {
        Self {
            options,
            sources: Slab::new(),
            groups: HashMap::new(),
            // 0 is the group of sources that name none.
            next_group: 1,
            sessions: SessionRoutes::default(),
            traces: TracePlaces::default(),
            received: None,
            find_work_tree: None,
        }
    }

    /// Looks up the work tree of each working directory: a session belongs to its project.
    #[must_use]
    pub fn with_work_trees(self, find: WorkTreeFinder) -> Self {
        Self { find_work_tree: Some(find), ..self }
    }

    /// Returns a group number that no source has.
    pub fn new_group(&mut self) -> u32 {
        self.next_group += 1;
        self.next_group - 1
    }

    /// Returns the sessions. In order of appearance unless sessions were evicted.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        let known = self.sessions.all.iter().filter(|(_, session)| session.has_input());
        known.map(|(_, session)| session.id())
    }

    /// Returns whether a session's main thread was active in any source.
    pub fn has_root(&self, session: &SessionId) -> bool {
        self.session(session).is_some_and(|session| session.facts().has_root())
    }

    /// Returns a session's keys after the cursor, and advances it; `None` for an unknown session.
    pub fn holdings(&self, session: &SessionId, cursor: &mut KeysCursor) -> Option<SessionKeys> {
        Some(self.session(session)?.own_facts().session_keys(cursor))
    }

    /// Replaces the set of keys owned by sessions that began before this one; they are counted there.
    pub fn set_owned_elsewhere(&mut self, session: &SessionId, owned_elsewhere: OwnedElsewhere) {
        if let Some(session) = self.session_mut(session) {
            session.own_facts_mut().set_owned_elsewhere(owned_elsewhere);
        }
    }

    /// Returns whether hooks report a session, and whether they name agents.
    pub fn hooked(&self, session: &SessionId) -> HookCoverage {
        self.session(session).map_or(HookCoverage::No, |session| session.own_facts().hooked())
    }

    /// Returns whether a program publishes what an agent of a session does.
    pub fn is_heard(&self, session: &SessionId, agent: &AgentId) -> bool {
        self.session(session).is_some_and(|session| session.own_facts().is_heard(agent))
    }

    /// Joins another router that has read other sources. Adds the number of sources here to its source numbers. Neither
    /// may have evicted a session.
    pub fn join(&mut self, other: Self) {
        let base = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        let mut numbers = Vec::new();
        for (_, session) in other.sessions.all {
            let id = session.id().clone();
            let Self { sessions: SessionRoutes { all, by_id, .. }, options, .. } = self;
            let new = || all.insert(Session::new(id.clone(), options, SessionFeed::default()));
            let number = *by_id.entry(id.clone()).or_insert_with(new);
            // Also an empty session: its sources are renumbered.
            if let Some(known) = all.get_mut(number) {
                known.join(session, base);
            }
            numbers.push(number);
        }
        let number = |old: usize| numbers.get(old).copied().unwrap_or(old);
        self.sessions.changed.extend(other.sessions.changed.into_iter().map(number));
        let waiting = other.sessions.unassigned.into_iter();
        self.sessions.unassigned.extend(waiting.map(|(source, all)| (SourceId(source.0 + base), all)));
        self.sessions.unowned.extend(other.sessions.unowned);
        self.sessions.unread_lines.extend(other.sessions.unread_lines);
        for (group, session) in other.groups {
            self.groups.entry(group).or_insert(session);
        }
        self.next_group = self.next_group.max(other.next_group);
        for (_, source) in other.sources {
            let id = SourceId(source.id.0 + base);
            self.sources.insert(OpenSource { id, number: source.number.map(number), ..source });
        }
        self.join_places(other.traces);
    }

    /// Returns the sessions with new input since the last call. Empty unless [`RouterOptions::events`].
    pub fn take_changed(&mut self) -> Vec<SessionId> {
        let changed = std::mem::take(&mut self.sessions.changed);
        let sessions = changed.into_iter().filter_map(|number| self.sessions.all.get(number));
        sessions.map(|session| session.id().clone()).collect()
    }

    /// Returns the problems that belong to no session.
    pub fn unassigned_problems(&self) -> Vec<Problem> {
        let mut problems = self.sessions.unowned.clone();
        problems
            .extend(self.waiting_problems().filter(|(owner, _)| owner.is_none()).map(|(_, problem)| problem));
        problems
    }

    /// Returns the problems of sources without a known session that now belong to this one.
    fn problems_of(&self, session: &SessionId) -> Vec<Problem> {
        let own = self.waiting_problems().filter(|(owner, _)| owner.as_ref() == Some(session));
        own.map(|(_, problem)| problem).collect()
    }

    /// Returns the problems of sources of which no session was known, each with the session that it belongs to by now.
    fn waiting_problems(&self) -> impl Iterator<Item = (Option<SessionId>, Problem)> {
        let is_known = |id: &SessionId| self.session(id).is_some();
        self.sessions.unassigned.iter().flat_map(move |(source, problems)| {
            let at = self.sources.get(source.0 as usize);
            problems.iter().map(move |waiting| {
                let owner = at.and_then(|at| {
                    let unnamed = || Some(self.sessions.all.get(at.number?)?.id());
                    let first =
                        at.first.as_ref().or_else(|| self.groups.get(&at.spec.group)).or_else(unnamed);
                    at.spec.owner_of(waiting, first, &is_known)
                });
                (owner, waiting.problem.clone())
            })
        })
    }

    /// Derives a session's tree for a moment; `None` for an unknown session.
    pub fn tree(&self, session: &SessionId, now: &Now<'_>) -> Option<Tree> {
        let mut derived = self.session(session)?.facts().derive(now);
        add_problems(&mut derived.tree, &self.problems_of(session));
        Some(derived.tree)
    }

    /// Derives a session's runs and responses for a moment; `None` for an unknown session.
    pub fn detail(&self, session: &SessionId, now: &Now<'_>) -> Option<SessionDetail> {
        Some(self.session(session)?.facts().detail(now))
    }

    /// Derives a session for a moment: its tree, its new events since the last call in order, and its next deadline;
    /// `None` for an unknown session.
    pub fn update(&mut self, session: &SessionId, now: &Now<'_>) -> Option<SessionUpdate> {
        self.update_events(session, now, false)
    }

    /// Derives a session as [`SessionRouter::update`] does, after all its content up to now was read: no event waits
    /// for another source to report it better.
    pub fn update_settled(&mut self, session: &SessionId, now: &Now<'_>) -> Option<SessionUpdate> {
        self.update_events(session, now, true)
    }

    fn update_events(
        &mut self,
        session: &SessionId,
        now: &Now<'_>,
        is_settled: bool,
    ) -> Option<SessionUpdate> {
        let (number, problems) = (self.index_of(session)?, self.problems_of(session));
        let SessionRoutes { all, unread_lines, .. } = &mut self.sessions;
        let session = all.get_mut(number).filter(|session| session.has_input())?;
        Some(session.update(now, is_settled, &problems, unread_lines))
    }

    /// Returns whether events of a session were published since the router was created, also if it is evicted.
    pub fn has_published(&self, session: &SessionId) -> bool {
        match self.index_of(session).and_then(|number| self.sessions.all.get(number)) {
            Some(session) => session.has_published(),
            None => self.sessions.suspended.contains(session),
        }
    }

    /// Returns a session's whole feed in order of time; events without a time follow their predecessor. Only for a
    /// session without an [`SessionRouter::update`] before. Complete with [`EventScope::All`].
    pub fn whole_feed(&mut self, session: &SessionId, now: &Now<'_>) -> Vec<Event> {
        self.records(session, now).into_iter().map(EventRecord::into_event).collect()
    }

    /// Returns a session's whole feed, as [`SessionRouter::whole_feed`] does, with what events of
    /// [`EventScope::Records`] have: the places of long texts.
    pub fn records(&mut self, session: &SessionId, now: &Now<'_>) -> Vec<EventRecord> {
        let (number, problems) = (self.index_of(session), self.problems_of(session));
        let SessionRoutes { all, unread_lines, .. } = &mut self.sessions;
        let session = number.and_then(|number| all.get_mut(number));
        session.map(|session| session.whole_feed(now, &problems, unread_lines)).unwrap_or_default()
    }

    /// Returns all prompts, messages and thoughts of a session, in order of time; complete with [`EventScope::Texts`].
    pub fn texts(&mut self, session: &SessionId, now: &Now<'_>) -> Vec<SessionText> {
        let number = self.index_of(session);
        let session = number.and_then(|number| self.sessions.all.get_mut(number));
        session.map(|session| session.texts(now)).unwrap_or_default()
    }

    /// Returns the time at which [`SessionRouter::update`] has events of a session without new input.
    pub fn next_event_at(&self, session: &SessionId) -> Option<Millis> {
        self.session(session)?.next_event_at()
    }

    /// Returns the session of a source's latest line.
    pub fn session_of(&self, source: SourceId) -> Option<&SessionId> {
        let number = self.sources.get(source.0 as usize)?.number?;
        self.sessions.all.get(number).map(|session| session.id())
    }

    /// Returns the sessions that a source's lines name, if those of its dialect name theirs; also those whose lines were
    /// left out ([`SourceSpec::only`](crate::SourceSpec::only)).
    pub fn named_in(&self, source: SourceId) -> impl Iterator<Item = &SessionId> {
        self.sources.get(source.0 as usize).into_iter().flat_map(|at| &at.named)
    }

    /// Returns the dialect of a source, once it is known.
    pub fn dialect(&self, source: SourceId) -> Option<Dialect> {
        self.sources.get(source.0 as usize).and_then(|at| at.dialect)
    }

    /// Returns the facts that a session's transcripts reported, to be stored; `None` for an unknown session.
    pub fn write_facts(&self, session: &SessionId) -> Option<Vec<u8>> {
        // Facts have nothing that JSON cannot say.
        self.session(session)?.own_facts().write_facts().ok()
    }

    /// Joins stored facts of a session, parts of whose transcripts are gone. Returns whether they could be read.
    pub fn join_facts(&mut self, session: &SessionId, json: &[u8]) -> bool {
        let SessionRoutes { all, by_id, changed, suspended, .. } = &mut self.sessions;
        let mut new = || all.insert(Session::new(session.clone(), &self.options, suspended.take(session)));
        let number = *by_id.entry(session.clone()).or_insert_with(&mut new);
        let Some(known) = all.get_mut(number) else { return false };
        let is_joined = known.join_facts(json, STORED_SOURCES);
        if is_joined {
            changed.insert(number);
        }
        is_joined
    }

    /// Returns the first problems since the last call, and the number of all. Empty unless [`RouterOptions::events`].
    pub fn take_problems(&mut self) -> (Vec<Problem>, u64) {
        let count = std::mem::take(&mut self.sessions.new_problem_count);
        (std::mem::take(&mut self.sessions.new_problems), count)
    }

    fn session(&self, session: &SessionId) -> Option<&Session> {
        self.sessions.all.get(self.index_of(session)?).filter(|session| session.has_input())
    }

    fn session_mut(&mut self, session: &SessionId) -> Option<&mut Session> {
        self.sessions.all.get_mut(self.index_of(session)?)
    }

    fn index_of(&self, session: &SessionId) -> Option<usize> {
        self.sessions.by_id.get(session).copied()
    }
}

/// Adds problems to those of a tree, each once.
pub(crate) fn add_problems(tree: &mut Tree, problems: &[Problem]) {
    tree.problems.extend(problems.iter().cloned());
    tree.problems.sort();
    tree.problems.dedup();
}
