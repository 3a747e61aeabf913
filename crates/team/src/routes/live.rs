//! `GET /api/v1/live`: sessions at work as server-sent events, asked for every five seconds.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use axum::{
    extract::{Query, State},
    response::{
        IntoResponse,
        sse::{self, KeepAlive, Sse},
    },
};
use futures_util::stream;
use subscope_model::{Change, Millis, SessionId, Tree, Update};
use subscope_server::ApiError;
use subscope_store::{ListQuery, SessionQueries};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Interval, MissedTickBehavior, interval},
};

use super::TeamApp;
use crate::{
    auth::Caller,
    read::{Reader, TeamFilter},
    tokens::Identity,
};

/// Interval of queries.
const POLL: Duration = Duration::from_secs(5);
/// Most sessions of a feed: the newest.
const MAX_SESSIONS: usize = 200;

/// State of a feed.
struct PollState {
    app: TeamApp,
    caller: Identity,
    filter: TeamFilter,
    ticks: Interval,
    /// Trees that the reader has.
    known: HashMap<SessionId, (Millis, Tree)>,
    is_caught_up: bool,
    pending: std::collections::VecDeque<Update>,
    _slot: OwnedSemaphorePermit,
}

/// Streams the rows of sessions at work, and those that ended while the reader listened.
#[utoipa::path(
    get, path = "/api/v1/live",
    params(TeamFilter),
    responses(
        (status = 200, description = "text/event-stream: `snapshot` (subscope.tree/1) of each session at work, `caught-up`, then \
            `change` (subscope.change/1). The rows are as old as machines send them: 10 s for a session at work.", body = String,
            content_type = "text/event-stream"),
        (status = 503, description = "Too many live feeds are open."),
    )
)]
pub(super) async fn get(
    State(app): State<TeamApp>,
    caller: Caller,
    Query(filter): Query<TeamFilter>,
) -> Result<impl IntoResponse, ApiError> {
    let slot = std::sync::Arc::clone(&app.feeds).try_acquire_owned();
    let slot = slot.map_err(|_| ApiError::unavailable("too many live feeds are open"))?;
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = PollState {
        app,
        caller: caller.identity,
        filter,
        ticks,
        known: HashMap::new(),
        is_caught_up: false,
        pending: std::collections::VecDeque::new(),
        _slot: slot,
    };
    let events = stream::unfold(feed, async |mut feed| {
        let update = feed.next().await;
        let event = sse::Event::default().event(update.name()).data(update.data(0));
        Some((Ok::<_, Infallible>(event), feed))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

impl PollState {
    async fn next(&mut self) -> Update {
        loop {
            if let Some(update) = self.pending.pop_front() {
                return update;
            }
            self.ticks.tick().await;
            let known: HashMap<SessionId, Millis> =
                self.known.iter().map(|(session, (at, _))| (session.clone(), *at)).collect();
            let found =
                self.app.read(&self.caller, self.filter.clone(), move |reader| changed(reader, &known));
            // The next round asks again.
            let Ok(changed) = found.await else { continue };
            for (at, tree) in changed {
                self.offer(at, tree);
            }
            if !self.is_caught_up {
                self.is_caught_up = true;
                self.pending.push_back(Update::CaughtUp);
            }
        }
    }

    fn offer(&mut self, at: Millis, tree: Tree) {
        let is_live = tree.agents.iter().any(subscope_model::Agent::is_at_work);
        let before = match is_live {
            true => self.known.insert(tree.session.id.clone(), (at, tree.clone())),
            false => self.known.remove(&tree.session.id),
        };
        let Some((_, before)) = before else { return self.pending.push_back(Update::snapshot(tree)) };
        self.pending.push_back(Update::change(Change::between(&before, &tree)));
    }
}

/// Returns the trees of sessions at work that are new or have changed, and of those known ones that have ended.
fn changed(
    reader: &Reader,
    known: &HashMap<SessionId, Millis>,
) -> subscope_store::StoreResult<Vec<(Millis, Tree)>> {
    let live = reader.list(&ListQuery::live(MAX_SESSIONS))?;
    let at = |row: &subscope_model::SessionRow| row.kept_at_ms.or(row.last_event_at_ms).unwrap_or(0);
    let mut wanted: Vec<(SessionId, Millis)> = live.iter().map(|row| (row.id.clone(), at(row))).collect();
    let gone = known.keys().filter(|session| !live.iter().any(|row| row.id == **session));
    let gone = gone.map(|session| (session.clone(), Millis::MAX)).collect::<Vec<_>>();
    wanted.extend(gone);
    wanted.retain(|(session, at)| known.get(session).is_none_or(|before| before != at));
    let mut trees = Vec::new();
    for (session, at) in wanted {
        trees.extend(reader.tree(&session)?.map(|tree| (at, tree)));
    }
    Ok(trees)
}
