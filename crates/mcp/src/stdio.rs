//! Serves MCP on stdin and stdout until the client disconnects or a signal arrives.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use rmcp::{ServerHandler, ServiceExt, service::ServerInitializeError, transport::io::stdio_pipes};
use subscope_platform::Termination;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
};

/// Error of [`serve`].
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Signal handlers could not be installed.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// The MCP handshake failed.
    #[error("the client does not speak MCP")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server task panicked.
    #[error("the server broke")]
    Broken(#[source] tokio::task::JoinError),
}

/// Time to send pending answers to a client that has closed its sending side.
const DRAIN_LIMIT: Duration = Duration::from_secs(6);

/// Becomes `true` when the client disconnects: running work must end.
pub type ClientGone = watch::Receiver<bool>;

/// Waits until the client disconnects.
pub(crate) async fn client_gone(gone: &mut ClientGone) {
    // A dropped sender means that the server has ended.
    let _ = gone.wait_for(|is_gone| *is_gone).await;
}

/// Serves MCP on stdin and stdout. Returns once the client has disconnected or SIGINT, SIGTERM or SIGHUP was received,
/// and all work of the server built by `make` has ended.
///
/// # Errors
/// The handshake failed, signal handlers could not be installed, or the server task panicked. A disconnect is no error.
pub async fn serve<H: ServerHandler + Clone + Shutdown>(
    make: impl FnOnce(ClientGone) -> H,
) -> Result<(), ServeError> {
    let (set_gone, is_gone) = watch::channel(false);
    let mut ended = is_gone.clone();
    let handler = make(is_gone);
    let last = handler.clone();
    let mut termination = Termination::listen(true).map_err(ServeError::Signals)?;
    let (input, output) = stdio_pipes();
    let input = EofWatcher { input, set_gone: set_gone.clone() };
    let mut served = tokio::spawn(async move {
        match handler.serve((input, output)).await {
            Ok(running) => running.waiting().await.map(drop).map_err(ServeError::Broken),
            // A disconnect before the handshake is no error.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(ServeError::Handshake(Box::new(error))),
        }
    });
    let (mut outcome, mut is_gone) = (None, false);
    tokio::select! {
        done = &mut served => outcome = Some(done),
        () = client_gone(&mut ended) => is_gone = true,
        _ = termination.received() => {}
    }
    set_gone.send_replace(true);
    last.ended().await;
    if is_gone {
        // Requests made before end of input are answered: the client may have closed only its sending side.
        outcome = tokio::time::timeout(DRAIN_LIMIT, &mut served).await.ok();
    }
    served.abort();
    outcome.map_or(Ok(()), |done| done.map_err(ServeError::Broken)?)
}

/// A server with background work that must end before the process does.
pub trait Shutdown {
    /// Waits until all work has ended.
    fn ended(&self) -> impl Future<Output = ()> + Send;
}

/// An input that signals its end at once: the SDK notifies handlers only seconds later.
struct EofWatcher<R> {
    input: R,
    set_gone: watch::Sender<bool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for EofWatcher<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (had, room) = (buffer.filled().len(), buffer.remaining());
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_end = matches!(polled, Poll::Ready(Ok(()))) && room > 0 && buffer.filled().len() == had;
        if is_end || matches!(polled, Poll::Ready(Err(_))) {
            self.set_gone.send_replace(true);
        }
        polled
    }
}
