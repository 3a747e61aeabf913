//! Test fixture: a hub with its HTTP server.

#![allow(clippy::unwrap_used, dead_code, reason = "each test program uses its own part of this module")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread::JoinHandle,
    time::Duration,
};

use subscope_client::{Address, Client};
use subscope_hub::{Hub, HubOptions, Nothing};
use subscope_model::HubMode;
use subscope_server::{
    HubIdentity, IDENTIFIES_TCP_PEERS, PublicNames, Server, ServerOptions, Timeouts, Token,
};
use subscope_store::{Access, SqliteStore};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Timeout of waits in tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const VERSION: &str = "0.3.0";

/// A hub with its HTTP server; shut down on drop.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    pub(crate) tcp: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a hub on a state directory.
    pub(crate) fn start(folder: &Path, timeouts: Timeouts) -> Self {
        Self::start_at(folder, timeouts, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts a hub on a state directory and a TCP address.
    pub(crate) fn start_at(folder: &Path, timeouts: Timeouts, listen: SocketAddr) -> Self {
        let socket = folder.join("hub.sock");
        let store = SqliteStore::open(folder, Access::Write, "1", 1_000).unwrap();
        let options = HubOptions::default();
        let hub = Hub::start(Box::new(Nothing), Box::new(store), options).unwrap();
        let options = ServerOptions {
            listen,
            socket: socket.clone(),
            heartbeat: Duration::from_millis(50),
            timeouts,
            identity: HubIdentity { version: VERSION, mode: HubMode::Background },
            token: (!IDENTIFIES_TCP_PEERS).then(|| Token::of_file(&folder.join("token")).unwrap()),
            public: PublicNames::default(),
            session_reader: None,
            indexer: None,
            setup: None,
            sending: None,
            jumper: None,
            takes_answers: false,
            demo: None,
            forwarding: None,
            remotes: None,
        };
        let (ready, is_ready) = sync_channel(1);
        let (end, is_ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.unwrap().block_on(async {
                let server = Server::bind(options, hub.handle()).await.unwrap();
                ready.send(server.url()).unwrap();
                server.run(async { drop(is_ended.await) }).await;
            });
        });
        let url: String = is_ready.recv_timeout(LIMIT).unwrap();
        let tcp = url.strip_prefix("http://").unwrap().parse().unwrap();
        Self { socket, tcp, end: Some(end), thread: Some(thread) }
    }

    /// The addresses at which the hub knows its user.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        let tcp = IDENTIFIES_TCP_PEERS.then_some(Address::Tcp(self.tcp));
        [Address::Socket(self.socket.clone())].into_iter().chain(tcp)
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(Address::Socket(self.socket.clone())).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.take();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking());
    }
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}
