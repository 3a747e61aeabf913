//! Sessions of which a file was cut or replaced: what it said before is void, and facts cannot be taken back one by one. So such a
//! session, and no other, is folded anew, in one turn: nothing is published of it in between.

use subscope_model::{SessionId, SourceId};

use super::EventLoop;

impl EventLoop {
    /// Folds a session anew from its files and from what was handed over of it. Where it shares bytes with another session, or some
    /// cannot be read again, it cannot be forgotten by itself: then nothing that it was known by is lost. Events that were shown
    /// are known by their keys and not shown again.
    pub(super) fn reload(&mut self, session: &SessionId) {
        tracing::debug!(%session, "reloads: a file was replaced");
        let handed = self.inbox_replay.reloadable_bytes(session);
        let is_kept = handed.is_some_and(|bytes| bytes == 0 || self.store.keeps_received());
        let read = self.backfilled.get(session).into_iter().flatten().copied();
        let others: Vec<SourceId> = self.inbox_replay.sources(session).chain(read).collect();
        if !self.driver.reload(session, is_kept.then_some(&others), &mut self.fold) {
            return;
        }
        if let Some(sources) = self.backfilled.get_mut(session) {
            sources.clear();
        }
        self.duplicates.reload(session, &self.store);
        self.fold_handed_again(session);
        self.note_changed(session.clone());
    }
}
