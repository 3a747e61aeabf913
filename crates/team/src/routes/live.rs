//! `GET /api/v1/live`: sessions at work as server-sent events, asked for every five seconds.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse,
        sse::{self, KeepAlive, Sse},
    },
};
use futures_util::stream;
use subscope_model::Update;
use subscope_query::PolledSessions;
use subscope_server::{ApiError, QuestionServer as _};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Interval, MissedTickBehavior, interval},
};

use super::{TeamApp, TeamScope};
use crate::{gather::chain, read::TeamFilter};

/// Interval of queries.
const POLL: Duration = Duration::from_secs(5);
/// Most sessions of a feed: the newest.
const MAX_SESSIONS: usize = 200;

/// State of a feed.
struct PollState {
    app: TeamApp,
    scope: TeamScope,
    ticks: Interval,
    sessions: PolledSessions,
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
pub(super) async fn get(State(app): State<TeamApp>, scope: TeamScope) -> Result<impl IntoResponse, ApiError> {
    let slot = std::sync::Arc::clone(&app.feeds).try_acquire_owned();
    let slot = slot.map_err(|_| ApiError::unavailable("too many live feeds are open"))?;
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = PollState { app, scope, ticks, sessions: PolledSessions::default(), _slot: slot };
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
            if let Some(update) = self.sessions.next_update() {
                return update;
            }
            self.ticks.tick().await;
            let mut sessions = std::mem::take(&mut self.sessions);
            let polled = self.app.ask(&self.scope, None, move |queries| {
                let polled = sessions.poll(queries, MAX_SESSIONS);
                Ok((sessions, polled))
            });
            // Without an answer the next round asks again, from the beginning if the query panicked.
            if let Ok((sessions, polled)) = polled.await {
                self.sessions = sessions;
                if let Err(error) = polled {
                    tracing::warn!("a query failed: {}", chain(&error));
                }
            }
        }
    }
}
