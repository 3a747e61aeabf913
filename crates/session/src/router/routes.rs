//! Sessions of a router, and which of them an observation or a problem of a source belongs to.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use hashbrown::HashMap;
use slab::Slab;
use subscope_decode::Dialect;
use subscope_model::{Observation, Problem, SessionId, SourceKind, SourcePosition};

use super::{RouterOptions, eviction::SuspendedFeeds};
use crate::{session::Session, source::SourceSpec};

/// Sessions, in order of appearance.
#[derive(Default)]
pub(super) struct SessionRoutes {
    pub(super) all: Slab<Session>,
    pub(super) by_id: HashMap<SessionId, usize>,
    /// What was published of evicted sessions.
    pub(super) suspended: SuspendedFeeds,
    /// Numbers of sessions with new input since [`take_changed`](super::SessionRouter::take_changed).
    pub(super) changed: BTreeSet<usize>,
    /// Problems of sources without a known session.
    pub(super) unassigned_problems: Vec<Problem>,
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
const UNNAMED: &str = "unnamed";

impl SessionRoutes {
    /// Takes a problem of a source; it is its session's if that is known.
    pub(super) fn report(
        &mut self,
        spec: &SourceSpec,
        session: Option<&SessionId>,
        options: &RouterOptions,
        place: SourcePosition,
        what: Cow<'_, str>,
        text: &str,
    ) {
        let problem = Problem { at: format!("{}:{}", spec.label, place.line), what: what.into_owned() };
        // A line before the first that names a session belongs to one that is still unknown.
        let named = session.filter(|session| session.as_str() != UNNAMED);
        let number = named.and_then(|id| self.by_id.get(id)).copied();
        if options.events.is_any() {
            self.changed.extend(number);
            self.record_new_problem(&problem);
            if !text.is_empty() && self.unread_lines.len() < MAX_UNREAD_LINES {
                self.unread_lines.insert(problem.clone(), text.to_owned());
            }
        }
        match number.and_then(|number| self.all.get_mut(number)) {
            Some(session) => session.tracker.problem(problem),
            None => self.unassigned_problems.push(problem),
        }
    }

    /// Records a problem for [`take_problems`](super::SessionRouter::take_problems).
    fn record_new_problem(&mut self, problem: &Problem) {
        self.new_problem_count += 1;
        if self.new_problems.len() < MAX_NEW_PROBLEMS {
            self.new_problems.push(problem.clone());
        }
    }

    /// Returns the number of an observation's session, adding it if new.
    pub(super) fn route(
        &mut self,
        seen: &Observation<'_>,
        spec: &SourceSpec,
        dialect: Dialect,
        groups: &mut HashMap<u32, SessionId>,
        session: &mut Option<SessionId>,
        options: &RouterOptions,
    ) -> usize {
        let is_file = seen.kind == SourceKind::Transcript;
        // A transcript belongs to its group's session, even if it has lines copied from another.
        let fixed = if is_file { groups.get(&spec.group).cloned().or_else(|| session.clone()) } else { None };
        let named = match (&fixed, seen.session) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(named)) => match session {
                Some(known) if known.as_str() == named => known.clone(),
                _ => named.into(),
            },
            (None, None) => session.clone().unwrap_or_else(|| UNNAMED.into()),
        };
        if session.as_ref() != Some(&named) {
            *session = Some(named.clone());
        }
        if dialect.is_main() {
            groups.entry(spec.group).or_insert_with(|| named.clone());
        }
        if let Some(known) = self.by_id.get(&named) {
            if let (Some(harness), Some(session)) = (dialect.harness(), self.all.get_mut(*known)) {
                session.tracker.set_harness(harness);
            }
            return *known;
        }
        let feed = self.suspended.take(&named);
        let number = self.all.insert(Session::new(named.clone(), dialect.harness(), options, feed));
        self.by_id.insert(named, number);
        number
    }
}
