//! Ingest-only listener of a run, for events of its child processes. It answers no queries: an observed agent must not read other
//! sessions.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use subscope_hub::{AskError, HubHandle, Ingest, IngestError, IngestReceipt, ReplyCallback};
use subscope_model::HubMode;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    connection_count::ConnectionCount,
    listen::{Acceptor, DRAIN_TIMEOUT, HubIdentity, ListenError, MAX_REFUSALS, Timeouts},
    routes,
    state::App,
};

/// Callback that ingests a posted event and replies when it is stored. It must not block.
pub type EventSink = Arc<
    dyn Fn(Ingest, ReplyCallback<Result<IngestReceipt, IngestError>>) -> Result<(), AskError> + Send + Sync,
>;

/// Ingest-only HTTP listener on a loopback port.
pub struct EventListener {
    tcp: TcpListener,
    address: SocketAddr,
    timeouts: Timeouts,
    hub: HubHandle,
    event_sink: EventSink,
}

impl std::fmt::Debug for EventListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventListener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl EventListener {
    /// Binds to a free loopback port.
    ///
    /// # Errors
    ///
    /// See [`ListenError`].
    pub async fn bind(
        timeouts: Timeouts,
        hub: HubHandle,
        event_sink: EventSink,
    ) -> Result<Self, ListenError> {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen_error = |source| ListenError::Address { address: any_port, source };
        let tcp = TcpListener::bind(any_port).await.map_err(listen_error)?;
        let address = tcp.local_addr().map_err(listen_error)?;
        Ok(Self { tcp, address, timeouts, hub, event_sink })
    }

    /// Base URL, without the route.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `end` completes; then open requests may finish within five seconds.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let url = self.url();
        let Self { tcp, address, timeouts, hub, event_sink } = self;
        let (ending, is_ending) = watch::channel(false);
        let identity = HubIdentity { version: "", mode: HubMode::Foreground };
        let app = App::new(
            hub,
            ConnectionCount::default(),
            (identity, url),
            Duration::ZERO,
            timeouts,
            None,
            is_ending.clone(),
            (Some(event_sink), None),
        );
        let limiter = app.limiter.clone();
        let router = routes::event_router(app.clone());
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        let mut acceptors = JoinSet::new();
        acceptors.spawn(Acceptor { app, router, address, refusals, is_ending }.accept_tcp(tcp));
        tokio::select! {
            () = end => {}
            _ = acceptors.join_next() => {}
        }
        acceptors.shutdown().await;
        // Fails if no connection is open.
        let _ = ending.send(true);
        let _ = timeout(DRAIN_TIMEOUT, limiter.wait_until_empty()).await;
    }
}
