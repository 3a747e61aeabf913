//! Classification by the first line, of files whose path does not name their session.

use std::{
    collections::HashMap,
    io::{self, Read},
    path::{Path, PathBuf},
};

use subscope_harness::{Place, harness_of};

use crate::source::Source;

/// Nearly every first line names its session within this; so a folder of thousands costs one read each.
const FIRST_READ_BYTES: u64 = 4 * 1024;
/// A first line that does not name its session within this names none.
const PEEK_BYTES: u64 = 64 * 1024;
/// Files remembered by path; over it all are forgotten and asked again.
const REMEMBERED: usize = 65_536;

/// What was found of files that were asked before. A file's first line does not change.
#[derive(Debug, Default)]
pub(crate) struct Peeks(HashMap<PathBuf, Place>);

impl Peeks {
    /// Classifies a file by path and first line. A line that names no session is asked again next time:
    /// it may not be written yet.
    ///
    /// # Errors
    /// As [`complete`].
    pub(crate) fn complete(&mut self, path: &Path, place: &Place) -> io::Result<Option<Place>> {
        if let Some(known) = self.0.get(path) {
            return Ok(Some(known.clone()));
        }
        let Some(known) = complete(path, path, place)? else { return Ok(None) };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(path.to_owned(), known.clone());
        Ok(Some(known))
    }
}

/// Classifies a file, whose bytes are at `at`, by path and first line, reading at most 64 KiB; `None` where the line names
/// no session.
///
/// # Errors
/// If the file cannot be read: whose it is must not be guessed.
pub(crate) fn complete(at: &Path, path: &Path, place: &Place) -> io::Result<Option<Place>> {
    let mut file = Source::open(at)?;
    let mut head = Vec::new();
    file.by_ref().take(FIRST_READ_BYTES).read_to_end(&mut head)?;
    let found = complete_by(path, &head, place);
    if found.is_some() || memchr::memchr(b'\n', &head).is_some() || (head.len() as u64) < FIRST_READ_BYTES {
        return Ok(found);
    }
    file.take(PEEK_BYTES - FIRST_READ_BYTES).read_to_end(&mut head)?;
    Ok(complete_by(path, &head, place))
}

/// What the first line of these bytes adds, also where the line is cut.
pub(crate) fn complete_by(path: &Path, bytes: &[u8], place: &Place) -> Option<Place> {
    let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
    harness_of(place.dialect?)?.complete(path, place, line)
}

#[cfg(test)]
mod tests {
    use subscope_harness::classify;

    use super::*;

    #[test]
    fn session_of_long_first_line_is_found_within_64_kib_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent-a.jsonl");
        let place = classify(&path);
        for (padding, expected) in [(10, Some("s")), (50_000, Some("s")), (70_000, None)] {
            let line = format!("{{\"text\":\"{}\",\"sessionId\":\"s\"}}\n", "x".repeat(padding));
            std::fs::write(&path, line).unwrap();
            assert_eq!(
                complete(&path, &path, &place).unwrap().and_then(|place| place.session).as_deref(),
                expected,
                "{padding}"
            );
        }
    }
}
