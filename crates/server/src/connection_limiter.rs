//! Limit of open connections; a full server closes idle connections for new ones.
//!
//! Connections that wait for their peer (for a request head, or for the next bytes of a body) are in one queue, longest
//! wait first. A new connection without a free slot evicts the first. So clients that hold connections open and send
//! nothing only hurt each other.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time::timeout,
};

/// Connection slots. Each needs a file descriptor, of which many systems allow a process 1,024.
pub(crate) const MAX_CONNECTIONS: usize = 384;

/// Retry interval of a new connection without a slot: if no connection is idle, nothing can be evicted.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Connection slots and the queue of idle connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimiter {
    slots: Arc<Semaphore>,
    idle: Arc<Mutex<VecDeque<oneshot::Sender<()>>>>,
}

impl Default for ConnectionLimiter {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)), idle: Arc::default() }
    }
}

impl ConnectionLimiter {
    fn idle(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<()>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this idle connection is chosen to be closed for a new one. Cancel-safe.
    pub(crate) async fn wait_for_eviction(&self) {
        let (sender, evicted) = oneshot::channel();
        {
            let mut idle = self.idle();
            if idle.len() >= 4 * MAX_CONNECTIONS {
                idle.retain(|one| !one.is_closed());
            }
            idle.push_back(sender);
        }
        if evicted.await.is_err() {
            // The queue was dropped: the server has ended.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for a slot; evicts idle connections while there is none.
    pub(crate) async fn acquire(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                return slot;
            }
            self.evict_one();
            // The evicted connection releases its slot at once; a closed one has released it.
            if let Ok(Ok(slot)) = timeout(RETRY_INTERVAL, Arc::clone(&self.slots).acquire_owned()).await {
                return slot;
            }
        }
    }

    fn evict_one(&self) {
        let mut idle = self.idle();
        while let Some(first) = idle.pop_front() {
            if first.send(()).is_ok() {
                return;
            }
        }
    }

    /// Waits until no connection is open.
    pub(crate) async fn wait_until_empty(&self) {
        let _all = self.slots.acquire_many(MAX_CONNECTIONS as u32).await;
    }
}

/// Counts a request in progress on its connection, until the last byte of its response is sent.
pub(crate) struct RequestInProgress(watch::Sender<usize>);

impl RequestInProgress {
    pub(crate) fn new(open: &watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open.clone())
    }

    /// Attaches it to the response body.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        response.map(|body| Body::new(TrackedBody { body, _request: self }))
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Response body that keeps its request in progress.
struct TrackedBody {
    body: Body,
    _request: RequestInProgress,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
