//! A server on this process's stdin and stdout, until its client is gone or a signal comes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use rmcp::{ServerHandler, ServiceExt, service::ServerInitializeError, transport::io::stdio_pipes};
use tokio::{
    io::{AsyncRead, ReadBuf},
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Why a server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// The client's first words are no MCP.
    #[error("the client does not speak MCP")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server broke.
    #[error("the server broke")]
    Broken(#[source] tokio::task::JoinError),
}

/// How long answers to a client that has closed its end may take.
const FAREWELL: Duration = Duration::from_secs(6);

/// Told once the client is gone: whatever works for it has to end then.
pub type Gone = watch::Receiver<bool>;

/// Waits until the client is gone.
pub(crate) async fn gone(gone: &mut Gone) {
    // Where nobody could tell any more, the server is over as well.
    let _ = gone.wait_for(|is_gone| *is_gone).await;
}

/// Serves on stdin and stdout until the client closes them or SIGINT, SIGTERM or SIGHUP comes, and everything that `make`'s
/// server has begun has ended.
///
/// # Errors
/// Where the client does not speak MCP. One that leaves is no error.
pub async fn serve<H: ServerHandler + Clone + Ends>(make: impl FnOnce(Gone) -> H) -> Result<(), ServeError> {
    let (leave, left) = watch::channel(false);
    let mut ended = left.clone();
    let handler = make(left);
    let last = handler.clone();
    let mut signals = Vec::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        signals.push(signal(kind).map_err(ServeError::Signals)?);
    }
    let (input, output) = stdio_pipes();
    let input = Watched { input, leave: leave.clone() };
    let mut served = tokio::spawn(async move {
        match handler.serve((input, output)).await {
            Ok(running) => running.waiting().await.map(drop).map_err(ServeError::Broken),
            // Whoever leaves before saying anything has changed its mind.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(ServeError::Handshake(Box::new(error))),
        }
    });
    let [interrupt, terminate, hangup] = signals.as_mut_slice() else { return Ok(()) };
    let end = tokio::select! {
        served = &mut served => End::Served(served),
        () = gone(&mut ended) => End::Gone,
        _ = interrupt.recv() => End::Signal,
        _ = terminate.recv() => End::Signal,
        _ = hangup.recv() => End::Signal,
    };
    leave.send_replace(true);
    last.ended().await;
    match end {
        End::Served(served) => served.map_err(ServeError::Broken)?,
        // What was asked before the end is answered: a client may have closed its end and read on.
        End::Gone => match tokio::time::timeout(FAREWELL, &mut served).await {
            Ok(served) => served.map_err(ServeError::Broken)?,
            Err(_) => {
                served.abort();
                Ok(())
            }
        },
        End::Signal => {
            served.abort();
            Ok(())
        }
    }
}

/// How a server came to its end.
enum End {
    Served(Result<Result<(), ServeError>, tokio::task::JoinError>),
    Gone,
    Signal,
}

/// What a server has begun and must not leave behind.
pub trait Ends {
    /// Waits until nothing of it is left.
    fn ended(&self) -> impl Future<Output = ()> + Send;
}

/// An input that says when it is at its end: the SDK tells its handlers only seconds later.
struct Watched<R> {
    input: R,
    leave: watch::Sender<bool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (had, room) = (buffer.filled().len(), buffer.remaining());
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_end = matches!(polled, Poll::Ready(Ok(()))) && room > 0 && buffer.filled().len() == had;
        if is_end || matches!(polled, Poll::Ready(Err(_))) {
            self.leave.send_replace(true);
        }
        polled
    }
}
