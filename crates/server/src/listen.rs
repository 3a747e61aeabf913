//! TCP and Unix socket listeners, and the life cycle of a connection.

use std::{
    convert::Infallible,
    error::Error,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::Request};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use subscope_hub::{ConnectionId, HubHandle};
use subscope_model::HubMode;
use subscope_platform::{LocalConnection, LocalListener, make_private_folder};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutWriter;
use tower_service::Service;

use crate::{
    connection_limiter::RequestInProgress,
    counters::{ConnectionCount, ConnectionGuard},
    http2::speaks_http2,
    peer::{self, Transport},
    permissions::PermissionDesk,
    public_names::PublicNames,
    routes,
    session_reader::SessionReader,
    state::{
        App, AppState, Demo, ForwardingReader, Indexer, MAX_LIVE_FEEDS, PostSink, RemotesReader,
        SendingReader, SetupReader, TerminalJumper, wait_for_shutdown,
    },
    token::Token,
};

/// Maximum size of a request head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Most open requests of an HTTP/2 connection.
const MAX_HTTP2_STREAMS: u32 = 32;

/// Interval of asking whether the peer of an HTTP/2 connection is still there.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);

/// Timeout of open requests after shutdown began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of sending a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay after a failed accept (too many open files), which would fail again at once.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a request head, also for the next one on a kept-alive connection.
    pub head: Duration,
    /// Between two reads of a body.
    pub body_idle: Duration,
    /// For a complete body.
    pub body: Duration,
    /// For a blocked write.
    pub write: Duration,
}

impl Default for Timeouts {
    /// Generous for programs on the same machine; a hanging peer is disconnected within minutes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { head: seconds(30), body_idle: seconds(10), body: seconds(120), write: seconds(20) }
    }
}

/// Version and mode of the hub, as reported by `/healthz`.
#[derive(Clone, Copy, Debug)]
pub struct HubIdentity {
    /// Program version.
    pub version: &'static str,
    /// How the hub runs.
    pub mode: HubMode,
}

/// Options of a server.
#[derive(Clone)]
pub struct ServerOptions {
    /// TCP address; port 0 means any free port. An address outside the loopback requires a token.
    pub listen: SocketAddr,
    /// Path of the Unix socket. Its folder is created if missing and made private (0700).
    pub socket: PathBuf,
    /// Interval of heartbeats on live feeds.
    pub heartbeat: Duration,
    /// Timeouts of connections.
    pub timeouts: Timeouts,
    /// Token required from TCP clients. Without one they must be of the same user, which only Linux can check.
    pub token: Option<Token>,
    /// Names of a port forward or a reverse proxy; they require a token.
    pub public: PublicNames,
    /// Version and mode of the hub.
    pub identity: HubIdentity,
    /// Reader of sessions from their sources; `None` if only stored rows are served.
    pub session_reader: Option<SessionReader>,
    /// Indexer of folders and of the full text; `None` if the server indexes nothing.
    pub indexer: Option<Indexer>,
    /// Reader of the configuration; `None` if it is not served.
    pub setup: Option<SetupReader>,
    /// Reader of what is sent to a team; `None` if it is not served.
    pub sending: Option<SendingReader>,
    /// Goes to the terminals of this machine; `None` if the server goes to none.
    pub jumper: Option<TerminalJumper>,
    /// Whether permission requests can be answered here.
    pub takes_answers: bool,
    /// Recorded session of the demo; `None` if it is not served.
    pub demo: Option<Demo>,
    /// Reader of the state of forwarding spans; `None` if none are forwarded.
    pub forwarding: Option<ForwardingReader>,
    /// Reader of the connections to other machines; `None` if there are none.
    pub remotes: Option<RemotesReader>,
}

/// Error of starting a server.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is reachable from other machines, or the system cannot identify local clients.
    #[error("{0} needs a token: nothing else identifies its callers. Use --token-file")]
    NeedsToken(SocketAddr),
    /// A port forward or a proxy has its own callers.
    #[error("a public name needs a token: nothing else identifies its callers. Use --token-file")]
    PublicNeedsToken,
    /// Binding the address failed.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be bound, or its folder cannot be created or belongs to another user.
    #[error("cannot {action} {path}", path = path.display())]
    Socket {
        /// What failed.
        action: &'static str,
        /// The socket or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another hub accepts connections on the socket.
    #[error("another hub answers on {path}", path = .0.display())]
    Taken(PathBuf),
}

/// A bound server, not serving yet.
pub struct Server {
    tcp: TcpListener,
    /// Missing from an ingest-only listener.
    socket: Option<LocalListener>,
    app: App,
    ending: watch::Sender<bool>,
}

