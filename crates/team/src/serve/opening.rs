//! Closes a connection on which no request begins.
//!
//! The server reads the first bytes of a connection to tell HTTP/1 from HTTP/2, and has no time-out for that; its
//! time-out for a request's head begins afterwards.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::accept::Accept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Bytes by which HTTP/2 is known (RFC 9113, section 3.4): with so many the server knows the protocol.
const PREFACE_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Accepts connections as `inner` does.
#[derive(Clone, Debug)]
pub(super) struct OpeningTimeout<A> {
    pub(super) inner: A,
    /// Time for the first bytes; with TLS, after its handshake.
    pub(super) limit: Duration,
}

impl<A, I, S> Accept<I, S> for OpeningTimeout<A>
where
    A: Accept<I, S, Future: Send + 'static>,
{
    type Stream = Opening<A::Stream>;
    type Service = A::Service;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let (accepted, limit) = (self.inner.accept(stream, service), self.limit);
        Box::pin(async move {
            let (stream, service) = accepted.await?;
            let wait = Some((Box::pin(sleep(limit)), PREFACE_BYTES));
            Ok((Opening { stream, wait }, service))
        })
    }
}

/// A connection whose reads fail if its first bytes come late.
#[derive(Debug)]
pub(super) struct Opening<S> {
    stream: S,
    /// The end of the time for the first bytes, and how many are missing; `None` once they are read.
    wait: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some((end, missing)) = &mut self.wait else { return read };
        *missing = missing.saturating_sub(buffer.filled().len() - before);
        if *missing == 0 {
            self.wait = None;
        } else if read.is_pending() && end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, time::Duration};

    use axum::{Router, routing::get};
    use axum_server::{Handle, accept::DefaultAcceptor};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::OpeningTimeout;

    /// Serves `/` and returns the address.
    async fn serving(limit: Duration) -> SocketAddr {
        let handle = Handle::new();
        let acceptor = OpeningTimeout { inner: DefaultAcceptor::new(), limit };
        let server = axum_server::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let server = server.acceptor(acceptor).handle(handle.clone());
        let router = Router::new().route("/", get(|| async { "served" }));
        tokio::spawn(server.serve(router.into_make_service()));
        handle.listening().await.unwrap()
    }

    #[tokio::test]
    async fn connections_without_a_request_are_closed_and_others_are_served() {
        let address = serving(Duration::from_millis(200)).await;
        // `P` begins both `POST` and the preface of HTTP/2.
        for begin in ["", "P", "PRI * HTTP/2.0\r\n"] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(begin.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            // The end of the connection or its reset: either closes it.
            let _ = silent.read_to_end(&mut answer).await;
            assert_eq!(answer, b"", "{begin:?}");
        }
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        slow.write_all(b"Connection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("served"), "{answer}");
    }
}
