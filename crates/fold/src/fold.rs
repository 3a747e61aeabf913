//! Routes observations of sources to the trackers of their sessions.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    hash::{DefaultHasher, Hasher},
};

use hashbrown::HashMap;
use subscope_decode::{Decoder, Dialect, Hint, Unrecognised};
use subscope_harness::{recognise, tool_class};
use subscope_model::{
    Claim, Clock, Decoded, Millis, Observation, Problem, SessionId, SessionKeys, SourceId, SourceKind,
    SourcePosition, Text, Tree,
};
use subscope_track::{Derived, FactDetail, Hooked, KeysCursor, Now, OwnedElsewhere, Tracker};

use crate::pending_event::{PendingEvent, to_pending_event};

/// Options of a [`Fold`].
#[derive(Clone, Debug)]
pub struct FoldOptions {
    /// How much of call payloads is recorded.
    pub keep: FactDetail,
    /// Later observations are dropped.
    pub cutoff: Option<Millis>,
    /// Whether events are recorded, not only rows.
    pub events: bool,
}

/// Description of a source to open.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    /// Display name, used in problems.
    pub label: String,
    /// Dialect; `None` to recognise it by content.
    pub dialect: Option<Dialect>,
    /// Sources of one group belong to one session, whatever their paths are.
    pub group: u32,
    /// Session that its path names.
    pub session: Option<String>,
    /// Agent that its path names.
    pub agent: Option<String>,
    /// Workflow that its path names.
    pub workflow: Option<String>,
    /// Whether its bytes can be read again at their offsets.
    pub can_reread: bool,
    /// Whether its bytes are stored by session outside the fold, so that they can be pushed again.
    pub is_kept: bool,
}

/// An open source.
#[derive(Default)]
struct OpenSource {
    spec: SourceSpec,
    id: SourceId,
    decoder: Option<Box<dyn Decoder>>,
    dialect: Option<Dialect>,
    /// Bytes buffered until the dialect is recognised.
    head: Vec<u8>,
    /// Counts lines read before the dialect was recognised.
    unrecognised: Option<Unrecognised>,
    /// Session named by the latest line that names one.
    session: Option<Text>,
    /// Tracker of the latest line.
    tracker: Option<usize>,
    /// Digests of its observations, if it is one object that its harness rewrites.
    observed: HashSet<u64>,
}

/// Decodes the sources of one or more sessions into their trackers.
pub struct Fold {
    options: FoldOptions,
    sources: Vec<OpenSource>,
    /// Numbers of evicted sources, for reuse.
    free: Vec<SourceId>,
    /// Session that the transcripts of each group named first.
    groups: HashMap<u32, Text>,
    sessions: SessionTrackers,
    /// Receive time of the pushed bytes; `None` while existing content is read.
    received: Option<Millis>,
}

/// Trackers of sessions, in order of appearance.
struct SessionTrackers {
    all: Vec<Tracker>,
    by_id: HashMap<Text, usize>,
    /// Numbers of evicted trackers, for reuse.
    free: Vec<usize>,
    /// SessionTrackers with input that can be neither read nor pushed again.
    unreloadable: BTreeSet<usize>,
    /// Events to publish, by session.
    pending_events: HashMap<usize, Vec<PendingEvent>>,
    /// SessionTrackers with new input since [`Fold::take_changed`].
    changed: BTreeSet<usize>,
    /// Problems of sources without a known session.
    unassigned_problems: Vec<Problem>,
    /// First problems since [`Fold::take_problems`], and the number of all.
    new_problems: Vec<Problem>,
    new_problem_count: u64,
}

/// Most problems kept for [`Fold::take_problems`]; the sender of a damaged file gets the first ones and the number of
/// all.
const MAX_NEW_PROBLEMS: usize = 100;

/// Most bytes buffered until a source's dialect is recognised.
const HEAD_BYTES: usize = 64 << 10;

/// Session id of sources that name none.
const UNNAMED: &str = "unnamed";

impl Fold {
    /// Creates a fold without sources.
    pub fn new(options: FoldOptions) -> Self {
        Self {
            options,
            sources: Vec::new(),
            free: Vec::new(),
            groups: HashMap::new(),
            sessions: SessionTrackers {
                all: Vec::new(),
                by_id: HashMap::new(),
                free: Vec::new(),
                unreloadable: BTreeSet::new(),
                pending_events: HashMap::new(),
                changed: BTreeSet::new(),
                unassigned_problems: Vec::new(),
                new_problems: Vec::new(),
                new_problem_count: 0,
            },
            received: None,
        }
    }

