//! Finds the sessions of a command whose harness notes nowhere which process is in which session: those in its working
//! folder whose transcript was written while it ran.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use subscope_collect::{expand, transcripts_since};
use subscope_harness::Root;
use subscope_hub::{BatchRead, clock};
use subscope_model::{PriceTable, SessionId};
use subscope_session::{FactDetail, Limits, Now, RouterOptions};

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
}

/// Looks for sessions of a working folder.
pub(crate) struct FolderWatch {
    place: WorkingFolder,
    /// Transcripts of which it is known whether they are of the folder.
    known: HashMap<PathBuf, bool>,
    next: Instant,
}

impl FolderWatch {
    pub(crate) fn new(place: WorkingFolder) -> Self {
        Self { place, known: HashMap::new(), next: clock::tick() }
    }

    /// Returns the sessions that appeared since the last look, with their transcripts; looks only where it is time to,
    /// or `is_last`.
    pub(crate) fn look(&mut self, is_last: bool) -> Vec<(String, PathBuf)> {
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
                // The folder may not be written yet.
                let Some(folder) = folder_of(&path, &session) else { continue };
                let is_own = is_same(&folder, &self.place.folder);
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

/// Returns the working folder that a transcript names.
fn folder_of(path: &Path, session: &str) -> Option<PathBuf> {
    let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: false };
    let read = BatchRead::read(expand(path).ok()?, options, None);
    let (prices, limits) = (PriceTable::default(), Limits::default());
    let now = Now { at: clock::now_ms(), has_ended: false, is_growing: true, prices: &prices, limits };
    let tree = read.router.tree(&SessionId::from(session), &now)?;
    tree.session.cwd.map(|folder| PathBuf::from(&*folder))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}
