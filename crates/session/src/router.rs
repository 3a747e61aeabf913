//! Routes observations of sources to their sessions.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use hashbrown::HashMap;
use slab::Slab;
use subscope_decode::{Decoder, Dialect, SUBAGENT_EVENTS, Unrecognized, UnrecognizedLines};
use subscope_model::{
    AgentId, Claim, Clock, Decoded, Event, EventKind, Fact, Millis, Observation, Problem, SessionDetail,
    SessionId, SessionKeys, SessionText, SourceId, SourceKind, SourcePosition, Tree,
};
use subscope_track::{FactDetail, HookCoverage, KeysCursor, Now, OwnedElsewhere};

use crate::{
    session::{Session, SessionUpdate},
    source::{HEAD_BYTES, OpenSource, SourceOrigin, SourceSpec, digest, needs_time, recognize_head},
};

/// Options of a [`SessionRouter`].
#[derive(Clone, Debug)]
pub struct RouterOptions {
    /// How much of call payloads is recorded.
    pub keep: FactDetail,
    /// Later observations are dropped.
    pub cutoff: Option<Millis>,
    /// Which events are recorded in addition to rows.
    pub events: EventScope,
}

/// Which events are recorded. What is not recorded takes no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventScope {
    /// None.
    #[default]
    Nothing,
    /// Waits: requests for permission and retries; also what follows from rows, as stalls.
    Waits,
    /// Prompts, messages and thoughts, for [`SessionRouter::texts`]: where they are, not what they say.
    Texts,
    /// All.
    All,
}

impl EventScope {
    /// Whether any event is recorded.
    pub(crate) fn is_any(self) -> bool {
        self != Self::Nothing
    }

    /// Whether the event of a fact is recorded.
    pub(crate) fn includes(self, fact: &Fact<'_>) -> bool {
        let is_text = matches!(fact, Fact::Prompt { .. } | Fact::Message { .. } | Fact::Thought { .. });
        let is_of_wait = matches!(
            fact,
            Fact::Permission { .. }
                | Fact::Note { kind: EventKind::PermissionRequest, .. }
                | Fact::Retry { .. }
                | Fact::Spawn(_)
                | Fact::AgentEnd(_)
        );
        match self {
            Self::Nothing => false,
            Self::Waits => is_of_wait,
            Self::Texts => is_text,
            Self::All => true,
        }
    }
}

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
    /// Receive time of the pushed bytes; `None` while existing content is read.
    received: Option<Millis>,
}

/// Sessions, in order of appearance.
#[derive(Default)]
struct SessionRoutes {
    all: Slab<Session>,
    by_id: HashMap<SessionId, usize>,
    /// Numbers of sessions with new input since [`SessionRouter::take_changed`].
    changed: BTreeSet<usize>,
    /// Problems of sources without a known session.
    unassigned_problems: Vec<Problem>,
    /// Lines of problems.
    unread_lines: UnreadLines,
    /// First problems since [`SessionRouter::take_problems`], and the number of all.
    new_problems: Vec<Problem>,
    new_problem_count: u64,
}

/// Most problems kept for [`SessionRouter::take_problems`]; the sender of a damaged file gets the first ones and the
/// number of all.
const MAX_NEW_PROBLEMS: usize = 100;

/// Lines that could not be read, by their problem. Truncated by the decoder, to 4 KiB each.
pub(crate) type UnreadLines = BTreeMap<Problem, String>;

/// Most lines kept in [`UnreadLines`]; the problems of others are published without their line.
const MAX_UNREAD_LINES: usize = 1_000;

