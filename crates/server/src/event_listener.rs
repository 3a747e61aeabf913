//! A listener for events alone: what a run opens for whatever its child starts. It answers no question, since an observed
//! agent must not read other sessions.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use subscope_hub::{AskError, HubHandle, Ingest, IngestError, Reply, Taken};
use subscope_model::HubMode;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    connection_count::ConnectionCount,
    listen::{DRAIN, Identity, Patience, STRANGERS, ServeError, Serving},
    routes,
    state::App,
};

/// Takes an event that was posted, and answers when it is taken. It must not wait.
pub type Taker = Arc<dyn Fn(Ingest, Reply<Result<Taken, IngestError>>) -> Result<(), AskError> + Send + Sync>;

/// A listener for events alone.
pub struct EventListener {
    tcp: TcpListener,
    address: SocketAddr,
    patience: Patience,
    hub: HubHandle,
    taker: Taker,
}

impl std::fmt::Debug for EventListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventListener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl EventListener {
    /// Listens on a free port of the loopback.
    ///
    /// # Errors
    ///
    /// See [`ServeError`].
    pub async fn bind(patience: Patience, hub: HubHandle, taker: Taker) -> Result<Self, ServeError> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let unable = |source| ServeError::Address { address: free, source };
        let tcp = TcpListener::bind(free).await.map_err(unable)?;
        let address = tcp.local_addr().map_err(unable)?;
        Ok(Self { tcp, address, patience, hub, taker })
    }

    /// Where events are posted to, without the route.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Listens until `end` comes; what is open then may end.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let url = self.url();
        let Self { tcp, address, patience, hub, taker } = self;
        let (ending, is_ending) = watch::channel(false);
        let identity = Identity { version: "", mode: HubMode::Foreground };
        let app = App::new(
            hub,
            ConnectionCount::default(),
            (identity, url),
            Duration::ZERO,
            patience,
            None,
            is_ending.clone(),
            (Some(taker), None),
        );
        let crowd = app.crowd.clone();
        let router = routes::mailbox(app.clone());
        let unauthorised = Arc::new(Semaphore::new(STRANGERS));
        let mut doors = JoinSet::new();
        doors.spawn(Serving { app, router, address, unauthorised, is_ending }.accept_tcp(tcp));
        tokio::select! {
            () = end => {}
            _ = doors.join_next() => {}
        }
        doors.shutdown().await;
        // Nobody listens where nothing is open.
        let _ = ending.send(true);
        let _ = timeout(DRAIN, crowd.is_empty()).await;
    }
}
