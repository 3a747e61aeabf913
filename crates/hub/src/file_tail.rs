//! Driver that tails files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use subscope_collect::{
    CollectError, Found,
    follow::{FileEvent, FileId, Follow, FollowOptions, Watching},
};
use subscope_harness::{Root, classify};
use subscope_model::{Millis, Problem, SessionId, SourceId};
use subscope_session::{Dialect, SessionRouter, SourceOrigin, SourceSpec};
use subscope_store::{FileIdentity, SourceFile};

use crate::{
    clock::{self, Clock, SystemClock},
    driver::{Driver, PollResult},
    file_thread::{Drained, FileReaderThread},
    handle::Waker,
    loader::{FileLoader, Unread, file_identity, file_spec},
};

/// Files to tail.
enum TailTarget {
    Targets(Vec<PathBuf>),
    Roots(Vec<Root>),
}

/// How the driver notices changes and what time it is.
#[derive(Clone)]
struct TailTime {
    clock: Arc<dyn Clock>,
    watching: Watching,
}

impl Default for TailTime {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), watching: Watching::default() }
    }
}

impl TailTarget {
    fn follow(&self, time: &TailTime) -> Result<Follow, CollectError> {
        let clock = Arc::clone(&time.clock);
        let options =
            FollowOptions { watching: time.watching, ..FollowOptions::new(Box::new(move || clock.now_ms())) };
        match self {
            Self::Targets(targets) => Follow::targets(targets.clone(), options),
            Self::Roots(roots) => Follow::roots(roots.clone(), options),
        }
    }
}

/// Tails files and pushes new content into the router.
pub struct FileTailDriver {
    target: TailTarget,
    time: TailTime,
    reader: TailReader,
    files: TailedFiles,
    /// Set by the owner to end the input.
    shutdown: Option<Arc<AtomicBool>>,
    /// When it was created: files created before are older than the hub.
    created_ms: Millis,
}

/// Where the driver waits for files.
enum TailReader {
    /// Inside `poll`.
    Inline(Box<Follow>),
    /// On a thread, which wakes the hub.
    Thread(FileReaderThread),
    /// Nowhere: the thread could not be started, and the files could not be listed again.
    Stopped,
}

/// Tailed files as sources of the router.
#[derive(Default)]
struct TailedFiles {
    /// In order of appearance.
    all: BTreeMap<FileId, TailedFile>,
    groups: Vec<SessionFiles>,
    /// Index of each session's group.
    sessions: HashMap<SessionId, usize>,
    dialect: Option<Dialect>,
    /// Whether the initial content is read: later content gets its time of arrival.
    is_caught_up: bool,
    /// Loads evicted sessions again.
    loader: FileLoader,
    /// Sessions of which a file could not be read, can be read again, was cut or is whole again.
    unread_changed: Vec<SessionId>,
    /// Files of forgotten sessions, with their size when they were forgotten.
    forgotten: HashMap<PathBuf, u64>,
    /// Sessions of files whose paths name none: the line that named it may be gone.
    known: HashMap<PathBuf, SessionId>,
    /// Files with lines of other sessions than the one that their path names.
    mixed: BTreeSet<FileId>,
}

/// Files of one session.
#[derive(Default)]
struct SessionFiles {
    files: Vec<FileId>,
    /// Its group number in the router, once a file is open.
    number: Option<u32>,
    sources: SourcesState,
}

/// Whether the files of a session are sources of the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SourcesState {
    /// They are, and get new content.
    #[default]
    Open,
    /// They are closed, since the session is evicted: they are read again before new content is pushed.
    Evicted,
    /// The same, since the session was forgotten, until they have something new.
    Forgotten,
}

