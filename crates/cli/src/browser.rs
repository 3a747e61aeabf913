//! Opens a page in the default browser.

use std::{
    io,
    process::{Command, Stdio},
};

/// Command that opens a URL on this operating system.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Asks the system to open a URL. Success means that the opener was started, not that a page is shown.
///
/// # Errors
/// If the opener cannot be started.
pub(crate) fn open(url: &str) -> io::Result<()> {
    let mut opener = Command::new(OPENER);
    let mut opener =
        opener.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Some openers run until the browser is closed: a detached thread reaps them.
    drop(std::thread::spawn(move || opener.wait()));
    Ok(())
}