/// Session id of sources that name none.
const UNNAMED: &str = "unnamed";

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
            received: None,
        }
    }

    /// Returns a group number that no source has.
    pub fn new_group(&mut self) -> u32 {
        self.next_group += 1;
        self.next_group - 1
    }

    /// Opens a source.
    pub fn open(&mut self, spec: SourceSpec) -> SourceId {
        self.next_group = self.next_group.max(spec.group.saturating_add(1));
        let slot = self.sources.vacant_entry();
        let id = SourceId(u32::try_from(slot.key()).unwrap_or(u32::MAX));
        slot.insert(OpenSource { id, dialect: spec.dialect, spec, ..OpenSource::default() });
        id
    }

    /// Sets the receive time of the bytes pushed next; `None` for content that existed before it was followed.
    pub fn receive_at(&mut self, time: Option<Millis>) {
        self.received = time;
    }

    /// Decodes a source's next bytes, cut anywhere.
    pub fn push(&mut self, source: SourceId, bytes: &[u8]) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if at.decoder.is_none() {
            if at.dialect.is_none() {
                at.head.extend_from_slice(bytes);
                at.dialect = recognize_head(&at.head, false);
            }
            let Some(dialect) = at.dialect else {
                if at.head.len() > HEAD_BYTES {
                    self.reject_head(source, true);
                }
                return;
            };
            at.start(dialect);
            if !at.head.is_empty() {
                let head = std::mem::take(&mut at.head);
                return self.decode(source, Some(&head));
            }
        }
        self.decode(source, Some(bytes));
    }

    /// Sets the position of a source's next line in its body, if earlier lines of the body went to other sources. Its
    /// dialect must be known.
    pub fn skip_to(&mut self, source: SourceId, line: u64, offset: u64) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if let (None, Some(dialect)) = (&at.decoder, at.dialect) {
            at.start(dialect);
        }
        if let Some(decoder) = &mut at.decoder {
            decoder.skip_to(line, offset);
        }
    }

    /// Decodes an unfinished last line at the end of a source.
    pub fn flush(&mut self, source: SourceId) {
        self.settle(source);
        self.decode(source, None);
    }

    /// Joins the new content of a rewritten object, if it contains everything that the old content reported. Else
    /// returns `false` and joins nothing: facts cannot be removed, so the caller must reload the session. Content that
    /// cannot be decoded removes nothing; it is joined as a problem.
    pub fn replace(&mut self, source: SourceId, bytes: &[u8]) -> bool {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return false };
        let Some(dialect) = at.dialect.filter(|dialect| dialect.is_object()) else { return false };
        let (mut reported, mut is_damaged) = (HashSet::new(), false);
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                reported.insert(digest(seen));
            }
            Decoded::Problem { .. } => is_damaged = true,
        };
        let mut decoder = dialect.decoder(&at.hint());
        decoder.push(bytes, &mut sink);
        decoder.flush(&mut sink);
        if !is_damaged && !at.observed.is_subset(&reported) {
            return false;
        }
        self.push(source, bytes);
        self.flush(source);
        true
    }

    /// Decodes the buffered head of a source that gets no bytes for now. If its dialect is not recognized, its lines
    /// become problems.
    fn settle(&mut self, source: SourceId) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if at.decoder.is_some() {
            return;
        }
        if !at.head.is_empty() {
            at.dialect = at.dialect.or_else(|| recognize_head(&at.head, true));
        }
        if let Some(dialect) = at.dialect {
            at.start(dialect);
            let head = std::mem::take(&mut at.head);
            self.decode(source, Some(&head));
        } else {
            self.reject_head(source, false);
        }
    }

    /// Reports the buffered lines of a source, from which its dialect was not recognized. Later lines may be
    /// recognized.
    fn reject_head(&mut self, source: SourceId, is_long: bool) {
        let Self { sources, groups, sessions, options, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let mut head = std::mem::take(&mut at.head);
        if is_long && let Some(end) = head.iter().rposition(|byte| *byte == b'\n') {
            at.head = head.split_off(end + 1);
        }
        let is_binary = at.unrecognized.is_none() && head.iter().take(8 << 10).any(|byte| *byte == 0);
        if is_binary {
            let problem =
                Problem { at: format!("{}:1", at.spec.label), what: "a binary file, not read".to_owned() };
            if is_long || !sessions.unassigned_problems.contains(&problem) {
                sessions.unassigned_problems.retain(|known| *known != problem);
                sessions.unassigned_problems.push(problem);
            }
            return;
        }
        let OpenSource { spec, session, unrecognized, id, .. } = at;
        let mut sink = |decoded: Decoded<'_, '_>| {
            if let Decoded::Problem { place, what, text } = decoded {
                let session = session.as_ref().or_else(|| groups.get(&spec.group));
                sessions.report(spec, session, options, place, what, text);
            }
        };
        let reader = unrecognized.get_or_insert_with(|| Unrecognized::new(*id, UnrecognizedLines::default()));
        reader.push(&head, &mut sink);
        if !is_long {
            reader.flush(&mut sink);
        }
    }

    fn decode(&mut self, source: SourceId, bytes: Option<&[u8]>) {
        let Self { options, sources, groups, sessions, received, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let OpenSource { id, spec, decoder, dialect, session, number: last, is_shared, observed, .. } = at;
        let (Some(decoder), Some(dialect)) = (decoder.as_mut(), *dialect) else { return };
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                if dialect.is_object() && !observed.insert(digest(seen)) {
                    return;
                }
                let is_same = seen.kind == SourceKind::Transcript
                    || seen.session.is_none()
                    || session.as_ref().map(SessionId::as_str) == seen.session;
                let number = match *last {
                    // All lines of a transcript belong to one session, whatever session they name.
                    Some(number) if is_same => number,
                    _ => sessions.route(seen, spec, dialect, groups, session, options),
                };
                let Some(target) = sessions.all.get_mut(number) else { return };
                if *last != Some(number) {
                    *is_shared |= last.is_some();
                    *last = Some(number);
                    target.add_source(*id);
                }
                let stamped;
                let seen = match *received {
                    Some(time) if seen.time.is_none() && needs_time(seen) => {
                        stamped = Observation { time: Some(time), clock: Clock::Receiver, ..seen.clone() };
                        &stamped
                    }
                    _ => seen,
                };
                if let (Claim::Agent(agent, _), Fact::Spawn(_), Some(at)) =
                    (seen.claim, &seen.fact, *received)
                    && dialect == SUBAGENT_EVENTS
                {
                    target.tracker.record_heard(agent, at);
                }
                if target.absorb(seen, dialect, spec, options.events) && options.events.is_any() {
                    sessions.changed.insert(number);
                }
            }
            Decoded::Problem { place, what, text } => {
                let session = session.as_ref().or_else(|| groups.get(&spec.group));
                sessions.report(spec, session, options, place, what, text);
            }
        };
        match bytes {
            Some(bytes) => decoder.push(bytes, &mut sink),
            None => decoder.flush(&mut sink),
        }
    }

    /// Returns the sessions. In order of appearance unless sessions were evicted.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        let known = self.sessions.all.iter().filter(|(_, session)| session.has_input());
        known.map(|(_, session)| session.tracker.session())
    }

    /// Returns whether a session's main thread was active in any source.
    pub fn has_root(&self, session: &SessionId) -> bool {
        self.session(session).is_some_and(|session| session.tracker.has_root())
    }

    /// Returns a session's keys after the cursor, and advances it; `None` for an unknown session.
    pub fn holdings(&self, session: &SessionId, cursor: &mut KeysCursor) -> Option<SessionKeys> {
        Some(self.session(session)?.tracker.session_keys(cursor))
    }

    /// Replaces the set of keys owned by sessions that began before this one; they are counted there.
    pub fn set_owned_elsewhere(&mut self, session: &SessionId, owned_elsewhere: OwnedElsewhere) {
        if let Some(session) = self.session_mut(session) {
            session.tracker.set_owned_elsewhere(owned_elsewhere);
        }
    }

    /// Returns whether hooks report a session, and whether they name agents.
    pub fn hooked(&self, session: &SessionId) -> HookCoverage {
        self.session(session).map_or(HookCoverage::No, |session| session.tracker.hooked())
    }

    /// Returns whether a program publishes what an agent of a session does.
    pub fn is_heard(&self, session: &SessionId, agent: &AgentId) -> bool {
        self.session(session).is_some_and(|session| session.tracker.is_heard(agent))
    }

    /// Evicts a session and its sources. `tailed` are the sources of its driver's files. Returns the closed sources;
    /// `None`, keeping the session, if it is unknown, if some of its input cannot be brought again (a stream, a file of
    /// another session, a source shared with another session), or if it has changes or events that were not taken.
    pub fn evict(&mut self, session: &SessionId, tailed: &[SourceId]) -> Option<BTreeSet<SourceId>> {
        let number = self.index_of(session)?;
        let has_untaken =
            self.sessions.changed.contains(&number) || self.session(session)?.has_pending_events();
        if has_untaken {
            return None;
        }
        let closed = self.close_sources(number, tailed)?;
        self.sessions.all.try_remove(number);
        self.sessions.by_id.remove(session);
        Some(closed)
    }

    /// Empties a session that is reloaded at once: closes its sources like [`SessionRouter::evict`], but drops changes
    /// and events that were not taken, as reloading brings them again, and remembers what was published. An unknown
    /// session has no sources.
    pub fn reset(&mut self, session: &SessionId, tailed: &[SourceId]) -> Option<BTreeSet<SourceId>> {
        let Some(number) = self.index_of(session) else { return Some(BTreeSet::new()) };
        let closed = self.close_sources(number, tailed)?;
        self.sessions.changed.remove(&number);
        if let Some(session) = self.sessions.all.get_mut(number) {
            session.reset(&self.options);
        }
        Some(closed)
    }

    /// Closes all sources of a session, and `tailed`. Returns them; `None`, closing none, if some of them cannot be
    /// brought again, or not for this session alone.
    fn close_sources(&mut self, number: usize, tailed: &[SourceId]) -> Option<BTreeSet<SourceId>> {
        let Self { sources, sessions, .. } = self;
        let session = sessions.all.get(number)?;
        let source = |id: &SourceId| sources.get(id.0 as usize);
        let comes_again = |id: &SourceId| {
            source(id).is_some_and(|source| {
                !source.is_shared
                    && match source.spec.origin {
                        SourceOrigin::Stream => false,
                        SourceOrigin::TailedFile => tailed.contains(id),
                        SourceOrigin::File | SourceOrigin::Inbox => true,
                    }
            })
        };
        let is_foreign = |id: &SourceId| {
            source(id).and_then(|source| source.number).is_some_and(|touched| touched != number)
        };
        if !session.sources().iter().all(comes_again) || tailed.iter().any(is_foreign) {
            return None;
        }
        let closed: BTreeSet<SourceId> = session.sources().iter().chain(tailed).copied().collect();
        // Backwards: the free places are taken again from the last freed, and sources without times keep their order.
        for id in closed.iter().rev() {
            sources.try_remove(id.0 as usize);
        }
        Some(closed)
    }

    /// Joins another router that has read other sources. Adds the number of sources here to its source numbers. Neither
    /// may have evicted a session.
    pub fn join(&mut self, other: Self) {
        let base = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        let mut numbers = Vec::new();
        for (_, session) in other.sessions.all {
            let id = session.tracker.session().clone();
            let Self { sessions: SessionRoutes { all, by_id, .. }, options, .. } = self;
            let number =
                *by_id.entry(id.clone()).or_insert_with(|| all.insert(Session::new(id, None, options)));
            // Also an empty session: its sources are renumbered.
            if let Some(known) = all.get_mut(number) {
                known.join(session, base);
            }
            numbers.push(number);
        }
        let number = |old: usize| numbers.get(old).copied().unwrap_or(old);
        self.sessions.changed.extend(other.sessions.changed.into_iter().map(number));
        self.sessions.unassigned_problems.extend(other.sessions.unassigned_problems);
        self.sessions.unread_lines.extend(other.sessions.unread_lines);
        for (group, session) in other.groups {
            self.groups.entry(group).or_insert(session);
        }
        self.next_group = self.next_group.max(other.next_group);
        for (_, source) in other.sources {
            let id = SourceId(source.id.0 + base);
            self.sources.insert(OpenSource { id, number: source.number.map(number), ..source });
        }
    }

    /// Returns the sessions with new input since the last call. Empty unless [`RouterOptions::events`].
    pub fn take_changed(&mut self) -> Vec<SessionId> {
        let changed = std::mem::take(&mut self.sessions.changed);
        let sessions = changed.into_iter().filter_map(|number| self.sessions.all.get(number));
        sessions.map(|session| session.tracker.session().clone()).collect()
    }

    /// Returns the problems of sources without a known session.
    pub fn unassigned_problems(&self) -> &[Problem] {
        &self.sessions.unassigned_problems
    }

    /// Derives a session's tree for a moment; `None` for an unknown session. Problems of sources without a known
    /// session are added to every session.
    pub fn tree(&self, session: &SessionId, now: &Now<'_>) -> Option<Tree> {
        let mut derived = self.session(session)?.tracker.derive(now);
        add_problems(&mut derived.tree, &self.sessions.unassigned_problems);
        Some(derived.tree)
    }

    /// Derives a session's runs and responses for a moment; `None` for an unknown session.
    pub fn detail(&self, session: &SessionId, now: &Now<'_>) -> Option<SessionDetail> {
        Some(self.session(session)?.tracker.detail(now))
    }

    /// Derives a session for a moment: its tree, its new events since the last call in order, and its next deadline;
    /// `None` for an unknown session.
    pub fn update(&mut self, session: &SessionId, now: &Now<'_>) -> Option<SessionUpdate> {
        let number = self.index_of(session)?;
        let SessionRoutes { all, unassigned_problems, unread_lines, .. } = &mut self.sessions;
        let session = all.get_mut(number).filter(|session| session.has_input())?;
        Some(session.update(now, unassigned_problems, unread_lines))
    }

    /// Returns a session's whole feed in order of time; events without a time follow their predecessor. Only for a
    /// session without an [`SessionRouter::update`] before.
    pub fn whole_feed(&mut self, session: &SessionId, now: &Now<'_>) -> Vec<Event> {
        let number = self.index_of(session);
        let SessionRoutes { all, unassigned_problems, unread_lines, .. } = &mut self.sessions;
        let session = number.and_then(|number| all.get_mut(number));
        session.map(|session| session.whole_feed(now, unassigned_problems, unread_lines)).unwrap_or_default()
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
        self.sessions.all.get(number).map(|session| session.tracker.session())
    }

    /// Returns the dialect of a source, once it is known.
    pub fn dialect(&self, source: SourceId) -> Option<Dialect> {
        self.sources.get(source.0 as usize).and_then(|at| at.dialect)
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

impl SessionRoutes {
    /// Takes a problem of a source; it is its session's if that is known.
    fn report(
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

    /// Records a problem for [`SessionRouter::take_problems`].
    fn record_new_problem(&mut self, problem: &Problem) {
        self.new_problem_count += 1;
        if self.new_problems.len() < MAX_NEW_PROBLEMS {
            self.new_problems.push(problem.clone());
        }
    }

    /// Returns the number of an observation's session, adding it if new.
    fn route(
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
        let number = self.all.insert(Session::new(named.clone(), dialect.harness(), options));
        self.by_id.insert(named, number);
        number
    }
}
