//! What every route works with.

use std::{sync::Arc, time::Duration};

use subscope_hub::HubHandle;
use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    connection_count::ConnectionCount,
    connection_limiter::ConnectionLimiter,
    counters::Counters,
    event_listener::Taker,
    listen::{Identity, Patience},
    session_reader::SessionReader,
    token::Token,
};

/// How many live feeds there may be at once: each costs a queue and a copy of the rows of running sessions.
pub(crate) const LIVE_FEEDS: usize = 64;

/// How many bytes of bodies may be held at once, from their first byte until they are acknowledged: all ingest shares it.
pub(crate) const BUDGET_BYTES: usize = 512 << 20;

/// What is taken from the budget at once.
pub(crate) const BUDGET_PIECE: usize = 64 << 10;

/// What every route works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// What the clones share.
pub(crate) struct Shared {
    pub(crate) hub: HubHandle,
    pub(crate) counters: Counters,
    /// What takes posted events, where that is not the hub.
    pub(crate) taker: Option<Taker>,
    /// What tells sessions anew, where somebody does.
    pub(crate) teller: Option<SessionReader>,
    pub(crate) crowd: ConnectionLimiter,
    pub(crate) heartbeat: Duration,
    pub(crate) patience: Patience,
    /// What callers by TCP must show, where their user is not what lets them in.
    pub(crate) token: Option<Token>,
    pub(crate) budget: Arc<Semaphore>,
    pub(crate) feeds: Arc<Semaphore>,
    pub(crate) guests: ConnectionCount,
    pub(crate) identity: Identity,
    /// Where TCP is listened on.
    pub(crate) url: String,
    /// Told when somebody asks the hub to leave.
    pub(crate) drain: Notify,
    /// Becomes true when the server is to end.
    pub(crate) ending: watch::Receiver<bool>,
}

impl App {
    #[expect(clippy::too_many_arguments, reason = "the one place where all of it comes together")]
    pub(crate) fn new(
        hub: HubHandle,
        guests: ConnectionCount,
        (identity, url): (Identity, String),
        heartbeat: Duration,
        patience: Patience,
        token: Option<Token>,
        ending: watch::Receiver<bool>,
        (taker, teller): (Option<Taker>, Option<SessionReader>),
    ) -> Self {
        Self(Arc::new(Shared {
            hub,
            counters: Counters::default(),
            taker,
            teller,
            crowd: ConnectionLimiter::default(),
            heartbeat,
            patience,
            token,
            budget: Arc::new(Semaphore::new(BUDGET_BYTES / BUDGET_PIECE)),
            feeds: Arc::new(Semaphore::new(LIVE_FEEDS)),
            guests,
            identity,
            url,
            drain: Notify::new(),
            ending,
        }))
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Waits until the server is to end.
pub(crate) async fn ended(is_ending: &mut watch::Receiver<bool>) {
    // That nobody can say so any more means the same.
    drop(is_ending.wait_for(|is_ending| *is_ending).await);
}
