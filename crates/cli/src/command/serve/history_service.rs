//! Reads complete sessions for requests to the server: from files, from the archive if these are gone, and from stored
//! input. One request at a time, on a low-priority thread.
//!
//! Does the same as [`load_session`](super::super::target::load_session), but without a
//! [`Context`](crate::context::Context), which a hub hosted by another command does not have.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError},
    },
};

use subscope_export::{DownloadSource, write_download};
use subscope_harness::{Root, provider};
use subscope_hub::{
    AskError, BatchRead, ReplyCallback, SessionSources, clock, has_more_than, index::IndexOptions,
};
use subscope_model::{Millis, Payload, SessionId, SessionText, Tree};
use subscope_server::{
    Demo, HistoryRequest, HistoryResult, SessionHistory, SessionReader, UnreadableSession,
};
use subscope_session::{EventScope, FactDetail, Now, RouterOptions};
use subscope_store::{Access, SessionQueries, SqliteStore};

use super::super::{demo, target::transcripts_of};

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
        let events = router.whole_feed(&session, &now);
        let detail = needs_detail(wanted).then(|| router.detail(&session, &now)).flatten();
        let history = SessionHistory { tree, events, detail, file: None };
        // Its sources are not files: payloads stay out of it.
        let history = with_file(history, wanted, &|_| None);
        history.map(Some).map_err(|error| UnreadableSession(error.to_string()))
    };
    Demo { session: SessionId::from(demo::OWN_SESSION), read: Arc::new(read) }
}

/// Returns how sources are read for a request.
fn reading(wanted: HistoryRequest) -> RouterOptions {
    let keep = if needs_detail(wanted) { FactDetail::Payloads } else { FactDetail::Rows };
    RouterOptions { keep, cutoff: wanted.at, events: EventScope::All }
}

fn needs_detail(wanted: HistoryRequest) -> bool {
    wanted.has_detail || wanted.file.is_some()
}

/// Adds the requested file.
fn with_file(
    mut history: SessionHistory,
    wanted: HistoryRequest,
    resolve: &dyn Fn(&Payload) -> Option<String>,
) -> anyhow::Result<SessionHistory> {
    if let Some((format, mask)) = wanted.file {
        let SessionHistory { tree, events, detail, .. } = &history;
        let harness = tree.session.harness.as_deref();
        let provider = &|model: Option<&str>| provider(harness, model);
        let texts: Vec<SessionText> = events.iter().filter_map(SessionText::of_event).collect();
        let source = DownloadSource { tree, detail: detail.as_ref(), texts: &texts, resolve, provider };
        let mut made = Vec::new();
        history.file = write_download(format, &source, mask, &mut made)?.then_some(made);
    }
    Ok(history)
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
        let Some(ReadSources { mut batch, tree }) = self.read_sources(session, options)? else {
            return Ok(None);
        };
        let now = self.now(wanted.at);
        let events = batch.router.whole_feed(session, &now);
        let detail = needs_detail(wanted).then(|| batch.router.detail(session, &now)).flatten();
        let history = SessionHistory { tree, events, detail, file: None };
        with_file(history, wanted, &|payload| batch.payload(payload)).map(Some)
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

    /// Reads a session from all of its sources; `None` if the stored rows hold more than these.
    pub(super) fn read_sources(
        &self,
        session: &SessionId,
        options: RouterOptions,
    ) -> anyhow::Result<Option<ReadSources>> {
        let at = options.cutoff;
        let store = SqliteStore::open(&self.data, Access::Read, &self.rules, 0)?;
        let transcripts = transcripts_of(&self.roots, session);
        let sources = SessionSources::find(session, transcripts, Some(&store), &self.options.archive)?;
        if !sources.is_whole() {
            // The stored rows hold more than the remaining files.
            return Ok(None);
        }
        let stored = if sources.has_no_files() { store.tree(session)? } else { None };
        let batch = sources.read(Some(&store), options)?;
        let Some(tree) = batch.router.tree(session, &self.now(at)) else { return Ok(None) };
        if at.is_none() && stored.is_some_and(|stored| has_more_than(&stored, &tree)) {
            return Ok(None);
        }
        Ok(Some(ReadSources { batch, tree }))
    }
}