struct TailedFile {
    found: Found,
    /// Index of its group.
    group: usize,
    /// Whether it is one JSON object without a line end.
    is_object: bool,
    /// `None` while the session is evicted.
    source: Option<SourceId>,
    /// Sources of content that the file no longer has.
    former: Vec<SourceId>,
    /// Offset up to which it was read.
    read: u64,
    /// Offset up to which its source has it: less than `read` if reading it again failed.
    pushed: u64,
    /// The offset up to which it was read when [`Driver::take_read_files`] last returned it.
    recorded: Option<u64>,
    /// The sessions of lines that name another than its path, with the offset when [`Driver::take_read_files`] last
    /// returned it for each.
    others: Vec<(SessionId, Option<u64>)>,
    /// Whether it was deleted.
    is_gone: bool,
    /// Whether it was first met after the initial content of all files was read.
    appeared_late: bool,
    /// Whether it was cut or replaced, so that something that was read is no longer in it.
    is_cut: bool,
    /// Whether it was rewritten, and its next content comes from its beginning.
    is_restarted: bool,
    /// Why it cannot be read.
    failure: Option<Problem>,
}

impl FileTailDriver {
    /// Tails the given files and folders, and files of their sessions that appear later.
    ///
    /// # Errors
    /// If a target cannot be read.
    pub fn targets(targets: Vec<PathBuf>, dialect: Option<Dialect>) -> Result<Self, CollectError> {
        Self::new(TailTarget::Targets(targets), dialect, TailTime::default())
    }

    /// Tails every live session below the roots of harnesses, and new ones.
    ///
    /// # Errors
    /// If a root cannot be watched.
    pub fn roots(roots: Vec<Root>) -> Result<Self, CollectError> {
        Self::new(TailTarget::Roots(roots), None, TailTime::default())
    }

    /// The same with a clock of its own, and by looking at all files in every second of that clock.
    ///
    /// # Errors
    /// If a root cannot be watched.
    #[cfg(test)]
    pub(crate) fn polled_roots(roots: Vec<Root>, clock: Arc<dyn Clock>) -> Result<Self, CollectError> {
        Self::new(TailTarget::Roots(roots), None, TailTime { clock, watching: Watching::Polling })
    }

    /// Leaves out the sessions of these files, given with their size, until one of their files changes.
    #[must_use]
    pub fn without(mut self, forgotten: impl IntoIterator<Item = (PathBuf, u64)>) -> Self {
        // Files are reported below the canonical path of their root.
        let canonical = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
        self.files.forgotten = forgotten.into_iter().map(|(path, bytes)| (canonical(path), bytes)).collect();
        self
    }

    /// Adds the sessions of files that were read before.
    #[must_use]
    pub fn knowing(mut self, sources: Vec<SourceFile>) -> Self {
        let unnamed = sources.into_iter().filter(|source| classify(&source.path).session.is_none());
        self.files.known = unnamed.map(|source| (source.path, source.session)).collect();
        self
    }

    /// Tails the files of one session until `shutdown` is set: then all files are read once more to their end, and the
    /// input ends.
    ///
    /// # Errors
    /// If the transcript cannot be read.
    pub fn session(transcript: PathBuf, shutdown: Arc<AtomicBool>) -> Result<Self, CollectError> {
        let mut live = Self::targets(vec![transcript], None)?;
        live.shutdown = Some(shutdown);
        Ok(live)
    }

    fn new(target: TailTarget, dialect: Option<Dialect>, time: TailTime) -> Result<Self, CollectError> {
        let reader = TailReader::Inline(Box::new(target.follow(&time)?));
        let files = TailedFiles { dialect, ..TailedFiles::default() };
        Ok(Self { target, time, reader, files, shutdown: None, created_ms: clock::now_ms() })
    }
}

impl Driver for FileTailDriver {
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult {
        let Self { reader, files, shutdown, time, .. } = self;
        let mut polled = PollResult::default();
        match reader {
            TailReader::Inline(follow) => {
                let outcome = follow.poll(wait, &mut |event| {
                    files.handle_event(event, time.clock.now_ms(), router, &mut polled)
                });
                if let Err(error) = outcome {
                    polled.problems.push(Problem { at: String::new(), what: error.to_string() });
                }
            }
            TailReader::Thread(thread) => {
                match thread.drain(&mut |at, event| files.handle_event(event, at, router, &mut polled)) {
                    Drained::More => thread.waker().wake(),
                    Drained::None => {}
                    Drained::Ended => polled.has_ended = shutdown.is_some(),
                }
            }
            TailReader::Stopped => {
                polled.has_ended = shutdown.as_ref().is_some_and(|shutdown| shutdown.load(Ordering::Acquire));
            }
        }
        polled.unread_changed = std::mem::take(&mut files.unread_changed);
        polled.is_catching_up = !files.is_caught_up && !matches!(reader, TailReader::Stopped);
        polled
    }

