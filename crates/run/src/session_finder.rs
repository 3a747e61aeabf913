//! Sessions that the command's processes are in, by what these processes note of themselves in their harness's home. Their
//! transcripts are followed: where the command prints nothing that a machine reads, they are all that tells.
//!
//! A session is the command's for sure, or it is not looked at: its process descends from the command, or is of its group, and has
//! made its note since the command began.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use nix::unistd::{Pid, getpgid};
use subscope_harness::{Harness, ProcessNote, RunPlan};
use subscope_hub::clock;
use subscope_model::Millis;

use crate::{RunError, line_tap::SessionName, run_driver::FollowRequests};

/// How often is looked whether a process has made a note. It is there for as long as its process lives, which is half a second at
/// the least.
const LOOK: Duration = Duration::from_millis(100);
/// How often is looked for a transcript that is not there yet, at most: there may be thousands of folders.
const LOOK_FOR_FILE: Duration = Duration::from_secs(2);
/// How many parents are asked for until somebody is taken for a stranger.
const ANCESTORS: usize = 128;
/// The longest note that is read.
const NOTE_BYTES: u64 = 64 << 10;

/// Where a harness keeps its files.
pub struct Home {
    /// The harness.
    pub harness: &'static dyn Harness,
    /// Its processes.
    pub processes: &'static dyn RunPlan,
    /// The notes of its processes.
    pub notes: PathBuf,
    /// The folders below which its transcripts stand.
    pub roots: Vec<PathBuf>,
}

/// Looks for sessions until the command has ended.
#[derive(Debug)]
pub struct SessionFinder {
    is_over: Arc<AtomicBool>,
    followed: Followed,
    thread: JoinHandle<()>,
}

/// What was found until now.
#[derive(Clone, Debug, Default)]
pub struct Followed(Arc<Mutex<Vec<ProcessNote>>>);

impl Followed {
    /// Whether a session is told of by its transcript alone.
    pub fn has(&self, session: &str) -> bool {
        self.lock().iter().any(|note| note.session == session)
    }

    /// Whether one of the command's processes works with a person at the terminal.
    pub fn has_screen(&self) -> bool {
        self.lock().iter().any(|note| note.has_screen)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ProcessNote>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Work {
    homes: Arc<[Home]>,
    child: Pid,
    since: Millis,
    session: Arc<SessionName>,
    following: FollowRequests,
    followed: Followed,
    /// The notes that were read, each as it was written last.
    read: HashMap<i32, SystemTime>,
    missing: Vec<Missing>,
}

/// A session whose transcript is not there yet.
struct Missing {
    session: String,
    pause: Duration,
    next: Instant,
}

impl SessionFinder {
    /// Starts looking for sessions of a child that has begun at a time.
    ///
    /// # Errors
    /// Where there is no thread.
    pub fn start(
        homes: Vec<Home>,
        child: u32,
        since: Millis,
        session: Arc<SessionName>,
        following: FollowRequests,
    ) -> Result<Self, RunError> {
        let (is_over, followed) = (Arc::new(AtomicBool::new(false)), Followed::default());
        let mut work = Work {
            homes: homes.into(),
            child: Pid::from_raw(i32::try_from(child).unwrap_or(i32::MAX)),
            since,
            session,
            following,
            followed: followed.clone(),
            read: HashMap::new(),
            missing: Vec::new(),
        };
        let over = Arc::clone(&is_over);
        let build = std::thread::Builder::new().name("finder".to_owned());
        let thread = build
            .spawn(move || {
                while !over.load(Ordering::Acquire) {
                    work.look(clock::tick());
                    std::thread::park_timeout(LOOK);
                }
                work.look_for_the_last_time();
            })
            .map_err(RunError::System)?;
        Ok(Self { is_over, followed, thread })
    }

    /// What it has found, now and later.
    pub fn followed(&self) -> Followed {
        self.followed.clone()
    }

    /// Looks a last time, once the command has ended.
    pub fn finish(self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // What it found it has told.
        let _ = self.thread.join();
    }
}

impl Work {
    fn look(&mut self, now: Instant) {
        self.read_notes();
        let Self { homes, following, missing, .. } = self;
        missing.retain_mut(|one| {
            if one.next > now {
                return true;
            }
            one.pause = (one.pause * 2).min(LOOK_FOR_FILE);
            one.next = now + one.pause;
            !follow(homes, &one.session, following)
        });
    }

    /// Notes are gone with their processes; transcripts are not.
    fn look_for_the_last_time(&mut self) {
        for one in std::mem::take(&mut self.missing) {
            follow(&self.homes, &one.session, &self.following);
        }
    }

    fn read_notes(&mut self) {
        let homes = Arc::clone(&self.homes);
        for Home { processes, notes, .. } in homes.iter() {
            for entry in fs::read_dir(notes).into_iter().flatten().flatten() {
                let Some(process) = processes.process_of_note(&entry.file_name()) else { continue };
                let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) else {
                    continue;
                };
                if self.read.get(&process) == Some(&modified) || !self.is_of_child(process) {
                    continue;
                }
                if let Some(note) = read(&entry.path()).and_then(|bytes| processes.read_note(&bytes))
                    && note.process == process
                    && note.started_ms >= self.since
                {
                    self.read.insert(process, modified);
                    self.take(note);
                }
            }
        }
    }

    fn take(&mut self, note: ProcessNote) {
        // What its output names is told by that.
        if self.followed.has(&note.session) || self.session.known().as_ref() == Some(&note.session) {
            return;
        }
        self.session.suggest(&note.session);
        self.followed.lock().push(note.clone());
        self.missing.push(Missing { session: note.session, pause: LOOK / 2, next: clock::tick() });
    }

    fn is_of_child(&self, process: i32) -> bool {
        let process = Pid::from_raw(process);
        getpgid(Some(process)).is_ok_and(|group| group == self.child) || self.descends(process)
    }

    fn descends(&self, process: Pid) -> bool {
        let mut at = Some(process);
        for _ in 0..ANCESTORS {
            match at {
                Some(one) if one == self.child => return true,
                Some(one) => at = parent(one),
                None => return false,
            }
        }
        false
    }
}

/// Follows a session's transcripts where there are some.
fn follow(homes: &[Home], session: &str, following: &FollowRequests) -> bool {
    // An id from outside becomes a part of a path only if it is a name.
    let is_name = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_name || session.is_empty() {
        return true;
    }
    let transcripts =
        |home: &Home| home.roots.iter().flat_map(|root| home.harness.transcripts_of(root, session)).collect();
    let found: Vec<PathBuf> = homes.iter().flat_map::<Vec<PathBuf>, _>(transcripts).collect();
    let is_there = !found.is_empty();
    found.into_iter().for_each(|path| following.follow(path));
    is_there
}

/// The bytes of a note; `None` where it is too long to be one.
fn read(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > NOTE_BYTES {
        return None;
    }
    fs::read(path).ok()
}

/// The parent of a process, where the system tells; elsewhere than on Linux its group alone does.
fn parent(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may hold anything: the state and the parent (proc_pid_stat(5)).
    let (_, fields) = stat.rsplit_once(')')?;
    let parent = fields.split_whitespace().nth(1)?.parse().ok()?;
    Some(Pid::from_raw(parent)).filter(|parent| parent.as_raw() > 1)
}
