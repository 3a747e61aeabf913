//! Sessions of a router, and which of them an observation or a problem of a source belongs to.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use hashbrown::HashMap;
use slab::Slab;
use subscope_decode::{Dialect, LineSession};
use subscope_model::{Observation, Problem, SessionId, SourceId, SourceKind, SourcePosition};

use super::{RouterOptions, eviction::SuspendedFeeds};
use crate::{
    session::Session,
    source::{SourceOrigin, SourceSpec},
};

/// Sessions, in order of appearance.
#[derive(Default)]
pub(super) struct SessionRoutes {
    pub(super) all: Slab<Session>,
    pub(super) by_id: HashMap<SessionId, usize>,
    /// What was published of evicted sessions.
    pub(super) suspended: SuspendedFeeds,
    /// Numbers of sessions with new input since [`take_changed`](super::SessionRouter::take_changed).
    pub(super) changed: BTreeSet<usize>,
    /// Problems of sources of which no session is known yet.
    pub(super) unassigned: BTreeMap<SourceId, Vec<UnassignedProblem>>,
    /// Problems of bodies that no session was read from: they belong to no session.
    pub(super) unowned: Vec<Problem>,
    /// Lines of problems.
    pub(super) unread_lines: UnreadLines,
    /// First problems since [`take_problems`](super::SessionRouter::take_problems), and the number of all.
    pub(super) new_problems: Vec<Problem>,
    pub(super) new_problem_count: u64,
}

/// Most problems kept for [`take_problems`](super::SessionRouter::take_problems); the sender of a damaged file gets
/// the first ones and the number of all.
const MAX_NEW_PROBLEMS: usize = 100;

/// Lines that could not be read, by their problem. Truncated by the decoder, to 4 KiB each.
pub(crate) type UnreadLines = BTreeMap<Problem, String>;

/// Most lines kept in [`UnreadLines`]; the problems of others are published without their line.
const MAX_UNREAD_LINES: usize = 1_000;

/// Session id of sources that name none.
pub(super) const UNNAMED: &str = "unnamed";

/// Most problems kept that belong to no session: programs may post noise for ever.
const MAX_UNOWNED: usize = 1_000;

/// A problem of a source of which no session is known yet.
#[derive(Clone)]
pub(super) struct UnassignedProblem {
    /// Session that its line names.
    pub(super) named: Option<SessionId>,
    pub(super) problem: Problem,
}

/// The source of a problem.
pub(super) struct ProblemSource<'a> {
    pub(super) id: SourceId,
    pub(super) spec: &'a SourceSpec,
    pub(super) dialect: Option<Dialect>,
    /// Session of the lines before it.
    pub(super) before: Option<&'a SessionId>,
    /// Sessions of the groups of sources.
    pub(super) groups: &'a HashMap<u32, SessionId>,
}

impl SourceSpec {
    /// Returns the session of a problem of a source that begins with lines of the session `first`, if it is known.
    pub(super) fn owner_of(
        &self,
        problem: &UnassignedProblem,
        first: Option<&SessionId>,
        is_known: &dyn Fn(&SessionId) -> bool,
    ) -> Option<SessionId> {
        let by_path = || self.session.as_deref().map(SessionId::from).filter(is_known);
        let owner = problem.named.clone().or_else(|| by_path().or_else(|| first.cloned()));
        owner.filter(is_known)
    }
}