    fn now(&self) -> Millis {
        self.time.clock.now_ms()
    }

    fn awake_ms(&self) -> Millis {
        self.time.clock.awake_ms()
    }

    fn follows(&self, session: &SessionId) -> bool {
        self.files.sessions.contains_key(session)
    }

    fn is_older_than_hub(&self, session: &SessionId) -> bool {
        let own = self.files.group(session).into_iter().flat_map(|group| &group.files);
        let late = own.filter_map(|id| self.files.all.get(id)).filter(|file| file.appeared_late);
        let mut created = late.filter_map(|file| {
            let created = fs::metadata(&file.found.path).ok()?.created().ok()?;
            Millis::try_from(created.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
        });
        created.any(|created_ms| created_ms < self.created_ms)
    }

    fn tailed_files(&self, session: &SessionId) -> HashSet<&Path> {
        let own = self.files.group(session).into_iter().flat_map(|group| &group.files);
        let own = own.filter_map(|id| self.files.all.get(id));
        let mixed = self.files.mixed.iter().filter_map(|id| self.files.all.get(id));
        let mixed = mixed
            .filter(|file| file.source.is_some() && file.others.iter().any(|(other, _)| other == session));
        let there = own.chain(mixed).filter(|file| !file.is_gone);
        there.map(|file| file.found.path.as_path()).collect()
    }

    fn take_read_files(&mut self, session: &SessionId) -> Vec<SourceFile> {
        self.files.take_read(session)
    }

    fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let group = self.files.group(session).filter(|group| group.sources == SourcesState::Open)?;
        let mut files = group.files.iter().filter_map(|file| self.files.all.get(file));
        // The content of a deleted file cannot be read again.
        files
            .clone()
            .all(|file| !file.is_gone && file.failure.is_none())
            .then(|| files.by_ref().map(|file| file.read).sum())
    }

    fn evict(&mut self, session: &SessionId, router: &mut SessionRouter) -> Option<BTreeSet<SourceId>> {
        self.files.evict(session, router)
    }

    fn reload_evicted(&mut self, session: &SessionId, router: &mut SessionRouter) -> bool {
        let group = self.files.sessions.get(session).copied();
        group.is_some_and(|group| self.files.reload_evicted(group, router))
    }

    fn unread(&self, session: &SessionId) -> Vec<Problem> {
        self.files.of(session).filter_map(|file| file.failure.clone()).collect()
    }

    fn is_incomplete(&self, session: &SessionId) -> bool {
        self.files.of(session).any(TailedFile::is_behind)
    }

    fn is_cut(&self, session: &SessionId) -> bool {
        self.files.of(session).any(|file| file.is_cut)
    }

    fn retry_unread(&mut self, session: &SessionId, router: &mut SessionRouter) {
        if let Some(group) = self.files.sessions.get(session).copied() {
            self.files.catch_up(group, router);
        }
    }

    fn wake_with(&mut self, waker: Waker) -> bool {
        if matches!(self.reader, TailReader::Inline(_))
            && let TailReader::Inline(follow) = std::mem::replace(&mut self.reader, TailReader::Stopped)
        {
            self.reader = match FileReaderThread::start(*follow, waker, self.shutdown.clone()) {
                Ok(thread) => TailReader::Thread(thread),
                // Without a thread `poll` waits for files, as before; they are listed again for it.
                Err(_) => match self.target.follow(&self.time) {
                    Ok(follow) => TailReader::Inline(Box::new(follow)),
                    Err(_) => TailReader::Stopped,
                },
            };
        }
        matches!(self.reader, TailReader::Thread(_))
    }
}

