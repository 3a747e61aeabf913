//! Shared state of all routes.

use std::{sync::Arc, time::Duration};

use subscope_hub::HubHandle;
use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    connection_count::ConnectionCount,
    connection_limiter::ConnectionLimiter,
    counters::Counters,
    event_listener::EventSink,
    listen::{HubIdentity, Timeouts},
    session_reader::SessionReader,
    token::Token,
};

/// Maximum number of live feeds: each has a queue and a copy of the rows of running sessions.
pub(crate) const MAX_LIVE_FEEDS: usize = 64;

/// Memory budget of all request bodies together, from the first byte until the request is acknowledged.
pub(crate) const BUDGET_BYTES: usize = 512 << 20;

/// Unit of allocation from the budget in bytes.
pub(crate) const BUDGET_UNIT: usize = 64 << 10;

/// Shared state of all routes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<AppState>);

/// Fields of [`App`].
pub(crate) struct AppState {
    pub(crate) hub: HubHandle,
    pub(crate) counters: Counters,
    /// Receives posted events instead of the hub, if set.
    pub(crate) event_sink: Option<EventSink>,
    /// Reads sessions from their sources, if set.
    pub(crate) session_reader: Option<SessionReader>,
    pub(crate) limiter: ConnectionLimiter,
    pub(crate) heartbeat: Duration,
    pub(crate) timeouts: Timeouts,
    /// Token required from TCP clients, if they are not identified by user.
    pub(crate) token: Option<Token>,
    pub(crate) budget: Arc<Semaphore>,
    pub(crate) feeds: Arc<Semaphore>,
    pub(crate) connections: ConnectionCount,
    pub(crate) identity: HubIdentity,
    /// Base URL of the TCP listener.
    pub(crate) url: String,
    /// Notified when a client requests a drain.
    pub(crate) drain: Notify,
    /// True once shutdown began.
    pub(crate) ending: watch::Receiver<bool>,
}

impl App {
    #[expect(clippy::too_many_arguments, reason = "the one place where all of it comes together")]
    pub(crate) fn new(
        hub: HubHandle,
        connections: ConnectionCount,
        (identity, url): (HubIdentity, String),
        heartbeat: Duration,
        timeouts: Timeouts,
        token: Option<Token>,
        ending: watch::Receiver<bool>,
        (event_sink, session_reader): (Option<EventSink>, Option<SessionReader>),
    ) -> Self {
        Self(Arc::new(AppState {
            hub,
            counters: Counters::default(),
            event_sink,
            session_reader,
            limiter: ConnectionLimiter::default(),
            heartbeat,
            timeouts,
            token,
            budget: Arc::new(Semaphore::new(BUDGET_BYTES / BUDGET_UNIT)),
            feeds: Arc::new(Semaphore::new(MAX_LIVE_FEEDS)),
            connections,
            identity,
            url,
            drain: Notify::new(),
            ending,
        }))
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// Waits until shutdown begins.
pub(crate) async fn wait_for_shutdown(is_ending: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    drop(is_ending.wait_for(|is_ending| *is_ending).await);
}
