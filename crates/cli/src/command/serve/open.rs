//! `serve --open`: shows the page in the browser that the system prefers.

use std::process::{Command, Stdio};

use subscope_client::{Address, Client};

use crate::{context::Context, reach};

/// What opens an address, by system.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Shows an address. That there is no browser is no failure: the address stands on stdout.
pub(super) fn show(url: &str, context: &Context) {
    let mut opener = Command::new(OPENER);
    opener.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match opener.spawn() {
        // It hands the address to the browser and ends; nobody waits for that.
        Ok(mut opener) => drop(std::thread::spawn(move || opener.wait())),
        Err(error) => {
            context.warn(&format!("{OPENER} cannot be started ({error}): open the address in a browser"))
        }
    }
}

/// Where the hub that runs is reached; `None` where none answers.
pub(super) fn running(data: &std::path::Path) -> Option<String> {
    let mut client = Client::connect(Address::Socket(data.join(reach::SOCKET))).ok()?;
    Some(client.health().ok()?.url.to_string())
}
