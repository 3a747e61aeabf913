//! Circuit breaker of hooks: once a hook has waited in vain for the hub, hooks spool at once until the hub answers again.
//!
//! Its state is one empty file in the folder for data. A hook whose hub does not answer in time makes it, behind its payload in
//! the spool. A hub removes it when it has taken in all that was spooled before, so that what is spooled and what is posted
//! stay in order. A file older than [`LIFE`] lets one hook try again: that one renews it first, so that the others go on
//! spooling meanwhile.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use subscope_hub::clock;

/// The file in the folder for data.
const FILE: &str = "hub.unresponsive";
/// How long hooks spool until one of them tries the hub again: a hub that hangs for ever costs one hook in so much time its whole
/// deadline. A hub that goes on removes the file within about a second, so that nothing waits for this.
const LIFE: Duration = Duration::from_secs(30);

/// What a circuit breaker says to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breaking {
    /// Ask the hub.
    Closed,
    /// Spool.
    Open,
    /// Ask the hub, to find out whether it answers again.
    HalfOpen,
}

/// The circuit breaker of a folder for data.
#[derive(Debug)]
pub(crate) struct Breaker(PathBuf);

impl Breaker {
    /// Returns the breaker of that folder for data, which must be writable by its owner alone.
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join(FILE))
    }

    /// Returns what a hook is to do. Of hooks that run at once, one is told [`Breaking::HalfOpen`], seldom more.
    pub(super) fn state(&self) -> Breaking {
        let Ok(found) = fs::metadata(&self.0) else { return Breaking::Closed };
        let since = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        // A clock that was set back makes it old, too.
        let age = since.and_then(|since| Duration::from_nanos(clock::now_ns()).checked_sub(since));
        if age.is_some_and(|age| age < LIFE) {
            return Breaking::Open;
        }
        self.trip();
        Breaking::HalfOpen
    }

    /// Has the next hooks spool. On a disk that takes nothing they ask the hub, as before.
    pub(super) fn trip(&self) {
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.0);
        let now = UNIX_EPOCH + Duration::from_nanos(clock::now_ns());
        // What cannot be made costs the next hook its deadline, and nothing else.
        let _ = made.and_then(|file| file.set_modified(now));
    }

    /// Whether hooks spool.
    pub(crate) fn is_tripped(&self) -> bool {
        self.0.exists()
    }

    /// Has the next hooks ask the hub.
    pub(crate) fn reset(&self) {
        // Most of the time there is none.
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
        assert!(breaker.state() == Breaking::Closed && !breaker.is_tripped());
        breaker.trip();
        assert!(breaker.state() == Breaking::Open && breaker.is_tripped());
        let file = data.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let at = |moment| OpenOptions::new().write(true).open(&file).unwrap().set_modified(moment).unwrap();
        let now = UNIX_EPOCH + Duration::from_nanos(clock::now_ns());
        for moment in [now - LIFE, now + 2 * LIFE, UNIX_EPOCH] {
            at(moment);
            let states = [breaker.state(), breaker.state()];
            assert_eq!(states, [Breaking::HalfOpen, Breaking::Open], "{moment:?}");
        }
        breaker.reset();
        assert!(breaker.state() == Breaking::Closed && !file.exists());
        breaker.reset();
    }
}
