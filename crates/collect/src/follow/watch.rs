//! The operating system's watcher with a bounded queue that reports its losses: folders in, changed paths out.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use notify::{
    Config, ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher, event::ModifyKind,
};
use subscope_platform::{DeviceInode, REPORTS_OPEN_FILES, WATCHES_TREES, device_inode};

use super::Watching;
use crate::Skipped;

/// Most changes that wait for a round. One above it is dropped, and everything is listed instead; so the bound trades
/// memory (some 100 bytes each) against the cost of a listing.
const QUEUE: usize = 4096;
/// Folders of idle sessions that are watched. Each costs some 2 KiB, half of it in the kernel, out of a limit
/// that a user's programs share; beyond it an idle session's subagents are seen by the regular listing.
const IDLE_FOLDERS: usize = 4096;

/// Something happened at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    /// Whether it can be more than a change of rights, times or links.
    pub(super) is_content: bool,
}

/// What happened since the last time.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In order, without repeats of the same path in a row.
    pub(super) changes: Vec<Change>,
    /// Whether more happened than is reported.
    pub(super) is_incomplete: bool,
}

pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    changes: Receiver<Change>,
    is_incomplete: Arc<AtomicBool>,
    /// In the order of paths, in which those below a folder follow it. With the device and number of the folder that was
    /// at the path, since the system watches that one and not the path.
    folders: BTreeMap<PathBuf, Option<DeviceInode>>,
    is_polling: bool,
    notices: Vec<Skipped>,
    /// Keeps the queue open, and so waiting possible, where there is no watcher.
    _open: SyncSender<Change>,
}

impl Watch {
    /// Returns a watch of no folder yet. `path` is named if there can be no watcher at all.
    pub(super) fn new(watching: Watching, path: &Path) -> Self {
        let (sender, changes) = sync_channel(QUEUE);
        let mut watch = Self {
            watcher: None,
            changes,
            is_incomplete: Arc::default(),
            folders: BTreeMap::new(),
            is_polling: watching == Watching::Polling || !REPORTS_OPEN_FILES,
            notices: Vec::new(),
            _open: sender.clone(),
        };
        if watching == Watching::Native {
            let is_incomplete = Arc::clone(&watch.is_incomplete);
            let handler = move |event| hand_on(event, &sender, &is_incomplete);
            match RecommendedWatcher::new(handler, Config::default().with_follow_symlinks(false)) {
                Ok(watcher) => watch.watcher = Some(watcher),
                Err(error) => watch.fall_back(path, &error),
            }
        }
        watch
    }

    /// Whether something is not watched and must be listed regularly.
    pub(super) fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// Watches a folder. Returns whether it was not watched before.
    pub(super) fn folder(&mut self, folder: &Path) -> bool {
        if self.watcher.is_none() {
            return false;
        }
        let identity = fs::metadata(folder).and_then(|metadata| device_inode(folder, &metadata)).ok();
        if self.folders.get(folder).is_some_and(|watched| *watched != identity) {
            // Replaced, and nobody said so: a folder above was moved that is not watched.
            self.forget(folder);
        }
        let Some(watcher) = &mut self.watcher else { return false };
        if self.folders.contains_key(folder)
            || WATCHES_TREES && folder.ancestors().any(|up| self.folders.contains_key(up))
        {
            return false;
        }
        let mode = if WATCHES_TREES { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        match watcher.watch(folder, mode) {
            Ok(()) => self.folders.insert(folder.to_owned(), identity).is_none(),
            // It vanished meanwhile: the folder above reports when it comes back.
            Err(error) if is_missing(&error) => false,
            Err(error) => {
                self.fall_back(folder, &error);
                false
            }
        }
    }

    /// Watches a folder of an idle session, unless there are too many.
    pub(super) fn idle_folder(&mut self, folder: &Path) {
        if self.folders.len() < IDLE_FOLDERS {
            self.folder(folder);
        }
    }

    /// Watches the nearest folder above a missing path. Returns whether it was not watched before.
    pub(super) fn nearest_above(&mut self, path: &Path) -> bool {
        if WATCHES_TREES {
            // The recursive watch could cover the whole home folder. While something is missing, short rounds check for
            // it instead.
            return false;
        }
        let above = path.ancestors().skip(1).find(|up| up.is_dir());
        // The watcher reports canonical paths.
        let above = above.and_then(|up| std::fs::canonicalize(up).ok());
        above.is_some_and(|up| self.folder(&up))
    }

    /// Forgets a folder that was removed, moved or replaced, and those below it. Returns whether any was watched.
    pub(super) fn forget(&mut self, folder: &Path) -> bool {
        let from = self.folders.range(folder.to_owned()..).map(|(watched, _)| watched);
        let below: Vec<PathBuf> = from.take_while(|watched| watched.starts_with(folder)).cloned().collect();
        for path in &below {
            self.folders.remove(path);
            if let Some(watcher) = &mut self.watcher {
                // Fails where the watcher saw it go: then there is nothing to undo.
                let _ = watcher.unwatch(path);
            }
        }
        WATCHES_TREES || !below.is_empty()
    }

    /// Waits for changes.
    pub(super) fn collect(&mut self, wait: Duration) -> Batch {
        let mut batch = Batch::default();
        if !self.is_incomplete.load(Ordering::Acquire)
            && let Ok(change) = self.changes.recv_timeout(wait)
        {
            batch.changes.push(change);
            // Bounded: later changes belong to the next round.
            for change in self.changes.try_iter().take(QUEUE) {
                if batch.changes.last() != Some(&change) {
                    batch.changes.push(change);
                }
            }
        }
        batch.is_incomplete = self.is_incomplete.swap(false, Ordering::AcqRel);
        batch
    }

    /// Returns what the user should know about the watching itself.
    pub(super) fn take_notices(&mut self) -> Vec<Skipped> {
        std::mem::take(&mut self.notices)
    }

    fn fall_back(&mut self, path: &Path, error: &notify::Error) {
        if !self.is_polling {
            let reason = if matches!(error.kind, ErrorKind::MaxFilesWatch) {
                "the limit of watched folders is reached".to_owned()
            } else {
                error.to_string()
            };
            let why = format!("cannot be watched ({reason}); files are looked at every second instead");
            self.notices.push(Skipped { path: path.to_owned(), why });
        }
        self.is_polling = true;
    }
}

/// Passes an event to the queue. Runs on the watcher's thread, which must never block: the kernel's queue would
/// overflow.
fn hand_on(event: notify::Result<Event>, sender: &SyncSender<Change>, is_incomplete: &AtomicBool) {
    let Ok(event) = event else { return is_incomplete.store(true, Ordering::Release) };
    if event.need_rescan() {
        is_incomplete.store(true, Ordering::Release);
    }
    // Opening and closing a file (we do it, too) is not a change.
    if matches!(event.kind, EventKind::Access(_)) {
        return;
    }
    let is_content = !matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)));
    for path in event.paths {
        if sender.try_send(Change { path, is_content }).is_err() {
            is_incomplete.store(true, Ordering::Release);
        }
    }
}

fn is_missing(error: &notify::Error) -> bool {
    matches!(&error.kind, ErrorKind::PathNotFound)
        || matches!(&error.kind, ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::NotFound)
}
