//! Gathers the snapshots of many requests into few inserts, and answers each request once ClickHouse has its rows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clickhouse::Client;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    engine::{Engine, EngineError, insert},
    rows::Snapshots,
};

/// How long the first rows of an insert wait for others.
const GATHER_TIME: Duration = Duration::from_millis(300);
/// Rows from which on an insert waits no longer.
const GATHER_ROWS: usize = 10_000;
/// Bytes of requests that wait for their rows to be stored, decompressed; beyond, requests are refused with 429.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Unit in which those bytes are counted.
const UNIT: usize = 16 << 10;
/// Requests that wait; their bytes bound them first.
const MAX_WAITING: usize = 4096;

/// Why rows are not stored; the sender tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// Too many bytes wait.
    #[error("too many sessions wait to be stored: try again")]
    Full,
    /// ClickHouse did not take them.
    #[error("ClickHouse does not take rows: try again")]
    Refused,
    /// The server ends.
    #[error("the server ends: try again")]
    Ended,
}

/// Room for the rows of a request.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Makes it room for `bytes` in all.
    ///
    /// # Errors
    /// [`GatherError::Full`].
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), GatherError> {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(bytes.div_ceil(UNIT).saturating_sub(held)).unwrap_or(u32::MAX);
        if missing == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.budget).try_acquire_many_owned(missing).map_err(|_| GatherError::Full)?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }
}

struct WaitingRows {
    rows: Snapshots,
    _room: Room,
    reply: oneshot::Sender<Result<(), GatherError>>,
}

/// Figures since the server began.
#[derive(Debug, Default)]
pub(crate) struct GatherCounters {
    pub(crate) sessions: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) inserts: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// Sends rows to ClickHouse. Cheap to clone; ends with its last clone.
#[derive(Clone, Debug)]
pub struct Gather {
    queue: mpsc::Sender<WaitingRows>,
    budget: Arc<Semaphore>,
    pub(crate) counters: Arc<GatherCounters>,
}

impl Gather {
    /// Starts gathering on the current runtime.
    pub fn start(engine: &Engine) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let counters = Arc::<GatherCounters>::default();
        drop(tokio::spawn(run(engine.in_database(), waiting, Arc::clone(&counters))));
        Self { queue, budget: Arc::new(Semaphore::new(MAX_WAITING_BYTES / UNIT)), counters }
    }

    pub(crate) fn room(&self) -> Room {
        Room { budget: Arc::clone(&self.budget), permit: None }
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        MAX_WAITING_BYTES - self.budget.available_permits() * UNIT
    }

    /// Stores rows that came in no request; returns when ClickHouse has them.
    ///
    /// # Errors
    /// [`GatherError`]; the rows may have been stored nevertheless.
    pub async fn put(&self, rows: Snapshots) -> Result<(), GatherError> {
        self.store(rows, self.room()).await
    }

    /// Stores the rows of a request; returns when ClickHouse has them.
    ///
    /// # Errors
    /// [`GatherError`]; the rows may have been stored nevertheless, and are to be sent again.
    pub(crate) async fn store(&self, rows: Snapshots, room: Room) -> Result<(), GatherError> {
        let (reply, stored) = oneshot::channel();
        self.queue.try_send(WaitingRows { rows, _room: room, reply }).map_err(|_| GatherError::Full)?;
        stored.await.unwrap_or(Err(GatherError::Ended))
    }
}

async fn run(client: Client, mut waiting: mpsc::Receiver<WaitingRows>, counters: Arc<GatherCounters>) {
    while let Some(first) = waiting.recv().await {
        let until = Instant::now() + GATHER_TIME;
        let (mut rows, mut replies) = (Snapshots::default(), Vec::new());
        let mut next = Some(first);
        while let Some(WaitingRows { rows: more, _room: room, reply }) = next {
            rows.append(more);
            replies.push((reply, room));
            next = match rows.len() < GATHER_ROWS {
                true => timeout_at(until, waiting.recv()).await.ok().flatten(),
                false => None,
            };
        }
        let outcome = store(&client, &rows).await;
        match &outcome {
            Ok(()) => {
                counters.inserts.fetch_add(1, Ordering::Relaxed);
                counters.sessions.fetch_add(rows.sessions.len() as u64, Ordering::Relaxed);
                counters.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
            }
            Err(error) => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(rows = rows.len(), "rows are not stored: {}", chain(error));
            }
        }
        for (reply, room) in replies {
            let _ = reply.send(if outcome.is_ok() { Ok(()) } else { Err(GatherError::Refused) });
            drop(room);
        }
    }
}

/// Inserts rows: trees and texts first, so that a session that is listed has its tree.
async fn store(client: &Client, rows: &Snapshots) -> Result<(), EngineError> {
    let (trees, texts) =
        tokio::join!(insert(client, "trees", &rows.trees), insert(client, "texts", &rows.texts));
    trees.and(texts)?;
    insert(client, "sessions", &rows.sessions).await
}

/// Returns an error with its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
