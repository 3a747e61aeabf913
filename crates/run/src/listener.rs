//! The listener of a run: one route on a free port of the loopback, for whatever the child starts.

use std::{thread::JoinHandle, time::Duration};

use subscope_hub::HubHandle;
use subscope_server::{EventListener, Patience, Taker};
use tokio::sync::oneshot;

use crate::RunError;

/// How long tasks may take to end once the listener has.
const FAREWELL: Duration = Duration::from_millis(500);

/// A listener on a thread of its own; ends when dropped.
#[derive(Debug)]
pub struct Listener {
    url: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens, and gives events to `taker`.
    ///
    /// # Errors
    /// Where no port can be listened on, or no thread had.
    pub fn start(hub: HubHandle, taker: Taker) -> Result<Self, RunError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(RunError::System)?;
        let mailbox = runtime.block_on(EventListener::bind(Patience::default(), hub, taker));
        let mailbox = mailbox.map_err(RunError::Listen)?;
        let (end, ended) = oneshot::channel::<()>();
        let url = mailbox.url();
        let build = std::thread::Builder::new().name("listen".to_owned());
        let serve = move || {
            runtime.block_on(mailbox.run(async {
                let _ = ended.await;
            }));
            runtime.shutdown_timeout(FAREWELL);
        };
        let thread = build.spawn(serve).map_err(RunError::System)?;
        Ok(Self { url, end: Some(end), thread: Some(thread) })
    }

    /// Where events are posted to, without the route.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.end.take());
        // It has no way to fail that anybody could be told of.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