impl TailedFiles {
    fn handle_event(
        &mut self,
        event: FileEvent<'_>,
        at: Millis,
        router: &mut SessionRouter,
        polled: &mut PollResult,
    ) {
        match event {
            FileEvent::Appeared { file, found } => self.appear(file, found, router),
            FileEvent::Bytes { file, offset, bytes } => {
                let Some(place) = self.all.get(&file).map(|file| file.group) else { return };
                let end = offset + bytes.len() as u64;
                if self.is_still_forgotten(file, end) {
                    return;
                }
                self.reload_evicted(place, router);
                let Some(known) = self.all.get_mut(&file) else { return };
                known.read = end;
                if known.is_behind() && known.pushed != offset {
                    // Its earlier content could not be read again: this comes after it.
                    return self.catch_up(place, router);
                }
                known.pushed = end;
                router.receive_at(self.is_caught_up.then_some(at));
                let was_cut = known.is_cut;
                known.push(bytes, router);
                if known.is_cut != was_cut {
                    // Its rows are derived again, although it may have said nothing new.
                    self.unread_changed.extend(known.found.session_id());
                }
                if known.find_others(router) {
                    self.mixed.insert(file);
                }
                if known.found.session_id().is_none()
                    && let Some(session) = known.source.and_then(|source| router.session_of(source))
                    && !self.sessions.contains_key(session)
                {
                    self.sessions.insert(session.clone(), place);
                }
                polled.has_pushed = true;
            }
            FileEvent::Restarted { file } => {
                let Some(known) = self.all.get_mut(&file) else { return };
                let Some(group) = self.groups.get_mut(known.group) else { return };
                known.restart(router);
                if group.sources == SourcesState::Forgotten {
                    group.sources = SourcesState::Evicted;
                }
                if group.sources == SourcesState::Open && !known.is_object {
                    let number = *group.number.get_or_insert_with(|| router.new_group());
                    known.open(number, self.dialect, router);
                }
            }
            FileEvent::Restored { file } => {
                // Whether an object has everything again is seen in what it reports.
                let Some(known) = self.all.get_mut(&file).filter(|known| !known.is_object) else { return };
                known.is_cut = false;
                self.unread_changed.extend(known.found.session_id());
            }
            FileEvent::Gone { file } => {
                let Some(known) = self.all.get_mut(&file) else { return };
                known.is_gone = true;
                if let Some(source) = known.source {
                    router.flush(source);
                    polled.has_pushed = true;
                }
            }
            FileEvent::Failed { file, what } => {
                let Some(known) = self.all.get_mut(&file) else { return };
                let unread = Unread::new(&known.found.path, io::Error::other(what.to_owned()));
                known.failure = Some(unread.problem());
                polled.problems.extend(known.failure.clone());
                self.unread_changed.extend(known.found.session_id());
            }
            FileEvent::Recovered { file } => {
                let Some(place) = self.all.get(&file).map(|file| file.group) else { return };
                self.catch_up(place, router);
                let Some(known) = self.all.get_mut(&file).filter(|known| !known.is_behind()) else { return };
                known.failure = None;
                self.unread_changed.extend(known.found.session_id());
            }
            FileEvent::Problem { path, what } => {
                polled.problems.push(Problem { at: path.display().to_string(), what: what.to_owned() });
            }
            FileEvent::Whole { session } => polled.loaded.push(SessionId::from_outside(session)),
            FileEvent::CaughtUp => {
                self.is_caught_up = true;
                polled.is_caught_up = true;
            }
        }
    }

    fn appear(&mut self, file: FileId, found: &Found, router: &mut SessionRouter) {
        if let Some(known) = self.all.get_mut(&file) {
            known.is_gone = false;
            // Its session was reloaded without it while it was deleted.
            if let Some(group) = self.groups.get_mut(known.group)
                && known.source.is_none()
                && group.sources == SourcesState::Open
            {
                let number = *group.number.get_or_insert_with(|| router.new_group());
                known.open(number, self.dialect, router);
                let place = known.group;
                self.catch_up(place, router);
            }
            return;
        }
        let found = match self.known.get(&found.path) {
            Some(session) => found.clone().or_of_session(session.as_str()),
            None => found.clone(),
        };
        let number = self.group_of(&found);
        let is_forgotten = self.forgotten.contains_key(&found.path);
        let Some(group) = self.groups.get_mut(number) else { return };
        if is_forgotten && group.files.is_empty() {
            group.sources = SourcesState::Forgotten;
        }
        let has_new = group.sources == SourcesState::Forgotten && !is_forgotten;
        group.files.push(file);
        let mut new = TailedFile {
            found,
            group: number,
            is_object: false,
            source: None,
            former: Vec::new(),
            read: 0,
            pushed: 0,
            recorded: None,
            others: Vec::new(),
            is_gone: false,
            appeared_late: self.is_caught_up,
            is_cut: false,
            is_restarted: false,
            failure: None,
        };
        // A file of an evicted session is read with the session's other files.
        if group.sources == SourcesState::Open {
            let number = *group.number.get_or_insert_with(|| router.new_group());
            new.open(number, self.dialect, router);
        }
        self.all.insert(file, new);
        if has_new {
            self.reload_evicted(number, router);
        }
    }

