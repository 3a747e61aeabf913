//! Routes what sources say to the trackers of their sessions.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    hash::{DefaultHasher, Hasher},
};

use hashbrown::HashMap;
use subscope_decode::{Decoder, Dialect, Hint, Unrecognised};
use subscope_harness::{recognise, tool_class};
use subscope_model::{
    Claim, Clock, Decoded, Millis, Observation, Place, Problem, SessionId, SessionKeys, SourceId, SourceKind,
    Text, Tree,
};
use subscope_track::{Hooked, Keep, KeysCursor, Now, OwnedElsewhere, Tracker};

use crate::draft::{PendingEvent, draft};

/// How a fold is done.
#[derive(Clone, Debug)]
pub struct FoldOptions {
    /// What is kept of payloads.
    pub keep: Keep,
    /// Everything later is dropped.
    pub cutoff: Option<Millis>,
    /// Whether events are wanted and not only rows.
    pub events: bool,
}

/// A source, before its content is known.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    /// Its name for people, as in problems.
    pub label: String,
    /// Its dialect; `None` where its content has to tell.
    pub dialect: Option<Dialect>,
    /// Sources of one group are of one session, whatever their paths are called.
    pub group: u32,
    /// The session that its path names.
    pub session: Option<String>,
    /// The agent that its path names.
    pub agent: Option<String>,
    /// The workflow that its path names.
    pub workflow: Option<String>,
    /// Whether its bytes can be read again at their offsets.
    pub can_reread: bool,
    /// Whether its bytes are kept elsewhere, by session, and can be pushed again.
    pub is_kept: bool,
}

/// A source that is being read.
#[derive(Default)]
struct Source {
    spec: SourceSpec,
    id: SourceId,
    decoder: Option<Box<dyn Decoder>>,
    dialect: Option<Dialect>,
    /// Bytes held back until they tell the dialect.
    head: Vec<u8>,
    /// Reads what came before the dialect was known and did not tell it.
    unrecognised: Option<Unrecognised>,
    /// The session that the last line with one named.
    session: Option<Text>,
    /// The tracker that the last line went to, for lines of the same session.
    tracker: Option<usize>,
    /// Digests of what it has said, where it is one object that its harness writes anew now and then.
    said: HashSet<u64>,
}

/// The sources of one or more sessions, folded.
pub struct Fold {
    options: FoldOptions,
    sources: Vec<Source>,
    /// Sources that were let go; those that are opened next get their numbers.
    free: Vec<SourceId>,
    /// The session that each group's transcripts named first.
    groups: HashMap<u32, Text>,
    sessions: Sessions,
    /// When bytes without times were received; `None` while what stood there before is read.
    received: Option<Millis>,
}

/// The trackers by session, in order of appearance.
struct Sessions {
    all: Vec<Tracker>,
    by_id: HashMap<Text, usize>,
    /// Numbers of trackers that were let go; the next session gets one of them.
    free: Vec<usize>,
    /// Numbers of sessions that were told of by bytes that cannot be read again.
    told_once: BTreeSet<usize>,
    /// What happened, by the number of its session.
    pending_events: HashMap<usize, Vec<PendingEvent>>,
    /// Numbers of sessions that were told something since they were last asked for.
    changed: BTreeSet<usize>,
    /// Problems of sources whose session is not known yet.
    homeless: Vec<Problem>,
    /// Problems since they were last asked for, and how many there were of them.
    fresh: Vec<Problem>,
    fresh_count: u64,
}

/// How many problems are kept until somebody asks what was wrong of late. Whoever hands over a damaged file is told the
/// first ones and the number of the rest.
const FRESH_PROBLEMS: usize = 100;

/// How many bytes are held back at most until a source's dialect is known.
const HEAD_BYTES: usize = 64 << 10;

/// The session of sources that name none.
const UNNAMED: &str = "unnamed";