impl Server {
    /// Binds both listeners.
    ///
    /// # Errors
    ///
    /// See [`ListenError`].
    pub async fn bind(options: ServerOptions, hub: HubHandle) -> Result<Self, ListenError> {
        if options.token.is_none() && !(options.listen.ip().is_loopback() && peer::IDENTIFIES_TCP_PEERS) {
            return Err(ListenError::NeedsToken(options.listen));
        }
        if options.token.is_none() && !options.public.is_empty() {
            return Err(ListenError::PublicNeedsToken);
        }
        let (tcp, address) = bind_tcp(options.listen).await?;
        let socket = Some(bind_socket(&options.socket).await?);
        let (ending, is_ending) = watch::channel(false);
        let app = AppState {
            session_reader: options.session_reader,
            indexer: options.indexer,
            setup: options.setup,
            sending: options.sending,
            jumper: options.jumper,
            permissions: PermissionDesk::new(options.takes_answers),
            demo: options.demo,
            forwarding: options.forwarding,
            remotes: options.remotes,
            heartbeat: options.heartbeat,
            timeouts: options.timeouts,
            token: options.token,
            public: options.public,
            identity: options.identity,
            ..AppState::new(hub, address, is_ending)
        };
        Ok(Self { tcp, socket, app: Arc::new(app), ending })
    }

    /// Binds an ingest-only listener to a free loopback port, for events and OpenTelemetry records of a run's child
    /// processes. It answers no queries: an observed agent must not read other sessions.
    ///
    /// # Errors
    ///
    /// See [`ListenError`].
    pub async fn bind_events(hub: HubHandle, post_sink: PostSink) -> Result<Self, ListenError> {
        let (tcp, address) = bind_tcp(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let (ending, is_ending) = watch::channel(false);
        let app = AppState { post_sink: Some(post_sink), ..AppState::new(hub, address, is_ending) };
        Ok(Self { tcp, socket: None, app: Arc::new(app), ending })
    }

    /// Base URL of the TCP listener.
    pub fn url(&self) -> String {
        self.app.url()
    }

    /// URL of the web page; with a single-use sign-in code if a token is required.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn page(&self) -> io::Result<String> {
        self.app.page_at(&self.url())
    }

    /// The same as browsers behind the port forward or proxy see it; `None` without an address for them.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn public_page(&self) -> io::Result<Option<String>> {
        self.app.public.url().map(|url| self.app.page_at(url)).transpose()
    }

    /// Count of connections and live feeds.
    pub fn connections(&self) -> ConnectionCount {
        self.app.connections.clone()
    }

    /// Serves until `end` completes or a client requests a drain; then stops accepting, removes the socket, and lets
    /// open requests finish within five seconds.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let Self { tcp, socket, app, ending } = self;
        let acceptor = Acceptor {
            router: routes::router(Arc::clone(&app)),
            http2_router: routes::http2_router(Arc::clone(&app)),
            app: Arc::clone(&app),
        };
        // Tasks of their own: otherwise a new connection waits for this thread to wake as well.
        let mut acceptors = JoinSet::new();
        if let Some(socket) = socket {
            acceptors.spawn(acceptor.clone().accept_socket(socket));
        }
        acceptors.spawn(acceptor.accept_tcp(tcp));
        tokio::select! {
            () = end => {}
            () = app.drain.notified() => {}
            _ = acceptors.join_next() => {}
        }
        // Removes the socket.
        acceptors.shutdown().await;
        ending.send_replace(true);
        let _ = timeout(DRAIN_TIMEOUT, async {
            app.limiter.wait_until_empty().await;
            // An upgraded WebSocket has released its connection slot.
            let _feeds = app.feeds.acquire_many(MAX_LIVE_FEEDS as u32).await;
        })
        .await;
    }
}

/// Accepts and serves connections.
#[derive(Clone)]
struct Acceptor {
    app: App,
    router: Router,
    http2_router: Router,
}

/// Version of HTTP that a client speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpVersion {
    One,
    Two,
}

/// An admitted connection: its slot, and its place in the count.
struct Admission {
    _slot: OwnedSemaphorePermit,
    _counted: ConnectionGuard,
}

