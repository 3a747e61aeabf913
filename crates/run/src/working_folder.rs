//! Finds the sessions of a command whose harness notes nowhere which process is in which session: those in its working
//! folder that began while it ran, or were written by it where it resumes one.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use subscope_collect::{expand, transcripts_since};
use subscope_harness::Root;
use subscope_hub::{BatchRead, clock};
use subscope_model::{Millis, PriceTable, Session, SessionId};
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions};

/// Shortest and longest interval between two looks.
const LOOK_INTERVAL: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Where the sessions of a command may appear.
pub struct WorkingFolder {
    /// The folders that its harness's transcripts are below.
    pub roots: Vec<Root>,
    /// Its working folder.
    pub folder: PathBuf,
    /// When it started.
    pub since: SystemTime,
    /// Whether its session may have begun earlier.
    pub is_resumed: bool,
}

/// Looks for sessions of a working folder.
pub(crate) struct FolderWatch {
    place: WorkingFolder,
    /// Transcripts of which it is known whether they are of the folder.
    known: HashMap<PathBuf, bool>,
    next: Instant,
}

impl WorkingFolder {
    /// Whether a session that began at this time may be the command's.
    fn may_hold(&self, began_ms: Millis) -> bool {
        let since = self.since.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as Millis);
        self.is_resumed || began_ms >= since
    }
}

impl FolderWatch {
    pub(crate) fn new(place: WorkingFolder) -> Self {
        Self { place, known: HashMap::new(), next: clock::tick() }
    }

    /// Returns the sessions that appeared since the last look, with their transcripts; looks only where it is time to,
    /// or `is_last`.
    pub(crate) fn look(&mut self, is_last: bool) -> Vec<(SessionId, PathBuf)> {
        let began = clock::tick();
        if began < self.next && !is_last {
            return Vec::new();
        }
        let mut found = Vec::new();
        for root in &self.place.roots {
            for (session, path) in transcripts_since(root, self.place.since) {
                if self.known.contains_key(&path) {
                    continue;
                }
                // Folder and time may not be written yet.
                let row = session_of(&path, &session);
                let Some((folder, began_ms)) = row.and_then(|row| row.cwd.zip(row.started_at_ms)) else {
                    continue;
                };
                let is_own =
                    self.place.may_hold(began_ms) && is_same(Path::new(&*folder), &self.place.folder);
                self.known.insert(path.clone(), is_own);
                if is_own {
                    found.push((session, path));
                }
            }
        }
        // A home with thousands of sessions is looked at less often.
        let [shortest, longest] = LOOK_INTERVAL;
        self.next = began + (began.elapsed() * 20).clamp(shortest, longest);
        found
    }
}

/// Returns the row of the session that a transcript is of.
fn session_of(path: &Path, session: &SessionId) -> Option<Session> {
    let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
    let read = BatchRead::read(expand(path).ok()?, options, None);
    let (prices, limits) = (PriceTable::default(), Limits::default());
    let now = Now { at: clock::now_ms(), has_ended: false, is_growing: true, prices: &prices, limits };
    read.router.tree(session, &now).map(|tree| tree.session)
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}
