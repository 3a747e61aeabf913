//! Files as they are written.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use subscope_collect::{
    CollectError, Found,
    follow::{FileEvent, FileId, Follow, FollowOptions},
    read,
};
use subscope_fold::{Dialect, Fold, SourceSpec};
use subscope_harness::{Role, Root};
use subscope_model::{Millis, Problem, SessionId, SourceId};

use crate::{
    clock,
    driver::{Driver, PollResult},
    file_thread::{Drained, FileReaderThread},
    handle::Waker,
};

/// What is followed.
enum What {
    Targets(Vec<PathBuf>),
    Roots(Vec<Root>),
}

impl What {
    fn follow(&self) -> Result<Follow, CollectError> {
        let options = FollowOptions::new(Box::new(clock::now_ms));
        match self {
            Self::Targets(targets) => Follow::targets(targets.clone(), options),
            Self::Roots(roots) => Follow::roots(roots.clone(), options),
        }
    }
}

/// Follows files and tells when they grow.
pub struct FileTailDriver {
    what: What,
    reading: Reading,
    files: Files,
    /// Set when no more is to come.
    shutdown: Option<Arc<AtomicBool>>,
}

/// Where files are waited for.
enum Reading {
    /// In the hub's turns.
    Here(Box<Follow>),
    /// On a thread of its own, which wakes the hub.
    FileReaderThread(FileReaderThread),
    /// Nowhere: no thread could be started again.
    Nowhere,
}

/// The followed files as sources of the fold.
#[derive(Default)]
struct Files {
    /// In the order in which they appeared.
    all: BTreeMap<FileId, File>,
    groups: Vec<Group>,
    /// The place of each session among the groups.
    sessions: HashMap<SessionId, usize>,
    /// The number of the first group.
    first_group: u32,
    dialect: Option<Dialect>,
    /// Whether what stood there at first is read: what comes later is received now.
    is_caught_up: bool,
    /// Whether all files are read to their end for now.
    is_at_end: bool,
    /// Scratch space for what is read again.
    chunk: Vec<u8>,
}

/// The files of one session.
#[derive(Default)]
struct Group {
    files: Vec<FileId>,
    /// Whether the fold has let go of the session: its files are read again before it goes on.
    is_released: bool,
    /// Whether a file of it was replaced: nothing of it is pushed until all of it is folded anew.
    is_replaced: bool,
}

struct File {
    found: Found,
    /// The place of its group.
    group: usize,
    /// Whether it is one object without a line end.
    is_object: bool,
    /// `None` while the fold has let go of it.
    source: Option<SourceId>,
    /// Up to where it was read.
    read: u64,
    /// Whether it was removed.
    is_gone: bool,
    /// Whether what it said is void.
    is_replaced: bool,
}

impl FileTailDriver {
    /// Follows the given files and folders, and those of their sessions that appear later.
    pub fn targets(targets: Vec<PathBuf>, dialect: Option<Dialect>) -> Result<Self, CollectError> {
        Self::new(What::Targets(targets), dialect)
    }

    /// Follows every live session below the folders of harnesses, and new ones.
    pub fn roots(roots: Vec<Root>) -> Result<Self, CollectError> {
        Self::new(What::Roots(roots), None)
    }

    /// Follows the files of one session thread other sources of a fold, as a group of this number, until `shutdown` is set: then
    /// what is there is read once more to its end, and no more comes.
    pub fn session(transcript: PathBuf, group: u32, shutdown: Arc<AtomicBool>) -> Result<Self, CollectError> {
        let mut live = Self::targets(vec![transcript], None)?;
        live.files.first_group = group;
        live.shutdown = Some(shutdown);
        Ok(live)
    }

    fn new(what: What, dialect: Option<Dialect>) -> Result<Self, CollectError> {
        let reading = Reading::Here(Box::new(what.follow()?));
        Ok(Self { what, reading, files: Files { dialect, ..Files::default() }, shutdown: None })
    }
}

