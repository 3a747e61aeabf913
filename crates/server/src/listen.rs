//! TCP and Unix socket listeners, and the life cycle of a connection.

use std::{
    convert::Infallible,
    fs, io,
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::Request};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use subscope_hub::HubHandle;
use subscope_model::HubMode;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service;

use crate::{
    connection_count::ConnectionCount,
    connection_limiter::OpenRequests,
    peer::{self, Peer, Transport},
    routes,
    session_reader::SessionReader,
    state::{App, MAX_LIVE_FEEDS, wait_for_shutdown},
    token::Token,
    write_timeout::WriteTimeout,
};

/// Refusals (403) that are sent concurrently; further unauthorised connections are closed without one.
pub(crate) const MAX_REFUSALS: usize = 32;

/// Maximum size of a request head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Timeout of open requests after shutdown began.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

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
#[derive(Clone, Debug)]
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
    /// Version and mode of the hub.
    pub identity: HubIdentity,
    /// Reader of sessions from their sources; `None` if only stored rows are served.
    pub session_reader: Option<SessionReader>,
}

/// Error of starting a server.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is reachable from other machines, or the system cannot identify local clients.
    #[error("{0} needs a token: nothing else tells who its callers are")]
    NeedsToken(SocketAddr),
    /// Binding the address failed.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The socket's folder cannot be created or belongs to another user.
    #[error("cannot use the folder {path}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Binding the socket failed.
    #[error("cannot listen on {path}", path = path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another hub accepts connections on the socket.
    #[error("another hub answers on {path}", path = path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
}

/// A bound server, not serving yet.
#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    address: SocketAddr,
    socket: UnixListener,
    file: SocketFile,
    heartbeat: Duration,
    timeouts: Timeouts,
    token: Option<Token>,
    identity: HubIdentity,
    session_reader: Option<SessionReader>,
    hub: HubHandle,
    connections: ConnectionCount,
}

/// File of the Unix socket; dropping removes it. Drop it after the listener.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Inode of the created file: a file with another inode belongs to another hub and is left alone.
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // The next hub replaces a leftover file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Server {
    /// Binds both listeners.
    ///
    /// # Errors
    ///
    /// See [`ListenError`].
    pub async fn bind(options: ServerOptions, hub: HubHandle) -> Result<Self, ListenError> {
        let ServerOptions { listen, socket, heartbeat, timeouts, token, identity, session_reader } = options;
        if token.is_none() && !(listen.ip().is_loopback() && peer::IDENTIFIES_TCP_PEERS) {
            return Err(ListenError::NeedsToken(listen));
        }
        let listen_error = |source| ListenError::Address { address: listen, source };
        let tcp = TcpListener::bind(listen).await.map_err(listen_error)?;
        let address = tcp.local_addr().map_err(listen_error)?;
        let (socket, file) = bind_socket(&socket).await?;
        Ok(Self {
            tcp,
            address,
            socket,
            file,
            heartbeat,
            timeouts,
            token,
            identity,
            session_reader,
            hub,
            connections: ConnectionCount::default(),
        })
    }

    /// Base URL of the TCP listener.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// URL of the web page; with a single-use sign-in code if a token is required.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn page(&self) -> io::Result<String> {
        self.token.as_ref().map_or_else(|| Ok(self.url()), |token| token.page_url(&self.url()))
    }

    /// Count of connections and live feeds.
    pub fn connections(&self) -> ConnectionCount {
        self.connections.clone()
    }

    /// Serves until `end` completes or a client requests a drain; then stops accepting, removes the socket, and lets open requests
    /// finish within five seconds.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let url = self.url();
        let Self {
            tcp,
            address,
            socket,
            file,
            heartbeat,
            timeouts,
            token,
            identity,
            session_reader,
            hub,
            connections,
        } = self;
        let (ending, is_ending) = watch::channel(false);
        let ends = is_ending.clone();
        let app = App::new(
            hub,
            connections,
            (identity, url),
            heartbeat,
            timeouts,
            token,
            ends,
            (None, session_reader),
        );
        let router = routes::router(app.clone());
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        let limiter = app.limiter.clone();
        let feeds = Arc::clone(&app.feeds);
        let serving = Acceptor { app: app.clone(), router, address, refusals, is_ending };
        // Tasks of their own: otherwise a new connection waits for this thread to wake as well.
        let mut acceptors = JoinSet::new();
        acceptors.spawn(serving.clone().accept_socket(socket));
        acceptors.spawn(serving.accept_tcp(tcp));
        tokio::select! {
            () = end => {}
            () = app.drain.notified() => {}
            _ = acceptors.join_next() => {}
        }
        acceptors.shutdown().await;
        drop(file);
        // Fails if no connection is open.
        let _ = ending.send(true);
        let _ = timeout(DRAIN_TIMEOUT, async {
            limiter.wait_until_empty().await;
            // An upgraded WebSocket has released its connection slot.
            let _feeds = feeds.acquire_many(MAX_LIVE_FEEDS as u32).await;
        })
        .await;
    }
}

