//! Opens a page in the default browser.

use std::{io, process::Stdio};

use subscope_platform::url_opener;

/// Asks the system to open a URL. Success means that the opener was started, not that a page is shown.
///
/// # Errors
/// If the opener cannot be started.
pub(crate) fn open(url: &str) -> io::Result<()> {
    let mut opener = url_opener(url);
    let mut opener = opener.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Some openers run until the browser is closed: a detached thread reaps them.
    drop(std::thread::spawn(move || opener.wait()));
    Ok(())
}