    /// Opens a source.
    pub fn open(&mut self, spec: SourceSpec) -> SourceId {
        let next = || SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        let id = self.free.pop().unwrap_or_else(next);
        let source = OpenSource { id, dialect: spec.dialect, spec, ..OpenSource::default() };
        match self.sources.get_mut(id.0 as usize) {
            Some(free) => *free = source,
            None => self.sources.push(source),
        }
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
                at.dialect = recognise_head(&at.head, false);
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

    /// Decodes the rest at the end of a source.
    pub fn flush(&mut self, source: SourceId) {
        self.settle(source);
        self.decode(source, None);
    }

    /// Joins the new content of a rewritten object, if it contains everything that the old content reported. Else returns
    /// `false` and joins nothing: facts cannot be removed, so the caller must reload the session. Content that cannot be
    /// decoded removes nothing; it is joined as a problem.
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

    /// Decodes the buffered head of a source that gets no bytes for now. If its dialect is not recognised, its lines become
    /// problems.
    fn settle(&mut self, source: SourceId) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if at.decoder.is_some() {
            return;
        }
        if !at.head.is_empty() {
            at.dialect = at.dialect.or_else(|| recognise_head(&at.head, true));
        }
        if let Some(dialect) = at.dialect {
            at.start(dialect);
            let head = std::mem::take(&mut at.head);
            self.decode(source, Some(&head));
        } else {
            self.reject_head(source, false);
        }
    }

    /// Reports the buffered lines of a source, whose dialect they do not tell. Later lines may tell it.
    fn reject_head(&mut self, source: SourceId, is_long: bool) {
        let Self { sources, groups, sessions, options, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let mut head = std::mem::take(&mut at.head);
        if is_long && let Some(end) = head.iter().rposition(|byte| *byte == b'\n') {
            at.head = head.split_off(end + 1);
        }
        let is_binary = at.unrecognised.is_none() && head.iter().take(8 << 10).any(|byte| *byte == 0);
        if is_binary {
            let problem =
                Problem { at: format!("{}:1", at.spec.label), what: "a binary file, not read".to_owned() };
            if is_long || !sessions.unassigned_problems.contains(&problem) {
                sessions.unassigned_problems.retain(|known| *known != problem);
                sessions.unassigned_problems.push(problem);
            }
            return;
        }
        let OpenSource { spec, session, unrecognised, id, .. } = at;
        let mut sink = |decoded: Decoded<'_, '_>| {
            if let Decoded::Problem { place, what, .. } = decoded {
                let session = session.as_ref().or_else(|| groups.get(&spec.group));
                sessions.report(spec, session, options, place, what);
            }
        };
        let reader = unrecognised.get_or_insert_with(|| Unrecognised::new(*id));
        reader.push(&head, &mut sink);
        if !is_long {
            reader.flush(&mut sink);
        }
    }

    fn decode(&mut self, source: SourceId, bytes: Option<&[u8]>) {
        let Self { options, sources, groups, sessions, received, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let OpenSource { spec, decoder, dialect, session, tracker: last, observed, .. } = at;
        let (Some(decoder), Some(dialect)) = (decoder.as_mut(), *dialect) else { return };
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                if dialect.is_object() && !observed.insert(digest(seen)) {
                    return;
                }
                let is_same = seen.kind == SourceKind::Transcript
                    || seen.session.is_none()
                    || session.as_deref() == seen.session;
                let tracker = match *last {
                    // All lines of a transcript belong to one session, whatever session they name.
                    Some(tracker) if is_same => tracker,
                    _ => sessions.route(seen, spec, dialect, groups, session, options),
                };
                if *last != Some(tracker) {
                    *last = Some(tracker);
                    if !spec.can_reread && !spec.is_kept {
                        sessions.unreloadable.insert(tracker);
                    }
                }
                let stamped;
                let seen = match *received {
                    Some(time) if seen.time.is_none() && needs_time(seen) => {
                        stamped = Observation { time: Some(time), clock: Clock::Receiver, ..seen.clone() };
                        &stamped
                    }
                    _ => seen,
                };
                let Some(known) = sessions.all.get_mut(tracker) else { return };
                let is_taken = known.absorb(seen);
                if is_taken && options.events {
                    sessions.changed.insert(tracker);
                    if let Some(event) = to_pending_event(seen, dialect) {
                        sessions.pending_events.entry(tracker).or_default().push(event);
                    }
                }
            }
            Decoded::Problem { place, what, .. } => {
                let session = session.as_ref().or_else(|| groups.get(&spec.group));
                sessions.report(spec, session, options, place, what);
            }
        };
        match bytes {
            Some(bytes) => decoder.push(bytes, &mut sink),
            None => decoder.flush(&mut sink),
        }
    }

