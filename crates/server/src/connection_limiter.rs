//! Limit of open connections; a full server closes idle connections for new ones.
//!
//! Connections that wait for their peer (for a request head, or for the next bytes of a body) are in one queue, longest wait first. A
//! new connection without a free slot evicts the first. So clients that hold connections open and send nothing only hurt each other.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot},
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
    pub(crate) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            match Arc::clone(&self.slots).try_acquire_owned() {
                Ok(slot) => return Some(slot),
                Err(TryAcquireError::Closed) => return None,
                Err(TryAcquireError::NoPermits) => {}
            }
            self.evict_one();
            // The evicted connection releases its slot at once; a closed one has released it.
            if let Ok(slot) = timeout(RETRY_INTERVAL, Arc::clone(&self.slots).acquire_owned()).await {
                return slot.ok();
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

/// Number of requests in progress on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRequests(Arc<(AtomicUsize, Notify)>);

impl OpenRequests {
    /// Counts a request until the returned value is dropped.
    pub(crate) fn add(&self) -> RequestInProgress {
        self.0.0.fetch_add(1, Ordering::AcqRel);
        self.0.1.notify_one();
        RequestInProgress(self.clone())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.0.load(Ordering::Acquire) == 0
    }

    /// Waits until the number changes.
    pub(crate) async fn changed(&self) {
        self.0.1.notified().await;
    }
}

/// A request in progress, until the last byte of its response is sent.
#[derive(Debug)]
pub(crate) struct RequestInProgress(OpenRequests);

impl RequestInProgress {
    /// Attaches it to the response body.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        response.map(|body| Body::new(TrackedBody { body, _request: self }))
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::AcqRel);
        self.0.0.1.notify_one();
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
