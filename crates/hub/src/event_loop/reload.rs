//! Derives a session anew after one of its files was truncated or replaced: the old content is void, and facts cannot
//! be removed one by one. The reload takes one turn, and nothing of the session is published in between.

use subscope_model::{SessionId, SourceId};

use super::EventLoop;

impl EventLoop {
    /// Folds a session anew from its files and its inbox input. If it shares bytes with another session, or some cannot
    /// be read again, the fold cannot forget it alone: then the old facts stay. Events that were published have the
    /// same ids and are not published again.
    pub(super) fn reload(&mut self, session: &SessionId) {
        tracing::debug!(%session, "reloads: a file was replaced");
        let bytes = self.inbox_replay.reloadable_bytes(session);
        let can_replay = bytes.is_some_and(|bytes| bytes == 0 || self.store.keeps_received());
        let backfilled = self.backfilled.get(session).into_iter().flatten().copied();
        let others: Vec<SourceId> = self.inbox_replay.sources(session).chain(backfilled).collect();
        if !self.driver.reload(session, can_replay.then_some(&others), &mut self.fold) {
            return;
        }
        if let Some(sources) = self.backfilled.get_mut(session) {
            sources.clear();
        }
        self.duplicates.reload(session, &self.store);
        self.replay_after_reset(session);
        self.mark_changed(session.clone());
    }
}
