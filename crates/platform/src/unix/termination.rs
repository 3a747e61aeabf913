//! Signals that ask this process to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGINT, SIGTERM, or SIGHUP if that is waited for.
#[derive(Debug)]
pub struct Termination {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Termination {
    /// Installs the handlers. Without `with_hangup`, the end of the terminal ends the process as it does others.
    ///
    /// # Errors
    /// If a handler cannot be installed.
    pub fn listen(with_hangup: bool) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: with_hangup.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for a signal; returns its number.
    pub async fn received(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = hangup => SignalKind::hangup(),
        };
        kind.as_raw_value()
    }
}
