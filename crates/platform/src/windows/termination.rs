//! Events of the console that ask this process to end.

use std::io;

use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

/// Numbers that the signals of the same meaning have on Unix.
const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// Waits for Ctrl-C, Ctrl-Break, or the end of the console if that is waited for.
#[derive(Debug)]
pub struct Termination {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    hangup: Option<CtrlClose>,
}

impl Termination {
    /// Installs the handlers. Without `with_hangup`, the end of the console ends the process as it does others.
    ///
    /// # Errors
    /// If a handler cannot be installed.
    pub fn listen(with_hangup: bool) -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            terminate: ctrl_break()?,
            hangup: with_hangup.then(ctrl_close).transpose()?,
        })
    }

    /// Waits for an event; returns the number of its signal.
    pub async fn received(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => TERMINATE,
            _ = hangup => HANGUP,
        }
    }
}
