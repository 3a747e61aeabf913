//! Derives a session from scratch after one of its files was truncated or replaced: the old content is void, and facts
//! cannot be removed one by one. The reload takes one turn, and no event or row of the session is published in between.

use subscope_model::SessionId;

use super::EventLoop;

impl EventLoop {
    /// Reads a session again from its files and its inbox input. If it shares bytes with another session, or some
    /// cannot be read again, the router cannot forget it alone: then the old facts stay. Events that were published
    /// have the same ids and are not published again.
    pub(super) fn reload(&mut self, session: &SessionId) {
        tracing::debug!(%session, "reloads: a file was replaced");
        let bytes = self.inbox_bytes(session);
        let can_replay = bytes.is_some_and(|bytes| bytes == 0 || self.store.keeps_received());
        let Some(closed) = self.driver.reload(session, can_replay, &mut self.router) else { return };
        self.partitions.remove(&closed);
        if let Some(live) = self.sessions.live_mut(session) {
            live.is_complete = false;
            live.backfilled.clear();
            live.inbox = None;
        }
        self.forget_keys(session);
        if bytes.is_some_and(|bytes| bytes > 0) {
            self.replay_inbox(session);
        }
        self.mark_changed(session.clone());
    }
}
