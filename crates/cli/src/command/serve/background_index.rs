//! Index of a running hub: what was written while no hub ran, then the full text of what is written while it runs.

use std::{
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
    index::{IndexError, IndexOptions, index_beside, index_texts},
};
use subscope_server::TextIndexer;
use subscope_store::{Access, Location, TextIndex};

use super::{background, has_ended};

/// Most waiting requests. All that wait when a round begins are answered by that round.
pub(super) const MAX_REQUESTS: usize = 64;

/// Interval of full text updates while events arrive and nobody searches. A search starts a round at once. Checking
/// thousands of files takes about 60 ms.
const TEXTS_INTERVAL: Duration = Duration::from_secs(10);

/// A request to bring the full text up to date, answered when that is done; `None` ends the thread.
pub(super) type QueuedRequest = Option<ReplyCallback<()>>;

/// Returns the server's indexer, which sends requests to this queue.
pub(super) fn text_indexer(requests: SyncSender<QueuedRequest>) -> TextIndexer {
    Arc::new(move |reply| {
        requests.try_send(Some(reply)).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    })
}

/// Indexes until the server stops: first everything, then the full text when it is requested, and periodically while
/// events arrive.
pub(super) fn run(
    hub: &HubHandle,
    location: &Location,
    mut options: IndexOptions,
    queue: &Receiver<QueuedRequest>,
    mut ended: Receiver<()>,
) {
    let (mut indexed, mut is_behind, mut waiting) = (None, true, Vec::new());
    loop {
        // No answer of the hub counts as no new events.
        let seq = background::hub_figures(hub).map_or(0, |figures| figures.seq);
        let has_texts = TextIndex::exists(location.folder());
        if is_behind || !has_texts || !waiting.is_empty() || indexed != Some(seq) {
            options.now_ms = clock::now_ms();
            // On a thread of its own: the allocator returns the memory of a round when its thread ends.
            let joined = thread::scope(|scope| {
                let options = &options;
                scope.spawn(move || (index(hub, location, options, is_behind, &ended), ended)).join()
            });
            let outcome;
            (outcome, ended) = joined.unwrap_or_else(|panic| resume_unwind(panic));
            match outcome {
                Ok(()) => {
                    (indexed, is_behind) = (Some(seq), false);
                    waiting.drain(..).for_each(|reply: ReplyCallback<()>| reply(()));
                }
                Err(error) if matches!(error.downcast_ref(), Some(IndexError::Stopped)) => return,
                // A damaged full text has been deleted: it is made anew.
                Err(error) if has_texts && !TextIndex::exists(location.folder()) => {
                    tracing::warn!("{error:#}");
                    continue;
                }
                // A failure is retried in the next round; requests are dropped, so that searches return what there is.
                Err(error) => {
                    waiting.clear();
                    tracing::warn!("past sessions are not up to date: {error:#}");
                }
            }
        }
        match queue.recv_timeout(TEXTS_INTERVAL) {
            Ok(Some(reply)) => waiting.push(reply),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        for request in queue.try_iter() {
            match request {
                Some(reply) => waiting.push(reply),
                None => return,
            }
        }
    }
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
    let mut on_progress = |_| match has_ended(ended, Duration::ZERO) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let store = location.open()?;
    let mut texts = TextIndex::open(location.folder(), Access::Write)?;
    if is_behind {
        index_beside(hub, &store, &mut texts, options, &mut on_progress)?;
        hub.reads_past(false);
        return Ok(());
    }
    Ok(index_texts(&store, &mut texts, options, &mut on_progress)?)
}
