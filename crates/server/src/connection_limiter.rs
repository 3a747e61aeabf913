//! Room for connections: a bounded number, of which those that keep everybody waiting go first when more want in.
//!
//! Whoever waits for its peer (for the head of a request, or for the next bytes of a body) stands in one queue, the longest
//! waiting in front; a new connection that finds no room sends the first one away. So clients that hold connections open
//! and send nothing can hold up each other, and nobody else.

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

/// How many places there are. Each needs a file descriptor, of which many systems give a process 1,024.
pub(crate) const PLACES: usize = 384;

/// How long a connection without a place waits before it looks again: where nobody waits for its peer, all are at work.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The places, and who waits for its peer.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimiter {
    places: Arc<Semaphore>,
    waiting: Arc<Mutex<VecDeque<oneshot::Sender<()>>>>,
}

impl Default for ConnectionLimiter {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(PLACES)), waiting: Arc::default() }
    }
}

impl ConnectionLimiter {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands in the queue, at its end, and returns once it is this one's turn to go. Dropped, it stands there no more.
    pub(crate) async fn is_sent_away(&self) {
        let (sender, told) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.len() >= 4 * PLACES {
                waiting.retain(|one| !one.is_closed());
            }
            waiting.push_back(sender);
        }
        if told.await.is_err() {
            // Only a queue that is gone says so: then everybody is.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for a place, and sends the longest waiting away while there is none.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => return Some(place),
                Err(TryAcquireError::Closed) => return None,
                Err(TryAcquireError::NoPermits) => {}
            }
            self.send_one_away();
            // Whoever goes makes room at once; who is found gone already has made it.
            if let Ok(place) = timeout(LOOK_AGAIN, Arc::clone(&self.places).acquire_owned()).await {
                return place.ok();
            }
        }
    }

    fn send_one_away(&self) {
        let mut waiting = self.waiting();
        while let Some(first) = waiting.pop_front() {
            if first.send(()).is_ok() {
                return;
            }
        }
    }

    /// Returns when no connection is left.
    pub(crate) async fn is_empty(&self) {
        let _all = self.places.acquire_many(PLACES as u32).await;
    }
}

/// The requests of one connection that are being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open(Arc<(AtomicUsize, Notify)>);

impl Open {
    /// One more, until what is returned is dropped.
    pub(crate) fn one(&self) -> Answering {
        self.0.0.fetch_add(1, Ordering::AcqRel);
        self.0.1.notify_one();
        Answering(self.clone())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.0.load(Ordering::Acquire) == 0
    }

    /// Returns when that may have changed.
    pub(crate) async fn has_changed(&self) {
        self.0.1.notified().await;
    }
}

/// A request that is being answered, to the last byte.
#[derive(Debug)]
pub(crate) struct Answering(Open);

impl Answering {
    /// Lasts as long as the answer.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        response.map(|body| Body::new(Sending { body, _answering: self }))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::AcqRel);
        self.0.0.1.notify_one();
    }
}

/// The body of an answer.
struct Sending {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Sending {
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