/// What a file's path tells of it, as a source.
pub(crate) fn spec(found: &Found, group: u32, dialect: Option<Dialect>) -> SourceSpec {
    // The content of a main transcript tells more than its name.
    let by_path = found.dialect.filter(|_| found.role != Role::Main);
    SourceSpec {
        label: found.path.display().to_string(),
        dialect: by_path.or(dialect),
        group,
        session: found.session.clone(),
        agent: found.agent.clone(),
        workflow: found.workflow.clone(),
        can_reread: true,
        is_kept: false,
    }
}

impl Driver for FileTailDriver {
    fn poll(&mut self, wait: Duration, fold: &mut Fold) -> PollResult {
        let Self { reading, files, shutdown, .. } = self;
        let mut polled = PollResult::default();
        match reading {
            Reading::Here(follow) => {
                let outcome =
                    follow.poll(wait, &mut |event| files.take(event, clock::now_ms(), fold, &mut polled));
                if let Err(error) = outcome {
                    polled.problems.push(Problem { at: String::new(), what: error.to_string() });
                }
            }
            Reading::FileReaderThread(thread) => {
                match thread.take(&mut |at, event| files.take(event, at, fold, &mut polled)) {
                    Drained::More => thread.waker().wake(),
                    Drained::None => {}
                    Drained::Ended => polled.has_ended = shutdown.is_some(),
                }
            }
            Reading::Nowhere => {
                polled.has_ended = shutdown.as_ref().is_some_and(|shutdown| shutdown.load(Ordering::Acquire));
            }
        }
        if files.is_at_end {
            polled.replaced.extend(files.replaced(fold));
        }
        polled.is_catching_up = !files.is_caught_up && !matches!(reading, Reading::Nowhere);
        polled
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }

    fn follows(&self, session: &SessionId) -> bool {
        self.files.sessions.contains_key(session)
    }

    fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let group = self.files.group(session).filter(|group| !group.is_released)?;
        Some(group.files.iter().filter_map(|file| self.files.all.get(file)).map(|file| file.read).sum())
    }

    fn evict(&mut self, session: &SessionId, others: &[SourceId], fold: &mut Fold) -> bool {
        self.files.evict(session, others, fold)
    }

    fn reload_evicted(&mut self, session: &SessionId, fold: &mut Fold) -> bool {
        let group = self.files.sessions.get(session).copied();
        group.is_some_and(|group| self.files.reload_evicted(group, fold))
    }

    fn reload(&mut self, session: &SessionId, others: Option<&[SourceId]>, fold: &mut Fold) -> bool {
        self.files.reload(session, others, fold)
    }

    fn wake_with(&mut self, waker: Waker) -> bool {
        if matches!(self.reading, Reading::Here(_))
            && let Reading::Here(follow) = std::mem::replace(&mut self.reading, Reading::Nowhere)
        {
            self.reading = match FileReaderThread::start(*follow, waker, self.shutdown.clone()) {
                Ok(thread) => Reading::FileReaderThread(thread),
                // Without a thread files are waited for in turns, as before; they are listed again for it.
                Err(_) => match self.what.follow() {
                    Ok(follow) => Reading::Here(Box::new(follow)),
                    Err(_) => Reading::Nowhere,
                },
            };
        }
        matches!(self.reading, Reading::FileReaderThread(_))
    }
}

