//! The two listeners, TCP and a Unix socket, and the life of a connection.

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
    connection_limiter::Open,
    peer::{self, Peer, Via},
    routes,
    session_reader::SessionReader,
    state::{App, LIVE_FEEDS, ended},
    token::Token,
    write_timeout::WriteTimeout,
};

/// How many unauthorised are told at once that they are not let in; more are dropped without a word.
pub(crate) const STRANGERS: usize = 32;

/// The greatest head of a request.
const HEAD_BYTES: usize = 64 << 10;

/// How long open requests may take to end once the server is to end.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// How long a stranger has to hear that it is not let in.
const FOR_STRANGERS: Duration = Duration::from_secs(1);

/// How long is waited after an accept that failed (too many open files): it would fail again at once.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// How long a peer is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the head of a request, also the next one on an open connection.
    pub head: Duration,
    /// For the next bytes of a body.
    pub body_idle: Duration,
    /// For a whole body.
    pub body: Duration,
    /// Until it reads what was written.
    pub write: Duration,
}

impl Default for Patience {
    /// Generous for programs of the same machine; each open connection of a peer that hangs is given up within minutes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { head: seconds(30), body_idle: seconds(10), body: seconds(120), write: seconds(20) }
    }
}

/// What a server says of its hub to whoever asks it.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The program's version.
    pub version: &'static str,
    /// How the hub runs.
    pub mode: HubMode,
}

/// Where and how to listen.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address; port 0 takes a free one. One that is not on the loopback needs a token.
    pub listen: SocketAddr,
    /// The Unix socket. Its folder is made if it is not there, and closed to other users.
    pub socket: PathBuf,
    /// How often live feeds tell how active subagents stand.
    pub heartbeat: Duration,
    /// How long peers are waited for.
    pub patience: Patience,
    /// What callers by TCP must show. Without one a caller must be of the same user, which only Linux tells.
    pub token: Option<Token>,
    /// What the hub says of itself.
    pub identity: Identity,
    /// What tells sessions anew, where somebody does.
    pub teller: Option<SessionReader>,
}

/// Why it cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other machines could reach that address, or nobody could tell who reaches it.
    #[error("{0} needs a token: nothing else tells who its callers are")]
    NeedsToken(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder of the socket cannot be made or is another user's.
    #[error("cannot use the folder {path}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be listened on.
    #[error("cannot listen on {path}", path = path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody answers on the socket.
    #[error("another hub answers on {path}", path = path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    address: SocketAddr,
    socket: UnixListener,
    file: SocketFile,
    heartbeat: Duration,
    patience: Patience,
    token: Option<Token>,
    identity: Identity,
    teller: Option<SessionReader>,
    hub: HubHandle,
    guests: ConnectionCount,
}

/// The file of the Unix socket, which is removed when dropped: after the listener.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The file that was made: another one that stands there later is another hub's.
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Nothing can be done about one that cannot be removed; the next hub takes it over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Server {
    /// Listens on both.
    ///
    /// # Errors
    ///
    /// See [`ServeError`].
    pub async fn bind(options: ServerOptions, hub: HubHandle) -> Result<Self, ServeError> {
        let ServerOptions { listen, socket, heartbeat, patience, token, identity, teller } = options;
        if token.is_none() && !(listen.ip().is_loopback() && peer::CAN_TELL) {
            return Err(ServeError::NeedsToken(listen));
        }
        let unable = |source| ServeError::Address { address: listen, source };
        let tcp = TcpListener::bind(listen).await.map_err(unable)?;
        let address = tcp.local_addr().map_err(unable)?;
        let (socket, file) = bind_socket(&socket).await?;
        Ok(Self {
            tcp,
            address,
            socket,
            file,
            heartbeat,
            patience,
            token,
            identity,
            teller,
            hub,
            guests: ConnectionCount::default(),
        })
    }

    /// Where it is reached.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where one browser is let in: where callers show a token, with a code for it.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn page(&self) -> io::Result<String> {
        self.token.as_ref().map_or_else(|| Ok(self.url()), |token| token.page(&self.url()))
    }

    /// Returns what tells whether anybody is there.
    pub fn guests(&self) -> ConnectionCount {
        self.guests.clone()
    }

    /// Serves until `end` comes, or somebody asks the hub to leave; then nothing more is accepted, what is open may end, and the socket is removed.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let url = self.url();
        let Self { tcp, address, socket, file, heartbeat, patience, token, identity, teller, hub, guests } =
            self;
        let (ending, is_ending) = watch::channel(false);
        let ends = is_ending.clone();
        let app = App::new(hub, guests, (identity, url), heartbeat, patience, token, ends, (None, teller));
        let router = routes::router(app.clone());
        let unauthorised = Arc::new(Semaphore::new(STRANGERS));
        let crowd = app.crowd.clone();
        let feeds = Arc::clone(&app.feeds);
        let serving = Serving { app: app.clone(), router, address, unauthorised, is_ending };
        // Tasks of their own: whoever knocks would otherwise wait for this thread to wake, besides the one that serves.
        let mut doors = JoinSet::new();
        doors.spawn(serving.clone().accept_socket(socket));
        doors.spawn(serving.accept_tcp(tcp));
        tokio::select! {
            () = end => {}
            () = app.drain.notified() => {}
            _ = doors.join_next() => {}
        }
        doors.shutdown().await;
        drop(file);
        // Nobody listens where nothing is open.
        let _ = ending.send(true);
        let _ = timeout(DRAIN, async {
            crowd.is_empty().await;
            // A WebSocket is no connection of HTTP any more.
            let _feeds = feeds.acquire_many(LIVE_FEEDS as u32).await;
        })
        .await;
    }
}