    /// Returns the sessions. In order of appearance unless sessions were evicted.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        let is_known = |id: &&SessionId| self.sessions.by_id.contains_key(&id.0);
        self.sessions.all.iter().map(Tracker::session).filter(is_known)
    }

    /// Returns whether a session's main thread was active in any source.
    pub fn has_root(&self, session: &SessionId) -> bool {
        let number = self.sessions.by_id.get(&session.0);
        number.and_then(|number| self.sessions.all.get(*number)).is_some_and(Tracker::has_root)
    }

    /// Returns a session's keys after the cursor, and advances it; `None` for an unknown session.
    pub fn holdings(&self, session: &SessionId, cursor: &mut KeysCursor) -> Option<SessionKeys> {
        Some(self.tracker(self.index_of(session)?)?.session_keys(cursor))
    }

    /// Replaces the set of keys owned by sessions that began before this one; they are counted there.
    pub fn set_owned_elsewhere(&mut self, session: &SessionId, owned_elsewhere: OwnedElsewhere) {
        let number = self.index_of(session);
        if let Some(tracker) = number.and_then(|number| self.sessions.all.get_mut(number)) {
            tracker.set_owned_elsewhere(owned_elsewhere);
        }
    }

    /// Returns whether hooks report a session, and whether they name agents.
    pub fn hooked(&self, session: &SessionId) -> Hooked {
        let tracker = self.index_of(session).and_then(|number| self.tracker(number));
        tracker.map_or(Hooked::No, Tracker::hooked)
    }

    /// Evicts a session and its sources, which can be opened and read again from their beginning. Returns `false` and
    /// keeps it if its input cannot be reloaded, if sources are shared with another session or missing in `sources`, or
    /// if it has changes or events that were not taken.
    pub fn evict(&mut self, session: &SessionId, sources: &[SourceId]) -> bool {
        let Some(number) = self.index_of(session) else { return false };
        let sessions = &self.sessions;
        let has_untaken = sessions.changed.contains(&number) || sessions.pending_events.contains_key(&number);
        !has_untaken && self.remove_session(session, number, sources)
    }

    /// Evicts a session that is reloaded at once: like [`Fold::evict`], but drops changes and events that were not
    /// taken, as reloading brings them again. Returns `true` for an unknown session.
    pub fn reset(&mut self, session: &SessionId, sources: &[SourceId]) -> bool {
        let Some(number) = self.index_of(session) else { return true };
        let is_removed = self.remove_session(session, number, sources);
        if is_removed {
            self.sessions.changed.remove(&number);
            self.sessions.pending_events.remove(&number);
        }
        is_removed
    }

    fn remove_session(&mut self, session: &SessionId, number: usize, sources: &[SourceId]) -> bool {
        let Self { sources: known, sessions, options, free, .. } = self;
        let is_own = |source: &OpenSource| sources.contains(&source.id);
        let is_mixed = known.iter().any(|source| match source.tracker {
            Some(tracker) => (tracker == number) != is_own(source),
            None => false,
        });
        if is_mixed || sessions.unreloadable.contains(&number) {
            return false;
        }
        for SourceId(source) in sources {
            if let Some(source) = known.get_mut(*source as usize) {
                *source = OpenSource { id: source.id, ..OpenSource::default() };
                free.push(source.id);
            }
        }
        sessions.by_id.remove(&session.0);
        if let Some(tracker) = sessions.all.get_mut(number) {
            *tracker = Tracker::new(SessionId::from(""), None, options.keep, options.cutoff);
            sessions.free.push(number);
        }
        true
    }

    /// Joins another fold that has read other sources. Adds the number of sources here to its source numbers.
    pub fn join(&mut self, other: Self) {
        let base = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        let mut numbers = Vec::new();
        for tracker in other.sessions.all {
            let id = tracker.session().0.clone();
            if !other.sessions.by_id.contains_key(&id) {
                // An evicted session.
                numbers.push(usize::MAX);
                continue;
            }
            match self.sessions.by_id.get(&id).copied() {
                Some(number) => {
                    if let Some(known) = self.sessions.all.get_mut(number) {
                        known.join(tracker, base);
                    }
                    numbers.push(number);
                }
                None => {
                    // Join to an empty tracker, so that its sources are renumbered.
                    let number = self.sessions.all.len();
                    let mut own =
                        Tracker::new(SessionId(id.clone()), None, self.options.keep, self.options.cutoff);
                    own.join(tracker, base);
                    self.sessions.all.push(own);
                    self.sessions.by_id.insert(id, number);
                    numbers.push(number);
                }
            }
        }
        let number = |old: usize| numbers.get(old).copied().unwrap_or(old);
        for (old, pending_events) in other.sessions.pending_events {
            self.sessions.pending_events.entry(number(old)).or_default().extend(pending_events);
        }
        self.sessions.changed.extend(other.sessions.changed.into_iter().map(number));
        self.sessions.unreloadable.extend(other.sessions.unreloadable.into_iter().map(number));
        self.sessions.unassigned_problems.extend(other.sessions.unassigned_problems);
        for (group, session) in other.groups {
            self.groups.entry(group).or_insert(session);
        }
        self.free.extend(other.free.into_iter().map(|id| SourceId(id.0 + base)));
        self.sources.extend(other.sources.into_iter().map(|source| OpenSource {
            id: SourceId(source.id.0 + base),
            tracker: source.tracker.map(number),
            ..source
        }));
    }

    /// Returns the sessions with new input since the last call. Empty unless [`FoldOptions::events`].
    pub fn take_changed(&mut self) -> Vec<SessionId> {
        let changed = std::mem::take(&mut self.sessions.changed);
        changed.into_iter().filter_map(|number| self.tracker(number)).map(|it| it.session().clone()).collect()
    }

    /// Returns the problems of sources without a known session.
    pub fn unassigned_problems(&self) -> &[Problem] {
        &self.sessions.unassigned_problems
    }

    /// Derives a session's tree for a moment; `None` for an unknown session.
    pub fn tree(&self, session: &SessionId, now: &Now<'_>) -> Option<Tree> {
        self.derive(session, now).map(|derived| derived.tree)
    }

    /// Derives a session's tree and the attribution of its events; `None` for an unknown session. Problems of sources
    /// without a known session are added to every session.
    pub(crate) fn derive(&self, session: &SessionId, now: &Now<'_>) -> Option<Derived<'_>> {
        let mut derived = self.tracker(self.index_of(session)?)?.derive(now);
        let problems = &mut derived.tree.problems;
        problems.extend(self.sessions.unassigned_problems.iter().cloned());
        problems.sort();
        problems.dedup();
        Some(derived)
    }

    /// Returns the label of a source, and whether its bytes can be read again.
    pub fn source(&self, source: SourceId) -> Option<(&str, bool)> {
        self.sources.get(source.0 as usize).map(|at| (at.spec.label.as_str(), at.spec.can_reread))
    }

    /// Returns the session of a source's latest line.
    pub fn session_of(&self, source: SourceId) -> Option<&SessionId> {
        let tracker = self.sources.get(source.0 as usize)?.tracker?;
        self.tracker(tracker).map(Tracker::session)
    }

    /// Returns the dialect of a source, once it is known.
    pub fn dialect(&self, source: SourceId) -> Option<Dialect> {
        self.sources.get(source.0 as usize).and_then(|at| at.dialect)
    }

    /// Returns the pending events of a session since the last call.
    pub(crate) fn take_pending_events(&mut self, session: &SessionId) -> Vec<PendingEvent> {
        let number = self.index_of(session);
        number.and_then(|number| self.sessions.pending_events.remove(&number)).unwrap_or_default()
    }

    /// Returns the first problems since the last call, and the number of all. Empty unless [`FoldOptions::events`].
    pub fn take_problems(&mut self) -> (Vec<Problem>, u64) {
        let count = std::mem::take(&mut self.sessions.new_problem_count);
        (std::mem::take(&mut self.sessions.new_problems), count)
    }

    fn tracker(&self, number: usize) -> Option<&Tracker> {
        self.sessions.all.get(number)
    }

    fn index_of(&self, session: &SessionId) -> Option<usize> {
        self.sessions.by_id.get(&session.0).copied()
    }
}