impl SessionRoutes {
    /// Takes a problem of a source. It belongs to the session that its line names, else to the one that the source's path
    /// names, else to that of the lines before it; if that is not known yet, it waits for it.
    pub(super) fn report(
        &mut self,
        source: ProblemSource<'_>,
        options: &RouterOptions,
        place: SourcePosition,
        what: Cow<'_, str>,
        text: &str,
    ) {
        let ProblemSource { id, spec, dialect, before, groups } = source;
        let named = match dialect.map(|dialect| dialect.line_session(text.as_bytes())) {
            Some(LineSession::Named(session)) => Some(SessionId::from(session.as_str())),
            Some(LineSession::Same | LineSession::Unknown) | None => None,
        };
        if let (Some(named), Some(only)) = (&named, &spec.only)
            && named != only
        {
            return;
        }
        let problem = Problem { at: format!("{}:{}", spec.label, place.line), what: what.into_owned() };
        if options.events.is_any() {
            self.record_new_problem(&problem);
            if !text.is_empty() && self.unread_lines.len() < MAX_UNREAD_LINES {
                self.unread_lines.insert(problem.clone(), text.to_owned());
            }
        }
        // The sessions of a body are known at its end.
        let is_body = spec.origin == SourceOrigin::Inbox;
        let by_path = || dialect.filter(|dialect| dialect.names_session()).and(spec.session.as_deref());
        let of_source = || match by_path() {
            Some(session) => self.by_id.get(&SessionId::from(session)),
            None => before.or_else(|| groups.get(&spec.group)).and_then(|session| self.by_id.get(session)),
        };
        let number = match &named {
            Some(named) => self.by_id.get(named),
            None if is_body => None,
            None => of_source(),
        };
        let unnamed = self.by_id.get(&SessionId::from(UNNAMED)).copied();
        match number.copied().filter(|number| Some(*number) != unnamed) {
            Some(number) => self.assign(number, problem, options),
            None => self.unassigned.entry(id).or_default().push(UnassignedProblem { named, problem }),
        }
    }

    /// Adds a problem to a session.
    pub(super) fn assign(&mut self, number: usize, problem: Problem, options: &RouterOptions) {
        if let Some(session) = self.all.get_mut(number) {
            session.own_facts_mut().problem(problem);
            if options.events.is_any() {
                self.changed.insert(number);
            }
        }
    }

    /// Adds a problem that belongs to no session; the oldest ones are dropped beyond [`MAX_UNOWNED`].
    pub(super) fn add_unowned(&mut self, problem: Problem) {
        if self.unowned.len() >= MAX_UNOWNED {
            self.unowned.remove(0);
        }
        self.unowned.push(problem);
    }

    /// Records a problem for [`take_problems`](super::SessionRouter::take_problems).
    fn record_new_problem(&mut self, problem: &Problem) {
        self.new_problem_count += 1;
        if self.new_problems.len() < MAX_NEW_PROBLEMS {
            self.new_problems.push(problem.clone());
        }
    }

    /// Returns the number of an observation's session, adding it if new; `None` if the source leaves its lines out.
    pub(super) fn route(
        &mut self,
        seen: &Observation<'_>,
        spec: &SourceSpec,
        dialect: Dialect,
        groups: &mut HashMap<u32, SessionId>,
        session: &mut Option<SessionId>,
        options: &RouterOptions,
    ) -> Option<usize> {
        let is_file = seen.kind == SourceKind::Transcript && !dialect.names_session();
        // Lines that name no session of their own belong to that of their group.
        let fixed = if is_file { groups.get(&spec.group).cloned().or_else(|| session.clone()) } else { None };
        let named = match (&fixed, seen.session) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(named)) => match session {
                Some(known) if known.as_str() == named => known.clone(),
                _ => named.into(),
            },
            (None, None) => {
                let by_group = groups.get(&spec.group).filter(|_| seen.kind == SourceKind::Transcript);
                by_group.or(session.as_ref()).cloned().unwrap_or_else(|| UNNAMED.into())
            }
        };
        if dialect.names_session() && spec.only.as_ref().is_some_and(|only| *only != named) {
            return None;
        }
        if session.as_ref() != Some(&named) {
            *session = Some(named.clone());
        }
        if dialect.is_main() {
            groups.entry(spec.group).or_insert_with(|| named.clone());
        }
        let number = match self.by_id.get(&named) {
            Some(known) => *known,
            None => {
                let feed = self.suspended.take(&named);
                let number = self.all.insert(Session::new(named.clone(), options, feed));
                self.by_id.insert(named, number);
                number
            }
        };
        if let (Some(harness), Some(session)) = (dialect.harness(), self.all.get_mut(number)) {
            session.own_facts_mut().set_harness(harness, dialect.is_shared());
        }
        Some(number)
    }
}
