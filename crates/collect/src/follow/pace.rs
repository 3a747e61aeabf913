//! Time since an action, by the caller's clock or by the time spent waiting, whichever is longer.

use std::time::Duration;

use subscope_model::Millis;

/// Time since an action. Time spent waiting counts because the caller's clock may not advance (replays).
#[derive(Debug, Default)]
pub(super) struct Pace {
    waited: Duration,
    done_ms: Millis,
}

impl Pace {
    /// Restarts the measurement: the action is done now.
    pub(super) fn restart(&mut self, now_ms: Millis) {
        *self = Self { waited: Duration::ZERO, done_ms: now_ms };
    }

    /// Adds time spent waiting without an event.
    pub(super) fn wait(&mut self, span: Duration) {
        self.waited = self.waited.saturating_add(span);
    }

    /// Whether the action was at least this long ago. A clock that was set back does not delay it forever.
    pub(super) fn is_over(&self, now_ms: Millis, span: Duration) -> bool {
        self.waited >= span || u128::from(now_ms.abs_diff(self.done_ms)) >= span.as_millis()
    }
}
