//! Thread that tails files, so that the hub can wait for commands and files at the same time.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    time::Duration,
};

use subscope_collect::{
    Found,
    follow::{FileEvent, FileId, Follow},
};
use subscope_model::Millis;

use crate::{clock, handle::Waker};

/// Capacity of the queue to the hub, in file events of at most one chunk. The thread blocks when it is full: nothing is
/// dropped.
const QUEUE_PIECES: usize = 32;

/// Most file events folded per turn: bounds how long commands wait.
pub(crate) const TURN_PIECES: usize = 16;

/// Longest wait of the thread for files: bounds how long it outlives its hub.
const POLL: Duration = Duration::from_millis(300);
/// The same for a thread with a `shutdown` flag, whose end a caller waits for.
const POLL_UNTIL: Duration = Duration::from_millis(25);

/// Owned [`FileEvent`].
#[derive(Debug)]
enum OwnedFileEvent {
    Appeared { file: FileId, found: Box<Found> },
    Bytes { file: FileId, offset: u64, bytes: Vec<u8> },
    Restarted { file: FileId },
    Gone { file: FileId },
    Problem { path: PathBuf, what: String },
    Whole { session: String },
    CaughtUp,
}

/// Result of draining the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// There may be more events.
    More,
    /// The queue is empty.
    None,
    /// The thread has ended.
    Ended,
}

/// The hub's end of the thread. Dropping it stops the thread.
pub(crate) struct FileReaderThread {
    pieces: Receiver<(Millis, OwnedFileEvent)>,
    has_left: Arc<AtomicBool>,
    waker: Waker,
}

impl FileReaderThread {
    /// Starts the thread. If `shutdown` is given and gets set, it reads all files to their end once more, and ends.
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub(crate) fn start(
        follow: Follow,
        waker: Waker,
        shutdown: Option<Arc<AtomicBool>>,
    ) -> std::io::Result<Self> {
        let (sender, pieces) = sync_channel(QUEUE_PIECES);
        let has_left = Arc::new(AtomicBool::new(false));
        let (stop, wake) = (Arc::clone(&has_left), waker.clone());
        let build = std::thread::Builder::new().name("files".to_owned());
        build.spawn(move || {
            let mut thread = Thread { follow, sender: Some(sender), stop, shutdown, waker: wake };
            thread.run();
        })?;
        Ok(Self { pieces, has_left, waker })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Passes on the queued events, at most [`TURN_EVENTS`], each with the time at which it was read.
    pub(crate) fn take(&self, each: &mut dyn FnMut(Millis, FileEvent<'_>)) -> Drained {
        for _ in 0..TURN_PIECES {
            let (at, piece) = match self.pieces.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Empty) => return Drained::None,
                Err(TryRecvError::Disconnected) => return Drained::Ended,
            };
            match &piece {
                OwnedFileEvent::Appeared { file, found } => {
                    each(at, FileEvent::Appeared { file: *file, found })
                }
                OwnedFileEvent::Bytes { file, offset, bytes } => {
                    each(at, FileEvent::Bytes { file: *file, offset: *offset, bytes });
                }
                OwnedFileEvent::Restarted { file } => each(at, FileEvent::Restarted { file: *file }),
                OwnedFileEvent::Gone { file } => each(at, FileEvent::Gone { file: *file }),
                OwnedFileEvent::Problem { path, what } => each(at, FileEvent::Problem { path, what }),
                OwnedFileEvent::Whole { session } => each(at, FileEvent::Whole { session }),
                OwnedFileEvent::CaughtUp => each(at, FileEvent::CaughtUp),
            }
        }
        Drained::More
    }
}

impl Drop for FileReaderThread {
    fn drop(&mut self) {
        self.has_left.store(true, Ordering::Release);
    }
}

/// State of the thread.
struct Thread {
    follow: Follow,
    /// `None` after the end.
    sender: Option<SyncSender<(Millis, OwnedFileEvent)>>,
    stop: Arc<AtomicBool>,
    shutdown: Option<Arc<AtomicBool>>,
    waker: Waker,
}

impl Thread {
    fn run(&mut self) {
        let wait = if self.shutdown.is_some() { POLL_UNTIL } else { POLL };
        let mut is_heard = true;
        while is_heard && !self.stop.load(Ordering::Acquire) {
            let is_over = self.shutdown.as_ref().is_some_and(|shutdown| shutdown.load(Ordering::Acquire));
            is_heard = self.read(if is_over { None } else { Some(wait) });
            if is_over {
                break;
            }
        }
        self.sender = None;
        self.waker.wake();
    }

    /// Reads new file content for at most `wait`, or once to the end of all files. Returns whether the hub still
    /// listens.
    fn read(&mut self, wait: Option<Duration>) -> bool {
        let Self { follow, sender: Some(sender), waker, .. } = self else { return false };
        let mut is_heard = true;
        let mut tell = |piece| {
            is_heard = is_heard && sender.send((clock::now_ms(), piece)).is_ok();
            waker.wake();
        };
        let outcome = match wait {
            Some(wait) => follow.poll(wait, &mut |event| tell(own(event))),
            None => follow.read_all(&mut |event| tell(own(event))),
        };
        if let Err(error) = outcome {
            tell(OwnedFileEvent::Problem { path: PathBuf::new(), what: error.to_string() });
            std::thread::sleep(wait.unwrap_or_default());
        }
        is_heard
    }
}

fn own(event: FileEvent<'_>) -> OwnedFileEvent {
    match event {
        FileEvent::Appeared { file, found } => {
            OwnedFileEvent::Appeared { file, found: Box::new(found.clone()) }
        }
        FileEvent::Bytes { file, offset, bytes } => {
            OwnedFileEvent::Bytes { file, offset, bytes: bytes.to_vec() }
        }
        FileEvent::Restarted { file } => OwnedFileEvent::Restarted { file },
        FileEvent::Gone { file } => OwnedFileEvent::Gone { file },
        FileEvent::Problem { path, what } => {
            OwnedFileEvent::Problem { path: path.to_owned(), what: what.to_owned() }
        }
        FileEvent::Whole { session } => OwnedFileEvent::Whole { session: session.to_owned() },
        FileEvent::CaughtUp => OwnedFileEvent::CaughtUp,
    }
}
