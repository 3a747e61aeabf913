//! The spool's bound: where no hub ever comes, the oldest payloads make room, and are counted.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
};

use subscope_platform::OpenPolicy as _;

use super::{Name, reader};

/// How many payloads may wait: some days of many agents. More would make the listing itself slow (100,000 names take
/// some 50 ms).
const MOST_FILES: usize = 100_000;
/// How many bytes may wait.
const MOST_BYTES: u64 = 1 << 30;
/// One writer in this many checks the bounds, which may be exceeded by as many payloads.
pub(super) const LOOK_EVERY: u64 = 512;
/// The file with the count of dropped payloads.
pub(super) const DROPPED: &str = "dropped";

/// Drops the oldest payloads where more wait than may.
pub(super) fn make(folder: &Path) {
    // A folder that cannot be listed has no room to make.
    let Ok(waiting) = reader::names(folder) else { return };
    drop_oldest(folder, &waiting, MOST_FILES, MOST_BYTES);
}

/// Drops the oldest payloads until 1/64 of the bounds is free: room until the next check. Dropping more at once would
/// take longer than a hook may.
fn drop_oldest(folder: &Path, waiting: &[Name], most_files: usize, most_bytes: u64) {
    let (mut files, mut bytes) = (waiting.len(), waiting.iter().map(|name| name.length).sum::<u64>());
    if files <= most_files && bytes <= most_bytes {
        return;
    }
    let mut dropped = 0_u64;
    for name in waiting {
        if files <= most_files - most_files / 64 && bytes <= most_bytes - most_bytes / 64 {
            break;
        }
        (files, bytes) = (files - 1, bytes - name.length);
        // Several processes may do this at once: only the one that removed a payload counts it.
        dropped += u64::from(fs::remove_file(folder.join(name.to_string())).is_ok());
    }
    let note = OpenOptions::new().append(true).create(true).private().open(folder.join(DROPPED));
    if let Ok(mut note) = note {
        // A count that cannot be written is lost with the room for it.
        let _ = note.write_all(format!("{dropped}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Delivery, Kind, Spool, write},
        *,
    };

    #[test]
    fn drop_oldest_leaves_the_newest_and_counts() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..20 {
            write(folder.path(), Kind::Hook("claude-code"), Delivery::new(at, 1, 1), &[b"12345"]).unwrap();
        }
        let left = |most_files, most_bytes| {
            drop_oldest(folder.path(), &reader::names(folder.path()).unwrap(), most_files, most_bytes);
            reader::names(folder.path()).unwrap()
        };
        assert_eq!(left(20, 100).len(), 20);
        let newest = left(10, 100);
        assert_eq!((newest.len(), newest[0].delivery), (10, Delivery::new(10, 1, 1)));
        assert_eq!(left(10, 40).len(), 8);
        assert_eq!(Spool::open(folder.path()).unwrap().dropped().unwrap(), 12);
    }
}
