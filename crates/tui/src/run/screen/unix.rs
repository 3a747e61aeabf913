//! Signals and the shell of Unix.

use std::{
    io,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use super::{GRACE, restore};

/// Receiver of SIGTERM, SIGHUP, SIGINT and SIGQUIT, polled by the main loop.
pub(in super::super) struct SignalListener {
    number: Arc<AtomicI32>,
}

impl SignalListener {
    /// Installs the handlers and a thread that ends the process [`GRACE`] after a signal.
    pub(in super::super) fn listen() -> io::Result<Self> {
        let number = Arc::new(AtomicI32::new(0));
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT])?;
        let received = Arc::clone(&number);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            received.store(signal, Ordering::Release);
            std::thread::sleep(GRACE);
            restore();
            std::process::exit(128 + signal);
        })?;
        Ok(Self { number })
    }

    /// The received signal, if any.
    pub(in super::super) fn pending(&self) -> Option<i32> {
        Some(self.number.load(Ordering::Acquire)).filter(|number| *number != 0)
    }
}

/// Stops the process (SIGTSTP) until the shell continues it.
pub(super) fn stop() -> io::Result<()> {
    signal_hook::low_level::emulate_default_handler(SIGTSTP)
}

/// Returns the command that opens a file in an editor, itself a command with options.
pub(super) fn shell(editor: &str, file: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file);
    command
}