impl Acceptor {
    async fn accept_tcp(self, listener: TcpListener) {
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let slot = self.app.limiter.acquire().await;
            drop(tokio::spawn(self.clone().handle_tcp(stream, from, slot)));
        }
    }

    async fn accept_socket(self, listener: LocalListener) {
        loop {
            let Ok(connection) = listener.accept().await else {
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let slot = self.app.limiter.acquire().await;
            drop(tokio::spawn(self.clone().handle_socket(connection, slot)));
        }
    }

    async fn handle_tcp(self, stream: TcpStream, from: SocketAddr, slot: OwnedSemaphorePermit) {
        let ours = self.app.address;
        // Without it small responses are delayed by Nagle's algorithm; an error is harmless.
        let _ = stream.set_nodelay(true);
        // The token is checked per request. Child processes of a run post events without one, as any user.
        let is_open =
            self.app.token.is_some() || (self.app.post_sink.is_some() && !peer::IDENTIFIES_TCP_PEERS);
        let is_same_user = async || {
            let uid = tokio::task::spawn_blocking(move || peer::tcp_uid(from, ours)).await;
            peer::is_same_user(uid.ok().flatten())
        };
        if is_open || is_same_user().await {
            let admission = self.admit(slot);
            if let Some(version) = self.version_of(&stream).await {
                self.serve(stream, Transport::Tcp(ours), version, admission).await;
            }
        } else {
            self.refuse(stream, slot).await;
        }
    }

    async fn handle_socket(self, connection: LocalConnection, slot: OwnedSemaphorePermit) {
        match connection.of_this_user().await {
            Ok(stream) => {
                let admission = self.admit(slot);
                self.serve(stream, Transport::Socket, HttpVersion::One, admission).await;
            }
            Err(stream) => self.refuse(stream, slot).await,
        }
    }

    fn admit(&self, slot: OwnedSemaphorePermit) -> Admission {
        Admission { _slot: slot, _counted: self.app.connections.connected() }
    }

    /// Waits for the first bytes; returns `None` if the connection is to be closed without any.
    async fn version_of(&self, stream: &TcpStream) -> Option<HttpVersion> {
        let mut is_ending = self.app.ending.clone();
        tokio::select! {
            found = timeout(self.app.timeouts.head, speaks_http2(stream)) => {
                let is_http2 = found.ok()?.ok()?;
                Some(if is_http2 { HttpVersion::Two } else { HttpVersion::One })
            }
            () = self.app.limiter.wait_for_eviction() => None,
            () = wait_for_shutdown(&mut is_ending) => None,
        }
    }

    async fn refuse(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, slot: OwnedSemaphorePermit) {
        self.app.connections.refused();
        // A refused connection must not occupy a slot.
        drop(slot);
        let Ok(_permit) = self.app.refusals.try_acquire() else { return };
        let response = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        // Closing with unread input discards the response, so the request is read and ignored. Best effort.
        let _ = timeout(REFUSAL_TIMEOUT, async {
            stream.write_all(response).await?;
            stream.shutdown().await?;
            let mut rest = [0; 4096];
            while stream.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        })
        .await;
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        transport: Transport,
        version: HttpVersion,
        admission: Admission,
    ) {
        let Self { app, router, http2_router } = self;
        let router = if version == HttpVersion::Two { http2_router } else { router };
        let mut is_ending = app.ending.clone();
        let (count, mut open) = watch::channel(0);
        let connection = ConnectionId::next();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut router = router.clone();
            let in_progress = RequestInProgress::new(&count);
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(transport);
            request.extensions_mut().insert(connection);
            async move {
                let response = router.call(request).await.unwrap_or_else(|never| match never {});
                Ok::<_, Infallible>(in_progress.until_sent(response))
            }
        });
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(app.timeouts.write));
        let io = TokioIo::new(Box::pin(stream));
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(app.timeouts.head)
            .max_buf_size(MAX_HEAD_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_PING_INTERVAL)
            .max_concurrent_streams(MAX_HTTP2_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES as u32);
        let builder = match version {
            HttpVersion::One => builder.http1_only(),
            HttpVersion::Two => builder.http2_only(),
        };
        let connection = builder.serve_connection_with_upgrades(io, service);
        tokio::pin!(connection);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    // Other connection errors are the peer's problem.
                    if ended.is_err_and(|error| is_write_timeout(error.as_ref())) {
                        let limit = app.timeouts.write;
                        tracing::info!(?limit, "a client does not read: its connection is closed");
                    }
                    break;
                }
                () = wait_for_shutdown(&mut is_ending) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(DRAIN_TIMEOUT, connection.as_mut()).await;
                    break;
                }
                _ = open.changed() => {}
                () = app.limiter.wait_for_eviction(), if *open.borrow() == 0 => break,
            }
        }
        drop(admission);
    }
}

fn is_write_timeout(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

async fn bind_tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let listen_error = |source| ListenError::Address { address, source };
    let tcp = TcpListener::bind(address).await.map_err(listen_error)?;
    let bound = tcp.local_addr().map_err(listen_error)?;
    Ok((tcp, bound))
}

async fn bind_socket(path: &Path) -> Result<LocalListener, ListenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder_error =
        |source| ListenError::Socket { action: "use the folder", path: folder.to_owned(), source };
    make_private_folder(folder).map_err(folder_error)?;
    LocalListener::bind(path).await.map_err(|source| match source.kind() == io::ErrorKind::AddrInUse {
        true => ListenError::Taken(path.to_owned()),
        false => ListenError::Socket { action: "listen on", path: path.to_owned(), source },
    })
}
