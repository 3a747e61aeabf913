//! Log file of background hubs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use subscope_platform::{OpenPolicy as _, create_private_folder};

use crate::context::Context;

/// File name of the log.
const FILE: &str = "hub.log";
/// Size limit of the log. A longer log is copied to `hub.log.old` (replacing the last one) and truncated.
const LIMIT_BYTES: u64 = 1 << 20;

/// Returns the log's path: in the state directory, or in the data directory if there is none.
pub(crate) fn path(data: &Path, context: &Context) -> PathBuf {
    context.environment.state_folder().unwrap_or_else(|| data.to_owned()).join(FILE)
}

/// Opens the log for appending; creates it readable by its owner only.
pub(super) fn open(path: &Path) -> io::Result<fs::File> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    fs::OpenOptions::new().create(true).append(true).private().open(path)
}

/// Rotates a log that has grown too long by copy and truncate: open handles in append mode go on writing to the same
/// file.
pub(crate) fn rotate(path: &Path) {
    if fs::metadata(path).is_ok_and(|found| found.len() > LIMIT_BYTES) {
        // On a full disk the copy fails; the log must be truncated all the same.
        let _ = fs::copy(path, path.with_extension("log.old"));
        let _ = fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0));
    }
}

/// Returns the last error of a program in the log, without its hints.
pub(super) fn last_error(path: &Path) -> Option<String> {
    let log = fs::read(path).ok()?;
    let log = String::from_utf8_lossy(&log);
    log.lines().rev().find_map(|line| line.strip_prefix("subscope: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn log_is_bounded_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/hub.log");
        let mut file = open(&path).unwrap();
        file.write_all(b"short\n").unwrap();
        rotate(&path);
        assert_eq!(fs::read(&path).unwrap(), b"short\n");
        file.write_all(&vec![b'x'; LIMIT_BYTES as usize]).unwrap();
        rotate(&path);
        file.write_all(b"more\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"more\n");
        assert_eq!(fs::metadata(path.with_extension("log.old")).unwrap().len(), LIMIT_BYTES + 6);
    }
}