impl Files {
    fn take(&mut self, event: FileEvent<'_>, at: Millis, fold: &mut Fold, polled: &mut PollResult) {
        self.is_at_end &= matches!(event, FileEvent::Problem { .. } | FileEvent::Whole { .. });
        match event {
            FileEvent::Appeared { file, found } => self.appear(file, found, fold),
            FileEvent::Bytes { file, offset, bytes } => {
                let Some(place) = self.all.get(&file).map(|file| file.group) else { return };
                let is_replaced = self.groups.get(place).is_some_and(|group| group.is_replaced);
                if !is_replaced {
                    self.reload_evicted(place, fold);
                }
                let Some(known) = self.all.get_mut(&file) else { return };
                known.read = offset + bytes.len() as u64;
                if is_replaced {
                    return;
                }
                fold.receive_at(self.is_caught_up.then_some(at));
                if !std::mem::take(&mut known.is_replaced) {
                    known.push(bytes, fold);
                    known.pushed(fold);
                } else if !known.source.is_some_and(|source| fold.replace(source, bytes)) {
                    known.is_replaced = true;
                    if let Some(group) = self.groups.get_mut(place) {
                        group.is_replaced = true;
                    }
                }
                polled.has_pushed = true;
            }
            FileEvent::Restarted { file } => {
                let Some(known) = self.all.get_mut(&file) else { return };
                (known.read, known.is_replaced) = (0, true);
                // What an object says instead may be all that it said and more.
                if let Some(group) = self.groups.get_mut(known.group)
                    && (!known.is_object || group.is_released)
                {
                    group.is_replaced = true;
                }
            }
            FileEvent::Gone { file } => {
                let Some(known) = self.all.get_mut(&file) else { return };
                known.is_gone = true;
                if let Some(source) = known.source {
                    fold.flush(source);
                    polled.has_pushed = true;
                }
            }
            FileEvent::Problem { path, what } => {
                polled.problems.push(Problem { at: path.display().to_string(), what: what.to_owned() });
            }
            FileEvent::Whole { session } => polled.whole.push(SessionId::from(session)),
            FileEvent::CaughtUp => {
                (self.is_at_end, self.is_caught_up) = (true, true);
                polled.is_caught_up = true;
            }
        }
    }

    fn appear(&mut self, file: FileId, found: &Found, fold: &mut Fold) {
        if let Some(known) = self.all.get_mut(&file) {
            known.is_gone = false;
            // While it was gone its session was read without it.
            if let Some(group) = self.groups.get_mut(known.group)
                && known.source.is_none()
                && !group.is_released
            {
                group.is_replaced = true;
            }
            return;
        }
        let number = self.group_of(found);
        let Some(group) = self.groups.get_mut(number) else { return };
        group.files.push(file);
        let mut new = File {
            found: found.clone(),
            group: number,
            is_object: false,
            source: None,
            read: 0,
            is_gone: false,
            is_replaced: false,
        };
        // One of a session that the fold has let go of is read with the others of it.
        if !group.is_released {
            new.open(self.first_group, self.dialect, fold);
        }
        self.all.insert(file, new);
    }

    /// Returns the sessions that are to be folded anew. Files that have told of none are read again at once.
    fn replaced(&mut self, fold: &mut Fold) -> BTreeSet<SessionId> {
        let mut replaced = BTreeSet::new();
        for place in 0..self.groups.len() {
            let Some(group) = self.groups.get_mut(place).filter(|group| group.is_replaced) else { continue };
            let files = group.files.iter().filter_map(|file| self.all.get(file));
            let mut own: BTreeSet<SessionId> =
                files.clone().filter_map(|file| fold.session_of(file.source?).cloned()).collect();
            if own.is_empty() {
                own.extend(files.filter_map(|file| file.found.session.as_deref().map(SessionId::from)));
            }
            if own.is_empty() {
                (group.is_replaced, group.is_released) = (false, true);
                for file in &group.files {
                    if let Some(file) = self.all.get_mut(file) {
                        (file.source, file.is_replaced) = (None, false);
                    }
                }
                self.reload_evicted(place, fold);
            }
            replaced.extend(own);
        }
        replaced
    }

    /// Folds a session anew whose files were replaced.
    fn reload(&mut self, session: &SessionId, others: Option<&[SourceId]>, fold: &mut Fold) -> bool {
        let named = self.sessions.get(session).copied();
        let tells = |file: &&File| file.source.and_then(|source| fold.session_of(source)) == Some(session);
        let places: BTreeSet<usize> =
            self.all.values().filter(tells).map(|file| file.group).chain(named).collect();
        let is_of = |file: &&File| places.contains(&file.group);
        let is_replaced = |place: &usize| self.groups.get(*place).is_some_and(|group| group.is_replaced);
        if !places.iter().any(is_replaced) || !self.all.values().filter(is_of).all(File::is_whole) {
            return false;
        }
        let own = self.all.values().filter(is_of).filter_map(|file| file.source);
        let is_forgotten = others.is_some_and(|others| {
            let sources: Vec<SourceId> = own.chain(others.iter().copied()).collect();
            fold.reset(session, &sources)
        });
        for file in self.all.values_mut().filter(|file| places.contains(&file.group)) {
            // What is not forgotten is joined by what is read now.
            if std::mem::take(&mut file.is_replaced) || is_forgotten {
                file.source = None;
            }
        }
        for place in places {
            if let Some(group) = self.groups.get_mut(place) {
                (group.is_replaced, group.is_released) = (false, true);
                self.reload_evicted(place, fold);
            }
        }
        is_forgotten
    }

