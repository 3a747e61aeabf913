//! Reads complete sessions for requests to the server: from files, from the archive if these are gone, and from stored
//! input. One request at a time, on a low-priority thread.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError},
    },
};

use subscope_harness::{Root, provider};
use subscope_hub::{
    AskError, BatchRead, HistoryRows, ReadHistory, ReplyCallback, RowsSource, SessionSources, clock,
    index::IndexOptions,
};
use subscope_model::{EventRecord, Millis, Payload, SessionId, Tree};
use subscope_server::{
    Demo, HistoryRequest, HistoryResult, SessionHistory, SessionReader, UnreadableSession,
};
use subscope_session::{EventScope, FactDetail, Now, RouterOptions};
use subscope_store::{Access, History, SqliteStore};

use super::super::{
    demo,
    target::{MAX_LOGGED_EVENTS, transcripts_of},
};

/// Most waiting requests: each takes some milliseconds, a second for a big session.
pub(super) const MAX_REQUESTS: usize = 32;

/// A request; `None` stops the service.
pub(super) type QueuedRequest = Option<(SessionId, HistoryRequest, ReplyCallback<HistoryResult>)>;

/// Returns the server's reader, which sends requests to this queue.
pub(super) fn session_reader(requests: SyncSender<QueuedRequest>) -> SessionReader {
    Arc::new(move |session, wanted, reply| {
        requests.try_send(Some((session, wanted, reply))).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    })
}

/// Returns the recorded session of the demo, with these prices and limits.
pub(super) fn demo(IndexOptions { prices, limits, .. }: &IndexOptions) -> Demo {
    let (prices, limits) = (prices.clone(), limits.clone());
    let read = move |wanted: HistoryRequest| {
        let session = SessionId::from(demo::OWN_SESSION);
        let mut router = demo::read_recording(reading(wanted));
        // Until its end, what has not ended in the recording runs.
        let at = wanted.at.unwrap_or_else(clock::now_ms);
        let limits = limits.clone();
        let now = Now { at, has_ended: wanted.at.is_none(), is_growing: false, prices: &prices, limits };
        let Some(tree) = router.tree(&session, &now) else { return Ok(None) };
        let events = router.records(&session, &now);
        let detail = wanted.has_detail.then(|| router.detail(&session, &now)).flatten();
        // Its sources are not files: payloads stay out of it.
        Ok(Some(SessionHistory { tree, events, detail, resolve: Box::new(|_| None), provider }))
    };
    Demo { session: SessionId::from(demo::OWN_SESSION), read: Arc::new(read) }
}

/// Returns how sources are read for a request.
fn reading(wanted: HistoryRequest) -> RouterOptions {
    let keep = if wanted.has_detail { FactDetail::Payloads } else { FactDetail::Rows };
    let events = if wanted.has_events { EventScope::Records } else { EventScope::Nothing };
    RouterOptions { keep, cutoff: wanted.at, events }
}

/// Sources of sessions.
#[derive(Clone)]
pub(super) struct HistoryService {
    /// Roots of the harnesses' transcripts.
    pub(super) roots: Vec<Root>,
    pub(super) data: PathBuf,
    pub(super) rules: String,
    pub(super) options: IndexOptions,
}

/// A session that was read from its sources.
pub(super) struct ReadSources {
    pub(super) batch: BatchRead,
    pub(super) tree: Tree,
    pub(super) source: RowsSource,
    store: SqliteStore,
}

impl HistoryService {
    /// Answers requests until `None` arrives.
    pub(super) fn answer(&self, queue: &Receiver<QueuedRequest>) {
        while let Ok(Some((session, wanted, reply))) = queue.recv() {
            reply(self.read(&session, wanted).map_err(|error| UnreadableSession(error.to_string())));
        }
    }

    fn read(&self, session: &SessionId, wanted: HistoryRequest) -> anyhow::Result<Option<SessionHistory>> {
        let options = reading(wanted);
        let Some(ReadSources { mut batch, tree, source, store }) = self.read_sources(session, options)?
        else {
            return Ok(None);
        };
        match source {
            RowsSource::Sources => {}
            // Stored rows are those of now.
            RowsSource::StoreAndSources if wanted.at.is_none() => {}
            RowsSource::StoreAndSources | RowsSource::Store => return Ok(None),
        }
        let now = self.now(wanted.at);
        let mut events = batch.router.records(session, &now);
        if source == RowsSource::StoreAndSources && wanted.has_events {
            let logged = store.events_after(0, Some(session), MAX_LOGGED_EVENTS)?.unwrap_or_default();
            if logged.len() > events.len() {
                events = logged.into_iter().map(EventRecord::from).collect();
            }
        }
        let detail = wanted.has_detail.then(|| batch.router.detail(session, &now)).flatten();
        batch.release_facts();
        let resolve = Box::new(move |payload: &Payload| batch.payload(payload));
        Ok(Some(SessionHistory { tree, events, detail, resolve, provider }))
    }

    /// Returns what rows are derived with, at a time or now.
    pub(super) fn now(&self, at: Option<Millis>) -> Now<'_> {
        Now {
            at: at.unwrap_or_else(clock::now_ms),
            has_ended: false,
            is_growing: false,
            prices: &self.options.prices,
            limits: self.options.limits.clone(),
        }
    }

    /// Reads a session from its sources and its stored rows; `None` if nothing is known of it.
    pub(super) fn read_sources(
        &self,
        session: &SessionId,
        options: RouterOptions,
    ) -> anyhow::Result<Option<ReadSources>> {
        let now = self.now(options.cutoff);
        let store = SqliteStore::open(&self.data, Access::Read, &self.rules, 0)?;
        let transcripts = transcripts_of(&self.roots, session);
        let sources = SessionSources::find(session, transcripts, Some(&store), &self.options.archive)?;
        let history = ReadHistory::read_session(sources, options, Some(&store))?;
        let Some(HistoryRows { tree, source }) = history.rows(session, &now) else { return Ok(None) };
        Ok(Some(ReadSources { batch: history.batch, tree, source, store }))
    }
}
