//! Watches a session without a transcript: reads its past from its stored input, then follows the feed of the hub.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use subscope_hub::SessionSources;
use subscope_model::{Feed, FeedItem, SessionId, Text, Tree, Update};

use super::{
    Followed,
    live::{self, Keeps},
};
use crate::{
    command::{
        session_reader,
        target::{TEXTS_ARE_GONE, texts_are_gone},
    },
    context::Context,
    error::CliError,
};

/// Follows a session. One whose files were deleted ends behind what happened.
pub(super) fn follow(
    session: SessionId,
    sources: &SessionSources,
    context: &Context,
) -> Result<Followed, CliError> {
    let is_over = !(sources.is_whole() && sources.has_no_files());
    let (live, keeps) = if is_over {
        (None, Keeps::Nothing)
    } else {
        // Subscribes before it reads the past, so that no event is missed; events that come twice are printed once.
        let Followed { feed, _keeps } = live::everything(&|| (), context)?;
        (Some(feed), _keeps)
    };
    let mut loaded = session_reader::session(&session, context)?;
    let events = loaded.events(context)?;
    if loaded.has_rows_only() {
        if events.is_empty() {
            return Err(texts_are_gone());
        }
        context.warn(TEXTS_ARE_GONE);
    }
    if is_over {
        context.say("the session's files were deleted: nothing more will come");
    }
    let told = events.iter().map(|event| event.id.clone()).collect();
    let mut past = VecDeque::from([Update::Snapshot(Box::new(loaded.tree))]);
    past.extend(events.into_iter().map(|event| Update::Event(Box::new(event))));
    past.push_back(Update::CaughtUp);
    Ok(Followed { feed: Box::new(SessionFeed { session, past, told, live }), _keeps: keeps })
}

/// The feed of one session: its past, then what a feed of all sessions tells of it.
struct SessionFeed {
    session: SessionId,
    past: VecDeque<Update>,
    /// The events of the past.
    told: HashSet<Text>,
    /// `None` where nothing more will come.
    live: Option<Box<dyn Feed>>,
}

impl SessionFeed {
    /// Whether an update is of this session, and new.
    fn is_news(&self, update: &Update) -> bool {
        match update {
            Update::Snapshot(tree) => tree.session.id == self.session,
            Update::Change(change) => change.session.id == self.session,
            Update::Event(event) => event.session_id == self.session && !self.told.contains(&event.id),
            Update::Missed(_) => true,
            // That was said behind the past.
            Update::CaughtUp => false,
        }
    }
}

impl Feed for SessionFeed {
    fn next(&mut self, wait: Duration) -> FeedItem {
        if let Some(update) = self.past.pop_front() {
            return FeedItem::Update(update);
        }
        let Some(live) = &mut self.live else { return FeedItem::Closed };
        match live.next(wait) {
            FeedItem::Update(update) if !self.is_news(&update) => FeedItem::Idle,
            received => received,
        }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        self.live.as_mut()?.tree(session)
    }
}
