//! The page in the browser that the system prefers.

use std::{
    io,
    process::{Command, Stdio},
};

/// What opens an address, by system.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Hands an address to the browser. Whether that shows it nobody tells.
pub(crate) fn show(url: &str) -> io::Result<()> {
    let mut opener = Command::new(OPENER);
    let mut opener =
        opener.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Some wait until the browser is closed; nobody waits for them.
    drop(std::thread::spawn(move || opener.wait()));
    Ok(())
}
