//! Answers that requests share. A page that many people have open asks the same again and again: while a query runs, all
//! equal requests that come wait for one more query, not for one each.
//!
//! A query that has begun is shared with nobody: every answer has what was stored before its request came.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt as _, future::Shared};
use subscope_server::ApiError;
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use super::TeamApp;
use crate::{auth::Caller, tokens::Tenant};

/// What makes requests equal: the tenant that they read, path and query.
pub(crate) type RequestKey = (Tenant, String);

type Answer = (StatusCode, HeaderMap, Bytes);

/// The requests that wait for an answer, by what makes them equal.
pub(crate) struct SharedAnswers<K>(Arc<Mutex<HashMap<K, Turns>>>);

impl<K> Default for SharedAnswers<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for SharedAnswers<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Equal requests.
#[derive(Default)]
struct Turns {
    /// Held while one is answered.
    running: Arc<AsyncMutex<()>>,
    /// The answer after that one.
    next: Option<Shared<oneshot::Receiver<Answer>>>,
}

/// Middleware of routes that only read: what they answer depends on tenant, path and query alone.
pub(super) async fn share(State(app): State<TeamApp>, request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let caller = match Caller::from_request_parts(&mut parts, &app).await {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    let key = (caller.identity.tenant, parts.uri.to_string());
    let request = Request::from_parts(parts, body);
    match app.shared.ask(key, async move { answer(next.run(request).await).await }).await {
        Some((status, headers, bytes)) => (status, headers, bytes).into_response(),
        None => ApiError::unavailable("the query did not end").into_response(),
    }
}

async fn answer(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => (parts.status, parts.headers, bytes),
        // Bodies of these routes are in memory.
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), error.to_string().into()),
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> SharedAnswers<K> {
    /// Returns the answer of the next query of these; `query` is used if none waits to begin. `None` if it panicked.
    async fn ask(&self, key: K, query: impl Future<Output = Answer> + Send + 'static) -> Option<Answer> {
        let asked = {
            let mut all = self.lock();
            let turns = all.entry(key.clone()).or_default();
            let (next, running) = (&mut turns.next, Arc::clone(&turns.running));
            next.get_or_insert_with(|| {
                let (sender, receiver) = oneshot::channel();
                // It ends even if all that ask go away.
                tokio::spawn(self.clone().run(key, running, query, sender));
                receiver.shared()
            })
            .clone()
        };
        asked.await.ok()
    }

    async fn run(
        self,
        key: K,
        running: Arc<AsyncMutex<()>>,
        query: impl Future<Output = Answer>,
        sender: oneshot::Sender<Answer>,
    ) {
        let _turn = running.lock().await;
        if let Some(turns) = self.lock().get_mut(&key) {
            turns.next = None;
        }
        // Nobody may be left to take it.
        let _ = sender.send(query.await);
        let mut all = self.lock();
        if all.get(&key).is_some_and(|turns| turns.next.is_none()) {
            all.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Turns>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    fn is_empty<K>(shared: &SharedAnswers<K>) -> bool {
        shared.0.lock().unwrap().is_empty()
    }

    fn text(answer: Option<Answer>) -> String {
        String::from_utf8(answer.unwrap().2.to_vec()).unwrap()
    }

    /// Queries whose answer is their number; each waits for a permit.
    struct Queries {
        begun: AtomicUsize,
        permits: Semaphore,
    }

    impl Queries {
        fn new() -> Arc<Self> {
            Arc::new(Self { begun: AtomicUsize::new(0), permits: Semaphore::new(0) })
        }

        async fn ask(self: Arc<Self>) -> Answer {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            (StatusCode::OK, HeaderMap::new(), number.to_string().into())
        }
    }

    #[tokio::test]
    async fn equal_requests_wait_for_one_query_that_begins_after_them() {
        let (shared, queries) = (SharedAnswers::default(), Queries::new());
        let ask = |tenant: &'static str, query: &'static str| {
            let (shared, key) = (shared.clone(), (tenant, query));
            let asked = Arc::clone(&queries).ask();
            tokio::spawn(async move { shared.ask(key, asked).await })
        };
        let begun = |count: usize| {
            let queries = Arc::clone(&queries);
            async move {
                while queries.begun.load(Ordering::SeqCst) < count {
                    tokio::task::yield_now().await;
                }
            }
        };
        let first = ask("acme", "/a");
        begun(1).await;
        // While it runs, twenty more come, and one of another path and one of another tenant.
        let later: Vec<_> = (0..20).map(|_| ask("acme", "/a")).collect();
        let others = [ask("acme", "/b"), ask("globex", "/a")];
        begun(3).await;
        queries.permits.add_permits(3);
        assert_eq!(text(first.await.unwrap()), "0");
        let others = join_all(others).await.into_iter().map(|answer| text(answer.unwrap()));
        assert!(others.eq(["1", "2"]));
        begun(4).await;
        queries.permits.add_permits(1);
        for answer in join_all(later).await {
            assert_eq!(text(answer.unwrap()), "3");
        }
        assert_eq!(queries.begun.load(Ordering::SeqCst), 4);
        while !is_empty(&shared) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_request_whose_asker_goes_away_leaves_nothing_behind() {
        let (shared, queries) = (SharedAnswers::default(), Queries::new());
        let asked = shared.ask("/a", Arc::clone(&queries).ask());
        assert!(asked.now_or_never().is_none());
        queries.permits.add_permits(1);
        while !is_empty(&shared) {
            tokio::task::yield_now().await;
        }
        let panics = shared.ask("/a", async { panic!("a fault of a handler") });
        assert!(panics.await.is_none());
        queries.permits.add_permits(1);
        assert_eq!(text(shared.ask("/a", Arc::clone(&queries).ask()).await), "1");
    }
}
