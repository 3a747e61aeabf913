//! All followed files, by name and by path.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_model::Millis;

use super::{
    EventSink, FileEvent, FileId,
    pace::Pace,
    tail::{Presence, Tail},
};
use crate::Found;

/// First and longest pause before a file that could not be read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(60);

/// When a file that could not be read is tried again.
#[derive(Debug)]
struct FailedLook {
    pause: Duration,
    since: Pace,
}

#[derive(Debug, Default)]
pub(super) struct Files {
    tails: BTreeMap<FileId, Tail>,
    ids: HashMap<PathBuf, FileId>,
    /// Removed files: one that appears again keeps its id.
    gone: HashMap<PathBuf, (FileId, Tail)>,
    /// Files that are shorter than the part that was read.
    short: BTreeSet<FileId>,
    /// Files that could not be read.
    failed: BTreeMap<FileId, FailedLook>,
    next: u32,
    chunk: Vec<u8>,
    now_ms: Millis,
}

impl Files {
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.ids.contains_key(path)
    }

    /// Sets the time of the round that begins.
    pub(super) fn begin_round(&mut self, now_ms: Millis) {
        self.now_ms = now_ms;
    }

    /// Begins to follow a file and reads what it holds. Does nothing if it is followed already.
    pub(super) fn open(&mut self, found: &Found, out: &mut EventSink<'_>) {
        if self.is_open(&found.path) {
            return;
        }
        let (file, tail) = self.gone.remove(&found.path).unwrap_or_else(|| {
            let new = FileId(self.next);
            self.next = self.next.wrapping_add(1);
            (new, Tail::new(found.path.clone()))
        });
        self.ids.insert(found.path.clone(), file);
        self.tails.insert(file, tail);
        out.send(FileEvent::Appeared { file, found });
        self.advance(file, out);
    }

    /// Reads what is new in one file.
    pub(super) fn refresh(&mut self, path: &Path, out: &mut EventSink<'_>) {
        if let Some(&file) = self.ids.get(path) {
            self.advance(file, out);
        }
    }

    /// Reads what is new anywhere.
    pub(super) fn refresh_all(&mut self, out: &mut EventSink<'_>) {
        self.refresh_below(Path::new(""), out);
    }

    /// Reads what is new below a folder.
    pub(super) fn refresh_below(&mut self, folder: &Path, out: &mut EventSink<'_>) {
        let below = self.tails.iter().filter(|(_, tail)| tail.is_below(folder));
        for file in below.map(|(file, _)| *file).collect::<Vec<_>>() {
            self.advance(file, out);
        }
    }

    /// Whether a file is shorter than the part that was read, or could not be read: such files are checked again soon.
    pub(super) fn has_unsettled(&self) -> bool {
        !self.short.is_empty() || !self.failed.is_empty()
    }

    /// Checks such files again, after the watcher was silent for this long.
    pub(super) fn refresh_unsettled(&mut self, waited: Duration, out: &mut EventSink<'_>) {
        for file in self.short.clone() {
            if let Some(tail) = self.tails.get_mut(&file) {
                tail.wait(waited);
            }
            self.advance(file, out);
        }
        self.failed.values_mut().for_each(|failed| failed.since.wait(waited));
        let is_due = |(_, failed): &(&FileId, &FailedLook)| failed.since.is_over(self.now_ms, failed.pause);
        let due: Vec<FileId> = self.failed.iter().filter(is_due).map(|(file, _)| *file).collect();
        for file in due {
            self.advance(file, out);
        }
    }

    fn advance(&mut self, file: FileId, out: &mut EventSink<'_>) {
        let Some(tail) = self.tails.get_mut(&file) else { return };
        match tail.advance(file, self.now_ms, &mut self.chunk, out) {
            Ok(Presence::There) => {
                if self.failed.remove(&file).is_some() {
                    out.send(FileEvent::Recovered { file });
                }
            }
            Ok(Presence::Gone) => {
                self.failed.remove(&file);
                if let Some(mut tail) = self.tails.remove(&file) {
                    tail.remove();
                    self.ids.remove(&tail.path);
                    self.gone.insert(tail.path.clone(), (file, tail));
                }
                out.send(FileEvent::Gone { file });
            }
            Err(error) => {
                let new = FailedLook { pause: RETRY_AFTER / 2, since: Pace::default() };
                let is_new = !self.failed.contains_key(&file);
                let failed = self.failed.entry(file).or_insert(new);
                failed.pause = (failed.pause * 2).min(RETRY_AFTER_AT_MOST);
                failed.since.restart(self.now_ms);
                if is_new {
                    out.send(FileEvent::Failed { file, what: &error.to_string() });
                }
            }
        }
        if self.tails.get(&file).is_some_and(Tail::is_short) {
            self.short.insert(file);
        } else {
            self.short.remove(&file);
        }
    }
}
