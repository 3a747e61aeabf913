//! Watches the files of a harness for ids, byte by byte and without the product.

use std::{
    collections::HashMap,
    fs,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use anyhow::{Result, anyhow};
use subscope_rig::tick;

use super::live::FirstSeen;

/// Interval of checks of the files.
const EVERY: Duration = Duration::from_millis(5);
/// Ids may be cut where a file ends for the moment.
const OVERLAP: u64 = 200;
/// Shorter words are no ids.
const SHORTEST: usize = 12;

/// Records when each word that may be an id first appears in a file.
pub(super) struct FileWatch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<FirstSeen>,
}

impl FileWatch {
    /// Begins to watch a folder, which need not exist yet.
    pub(super) fn start(folder: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let (mut words, mut known) = (FirstSeen::new(), HashMap::new());
            while !stop.load(Ordering::Relaxed) {
                look(&folder, &mut known, &mut words);
                thread::sleep(EVERY);
            }
            words
        });
        Self { is_over, thread }
    }

    /// Ends it; returns what it has seen.
    pub(super) fn end(self) -> Result<FirstSeen> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the one who watches files broke"))
    }
}

/// Length and time of change of a file.
type Known = HashMap<PathBuf, (u64, Option<SystemTime>)>;

fn look(folder: &Path, known: &mut Known, words: &mut FirstSeen) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            look(&path, known, words);
            continue;
        }
        let now = (about.len(), about.modified().ok());
        let before = known.insert(path.clone(), now);
        if before == Some(now) {
            continue;
        }
        // A file that did not grow was overwritten: all of it may be new.
        let grown = before.filter(|(length, _)| *length < now.0);
        let from = grown.map_or(0, |(length, _)| length.saturating_sub(OVERLAP));
        read_words(&path, from, words);
    }
}

fn read_words(path: &Path, from: u64, words: &mut FirstSeen) {
    let (mut bytes, seen) = (Vec::new(), tick());
    let Ok(mut file) = fs::File::open(path) else { return };
    if file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut bytes)).is_err() {
        return;
    }
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'#');
    for word in bytes.split(|byte| !is_inner(byte)).filter(|word| word.len() >= SHORTEST) {
        let word = String::from_utf8_lossy(word);
        if !words.contains_key(&*word) {
            words.insert(word.into_owned(), seen);
        }
    }
}
