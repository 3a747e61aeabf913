//! How long ago something was done, by the caller's clock or by the waiting itself, whichever is longer.

use std::time::Duration;

use subscope_model::Millis;

/// The time since something was done. The waiting counts because the caller's clock may stand still (replays).
#[derive(Debug, Default)]
pub(super) struct Pace {
    waited: Duration,
    done_ms: Millis,
}

impl Pace {
    /// It is done now.
    pub(super) fn restart(&mut self, now_ms: Millis) {
        *self = Self { waited: Duration::ZERO, done_ms: now_ms };
    }

    /// That much was spent waiting in vain.
    pub(super) fn wait(&mut self, span: Duration) {
        self.waited = self.waited.saturating_add(span);
    }

    /// Whether it was done at least that long ago. A clock that was set back must not put it off for ever.
    pub(super) fn is_over(&self, now_ms: Millis, span: Duration) -> bool {
        self.waited >= span || u128::from(now_ms.abs_diff(self.done_ms)) >= span.as_millis()
    }
}