/// Shared state of the accept loops.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub(crate) app: App,
    pub(crate) router: Router,
    pub(crate) address: SocketAddr,
    pub(crate) refusals: Arc<Semaphore>,
    pub(crate) is_ending: watch::Receiver<bool>,
}

impl Acceptor {
    pub(crate) async fn accept_tcp(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let Some(slot) = self.app.limiter.acquire().await else { return };
                    drop(tokio::spawn(self.clone().handle_tcp(stream, from, slot)));
                }
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }

    async fn accept_socket(self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let Some(slot) = self.app.limiter.acquire().await else { return };
                    drop(tokio::spawn(self.clone().handle_socket(stream, slot)));
                }
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }

    async fn handle_tcp(self, stream: TcpStream, from: SocketAddr, slot: OwnedSemaphorePermit) {
        let ours = self.address;
        if self.app.token.is_some() || (self.app.event_sink.is_some() && !peer::IDENTIFIES_TCP_PEERS) {
            // The token is checked per request. Child processes of a run post events without one, as any user.
            let _ = stream.set_nodelay(true);
            return self.serve(stream, Transport::Tcp(ours), slot).await;
        }
        let uid = tokio::task::spawn_blocking(move || peer::tcp_uid(from, ours)).await;
        // Without it small responses are delayed by Nagle's algorithm; an error is harmless.
        let _ = stream.set_nodelay(true);
        match peer::of_uid(uid.ok().flatten()) {
            Peer::SameUser => self.serve(stream, Transport::Tcp(ours), slot).await,
            Peer::OtherUser => self.refuse(stream, slot).await,
        }
    }

    async fn handle_socket(self, stream: UnixStream, slot: OwnedSemaphorePermit) {
        match peer::of_uid(stream.peer_cred().ok().map(|peer| peer.uid())) {
            Peer::SameUser => self.serve(stream, Transport::Socket, slot).await,
            Peer::OtherUser => self.refuse(stream, slot).await,
        }
    }

    async fn refuse(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, slot: OwnedSemaphorePermit) {
        self.app.counters.refused();
        // A refused connection must not occupy a slot.
        drop(slot);
        let Ok(_permit) = self.refusals.try_acquire() else { return };
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
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        transport: Transport,
        slot: OwnedSemaphorePermit,
    ) {
        self.app.counters.connected();
        let _counted = self.app.connections.add();
        let router = self.router;
        let open = OpenRequests::default();
        let counted = open.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut router = router.clone();
            let in_progress = counted.add();
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(transport);
            async move {
                let response = router.call(request).await.unwrap_or_else(|never| match never {});
                Ok::<_, Infallible>(in_progress.until_sent(response))
            }
        });
        let io = TokioIo::new(WriteTimeout::new(stream, self.app.timeouts.write));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.app.timeouts.head)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(io, service)
            .with_upgrades();
        tokio::pin!(connection);
        loop {
            // Connection errors are the peer's problem.
            tokio::select! {
                _ = connection.as_mut() => break,
                () = wait_for_shutdown(&mut self.is_ending) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(DRAIN_TIMEOUT, connection.as_mut()).await;
                    break;
                }
                () = open.changed() => {}
                () = self.app.limiter.wait_for_eviction(), if open.is_idle() => break,
            }
        }
        drop(slot);
    }
}

async fn bind_socket(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_private_folder(folder).map_err(|source| ListenError::Folder { path: folder.to_owned(), source })?;
    let listen_error = |source| ListenError::Socket { path: path.to_owned(), source };
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(listen_error(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the path exists and is not a socket",
            )));
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(ListenError::Taken { path: path.to_owned() });
        }
        // Stale: its hub was killed.
        fs::remove_file(path).map_err(listen_error)?;
    }
    let listener = UnixListener::bind(path).map_err(listen_error)?;
    // Until then the private folder keeps other users out.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(listen_error)?;
    let inode = fs::symlink_metadata(path).map_err(listen_error)?.ino();
    Ok((listener, SocketFile { path: path.to_owned(), inode }))
}

/// Creates a missing folder and makes it private (0700).
fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::metadata(folder)?;
    if found.uid() != peer::own_uid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}
