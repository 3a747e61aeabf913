//! Drivers: sources of bytes that the event loop polls.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    time::Duration,
};

use subscope_model::{Millis, Problem, SessionId, SourceId};
use subscope_session::SessionRouter;
use subscope_store::SourceFile;

use crate::{clock, handle::Waker};

/// Result of a poll.
#[derive(Debug, Default)]
pub struct PollResult {
    /// Whether it pushed anything into the router.
    pub has_pushed: bool,
    /// Sessions whose initial content is read.
    pub loaded: Vec<SessionId>,
    /// Whether all initial content is read.
    pub is_caught_up: bool,
    /// Whether initial content is still being read: its age does not count as silence yet.
    pub is_catching_up: bool,
    /// Whether the input has ended.
    pub has_ended: bool,
    /// Sessions of which a file can no longer be read, or can be read again.
    pub unread_changed: Vec<SessionId>,
    /// Read errors.
    pub problems: Vec<Problem>,
}

/// A source of bytes with its own clock: the machine's, or that of a replayed recording.
pub trait Driver: Send {
    /// Waits at most `wait` for bytes and pushes them into the router.
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult;

    /// The time now by this driver's clock.
    fn now(&self) -> Millis;

    /// Monotonic milliseconds; unlike [`Driver::now`], they do not advance while the machine is suspended.
    fn awake_ms(&self) -> Millis {
        clock::awake_ms()
    }

    /// Whether it tails the files of this session.
    fn follows(&self, _session: &SessionId) -> bool {
        false
    }

    /// Whether a file of the session that this driver met late was created before the driver: what it held then is not
    /// new. `false` where the file system does not tell.
    fn is_older_than_hub(&self, _session: &SessionId) -> bool {
        false
    }

    /// Paths of the files of a session that it tails and that are not deleted.
    fn tailed_files(&self, _session: &SessionId) -> HashSet<&Path> {
        HashSet::new()
    }

    /// Returns the tailed files of a session that were read further since the last call, each with its state as far as it
    /// was read.
    fn take_read_files(&mut self, _session: &SessionId) -> Vec<SourceFile> {
        Vec::new()
    }

    /// Bytes to re-read if the session is evicted; `None` if this driver cannot reload it.
    fn reloadable_bytes(&self, _session: &SessionId) -> Option<u64> {
        None
    }

    /// Removes a session and its sources from the router. Its files are read again before more of them is pushed.
    /// Returns the closed sources; `None` if the session cannot be evicted.
    fn evict(&mut self, session: &SessionId, router: &mut SessionRouter) -> Option<BTreeSet<SourceId>> {
        router.evict(session, &[])
    }

    /// Reads the files of an evicted session again, because input for it arrived from elsewhere. Returns whether it was
    /// evicted.
    fn reload_evicted(&mut self, _session: &SessionId, _fold: &mut SessionRouter) -> bool {
        false
    }

    /// Why files of a session cannot be read.
    fn unread(&self, _session: &SessionId) -> Vec<Problem> {
        Vec::new()
    }

    /// Whether the router lacks something that was read of a session before, because it cannot be read again.
    fn is_incomplete(&self, _session: &SessionId) -> bool {
        false
    }

    /// Whether a file of a session was cut or replaced: no file has some of its facts.
    fn is_cut(&self, _session: &SessionId) -> bool {
        false
    }

    /// Reads again what could not be read of a session.
    fn retry_unread(&mut self, _session: &SessionId, _router: &mut SessionRouter) {}

    /// Starts a thread that waits for input and wakes the hub, so that `poll` need not wait. Returns whether it did;
    /// otherwise the driver is polled with short waits.
    fn wake_with(&mut self, _waker: Waker) -> bool {
        false
    }
}

/// Driver without input, for a hub that only receives ingests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Driver for Nothing {
    fn poll(&mut self, wait: Duration, _fold: &mut SessionRouter) -> PollResult {
        std::thread::sleep(wait);
        PollResult { is_caught_up: true, ..PollResult::default() }
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }

    fn wake_with(&mut self, _waker: Waker) -> bool {
        true
    }
}
