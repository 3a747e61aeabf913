//! Finds the sessions of the command's processes, by the process files that these write in the harness's home, and
//! follows their transcripts: without machine-readable output these are the only source.
//!
//! A session belongs to the command only if its process descends from the command or is in its process group, and wrote
//! its file after the command started. Of a harness whose processes write no such files, see [`WorkingFolder`].

use std::{
    collections::HashMap,
    iter::successors,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use subscope_harness::ProcessNote;
use subscope_hub::clock;
use subscope_model::{Millis, SessionId, own_id};
use subscope_platform::{ProcessStart, group_of, parent_of};

use crate::{
    CommandRunError, HarnessHome, WorkingFolder, line_tap::SessionName, process_identity::has_made,
    run_driver::RunHandle, working_folder::FolderWatch,
};

/// Scan interval of process files. A file exists as long as its process, at least half a second.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum interval of scans for a missing transcript: there may be thousands of folders.
const MAX_TRANSCRIPT_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of ancestors to check.
const MAX_ANCESTORS: usize = 128;
/// Thread that finds sessions until the command has ended.
#[derive(Debug)]
pub struct SessionFinder {
    is_over: Arc<AtomicBool>,
    followed: FollowedSessions,
    thread: JoinHandle<()>,
}

/// Sessions of the command's processes, as far as found.
#[derive(Clone, Debug, Default)]
pub struct FollowedSessions(Arc<Mutex<Vec<ProcessNote>>>);

impl FollowedSessions {
    /// Whether a process of the command is, or was, in a session.
    pub fn has(&self, session: &str) -> bool {
        self.lock().iter().any(|note| note.session == session)
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.ids().len()
    }

    /// Returns their ids, each once.
    pub(crate) fn ids(&self) -> Vec<SessionId> {
        let mut ids: Vec<SessionId> =
            self.lock().iter().map(|note| SessionId(own_id(&note.session).into())).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether a process of the command is interactive.
    pub fn has_screen(&self) -> bool {
        self.lock().iter().any(|note| note.has_screen)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ProcessNote>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct FinderWorker {
    homes: Arc<[HarnessHome]>,
    child: i32,
    since: Millis,
    session: Arc<SessionName>,
    /// Follows the transcripts; `None` if hooks report the sessions.
    following: Option<RunHandle>,
    followed: FollowedSessions,
    /// Modification times of the process files that were read.
    read: HashMap<i32, SystemTime>,
    missing: Vec<MissingTranscript>,
    /// Where the command's harness writes no process files.
    folder: Option<FolderWatch>,
}

/// A session without a transcript so far.
struct MissingTranscript {
    session: String,
    interval: Duration,
    next: Instant,
}

impl SessionFinder {
    /// Starts finding sessions of a child process that started at `since`, and following their transcripts, unless hooks
    /// report them.
    ///
    /// # Errors
    /// No thread is available.
    pub fn start(
        homes: Vec<HarnessHome>,
        child: u32,
        since: Millis,
        session: Arc<SessionName>,
        following: Option<RunHandle>,
        folder: Option<WorkingFolder>,
    ) -> Result<Self, CommandRunError> {
        let (is_over, followed) = (Arc::new(AtomicBool::new(false)), FollowedSessions::default());
        let mut worker = FinderWorker {
            homes: homes.into(),
            child: i32::try_from(child).unwrap_or(i32::MAX),
            since,
            session,
            following,
            followed: followed.clone(),
            read: HashMap::new(),
            missing: Vec::new(),
            folder: folder.map(FolderWatch::new),
        };
        let over = Arc::clone(&is_over);
        let build = std::thread::Builder::new().name("finder".to_owned());
        let thread = build
            .spawn(move || {
                while !over.load(Ordering::Acquire) {
                    worker.scan(clock::tick());
                    std::thread::park_timeout(SCAN_INTERVAL);
                }
                worker.follow_missing();
            })
            .map_err(CommandRunError::System)?;
        Ok(Self { is_over, followed, thread })
    }

    /// Returns a handle to the sessions found so far and later.
    pub fn followed(&self) -> FollowedSessions {
        self.followed.clone()
    }

    /// Ends the thread after a last search for missing transcripts.
    pub fn finish(self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

impl FinderWorker {
    fn scan(&mut self, now: Instant) {
        self.read_notes();
        self.look_at_folder(false);
        let Self { homes, following: Some(following), missing, .. } = self else { return };
        missing.retain_mut(|one| {
            if one.next > now {
                return true;
            }
            one.interval = (one.interval * 2).min(MAX_TRANSCRIPT_INTERVAL);
            one.next = now + one.interval;
            !follow(homes, &one.session, following)
        });
    }

    /// Tries missing transcripts a last time; process files are gone by now.
    fn follow_missing(&mut self) {
        self.look_at_folder(true);
        let Some(following) = &self.following else { return };
        for one in std::mem::take(&mut self.missing) {
            follow(&self.homes, &one.session, following);
        }
    }

    fn read_notes(&mut self) {
        let homes = Arc::clone(&self.homes);
        for file in homes.iter().flat_map(HarnessHome::note_files) {
            let Some(modified) = file.modified() else { continue };
            if self.read.get(&file.process) == Some(&modified) || !self.is_of_child(file.process) {
                continue;
            }
            if let Some(note) = file.read()
                && note.started_ms >= self.since
            {
                self.read.insert(file.process, modified);
                self.add(note);
            }
        }
    }

    fn add(&mut self, note: ProcessNote) {
        if self.followed.has(&note.session) {
            return;
        }
        self.followed.lock().push(note.clone());
        // The session of the output needs no transcript.
        if self.following.is_none() || self.session.detected().as_ref() == Some(&note.session) {
            return;
        }
        self.session.set_if_unknown(&note.session);
        self.missing.push(MissingTranscript {
            session: note.session,
            interval: SCAN_INTERVAL / 2,
            next: clock::tick(),
        });
    }

    /// Follows what appeared in the command's working folder.
    fn look_at_folder(&mut self, is_last: bool) {
        let (Some(folder), Some(following)) = (&mut self.folder, &self.following) else { return };
        for (session, path) in folder.look(is_last) {
            self.session.set_if_unknown(session.as_str());
            following.follow(path);
            let (process, started_ms) = (self.child, self.since);
            let session = session.to_string();
            let note = ProcessNote {
                process,
                session,
                started_ms,
                start_ticks: None,
                has_screen: false,
                activity: None,
                tmux_pane: None,
            };
            self.followed.lock().push(note);
        }
    }

    fn is_of_child(&self, process: i32) -> bool {
        group_of(process) == Some(self.child) || self.descends(process)
    }

    fn descends(&self, process: i32) -> bool {
        let mut ancestors = successors(Some(process), |one| parent_of(*one)).take(MAX_ANCESTORS);
        ancestors.any(|one| one == self.child)
    }
}

/// Returns the session of the nearest ancestor of this process that notes one: of the harness that started it.
pub fn session_of_caller(homes: &[HarnessHome]) -> Option<String> {
    nearest_noted_session(homes, MAX_ANCESTORS)
}

/// Returns the session that the parent of this process notes. An ancestor further up may have started another harness in
/// between, whose processes note nothing.
pub fn session_of_parent(homes: &[HarnessHome]) -> Option<String> {
    nearest_noted_session(homes, 1)
}

fn nearest_noted_session(homes: &[HarnessHome], generations: usize) -> Option<String> {
    let own = i32::try_from(std::process::id()).ok();
    let ancestors: Vec<i32> = successors(own, |one| parent_of(*one)).skip(1).take(generations).collect();
    let distance = |process: i32| ancestors.iter().position(|ancestor| *ancestor == process);
    let notes = homes.iter().flat_map(HarnessHome::note_files).filter_map(|file| {
        let distance = distance(file.process)?;
        let note = file.read()?;
        // The number of a process that was killed may be another's by now.
        let start = ProcessStart::of(note.process)?;
        has_made(&start, &note).then_some((distance, note.session))
    });
    notes.min().map(|(_, session)| session)
}

/// Follows a session's transcripts; returns `false` if there are none yet.
fn follow(homes: &[HarnessHome], session: &str, following: &RunHandle) -> bool {
    // An id from outside becomes part of a path: accept plain names only.
    let is_name = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_name || session.is_empty() {
        return true;
    }
    let roots = homes.iter().flat_map(|home| home.roots.iter().map(|root| (home.harness, root)));
    let found = roots.flat_map(|(harness, root)| harness.transcripts_of(root, session));
    found.map(|path| following.follow(path)).count() > 0
}