/// What a connection is served with.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) app: App,
    pub(crate) router: Router,
    pub(crate) address: SocketAddr,
    pub(crate) unauthorised: Arc<Semaphore>,
    pub(crate) is_ending: watch::Receiver<bool>,
}

impl Serving {
    pub(crate) async fn accept_tcp(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let Some(slot) = self.app.crowd.place().await else { return };
                    drop(tokio::spawn(self.clone().greet_tcp(stream, from, slot)));
                }
                Err(_) => sleep(AFTER_FAILED_ACCEPT).await,
            }
        }
    }

    async fn accept_socket(self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let Some(slot) = self.app.crowd.place().await else { return };
                    drop(tokio::spawn(self.clone().greet_socket(stream, slot)));
                }
                Err(_) => sleep(AFTER_FAILED_ACCEPT).await,
            }
        }
    }

    async fn greet_tcp(self, stream: TcpStream, from: SocketAddr, slot: OwnedSemaphorePermit) {
        let ours = self.address;
        if self.app.token.is_some() || (self.app.taker.is_some() && !peer::CAN_TELL) {
            // Judged by each request; and what a run's descendants post they post without a token, wherever they run.
            let _ = stream.set_nodelay(true);
            return self.serve(stream, Via::Tcp(ours), slot).await;
        }
        let uid = tokio::task::spawn_blocking(move || peer::tcp_uid(from, ours)).await;
        // Small answers must not wait for more; where that cannot be had they come a little later.
        let _ = stream.set_nodelay(true);
        match peer::of_uid(uid.ok().flatten()) {
            Peer::Own => self.serve(stream, Via::Tcp(ours), slot).await,
            Peer::Stranger => self.turn_away(stream, slot).await,
        }
    }

    async fn greet_socket(self, stream: UnixStream, slot: OwnedSemaphorePermit) {
        match peer::of_uid(stream.peer_cred().ok().map(|peer| peer.uid())) {
            Peer::Own => self.serve(stream, Via::Socket, slot).await,
            Peer::Stranger => self.turn_away(stream, slot).await,
        }
    }

    async fn turn_away(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, slot: OwnedSemaphorePermit) {
        self.app.counters.turned_away();
        // A stranger holds no place of those who may come in.
        drop(slot);
        let Ok(_one) = self.unauthorised.try_acquire() else { return };
        let answer = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        // A connection that is closed with something unread loses what was written; a stranger's request is not looked
        // at. Whether the stranger hears the answer in the end does not matter.
        let _ = timeout(FOR_STRANGERS, async {
            stream.write_all(answer).await?;
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
        via: Via,
        slot: OwnedSemaphorePermit,
    ) {
        self.app.counters.connected();
        let _guest = self.app.guests.enter();
        let router = self.router;
        let open = Open::default();
        let answering = open.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut router = router.clone();
            let answering = answering.one();
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(via);
            async move {
                let response = router.call(request).await.unwrap_or_else(|never| match never {});
                Ok::<_, Infallible>(answering.until_sent(response))
            }
        });
        let io = TokioIo::new(WriteTimeout::new(stream, self.app.patience.write));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.app.patience.head)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(io, service)
            .with_upgrades();
        tokio::pin!(connection);
        loop {
            // How a connection ended concerns its peer alone.
            tokio::select! {
                _ = connection.as_mut() => break,
                () = ended(&mut self.is_ending) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(DRAIN, connection.as_mut()).await;
                    break;
                }
                () = open.has_changed() => {}
                () = self.app.crowd.is_sent_away(), if open.is_idle() => break,
            }
        }
        drop(slot);
    }
}

async fn bind_socket(path: &Path) -> Result<(UnixListener, SocketFile), ServeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    close_folder(folder).map_err(|source| ServeError::Folder { path: folder.to_owned(), source })?;
    let unable = |source| ServeError::Socket { path: path.to_owned(), source };
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(unable(io::Error::new(io::ErrorKind::AlreadyExists, "something else stands there")));
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(ServeError::Taken { path: path.to_owned() });
        }
        // Left by a hub that did not end by itself.
        fs::remove_file(path).map_err(unable)?;
    }
    let listener = UnixListener::bind(path).map_err(unable)?;
    // The folder keeps others out in the moment before.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(unable)?;
    let inode = fs::symlink_metadata(path).map_err(unable)?.ino();
    Ok((listener, SocketFile { path: path.to_owned(), inode }))
}

/// Makes the folder if it is not there, and sees to it that it is its owner's alone.
fn close_folder(folder: &Path) -> io::Result<()> {
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