impl OpenSource {
    fn start(&mut self, dialect: Dialect) {
        self.dialect = Some(dialect);
        let mut decoder = dialect.decoder(&self.hint());
        if let Some(before) = self.unrecognised.take() {
            let (line, offset) = before.next_line();
            decoder.skip_to(line, offset);
        }
        self.decoder = Some(decoder);
    }

    fn hint(&self) -> Hint {
        Hint {
            source: self.id,
            session: self.spec.session.clone(),
            agent: self.spec.agent.clone(),
            workflow: self.spec.workflow.clone(),
            tool_class,
        }
    }
}

/// Returns a digest of an observation with its position.
fn digest(seen: &Observation<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{seen:?}").as_bytes());
    hasher.finish()
}

/// Recognises a dialect once a whole line stands there, or nothing more will come.
fn recognise_head(head: &[u8], is_all: bool) -> Option<Dialect> {
    let whole = head.iter().rposition(|byte| *byte == b'\n').map(|end| head.get(..end).unwrap_or_default());
    match whole {
        Some(lines) => recognise(lines),
        None if is_all || head.len() > HEAD_BYTES => recognise(head),
        None => None,
    }
}

/// Whether an observation without a time gets the receive time: hooks and old streams have no times.
fn needs_time(seen: &Observation<'_>) -> bool {
    matches!(seen.kind, SourceKind::Hook | SourceKind::Stream) || matches!(seen.claim, Claim::Silent)
}