    /// Whether a file that was read up to an offset belongs to a forgotten session and has nothing new.
    fn is_still_forgotten(&mut self, file: FileId, end: u64) -> bool {
        let Self { all, groups, forgotten, .. } = self;
        let Some(known) = all.get_mut(&file) else { return false };
        let is_forgotten =
            groups.get(known.group).is_some_and(|group| group.sources == SourcesState::Forgotten)
                && forgotten.get(&known.found.path).is_some_and(|bytes| end <= *bytes);
        if is_forgotten {
            known.read = end;
        }
        is_forgotten
    }

    /// Returns the files of a session that were read further; see [`Driver::take_read_files`].
    fn take_read(&mut self, session: &SessionId) -> Vec<SourceFile> {
        let mut read = Vec::new();
        let group = self.sessions.get(session).and_then(|place| self.groups.get(*place));
        for file in group.into_iter().flat_map(|group| &group.files).chain(&self.mixed) {
            let Some(file) = self.all.get_mut(file).filter(|file| !file.is_gone) else { continue };
            if file.read == 0 || file.is_behind() {
                continue;
            }
            let is_own = file.found.session_id().is_none_or(|named| named == *session);
            let others = &mut file.others;
            let recorded = match is_own {
                true => Some(&mut file.recorded),
                false => others.iter_mut().find(|(other, _)| other == session).map(|(_, recorded)| recorded),
            };
            let Some(recorded) = recorded.filter(|recorded| **recorded != Some(file.read)) else { continue };
            // A file that cannot be looked at now is recorded later.
            if let Ok(identity) = file_identity(&file.found.path) {
                *recorded = Some(file.read);
                // A different size shows that something was written since.
                let identity = FileIdentity { bytes: file.read, ..identity };
                let path = file.found.path.clone();
                read.push(SourceFile { path, session: session.clone(), identity });
            }
        }
        read
    }

    /// Returns the files of a session.
    fn of(&self, session: &SessionId) -> impl Iterator<Item = &TailedFile> {
        let files = self.group(session).into_iter().flat_map(|group| &group.files);
        files.filter_map(|file| self.all.get(file))
    }

    fn group(&self, session: &SessionId) -> Option<&SessionFiles> {
        self.groups.get(*self.sessions.get(session)?)
    }

    /// Returns the index of a file's group. A file without a session is a group of its own.
    fn group_of(&mut self, found: &Found) -> usize {
        let Self { groups, sessions, .. } = self;
        let mut new = || {
            groups.push(SessionFiles::default());
            groups.len() - 1
        };
        match found.session_id() {
            Some(session) => *sessions.entry(session).or_insert_with(new),
            None => new(),
        }
    }

    /// Evicts a session; see [`Driver::evict`].
    fn evict(&mut self, session: &SessionId, router: &mut SessionRouter) -> Option<BTreeSet<SourceId>> {
        let place = self.sessions.get(session).copied();
        let Some(group) = place.and_then(|place| self.groups.get_mut(place)) else {
            return router.evict(session, &[]);
        };
        if group.sources != SourcesState::Open {
            return None;
        }
        let files = group.files.iter().filter_map(|file| self.all.get(file));
        let own: Vec<SourceId> =
            files.flat_map(|file| file.former.iter().chain(&file.source)).copied().collect();
        let closed = router.evict(session, &own)?;
        group.sources = SourcesState::Evicted;
        for file in &group.files {
            if let Some(file) = self.all.get_mut(file) {
                file.source = None;
                file.former.clear();
            }
        }
        Some(closed)
    }

