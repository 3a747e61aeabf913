//! The log of hubs that commands start: what they say of themselves and of what went wrong.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::context::Context;

/// The log in the state folder.
const FILE: &str = "hub.log";
/// The greatest log: what is older is kept once more under another name, and then gone.
const LIMIT_BYTES: u64 = 1 << 20;

/// Returns the log's path: in the state folder, where nothing names one in the folder for data.
pub(crate) fn file(data: &Path, context: &Context) -> PathBuf {
    context.environment.state_folder().unwrap_or_else(|| data.to_owned()).join(FILE)
}

/// Opens the log for writing at its end; only its owner can read it.
pub(super) fn open(path: &Path) -> io::Result<fs::File> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Puts a log aside that has grown too long. Whoever writes goes on at the beginning of the same file.
pub(crate) fn bound(path: &Path) {
    if fs::metadata(path).is_ok_and(|found| found.len() > LIMIT_BYTES) {
        // A full disk keeps no old log; the new one must be bounded all the same.
        let _ = fs::copy(path, path.with_extension("log.old"));
        let _ = fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0));
    }
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
        bound(&path);
        assert_eq!(fs::read(&path).unwrap(), b"short\n");
        file.write_all(&vec![b'x'; LIMIT_BYTES as usize]).unwrap();
        bound(&path);
        file.write_all(b"more\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"more\n");
        assert_eq!(fs::metadata(path.with_extension("log.old")).unwrap().len(), LIMIT_BYTES + 6);
    }
}