impl Fold {
    /// A fold without sources.
    pub fn new(options: FoldOptions) -> Self {
        Self {
            options,
            sources: Vec::new(),
            free: Vec::new(),
            groups: HashMap::new(),
            sessions: Sessions {
                all: Vec::new(),
                by_id: HashMap::new(),
                free: Vec::new(),
                told_once: BTreeSet::new(),
                pending_events: HashMap::new(),
                changed: BTreeSet::new(),
                homeless: Vec::new(),
                fresh: Vec::new(),
                fresh_count: 0,
            },
            received: None,
        }
    }

    /// Adds a source.
    pub fn open(&mut self, spec: SourceSpec) -> SourceId {
        let next = || SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        let id = self.free.pop().unwrap_or_else(next);
        let source = Source { id, dialect: spec.dialect, spec, ..Source::default() };
        match self.sources.get_mut(id.0 as usize) {
            Some(free) => *free = source,
            None => self.sources.push(source),
        }
        id
    }

    /// Says when the bytes that come now are received; `None` for what stood there before anybody looked.
    pub fn receive_at(&mut self, time: Option<Millis>) {
        self.received = time;
    }

    /// Takes a source's next bytes, cut anywhere.
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

    /// Says where a source's next line stands in its body, where lines before it went to other sources. Its dialect must be
    /// known.
    pub fn skip_to(&mut self, source: SourceId, line: u64, offset: u64) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if let (None, Some(dialect)) = (&at.decoder, at.dialect) {
            at.start(dialect);
        }
        if let Some(decoder) = &mut at.decoder {
            decoder.skip_to(line, offset);
        }
    }

    /// Says that no bytes will follow.
    pub fn flush(&mut self, source: SourceId) {
        self.settle(source);
        self.decode(source, None);
    }

    /// Takes the whole content that a small object was replaced by, where that says all that the object said before: what it says
    /// beyond is joined. Returns whether it does. Where it does not, nothing is taken: facts cannot be taken back, so that its
    /// session has to be folded anew. Content that cannot be decoded takes nothing back either; it is a problem.
    pub fn replace(&mut self, source: SourceId, bytes: &[u8]) -> bool {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return false };
        let Some(dialect) = at.dialect.filter(|dialect| dialect.is_object()) else { return false };
        let (mut says, mut is_damaged) = (HashSet::new(), false);
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                says.insert(digest(seen));
            }
            Decoded::Problem { .. } => is_damaged = true,
        };
        let mut fresh = dialect.decoder(&at.hint());
        fresh.push(bytes, &mut sink);
        fresh.flush(&mut sink);
        if !is_damaged && !at.said.is_subset(&says) {
            return false;
        }
        self.push(source, bytes);
        self.flush(source);
        true
    }

    /// Decodes what is held back of a source of which no bytes will follow for now. Where it does not tell its dialect, its lines
    /// become problems.
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

    /// Reports the lines held back of a source that do not tell its dialect. What comes later may tell it.
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
            if is_long || !sessions.homeless.contains(&problem) {
                sessions.homeless.retain(|known| *known != problem);
                sessions.homeless.push(problem);
            }
            return;
        }
        let Source { spec, session, unrecognised, id, .. } = at;
        let mut sink = |decoded: Decoded<'_, '_>| {
            if let Decoded::Problem { place, what, .. } = decoded {
                sessions.report(
                    spec,
                    session.as_ref().or_else(|| groups.get(&spec.group)),
                    options,
                    place,
                    what,
                );
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
        let Source { spec, decoder, dialect, session, tracker: last, said, .. } = at;
        let (Some(decoder), Some(dialect)) = (decoder.as_mut(), *dialect) else { return };
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                if dialect.is_object() && !said.insert(digest(seen)) {
                    return;
                }
                let is_same = seen.kind == SourceKind::Transcript
                    || seen.session.is_none()
                    || session.as_deref() == seen.session;
                let tracker = match *last {
                    // A transcript is of one session, whatever its later lines say.
                    Some(tracker) if is_same => tracker,
                    _ => sessions.route(seen, spec, dialect, groups, session, options),
                };
                if *last != Some(tracker) {
                    *last = Some(tracker);
                    if !spec.can_reread && !spec.is_kept {
                        sessions.told_once.insert(tracker);
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
                    if let Some(draft) = draft(seen, dialect) {
                        sessions.pending_events.entry(tracker).or_default().push(draft);
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

    /// The sessions seen so far, in order of appearance.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        let is_known = |id: &&SessionId| self.sessions.by_id.contains_key(&id.0);
        self.sessions.all.iter().map(Tracker::session).filter(is_known)
    }

    /// Whether anything was heard of a session's main thread.
    pub fn has_root(&self, session: &SessionId) -> bool {
        let number = self.sessions.by_id.get(&session.0);
        number.and_then(|number| self.sessions.all.get(*number)).is_some_and(Tracker::has_root)
    }

    /// Returns what a session holds beyond what was told, and moves `told` on; `None` for an unknown session.
    pub fn holdings(&self, session: &SessionId, told: &mut KeysCursor) -> Option<SessionKeys> {
        Some(self.tracker(self.number(session)?)?.holdings(told))
    }

    /// Says what sessions that began before this one hold: it counts there. It replaces what was said before.
    pub fn set_owned_elsewhere(&mut self, session: &SessionId, elsewhere: OwnedElsewhere) {
        let number = self.number(session);
        if let Some(tracker) = number.and_then(|number| self.sessions.all.get_mut(number)) {
            tracker.set_owned_elsewhere(elsewhere);
        }
    }

    /// What hooks have told of a session.
    pub fn hooked(&self, session: &SessionId) -> Hooked {
        let tracker = self.number(session).and_then(|number| self.tracker(number));
        tracker.map_or(Hooked::No, Tracker::hooked)
    }

    /// Lets go of a session that these sources alone have told of, and of them: read or pushed again from their beginning as new
    /// sources, they tell all of it. Returns whether that is so; what was told once, or is not concluded yet, stays.
    pub fn evict(&mut self, session: &SessionId, sources: &[SourceId]) -> bool {
        let Some(number) = self.number(session) else { return false };
        let sessions = &self.sessions;
        let is_unread = sessions.changed.contains(&number) || sessions.pending_events.contains_key(&number);
        !is_unread && self.forget(session, number, sources)
    }

    /// Does the same of a session that is read again at once, whether or not it is concluded: what is not will come again.
    pub fn reset(&mut self, session: &SessionId, sources: &[SourceId]) -> bool {
        let Some(number) = self.number(session) else { return true };
        let is_forgotten = self.forget(session, number, sources);
        if is_forgotten {
            self.sessions.changed.remove(&number);
            self.sessions.pending_events.remove(&number);
        }
        is_forgotten
    }

    fn forget(&mut self, session: &SessionId, number: usize, sources: &[SourceId]) -> bool {
        let Self { sources: known, sessions, options, free, .. } = self;
        let is_own = |source: &Source| sources.contains(&source.id);
        let is_mixed = known.iter().any(|source| match source.tracker {
            Some(tracker) => (tracker == number) != is_own(source),
            None => false,
        });
        if is_mixed || sessions.told_once.contains(&number) {
            return false;
        }
        for SourceId(source) in sources {
            if let Some(source) = known.get_mut(*source as usize) {
                *source = Source { id: source.id, ..Source::default() };
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

    /// Joins another fold, which has read other sources of the same sessions or of others. What its sources were called
    /// by number is now called by that number plus the number of sources here.
    pub fn join(&mut self, other: Self) {
        let base = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        let mut numbers = Vec::new();
        for tracker in other.sessions.all {
            let id = tracker.session().0.clone();
            if !other.sessions.by_id.contains_key(&id) {
                // It was let go.
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
                    // Even the first tracker of a session is joined to an empty one, so that its sources are renumbered.
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
        self.sessions.told_once.extend(other.sessions.told_once.into_iter().map(number));
        self.sessions.homeless.extend(other.sessions.homeless);
        for (group, session) in other.groups {
            self.groups.entry(group).or_insert(session);
        }
        self.free.extend(other.free.into_iter().map(|id| SourceId(id.0 + base)));
        self.sources.extend(other.sources.into_iter().map(|source| Source {
            id: SourceId(source.id.0 + base),
            tracker: source.tracker.map(number),
            ..source
        }));
    }

    /// Returns the sessions that were told something since the last call. Kept only where events are wanted.
    pub fn take_changed(&mut self) -> Vec<SessionId> {
        let changed = std::mem::take(&mut self.sessions.changed);
        changed.into_iter().filter_map(|number| self.tracker(number)).map(|it| it.session().clone()).collect()
    }

    /// Problems of sources that no session could be told of.
    pub fn homeless_problems(&self) -> &[Problem] {
        &self.sessions.homeless
    }

    /// Concludes a session's tree for a moment; `None` for an unknown session. Problems of sources that name no session
    /// are told with every session's.
    pub fn tree(&self, session: &SessionId, now: &Now<'_>) -> Option<Tree> {
        let tracker =
            self.sessions.by_id.get(&session.0).and_then(|number| self.sessions.all.get(*number))?;
        let mut tree = tracker.derive(now);
        tree.problems.extend(self.sessions.homeless.iter().cloned());
        tree.problems.sort();
        tree.problems.dedup();
        Some(tree)
    }

    /// The label of a source, and whether its bytes can be read again.
    pub fn source(&self, source: SourceId) -> Option<(&str, bool)> {
        self.sources.get(source.0 as usize).map(|at| (at.spec.label.as_str(), at.spec.can_reread))
    }

    /// The session that a source told of last.
    pub fn session_of(&self, source: SourceId) -> Option<&SessionId> {
        let tracker = self.sources.get(source.0 as usize)?.tracker?;
        self.tracker(tracker).map(Tracker::session)
    }

    /// The dialect of a source, once it is known.
    pub fn dialect(&self, source: SourceId) -> Option<Dialect> {
        self.sources.get(source.0 as usize).and_then(|at| at.dialect)
    }

    /// Takes what happened in a session since the last call, as pending_events.
    pub(crate) fn take_drafts(&mut self, number: usize) -> Vec<PendingEvent> {
        self.sessions.pending_events.remove(&number).unwrap_or_default()
    }

    /// Returns the first problems since the last call, and how many there were. Kept only where events are wanted.
    pub fn take_problems(&mut self) -> (Vec<Problem>, u64) {
        let count = std::mem::take(&mut self.sessions.fresh_count);
        (std::mem::take(&mut self.sessions.fresh), count)
    }

    /// The tracker of that number.
    pub(crate) fn tracker(&self, number: usize) -> Option<&Tracker> {
        self.sessions.all.get(number)
    }

    /// The number of a session.
    pub(crate) fn number(&self, session: &SessionId) -> Option<usize> {
        self.sessions.by_id.get(&session.0).copied()
    }
}

impl Source {
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

/// A digest of an observation, equal for the same thing said at the same place.
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

/// Hooks and old streams have no time: when they come live, the moment of receipt stands for it.
fn needs_time(seen: &Observation<'_>) -> bool {
    matches!(seen.kind, SourceKind::Hook | SourceKind::Stream) || matches!(seen.claim, Claim::Silent)
}

impl Sessions {
    /// Takes a problem of a source, as one of its session where that is known.
    fn report(
        &mut self,
        spec: &SourceSpec,
        session: Option<&Text>,
        options: &FoldOptions,
        place: Place,
        what: Cow<'_, str>,
    ) {
        let problem = Problem { at: format!("{}:{}", spec.label, place.line), what: what.into_owned() };
        let home = session.and_then(|id| self.by_id.get(id)).copied();
        if options.events {
            self.changed.extend(home);
            self.note(&problem);
        }
        match home.and_then(|number| self.all.get_mut(number)) {
            Some(tracker) => tracker.problem(problem),
            None => self.homeless.push(problem),
        }
    }

    /// Remembers a problem for whoever handed over the bytes.
    fn note(&mut self, problem: &Problem) {
        self.fresh_count += 1;
        if self.fresh.len() < FRESH_PROBLEMS {
            self.fresh.push(problem.clone());
        }
    }

    /// Returns the number of the tracker that an observation belongs to, and makes it if there is none.
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
        // A transcript is of one session, that of its group, even where it holds copied lines of another.
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
            Some((number, place)) => {
                *place = tracker;
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
