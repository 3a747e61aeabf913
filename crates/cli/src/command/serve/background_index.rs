//! Background index of a running hub: content written while no hub ran, full text of new content, and folders that
//! clients name.

use std::{
    mem,
    ops::ControlFlow,
    panic::resume_unwind,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use subscope_hub::{
    AskError, HubHandle, ReplyCallback, clock,
    index::{IndexError, IndexOptions, Progress, RemoteTexts, index_beside, index_texts},
};
use subscope_model::ReadingProgress;
use subscope_server::{IndexRequest, Indexer};
use subscope_store::{Access, Location, TextIndex};

use super::{background, has_ended};
use crate::command::history::index::maintain;

/// Most waiting requests. All that wait when a round begins are answered by that round.
pub(super) const MAX_REQUESTS: usize = 64;

/// Interval of full text updates while events arrive and no search runs. A search starts a round at once. Checking
/// thousands of files takes about 60 ms.
const TEXTS_INTERVAL: Duration = Duration::from_secs(10);

/// A request; `None` ends the thread.
pub(super) type QueuedRequest = Option<IndexRequest>;

/// Returns the server's indexer, which sends requests to this queue.
pub(super) fn indexer(hub: HubHandle, requests: SyncSender<QueuedRequest>) -> Indexer {
    Arc::new(move |request| {
        if matches!(request, IndexRequest::Folders(_)) {
            // From now on queries report that the index is incomplete.
            hub.reads_past(Some(ReadingProgress::default()));
        }
        requests.try_send(Some(request)).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    })
}

/// Indexes until the server stops: first everything, then what is requested, and the full text periodically while events
/// arrive.
pub(super) fn run(
    hub: &HubHandle,
    location: &Location,
    mut options: IndexOptions,
    queue: &Receiver<QueuedRequest>,
    mut ended: Receiver<()>,
) {
    let (mut indexed, mut is_behind) = (None, true);
    // Texts of other machines come without events.
    let (remote_texts, mut remote_indexed) = (RemoteTexts::of(location.folder()), None);
    let (mut folders, mut waiting) = (Vec::new(), Vec::<ReplyCallback<()>>::new());
    loop {
        options.now_ms = clock::now_ms();
        if !folders.is_empty() {
            let named = IndexOptions { roots: mem::take(&mut folders), ..options.clone() };
            let outcome;
            (outcome, ended) = round(hub, location, &named, true, ended);
            match outcome {
                Ok(()) => {}
                Err(error) if is_stop(&error) => return,
                Err(error) => {
                    tracing::warn!("folders were not indexed: {error:#}");
                    hub.reads_past(is_behind.then(Default::default));
                }
            }
        }
        // No answer of the hub counts as no new events.
        let seq = background::hub_figures(hub).map_or(0, |figures| figures.seq);
        let has_texts = TextIndex::exists(location.folder());
        let remote_changed = remote_texts.changed();
        let is_due = indexed != Some(seq) || remote_indexed != remote_changed;
        if is_behind || !has_texts || !waiting.is_empty() || is_due {
            let outcome;
            (outcome, ended) = round(hub, location, &options, is_behind, ended);
            match outcome {
                Ok(()) => {
                    (indexed, is_behind) = (Some(seq), false);
                    remote_indexed = remote_changed;
                    for reply in waiting.drain(..) {
                        reply(());
                    }
                }
                Err(error) if is_stop(&error) => return,
                // A damaged full-text index has been deleted: it is rebuilt.
                Err(error) if has_texts && !TextIndex::exists(location.folder()) => {
                    tracing::warn!("{error:#}");
                    continue;
                }
                // A failure is retried in the next round; requests are dropped, so that searches return what is
                // indexed.
                Err(error) => {
                    waiting.clear();
                    tracing::warn!("past sessions are not up to date: {error:#}");
                }
            }
        }
        maintain(location, options.now_ms, &mut |what| tracing::warn!("{what}"));
        let first = match queue.recv_timeout(TEXTS_INTERVAL) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for request in first.into_iter().chain(queue.try_iter()) {
            match request {
                Some(IndexRequest::Folders(named)) => folders.extend(named),
                Some(IndexRequest::Texts(reply)) => waiting.push(reply),
                None => return,
            }
        }
    }
}

fn is_stop(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(IndexError::Stopped))
}

/// Indexes on a thread of its own: the allocator returns the memory of a round when its thread ends.
fn round(
    hub: &HubHandle,
    location: &Location,
    options: &IndexOptions,
    is_behind: bool,
    ended: Receiver<()>,
) -> (anyhow::Result<()>, Receiver<()>) {
    let work = move || (index(hub, location, options, is_behind, &ended), ended);
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn index(
    hub: &HubHandle,
    location: &Location,
    options: &IndexOptions,
    is_behind: bool,
    ended: &Receiver<()>,
) -> anyhow::Result<()> {
    if !location.is_in_place() {
        // The store was removed or replaced.
        return Ok(());
    }
    let mut on_progress = |progress: Progress| {
        if has_ended(ended, Duration::ZERO) {
            return ControlFlow::Break(());
        }
        if is_behind {
            hub.reads_past(Some(ReadingProgress { read: progress.sessions, total: progress.total_sessions }));
        }
        ControlFlow::Continue(())
    };
    let store = location.open()?;
    let mut texts = TextIndex::open(location.folder(), Access::Write)?;
    if is_behind {
        index_beside(hub, &store, &mut texts, options, &mut on_progress)?;
        hub.reads_past(None);
        return Ok(());
    }
    Ok(index_texts(&store, &mut texts, options, &mut on_progress)?)
}
