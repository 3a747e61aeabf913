//! Feed thread: waits for updates so that the main loop never blocks on the feed.

use std::{
    io,
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, Update};

/// Capacity of the queue to the main loop, which handles as many per frame. While it is full, the feed's own queue
/// counts losses.
const QUEUE: usize = 2_000;

/// Timeout of one wait for the feed. An update ends it at once.
const WAIT: Duration = Duration::from_secs(5);

/// Starts the thread. It ends when the receiver is dropped or the feed closes, and drops the sender.
pub(super) fn spawn(mut feed: Box<dyn Feed>) -> io::Result<Receiver<Update>> {
    let (sender, receiver) = sync_channel(QUEUE);
    std::thread::Builder::new().name("feed".to_owned()).spawn(move || {
        loop {
            match feed.next(WAIT) {
                FeedItem::Update(update) => {
                    // A dropped receiver is the normal way to end.
                    if sender.send(update).is_err() {
                        return;
                    }
                }
                FeedItem::Idle => {}
                FeedItem::Closed => return,
            }
        }
    })?;
    Ok(receiver)
}
