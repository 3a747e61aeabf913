//! WAL checkpoints on a thread of their own: they wait for the disk, and commits must not.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, sync_channel},
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, hooks::Wal};

use super::Access;

/// Pages in the WAL that start a checkpoint. A longer WAL holds more versions of the same page, of which one is copied;
/// 16 MB are recovered in some milliseconds.
const CHECKPOINT_PAGES: i32 = 4000;
/// Pages in the WAL at which the writer itself checkpoints, since the thread cannot catch up; the WAL then restarts.
const MAX_PAGES: i32 = 4 * CHECKPOINT_PAGES;

/// Checkpoint thread of a writing connection, which must be dropped before it: the thread ends with the connection's
/// hook.
#[derive(Debug)]
pub(super) struct Checkpointer(Option<JoinHandle<()>>);

impl Checkpointer {
    /// Starts the thread and turns the connection's own checkpoints off.
    pub(super) fn start(db: &mut Connection, path: PathBuf) -> rusqlite::Result<Self> {
        let (wake, wakeups) = sync_channel(1);
        db.wal_hook(Some(move |log: &mut Wal, pages: i32| {
            if pages >= MAX_PAGES {
                // Refused while the thread checkpoints; the next commit tries again.
                let _ = log.checkpoint();
            } else if pages >= CHECKPOINT_PAGES {
                // Fails if the thread is awake or could not be started; the WAL then grows to `MAX_PAGES`.
                let _ = wake.try_send(());
            }
            Ok(())
        }))?;
        let thread = thread::Builder::new()
            .name("checkpoints".to_owned())
            .spawn(move || checkpoint_on_wakeup(&path, &wakeups));
        Ok(Self(thread.ok()))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Checkpoints on each wake-up. A failed checkpoint is tried again on the next, and by the writer at [`MAX_PAGES`].
fn checkpoint_on_wakeup(path: &Path, wakeups: &Receiver<()>) {
    let mut db = None;
    while wakeups.recv().is_ok() {
        db = db.or_else(|| super::connect(path, Access::Write).ok());
        if let Some(db) = &db {
            let _ = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}
