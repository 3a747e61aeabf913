//! Listener of a run for events and OpenTelemetry records of child processes, on a free loopback port.

use std::{thread::JoinHandle, time::Duration};

use subscope_hub::HubHandle;
use subscope_server::{PostSink, Server};
use tokio::sync::oneshot;

use crate::CommandRunError;

/// Timeout of tasks after the listener has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Listener on a thread of its own; dropping ends it.
#[derive(Debug)]
pub struct Listener {
    url: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts the listener, which passes what is posted to `sink`.
    ///
    /// # Errors
    /// No port or no thread is available.
    pub fn start(hub: HubHandle, sink: PostSink) -> Result<Self, CommandRunError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CommandRunError::System)?;
        let server = runtime.block_on(Server::bind_events(hub, sink)).map_err(CommandRunError::Listen)?;
        let (end, ended) = oneshot::channel::<()>();
        let url = server.url();
        let build = std::thread::Builder::new().name("listen".to_owned());
        let serve = move || {
            runtime.block_on(server.run(async {
                let _ = ended.await;
            }));
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        };
        let thread = build.spawn(serve).map_err(CommandRunError::System)?;
        Ok(Self { url, end: Some(end), thread: Some(thread) })
    }

    /// Base URL, without the route.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