    fn group(&self, session: &SessionId) -> Option<&Group> {
        self.groups.get(*self.sessions.get(session)?)
    }

    /// The place of a file's group. Files without a session of their own are no session's: each is its own group.
    fn group_of(&mut self, found: &Found) -> usize {
        let Self { groups, sessions, .. } = self;
        let mut new = || {
            groups.push(Group::default());
            groups.len() - 1
        };
        match found.session.as_deref().map(SessionId::from) {
            Some(session) => *sessions.entry(session).or_insert_with(new),
            None => new(),
        }
    }

    /// Lets go of a session, its files and these other sources.
    fn evict(&mut self, session: &SessionId, others: &[SourceId], fold: &mut Fold) -> bool {
        let place = self.sessions.get(session).copied();
        let Some(group) = place.and_then(|place| self.groups.get_mut(place)) else {
            return fold.evict(session, others);
        };
        let own = group.files.iter().filter_map(|file| self.all.get(file)?.source);
        let sources: Vec<SourceId> = own.chain(others.iter().copied()).collect();
        if group.is_released || !fold.evict(session, &sources) {
            return false;
        }
        group.is_released = true;
        for file in &group.files {
            if let Some(file) = self.all.get_mut(file) {
                file.source = None;
            }
        }
        true
    }

    /// Reads what was read of a session's files before, where the fold has let go of it. Of one whose files were replaced, and are
    /// still being read, that is all they say.
    fn reload_evicted(&mut self, group: usize, fold: &mut Fold) -> bool {
        let Self { all, groups, chunk, first_group, dialect, .. } = self;
        let group = groups.get_mut(group).filter(|group| group.is_released);
        let Some(group) = group else { return false };
        group.is_released = false;
        fold.receive_at(None);
        for file in &group.files {
            let is_there = |file: &&mut File| file.source.is_none() && !file.is_gone;
            let Some(file) = all.get_mut(file).filter(is_there) else { continue };
            file.open(*first_group, *dialect, fold);
            // What it says beyond comes by itself; that it is gone is told by itself too.
            let until = if group.is_replaced { u64::MAX } else { file.read };
            let _ = read::read_file(&file.found.path, 0, chunk, &mut |offset, bytes| {
                let rest = usize::try_from(until.saturating_sub(offset)).unwrap_or(usize::MAX);
                file.push(bytes.get(..rest).unwrap_or(bytes), fold);
            });
            file.pushed(fold);
        }
        // They were told when they were read first.
        let _ = fold.take_problems();
        true
    }
}

impl File {
    /// Becomes a new source of the fold.
    fn open(&mut self, first_group: u32, dialect: Option<Dialect>, fold: &mut Fold) {
        let group = u32::try_from(self.group).unwrap_or(u32::MAX);
        let spec = spec(&self.found, first_group.saturating_add(group), dialect);
        self.is_object = spec.dialect.is_some_and(Dialect::is_object);
        self.source = Some(fold.open(spec));
    }

    /// Whether all that was read of it stands there, or nothing does any more.
    fn is_whole(&self) -> bool {
        self.is_gone || fs::metadata(&self.found.path).is_ok_and(|metadata| metadata.len() >= self.read)
    }

    fn push(&self, bytes: &[u8], fold: &mut Fold) {
        if let Some(source) = self.source {
            fold.push(source, bytes);
        }
    }

    /// An object is read as often as it is written.
    fn pushed(&self, fold: &mut Fold) {
        if let Some(source) = self.source.filter(|_| self.is_object) {
            fold.flush(source);
        }
    }
}
