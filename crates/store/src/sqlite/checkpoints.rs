//! Copying the log into the file, beside whoever writes: it waits for the disk, and nobody who hands something over
//! should wait for that.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, sync_channel},
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, hooks::Wal};

use super::Access;

/// How many pages the log holds before they are copied: the longer the log, the more pages stand in it several times and
/// are copied once. 16 MB are read again in some milliseconds.
const PAGES: i32 = 4000;
/// How many it may hold where the copying never comes to its end because more is written meanwhile: then whoever writes
/// copies the rest, so that the log begins anew.
const MOST_PAGES: i32 = 4 * PAGES;

/// The thread that copies. It ends with the connection for which it does, which must be dropped before.
#[derive(Debug)]
pub(super) struct Checkpoints(Option<JoinHandle<()>>);

impl Checkpoints {
    /// Copies for a connection that writes, instead of that connection.
    pub(super) fn beside(db: &mut Connection, path: PathBuf) -> rusqlite::Result<Self> {
        let (wake, woken) = sync_channel(1);
        db.wal_hook(Some(move |log: &mut Wal, pages: i32| {
            if pages >= MOST_PAGES {
                // Where the thread is at it this is refused, and tried again with the next commit.
                let _ = log.checkpoint();
            } else if pages >= PAGES {
                // It is awake already, or there is none: then the log grows to its greatest.
                let _ = wake.try_send(());
            }
            Ok(())
        }))?;
        let thread = thread::Builder::new().name("checkpoints".to_owned()).spawn(move || copy(&path, &woken));
        Ok(Self(thread.ok()))
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Copies whenever it is told to. What fails is tried again, and in the end by whoever writes.
fn copy(path: &Path, woken: &Receiver<()>) {
    let mut db = None;
    while woken.recv().is_ok() {
        db = db.or_else(|| super::connect(path, Access::Write).ok());
        if let Some(db) = &db {
            let _ = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}
