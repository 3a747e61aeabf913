//! Shared state of all routes.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use subscope_hub::{AskError, HubHandle, Ingest, IngestError, IngestReceipt, ReplyCallback};
use subscope_model::{
    ContentLevel, Forwarding, HubMode, Jumped, RemoteMachine, Sending, Session, SessionId, Setup,
};
use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    connection_limiter::ConnectionLimiter,
    counters::ConnectionCount,
    listen::{HubIdentity, Timeouts},
    permissions::PermissionDesk,
    public_names::PublicNames,
    routes::OtlpCount,
    session_reader::{HistoryRequest, HistoryResult, SessionReader},
    token::Token,
};

/// Maximum number of live feeds: each has a queue and a copy of the rows of running sessions.
pub(crate) const MAX_LIVE_FEEDS: usize = 64;

/// Refusals (403) that are sent concurrently; further unauthorized connections are closed without one.
const MAX_REFUSALS: usize = 32;

/// Memory budget of all request bodies together, from the first byte until the request is acknowledged.
pub(crate) const BUDGET_BYTES: usize = 512 << 20;

/// Unit of allocation from the budget in bytes.
pub(crate) const BUDGET_UNIT: usize = 64 << 10;

/// Callback that ingests what was posted, an event or OpenTelemetry records, and replies when it is stored. It must not block.
pub type PostSink = Arc<
    dyn Fn(Ingest, ReplyCallback<Result<IngestReceipt, IngestError>>) -> Result<(), AskError> + Send + Sync,
>;

/// Work for the indexer.
pub enum IndexRequest {
    /// Index these folders. The hub counts as reading until that is done.
    Folders(Vec<PathBuf>),
    /// Bring the full text up to date with what is on disk, then reply.
    Texts(ReplyCallback<()>),
}

/// Callback that queues work for the indexer. It must not block.
pub type Indexer = Arc<dyn Fn(IndexRequest) -> Result<(), AskError> + Send + Sync>;

/// Callback that returns the configuration. It may read files.
pub type SetupReader = Arc<dyn Fn() -> Setup + Send + Sync>;

/// Callback that returns what this machine sends to its team, with an example at a level. It may read files. The error is a
/// message.
pub type SendingReader = Arc<dyn Fn(Option<ContentLevel>) -> Result<Sending, String> + Send + Sync>;

/// Callback that reads the recorded session of the demo. It may block.
pub type DemoReader = Arc<dyn Fn(HistoryRequest) -> HistoryResult + Send + Sync>;

/// A recorded session that is part of the program: in no store, and in no list.
#[derive(Clone)]
pub struct Demo {
    /// Its id.
    pub session: SessionId,
    /// Its reader.
    pub read: DemoReader,
}

/// Callback that goes to the terminal of a session. It runs programs, and may block for seconds.
pub type TerminalJumper = Arc<dyn Fn(&Session) -> Jumped + Send + Sync>;

/// Callback that returns the state of forwarding spans. It must not block.
pub type ForwardingReader = Arc<dyn Fn() -> Forwarding + Send + Sync>;

/// Callback that returns the connections to other machines. It must not block.
pub type RemotesReader = Arc<dyn Fn() -> Vec<RemoteMachine> + Send + Sync>;

/// Shared state of all routes. Cheap to clone.
pub(crate) type App = Arc<AppState>;

/// Fields of [`App`].
pub(crate) struct AppState {
    pub(crate) hub: HubHandle,
    /// Receives what is posted instead of the hub; only routes for that exist then.
    pub(crate) post_sink: Option<PostSink>,
    /// Reads sessions from their sources, if set.
    pub(crate) session_reader: Option<SessionReader>,
    /// Indexes folders and the full text, if set.
    pub(crate) indexer: Option<Indexer>,
    /// Returns the configuration, if set.
    pub(crate) setup: Option<SetupReader>,
    /// Returns what is sent to the team, if set.
    pub(crate) sending: Option<SendingReader>,
    /// Goes to terminals, if set.
    pub(crate) jumper: Option<TerminalJumper>,
    /// Permission requests whose hooks wait for an answer.
    pub(crate) permissions: PermissionDesk,
    /// Recorded session of the demo, if set.
    pub(crate) demo: Option<Demo>,
    /// Returns the state of forwarding spans, if they are forwarded.
    pub(crate) forwarding: Option<ForwardingReader>,
    /// Returns the connections to other machines, if there are any.
    pub(crate) remotes: Option<RemotesReader>,
    pub(crate) limiter: ConnectionLimiter,
    pub(crate) heartbeat: Duration,
    pub(crate) timeouts: Timeouts,
    /// Token required from TCP clients, if they are not identified by user.
    pub(crate) token: Option<Token>,
    /// Names of a port forward or a reverse proxy.
    pub(crate) public: PublicNames,
    pub(crate) budget: Arc<Semaphore>,
    pub(crate) feeds: Arc<Semaphore>,
    pub(crate) refusals: Semaphore,
    pub(crate) connections: ConnectionCount,
    pub(crate) otlp: OtlpCount,
    pub(crate) identity: HubIdentity,
    /// Address of the TCP listener.
    pub(crate) address: SocketAddr,
    /// Notified when a client requests a drain.
    pub(crate) drain: Notify,
    /// True once shutdown began.
    pub(crate) ending: watch::Receiver<bool>,
}

impl AppState {
    /// Returns the address of the page under a base URL; with a single-use sign-in code if a token is required.
    pub(crate) fn page_at(&self, url: &str) -> io::Result<String> {
        self.token.as_ref().map_or_else(|| Ok(url.to_owned()), |token| token.page_url(url))
    }

    /// Passes what was posted to the hub, or to what takes its place.
    pub(crate) fn ingest(
        &self,
        ingest: Ingest,
        reply: ReplyCallback<Result<IngestReceipt, IngestError>>,
    ) -> Result<(), AskError> {
        match &self.post_sink {
            Some(post_sink) => post_sink(ingest, reply),
            None => self.hub.ingest(ingest, reply),
        }
    }

    /// Creates the state of an ingest-only listener, without its sink.
    pub(crate) fn new(hub: HubHandle, address: SocketAddr, ending: watch::Receiver<bool>) -> Self {
        Self {
            hub,
            post_sink: None,
            session_reader: None,
            indexer: None,
            setup: None,
            sending: None,
            jumper: None,
            permissions: PermissionDesk::new(false),
            demo: None,
            forwarding: None,
            remotes: None,
            limiter: ConnectionLimiter::default(),
            heartbeat: Duration::ZERO,
            timeouts: Timeouts::default(),
            token: None,
            public: PublicNames::default(),
            budget: Arc::new(Semaphore::new(BUDGET_BYTES / BUDGET_UNIT)),
            feeds: Arc::new(Semaphore::new(MAX_LIVE_FEEDS)),
            refusals: Semaphore::new(MAX_REFUSALS),
            connections: ConnectionCount::default(),
            otlp: OtlpCount::default(),
            identity: HubIdentity { version: "", mode: HubMode::Foreground },
            address,
            drain: Notify::new(),
            ending,
        }
    }

    /// Base URL of the TCP listener.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Waits until shutdown begins.
pub(crate) async fn wait_for_shutdown(is_ending: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    drop(is_ending.wait_for(|is_ending| *is_ending).await);
}
