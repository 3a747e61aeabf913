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
const QUEUE_EVENTS: usize = 32;

/// Most file events handled per turn: bounds how long commands wait.
pub(crate) const TURN_EVENTS: usize = 16;

/// Longest wait of the thread for files: bounds how long it outlives its hub.
const POLL: Duration = Duration::from_millis(300);
/// The same for a thread with a `shutdown` flag, whose end a caller waits for.
const SHUTDOWN_POLL: Duration = Duration::from_millis(25);

/// Owned [`FileEvent`].
#[derive(Debug)]
enum OwnedFileEvent {
    Appeared { file: FileId, found: Box<Found> },
    Bytes { file: FileId, offset: u64, bytes: Vec<u8> },
    Restarted { file: FileId },
    Restored { file: FileId },
    Gone { file: FileId },
    Failed { file: FileId, what: String },
    Recovered { file: FileId },
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
    events: Receiver<(Millis, OwnedFileEvent)>,
    stop_flag: Arc<AtomicBool>,
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
        let (sender, events) = sync_channel(QUEUE_EVENTS);
        let stop_flag = Arc::new(AtomicBool::new(false));
        let (stop, wake) = (Arc::clone(&stop_flag), waker.clone());
        let build = std::thread::Builder::new().name("files".to_owned());
        build.spawn(move || {
            let mut thread = ReaderThread { follow, sender: Some(sender), stop, shutdown, waker: wake };
            thread.run();
        })?;
        Ok(Self { events, stop_flag, waker })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Passes on the queued events, at most [`TURN_EVENTS`], each with the time at which it was read.
    pub(crate) fn drain(&self, each: &mut dyn FnMut(Millis, FileEvent<'_>)) -> Drained {
        for _ in 0..TURN_EVENTS {
            let (at, event) = match self.events.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Empty) => return Drained::None,
                Err(TryRecvError::Disconnected) => return Drained::Ended,
            };
            match &event {
                OwnedFileEvent::Appeared { file, found } => {
                    each(at, FileEvent::Appeared { file: *file, found })
                }
                OwnedFileEvent::Bytes { file, offset, bytes } => {
                    each(at, FileEvent::Bytes { file: *file, offset: *offset, bytes });
                }
                OwnedFileEvent::Restarted { file } => each(at, FileEvent::Restarted { file: *file }),
                OwnedFileEvent::Restored { file } => each(at, FileEvent::Restored { file: *file }),
                OwnedFileEvent::Gone { file } => each(at, FileEvent::Gone { file: *file }),
                OwnedFileEvent::Failed { file, what } => each(at, FileEvent::Failed { file: *file, what }),
                OwnedFileEvent::Recovered { file } => each(at, FileEvent::Recovered { file: *file }),
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
        self.stop_flag.store(true, Ordering::Release);
    }
}

/// State of the thread.
struct ReaderThread {
    follow: Follow,
    /// `None` after the end.
    sender: Option<SyncSender<(Millis, OwnedFileEvent)>>,
    stop: Arc<AtomicBool>,
    shutdown: Option<Arc<AtomicBool>>,
    waker: Waker,
}

impl ReaderThread {
    fn run(&mut self) {
        let wait = if self.shutdown.is_some() { SHUTDOWN_POLL } else { POLL };
        let mut is_connected = true;
        while is_connected && !self.stop.load(Ordering::Acquire) {
            let is_shutdown = self.shutdown.as_ref().is_some_and(|shutdown| shutdown.load(Ordering::Acquire));
            is_connected = self.read(if is_shutdown { None } else { Some(wait) });
            if is_shutdown {
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
        let mut is_connected = true;
        let mut send = |event| {
            is_connected = is_connected && sender.send((clock::now_ms(), event)).is_ok();
            waker.wake();
        };
        let outcome = match wait {
            Some(wait) => follow.poll(wait, &mut |event| send(to_owned_event(event))),
            None => follow.read_all(&mut |event| send(to_owned_event(event))),
        };
        if let Err(error) = outcome {
            send(OwnedFileEvent::Problem { path: PathBuf::new(), what: error.to_string() });
            std::thread::sleep(wait.unwrap_or_default());
        }
        is_connected
    }
}

fn to_owned_event(event: FileEvent<'_>) -> OwnedFileEvent {
    match event {
        FileEvent::Appeared { file, found } => {
            OwnedFileEvent::Appeared { file, found: Box::new(found.clone()) }
        }
        FileEvent::Bytes { file, offset, bytes } => {
            OwnedFileEvent::Bytes { file, offset, bytes: bytes.to_vec() }
        }
        FileEvent::Restarted { file } => OwnedFileEvent::Restarted { file },
        FileEvent::Restored { file } => OwnedFileEvent::Restored { file },
        FileEvent::Gone { file } => OwnedFileEvent::Gone { file },
        FileEvent::Failed { file, what } => OwnedFileEvent::Failed { file, what: what.to_owned() },
        FileEvent::Recovered { file } => OwnedFileEvent::Recovered { file },
        FileEvent::Problem { path, what } => {
            OwnedFileEvent::Problem { path: path.to_owned(), what: what.to_owned() }
        }
        FileEvent::Whole { session } => OwnedFileEvent::Whole { session: session.to_owned() },
        FileEvent::CaughtUp => OwnedFileEvent::CaughtUp,
    }
}
