//! Follows some sessions of a feed: those that are named of a file; one without a transcript, whose history is read from
//! stored input before the hub's feed is followed.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use subscope_hub::{RowsSource, SessionSources};
use subscope_model::{Feed, FeedItem, SessionId, Text, Tree, Update};

use super::{FollowedFeed, live};
use crate::{
    command::target::{ReadOptions, load_session, texts_are_gone},
    prelude::*,
};

/// Follows a session. The feed of one whose files were deleted ends after its history.
pub(super) fn follow(
    session: SessionId,
    sources: &SessionSources,
    context: &Context,
) -> Result<FollowedFeed, CliError> {
    let has_lost_files = !(sources.is_whole() && sources.has_no_files());
    let (live, hub) = if has_lost_files {
        (None, None)
    } else {
        // Subscribes before reading the history, so that no event is missed; duplicates are dropped.
        let FollowedFeed { feed, hub } = live::follow_all(&|| (), context)?;
        (Some(feed), hub)
    };
    let mut loaded = load_session(&session, &ReadOptions::FEED, context)?;
    let events = loaded.events(context)?;
    if loaded.source != RowsSource::Sources && events.is_empty() {
        return Err(texts_are_gone(&loaded.tree.session));
    }
    loaded.warn_of_lost_texts(context);
    if has_lost_files {
        context.info("the session's files were deleted: nothing more will come");
    }
    let history_ids = events.iter().map(|event| event.id.clone()).collect();
    let mut history = VecDeque::from([Update::snapshot(loaded.tree)]);
    history.extend(events.into_iter().map(Update::event));
    history.push_back(Update::CaughtUp);
    let sessions = vec![session];
    Ok(FollowedFeed { feed: Box::new(SessionFeed { sessions, history, history_ids, live }), hub })
}

/// Leaves only these sessions in a feed that has their history.
pub(super) fn only(sessions: Vec<SessionId>, followed: FollowedFeed) -> FollowedFeed {
    let (history, history_ids, live) = (VecDeque::new(), HashSet::new(), Some(followed.feed));
    FollowedFeed { feed: Box::new(SessionFeed { sessions, history, history_ids, live }), ..followed }
}

/// Feed of some sessions: their history, then their updates from a feed of all sessions.
struct SessionFeed {
    sessions: Vec<SessionId>,
    history: VecDeque<Update>,
    /// Ids of the events of the history.
    history_ids: HashSet<Text>,
    /// `None` if nothing more will come.
    live: Option<Box<dyn Feed>>,
}

impl SessionFeed {
    /// Whether an update belongs to these sessions and is new.
    fn is_new(&self, update: &Update) -> bool {
        match update {
            Update::Snapshot(tree) => self.sessions.contains(&tree.session.id),
            Update::Change(change) => self.sessions.contains(&change.session().id),
            Update::Event(event) => {
                self.sessions.contains(&event.session_id) && !self.history_ids.contains(&event.id)
            }
            Update::Missed(_) | Update::Reset => true,
            // Was already sent after a history.
            Update::CaughtUp => self.history_ids.is_empty(),
        }
    }
}

impl Feed for SessionFeed {
    fn next(&mut self, wait: Duration) -> FeedItem {
        if let Some(update) = self.history.pop_front() {
            return FeedItem::Update(update);
        }
        let Some(live) = &mut self.live else { return FeedItem::Closed };
        let item = live.next(wait);
        let is_known = matches!(&item, FeedItem::Update(update) if !self.is_new(update));
        if is_known { FeedItem::Idle } else { item }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        self.live.as_mut()?.tree(session)
    }
}
