//! Circuit breaker of hooks: after a hook has timed out waiting for the hub, hooks spool at once until the hub answers
//! again.
//!
//! Its state is an empty file in the data directory. A hook that times out spools its payload, then creates the file. A
//! hub removes it after it has drained the spool, so that spooled and posted payloads stay in order. When the file is
//! older than [`RETRY_AFTER`], one hook tries the hub again: it touches the file first, so that other hooks go on
//! spooling.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use subscope_hub::clock;
use subscope_platform::OpenPolicy as _;

/// Name of the file in the data directory.
const FILE: &str = "hub.unresponsive";
/// Time until a hook tries the hub again: a hub that hangs for ever costs one hook per interval its whole deadline. A
/// hub that recovers removes the file within about a second.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// State of the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerState {
    /// Post to the hub.
    Closed,
    /// Spool.
    Open,
    /// Post to the hub, to find out whether it answers again.
    HalfOpen,
}

/// The circuit breaker of a data directory.
#[derive(Debug)]
pub(crate) struct Breaker(PathBuf);

impl Breaker {
    /// Returns the breaker of a data directory, which must be writable by its owner only.
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join(FILE))
    }

    /// Returns the state. Of concurrent hooks one gets [`BreakerState::HalfOpen`], rarely more.
    pub(super) fn state(&self) -> BreakerState {
        let Ok(found) = fs::metadata(&self.0) else { return BreakerState::Closed };
        let since = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        // After the clock was set back the file counts as old.
        let age = since.and_then(|since| Duration::from_nanos(clock::now_ns()).checked_sub(since));
        if age.is_some_and(|age| age < RETRY_AFTER) {
            return BreakerState::Open;
        }
        self.trip();
        BreakerState::HalfOpen
    }

    /// Opens the breaker: the next hooks spool. If the file cannot be written it stays closed.
    pub(super) fn trip(&self) {
        let made = OpenOptions::new().write(true).create(true).truncate(false).private().open(&self.0);
        let now = UNIX_EPOCH + Duration::from_nanos(clock::now_ns());
        // A failure costs only the next hook its deadline.
        let _ = made.and_then(|file| file.set_modified(now));
    }

    pub(crate) fn is_tripped(&self) -> bool {
        self.0.exists()
    }

    /// Closes the breaker: the next hooks post to the hub.
    pub(crate) fn reset(&self) {
        // Usually there is no file.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_tripped_breaker_lets_one_hook_through_when_it_is_old() {
        let data = tempfile::tempdir().unwrap();
        let breaker = Breaker::of(data.path());
        assert!(breaker.state() == BreakerState::Closed && !breaker.is_tripped());
        breaker.trip();
        assert!(breaker.state() == BreakerState::Open && breaker.is_tripped());
        let file = data.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let at = |moment| OpenOptions::new().write(true).open(&file).unwrap().set_modified(moment).unwrap();
        let now = UNIX_EPOCH + Duration::from_nanos(clock::now_ns());
        for moment in [now - RETRY_AFTER, now + 2 * RETRY_AFTER, UNIX_EPOCH] {
            at(moment);
            let states = [breaker.state(), breaker.state()];
            assert_eq!(states, [BreakerState::HalfOpen, BreakerState::Open], "{moment:?}");
        }
        breaker.reset();
        assert!(breaker.state() == BreakerState::Closed && !file.exists());
        breaker.reset();
    }
}
