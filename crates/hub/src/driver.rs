//! What hands bytes to the hub.

use std::time::Duration;

use subscope_fold::Fold;
use subscope_model::{Millis, Problem};

/// What one turn of a driver did.
#[derive(Debug, Default)]
pub struct Fed {
    /// Whether it pushed anything into the fold.
    pub has_pushed: bool,
    /// Whether everything that stood there is read for now.
    pub is_caught_up: bool,
    /// Whether nothing will come any more.
    pub has_ended: bool,
    /// Whether what a source said before is void (its file was truncated or replaced): everything is to be read again.
    pub must_restart: bool,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// A source of bytes with its own idea of time: the machine's, or that of a replayed recording.
pub trait Driver: Send {
    /// Waits no longer than `wait` for bytes and pushes them into the fold.
    fn turn(&mut self, wait: Duration, fold: &mut Fold) -> Fed;

    /// Begins anew, for a fold that knows nothing yet.
    fn restart(&mut self) -> Result<(), Problem>;

    /// The time now, by this driver.
    fn now(&self) -> Millis;
}