    /// Reads the files of an evicted session again up to their former offsets.
    fn reload_evicted(&mut self, place: usize, router: &mut SessionRouter) -> bool {
        let Self { all, groups, dialect, .. } = self;
        let group = groups.get_mut(place).filter(|group| group.sources != SourcesState::Open);
        let Some(group) = group else { return false };
        group.sources = SourcesState::Open;
        let number = *group.number.get_or_insert_with(|| router.new_group());
        for file in &group.files {
            let is_there = |file: &&mut TailedFile| file.source.is_none() && !file.is_gone;
            if let Some(file) = all.get_mut(file).filter(is_there) {
                file.open(number, *dialect, router);
            }
        }
        self.catch_up(place, router);
        // These problems were published when the files were first read.
        let _ = router.take_problems();
        true
    }

    /// Reads what the sources of a session lack of its files. Later content, and deletion, are reported by events of
    /// their own.
    fn catch_up(&mut self, place: usize, router: &mut SessionRouter) {
        let Self { all, groups, loader, unread_changed, .. } = self;
        let Some(group) = groups.get(place) else { return };
        router.receive_at(None);
        for file in &group.files {
            let Some(file) = all.get_mut(file).filter(|file| file.is_behind() && !file.is_gone) else {
                continue;
            };
            let Some(source) = file.source else { continue };
            let mut span = file.pushed..file.read;
            let outcome = loader.load_span(&file.found.path, &mut span, source, router);
            file.pushed = span.start;
            file.flush_object(router);
            let failure = outcome.err().map(|unread| {
                tracing::warn!("{unread}");
                unread.problem()
            });
            if file.failure != failure {
                unread_changed.extend(file.found.session_id());
            }
            file.failure = failure;
        }
    }
}

impl TailedFile {
    /// Opens the file as a new source of the router.
    fn open(&mut self, group: u32, dialect: Option<Dialect>, router: &mut SessionRouter) {
        let origin = SourceOrigin::TailedFile;
        let spec = SourceSpec { origin, ..file_spec(&self.found, group, dialect) };
        // The dialect of a main transcript is recognized by its content, but its form is known by its path.
        self.is_object = spec.dialect.or(self.found.dialect).is_some_and(Dialect::is_object);
        (self.source, self.pushed) = (Some(router.open(spec)), 0);
    }

    /// Looks for sessions that its lines name and its path does not. Returns whether there are any.
    fn find_others(&mut self, router: &SessionRouter) -> bool {
        let (Some(source), Some(own)) = (self.source, self.found.session_id()) else { return false };
        for session in router.named_in(source).filter(|session| **session != own) {
            if self.others.iter().all(|(other, _)| other != session) {
                self.others.push((session.clone(), None));
            }
        }
        !self.others.is_empty()
    }

    /// Whether its source lacks some of what was read of it.
    fn is_behind(&self) -> bool {
        self.source.is_some() && self.pushed < self.read
    }

    /// Begins to read it anew. What it said before stays known.
    fn restart(&mut self, router: &mut SessionRouter) {
        (self.read, self.pushed, self.recorded, self.is_restarted) = (0, 0, None, true);
        self.others.iter_mut().for_each(|(_, recorded)| *recorded = None);
        if self.is_object {
            return;
        }
        self.is_cut = true;
        if let Some(source) = self.source.take() {
            // Its last line may have been cut in the middle.
            router.flush(source);
            self.former.push(source);
        }
    }

    /// Pushes its next bytes.
    fn push(&mut self, bytes: &[u8], router: &mut SessionRouter) {
        let Some(source) = self.source else { return };
        if std::mem::take(&mut self.is_restarted) && self.is_object {
            self.is_cut = !router.replace(source, bytes);
            return;
        }
        router.push(source, bytes);
        self.flush_object(router);
    }

    /// Flushes an object: it is decoded after every write.
    fn flush_object(&self, router: &mut SessionRouter) {
        if let Some(source) = self.source.filter(|_| self.is_object) {
            router.flush(source);
        }
    }
}