impl SessionTrackers {
    /// Takes a problem of a source; it is its session's if that is known.
    fn report(
        &mut self,
        spec: &SourceSpec,
        session: Option<&Text>,
        options: &FoldOptions,
        place: SourcePosition,
        what: Cow<'_, str>,
    ) {
        let problem = Problem { at: format!("{}:{}", spec.label, place.line), what: what.into_owned() };
        let tracker = session.and_then(|id| self.by_id.get(id)).copied();
        if options.events {
            self.changed.extend(tracker);
            self.record_new_problem(&problem);
        }
        match tracker.and_then(|number| self.all.get_mut(number)) {
            Some(tracker) => tracker.problem(problem),
            None => self.unassigned_problems.push(problem),
        }
    }

    /// Records a problem for [`Fold::take_problems`].
    fn record_new_problem(&mut self, problem: &Problem) {
        self.new_problem_count += 1;
        if self.new_problems.len() < MAX_NEW_PROBLEMS {
            self.new_problems.push(problem.clone());
        }
    }

    /// Returns the number of the tracker of an observation's session, adding it if new.
    fn route(
        &mut self,
        seen: &Observation<'_>,
        spec: &SourceSpec,
        dialect: Dialect,
        groups: &mut HashMap<u32, Text>,
        session: &mut Option<Text>,
        options: &FoldOptions,
    ) -> usize {
        let is_file = seen.kind == SourceKind::Transcript;
        // A transcript belongs to its group's session, even if it has lines copied from another.
        let fixed = if is_file { groups.get(&spec.group).cloned().or_else(|| session.clone()) } else { None };
        let named = match (&fixed, seen.session) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(named)) => match session {
                Some(known) if &**known == named => known.clone(),
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
            if let (Some(harness), Some(tracker)) = (dialect.harness(), self.all.get_mut(*known)) {
                tracker.set_harness(harness);
            }
            return *known;
        }
        let tracker = Tracker::new(SessionId(named.clone()), dialect.harness(), options.keep, options.cutoff);
        let free = self.free.pop().and_then(|number| Some((number, self.all.get_mut(number)?)));
        let number = match free {
            Some((number, slot)) => {
                *slot = tracker;
                number
            }
            None => {
                self.all.push(tracker);
                self.all.len() - 1
            }
        };
        self.by_id.insert(named, number);
        number
    }
}
