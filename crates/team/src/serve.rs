//! The server: listens, with TLS if it has a certificate, until it is stopped.

mod opening;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use axum_server::{Handle, tls_rustls::RustlsConfig};
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto,
};
use subscope_program::Retention;
use tokio::runtime;

use crate::{
    engine::{Engine, EngineError},
    gather::{Gather, chain},
    routes::{TeamState, router},
    tables::{TableError, prepare},
    tokens::{TokenFile, TokenFileError},
};
use opening::OpeningTimeout;

/// Time for open requests to end after a stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a connection's first bytes, and for each request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after which ClickHouse is tried again when the server starts without it.
const RETRY: Duration = Duration::from_secs(2);
/// Most time for which a server waits for ClickHouse when it starts.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Threads that wait for ClickHouse on behalf of readers: more queries at once only make each slower.
const MAX_READERS: usize = 32;

/// Files of a certificate, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, with those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The store.
    pub engine: Engine,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// File of tokens.
    pub token_file: PathBuf,
    /// How long rows are kept; `None` leaves it as it is.
    pub retain: Option<Retention>,
    /// Cluster on which tables are made.
    pub cluster: Option<String>,
    /// Certificate; `None` for plain HTTP, with TLS ended by a proxy.
    pub tls: Option<TlsFiles>,
}

/// Error of a server.
#[derive(Debug, thiserror::Error)]
pub enum TeamServeError {
    /// The token file.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// The tables.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate in {}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Serving failed.
    #[error("the server failed")]
    Io(#[from] io::Error),
}

/// Serves until `stop` completes. Calls `ready` with the URL once it answers.
///
/// # Errors
/// [`TeamServeError`].
pub fn serve(
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(&str) -> io::Result<()>,
) -> Result<(), TeamServeError> {
    let mut runtime = runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(MAX_READERS).build()?;
    let ServeOptions { engine, listen, token_file, retain, cluster, tls } = options;
    let tokens = TokenFile::open(&token_file)?;
    let address = |source| TeamServeError::Address { address: listen, source };
    let listener = TcpListener::bind(listen).map_err(address)?;
    listener.set_nonblocking(true).map_err(address)?;
    let bound = listener.local_addr().map_err(address)?;
    let certificate = runtime.block_on(load(tls.as_ref()))?;
    runtime.block_on(prepared(&engine, retain, cluster.as_deref()))?;
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{bound}");
    let served = runtime.block_on(async {
        let handle = Handle::new();
        let state = TeamState::new(engine.clone(), Gather::start(&engine), tokens, certificate.is_some());
        let service = router(state).into_make_service_with_connect_info::<SocketAddr>();
        let stopping = handle.clone();
        let stopper = tokio::spawn(async move {
            stop.await;
            stopping.graceful_shutdown(Some(DRAIN_TIMEOUT));
        });
        ready(&url)?;
        let limit = HEAD_TIMEOUT;
        let served = match certificate {
            Some(config) => {
                let server = axum_server::from_tcp_rustls(listener, config)?.handle(handle);
                let mut server = server.map(|inner| OpeningTimeout { inner, limit });
                limit_heads(server.http_builder());
                server.serve(service).await
            }
            None => {
                let server = axum_server::from_tcp(listener)?.handle(handle);
                let mut server = server.map(|inner| OpeningTimeout { inner, limit });
                limit_heads(server.http_builder());
                server.serve(service).await
            }
        };
        stopper.abort();
        Ok::<_, TeamServeError>(served?)
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

fn limit_heads(http: &mut auto::Builder<TokioExecutor>) {
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
}

/// Prepares the tables. Waits for a ClickHouse that is starting at the same time.
async fn prepared(
    engine: &Engine,
    retain: Option<Retention>,
    cluster: Option<&str>,
) -> Result<(), TableError> {
    let waited = async {
        while let Err(error) = engine.ping().await {
            tracing::warn!("waiting for ClickHouse: {}", chain(&error));
            if !matches!(
                &error,
                EngineError::Failed(clickhouse::error::Error::Network(_)) | EngineError::TimedOut
            ) {
                break;
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    // The next failing request reports the cause.
    let _ = tokio::time::timeout(START_TIMEOUT, waited).await;
    prepare(engine, retain, cluster).await
}

async fn load(tls: Option<&TlsFiles>) -> Result<Option<RustlsConfig>, TeamServeError> {
    let Some(TlsFiles { certificate, key }) = tls else { return Ok(None) };
    let loaded = RustlsConfig::from_pem_file(certificate, key).await;
    loaded.map(Some).map_err(|source| TeamServeError::Certificate { path: certificate.clone(), source })
}
