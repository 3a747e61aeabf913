//! Evicts sessions.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use subscope_model::{SessionId, SourceId};

use super::SessionRouter;
use crate::{feed::SessionFeed, session::Session, source::SourceOrigin};

/// Most events whose ids are kept for evicted sessions: 16 MB. Beyond it the session evicted first is dropped; the
/// store's change log and rows then decide what is new of it.
const MAX_SUSPENDED_EVENTS: usize = 2_000_000;

/// Feeds of evicted sessions, by session and in order of eviction.
#[derive(Default)]
pub(super) struct SuspendedFeeds {
    feeds: HashMap<SessionId, (u64, SessionFeed)>,
    order: BTreeMap<u64, SessionId>,
    next: u64,
    events: usize,
}

impl SuspendedFeeds {
    fn add(&mut self, session: SessionId, feed: SessionFeed) {
        self.take(&session);
        self.events += feed.published_count();
        self.order.insert(self.next, session.clone());
        self.feeds.insert(session, (self.next, feed));
        self.next += 1;
        while self.events > MAX_SUSPENDED_EVENTS
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.take(&oldest);
        }
    }

    /// Removes the feed of a session; an empty one if there is none.
    pub(super) fn take(&mut self, session: &SessionId) -> SessionFeed {
        let Some((number, feed)) = self.feeds.remove(session) else { return SessionFeed::default() };
        self.order.remove(&number);
        self.events -= feed.published_count();
        feed
    }

    pub(super) fn contains(&self, session: &SessionId) -> bool {
        self.feeds.contains_key(session)
    }
}

impl SessionRouter {
    /// Evicts a session and its sources. `tailed` are the sources of its driver's files. Returns the closed sources;
    /// `None`, keeping the session, if it is unknown, if some of its input cannot be brought again (a stream, a file of
    /// another session, a source shared with another session), or if it has changes or events that were not taken.
    pub fn evict(&mut self, session: &SessionId, tailed: &[SourceId]) -> Option<BTreeSet<SourceId>> {
        let number = self.index_of(session)?;
        let has_untaken =
            self.sessions.changed.contains(&number) || self.session(session)?.has_pending_events();
        if has_untaken {
            return None;
        }
        let closed = self.close_sources(number, tailed)?;
        let evicted = self.sessions.all.try_remove(number);
        evicted.iter().for_each(|evicted| self.traces.forget(evicted));
        if let Some(evicted) = evicted.filter(Session::has_published) {
            self.sessions.suspended.add(session.clone(), evicted.into_feed().suspend());
        }
        self.sessions.by_id.remove(session);
        Some(closed)
    }

    /// Closes all sources of a session, and `tailed`. Returns them; `None`, closing none, if some of them cannot be
    /// brought again, or not for this session alone.
    fn close_sources(&mut self, number: usize, tailed: &[SourceId]) -> Option<BTreeSet<SourceId>> {
        let Self { sources, sessions, .. } = self;
        let session = sessions.all.get(number)?;
        let source = |id: &SourceId| sources.get(id.0 as usize);
        let comes_again = |id: &SourceId| {
            source(id).is_some_and(|source| {
                !source.is_shared
                    && match source.spec.origin {
                        SourceOrigin::Stream => false,
                        SourceOrigin::TailedFile => tailed.contains(id),
                        SourceOrigin::File | SourceOrigin::Inbox => true,
                    }
            })
        };
        let is_foreign = |id: &SourceId| {
            source(id).and_then(|source| source.number).is_some_and(|touched| touched != number)
        };
        if !session.sources().iter().all(comes_again) || tailed.iter().any(is_foreign) {
            return None;
        }
        let closed: BTreeSet<SourceId> = session.sources().iter().chain(tailed).copied().collect();
        // Backwards: the free places are taken again from the last freed, and sources without times keep their order.
        for id in closed.iter().rev() {
            sources.try_remove(id.0 as usize);
            sessions.unassigned.remove(id);
        }
        Some(closed)
    }
}
