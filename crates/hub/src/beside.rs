//! Followed files on a thread of their own, so that the hub can wait for commands and files at the same time.

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

/// How many pieces may wait to be folded, each of at most a chunk. The thread waits when they are full: nothing is
/// dropped.
const QUEUE_PIECES: usize = 64;

/// How many pieces are folded in one turn: what else is asked of the hub waits no longer than that takes.
pub(crate) const TURN_PIECES: usize = 16;

/// How long the thread waits for files at once: the longest that it outlives its hub.
const POLL: Duration = Duration::from_millis(300);

/// A [`FileEvent`] that owns what it tells.
#[derive(Debug)]
enum Piece {
    Appeared { file: FileId, found: Box<Found> },
    Bytes { file: FileId, offset: u64, bytes: Vec<u8> },
    Restarted { file: FileId },
    Gone { file: FileId },
    Problem { path: PathBuf, what: String },
    CaughtUp,
}

/// The hub's end of the thread. Dropping it ends the thread.
pub(crate) struct Beside {
    pieces: Receiver<(Millis, Piece)>,
    has_left: Arc<AtomicBool>,
    waker: Waker,
}

impl Beside {
    /// Starts the thread.
    pub(crate) fn start(follow: Follow, waker: Waker) -> std::io::Result<Self> {
        let (sender, pieces) = sync_channel(QUEUE_PIECES);
        let has_left = Arc::new(AtomicBool::new(false));
        let (stop, wake) = (Arc::clone(&has_left), waker.clone());
        let build = std::thread::Builder::new().name("files".to_owned());
        build.spawn(move || poll(follow, &sender, &stop, &wake))?;
        Ok(Self { pieces, has_left, waker })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Gives what has come, up to a turn's worth, each with the time at which it was read. Returns whether there may be
    /// more.
    pub(crate) fn take(&self, each: &mut dyn FnMut(Millis, FileEvent<'_>)) -> bool {
        for _ in 0..TURN_PIECES {
            let (at, piece) = match self.pieces.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return false,
            };
            match &piece {
                Piece::Appeared { file, found } => each(at, FileEvent::Appeared { file: *file, found }),
                Piece::Bytes { file, offset, bytes } => {
                    each(at, FileEvent::Bytes { file: *file, offset: *offset, bytes });
                }
                Piece::Restarted { file } => each(at, FileEvent::Restarted { file: *file }),
                Piece::Gone { file } => each(at, FileEvent::Gone { file: *file }),
                Piece::Problem { path, what } => each(at, FileEvent::Problem { path, what }),
                Piece::CaughtUp => each(at, FileEvent::CaughtUp),
            }
        }
        true
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.has_left.store(true, Ordering::Release);
    }
}

fn poll(mut follow: Follow, sender: &SyncSender<(Millis, Piece)>, stop: &AtomicBool, waker: &Waker) {
    let mut is_heard = true;
    while is_heard && !stop.load(Ordering::Acquire) {
        let outcome = follow.poll(POLL, &mut |event| {
            is_heard = is_heard && sender.send((clock::now_ms(), own(event))).is_ok();
            waker.wake();
        });
        if let Err(error) = outcome {
            let problem = Piece::Problem { path: PathBuf::new(), what: error.to_string() };
            is_heard = is_heard && sender.send((clock::now_ms(), problem)).is_ok();
            waker.wake();
            std::thread::sleep(POLL);
        }
    }
}

fn own(event: FileEvent<'_>) -> Piece {
    match event {
        FileEvent::Appeared { file, found } => Piece::Appeared { file, found: Box::new(found.clone()) },
        FileEvent::Bytes { file, offset, bytes } => Piece::Bytes { file, offset, bytes: bytes.to_vec() },
        FileEvent::Restarted { file } => Piece::Restarted { file },
        FileEvent::Gone { file } => Piece::Gone { file },
        FileEvent::Problem { path, what } => Piece::Problem { path: path.to_owned(), what: what.to_owned() },
        FileEvent::CaughtUp => Piece::CaughtUp,
    }
}
