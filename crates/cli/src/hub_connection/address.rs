//! The address of the last `serve` that was told one: a hub that starts in the background takes it, so that open pages and
//! bookmarks find their hub again.

use std::{fs, io, net::SocketAddr, path::Path};

/// File in the data directory.
const FILE: &str = "hub.address";

/// Remembers the address that a `serve` was told and listens at; `None` if it listens where the settings say.
pub(crate) fn remember(data: &Path, told: Option<SocketAddr>) -> io::Result<()> {
    let path = data.join(FILE);
    match told {
        Some(address) => fs::write(path, format!("{address}\n")),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

/// Returns the remembered address. Other machines reach a hub only if its user says so each time: an address outside the
/// loopback is none.
pub(crate) fn remembered(data: &Path) -> Option<SocketAddr> {
    let text = fs::read_to_string(data.join(FILE)).ok()?;
    text.trim().parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback())
}
