//! What hands bytes to the hub.

use std::time::Duration;

use subscope_fold::Fold;
use subscope_model::{Millis, Problem, SessionId, SourceId};

use crate::{clock, handle::Waker};

/// What one turn of a driver did.
#[derive(Debug, Default)]
pub struct PollResult {
    /// Whether it pushed anything into the fold.
    pub has_pushed: bool,
    /// Sessions of which everything is read that stood there at first.
    pub whole: Vec<SessionId>,
    /// Whether everything that stood there is read for now.
    pub is_caught_up: bool,
    /// Whether what stood there at first is still being read: how old that is says nothing yet.
    pub is_catching_up: bool,
    /// Whether nothing will come any more.
    pub has_ended: bool,
    /// Sessions of which a file was truncated or replaced by other content, and is read to its end again: to be reloaded.
    pub replaced: Vec<SessionId>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// A source of bytes with its own idea of time: the machine's, or that of a replayed recording.
pub trait Driver: Send {
    /// Waits no longer than `wait` for bytes and pushes them into the fold.
    fn poll(&mut self, wait: Duration, fold: &mut Fold) -> PollResult;

    /// The time now, by this driver.
    fn now(&self) -> Millis;

    /// How long its world has been awake: unlike [`Driver::now`], this stands still while the machine sleeps.
    fn awake_ms(&self) -> Millis {
        clock::awake_ms()
    }

    /// Whether it reads the files of this session by itself.
    fn follows(&self, _session: &SessionId) -> bool {
        false
    }

    /// How many bytes it has read of a session that it alone tells of and can read again; `None` for any other.
    fn reloadable_bytes(&self, _session: &SessionId) -> Option<u64> {
        None
    }

    /// Lets go of what the fold knows of a session from its files and from these other sources, and reads the files again from
    /// their beginning before it goes on. Returns whether it has.
    fn evict(&mut self, session: &SessionId, others: &[SourceId], fold: &mut Fold) -> bool {
        fold.evict(session, others)
    }

    /// Reads again now what it has let go of, since something else tells of this session. Returns whether there was anything.
    fn reload_evicted(&mut self, _session: &SessionId, _fold: &mut Fold) -> bool {
        false
    }

    /// Folds a session anew from its files, after [`PollResult::replaced`] named it: what the fold has of it, and of these other sources, is
    /// forgotten first. Without `others`, or where the fold cannot forget it, what the replaced files say now joins what they said
    /// before. Returns whether the fold has forgotten the session.
    fn reload(&mut self, _session: &SessionId, _others: Option<&[SourceId]>, _fold: &mut Fold) -> bool {
        false
    }

    /// Waits on a thread of its own from now on and wakes the hub when there is something, so that turns need not wait.
    /// Returns whether it does; one that cannot is asked in short turns.
    fn wake_with(&mut self, _waker: Waker) -> bool {
        false
    }
}

/// Nothing to read: for a hub that is only told things.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Driver for Nothing {
    fn poll(&mut self, wait: Duration, _fold: &mut Fold) -> PollResult {
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
