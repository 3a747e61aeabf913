//! State of a hub's forwarding: written by its thread, read by the page.

use std::sync::{Arc, Mutex, PoisonError};

use subscope_model::{Millis, Text};

/// State of a hub's forwarding. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForwardProgress(Arc<Mutex<ProgressState>>);

/// When a session was last sent, and why none can be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressState {
    pub(crate) last_sent_at_ms: Option<Millis>,
    pub(crate) error: Option<Text>,
}

impl ForwardProgress {
    pub(crate) fn state(&self) -> ProgressState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the server answered; `sent_at` if it acknowledged sessions.
    pub(crate) fn succeeded(&self, sent_at: Option<Millis>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.error = None;
        state.last_sent_at_ms = sent_at.or(state.last_sent_at_ms);
    }

    /// Records a failure. Returns whether it differs from the last one: a persistent failure is reported once.
    pub(crate) fn failed(&self, error: &str) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.error.as_deref() == Some(error) {
            return false;
        }
        state.error = Some(error.into());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_until_it_changes_or_has_been_mended() {
        let progress = ForwardProgress::default();
        let news = ["refused", "refused", "no connection", "refused"].map(|error| progress.failed(error));
        assert_eq!(news, [true, false, true, true]);
        progress.succeeded(Some(5));
        assert_eq!(progress.state(), ProgressState { last_sent_at_ms: Some(5), error: None });
        assert!(progress.failed("refused"), "it worked meanwhile");
        progress.succeeded(None);
        assert_eq!(progress.state().last_sent_at_ms, Some(5));
    }
}
