//! The session named in the first line of a file whose path does not tell it.

use std::{
    collections::HashMap,
    io::Read,
    path::{Path, PathBuf},
};

use subscope_decode::Dialect;
use subscope_harness::harness_of;

use crate::read::open_regular;

/// Nearly every first line names its session within this; so a folder of thousands costs one read each.
const FIRST_READ_BYTES: u64 = 4 * 1024;
/// A first line that does not name its session within this names none.
const PEEK_BYTES: u64 = 64 * 1024;
/// Sessions remembered by path; over it all are forgotten and asked again.
const REMEMBERED: usize = 65_536;

/// The sessions of files that were asked before. A file's first line does not change.
#[derive(Debug, Default)]
pub(crate) struct Peeks(HashMap<PathBuf, String>);

impl Peeks {
    /// Returns the session that the file's first line names. A line that names none is asked again next time:
    /// it may not be written yet.
    pub(crate) fn session(&mut self, path: &Path, dialect: Option<Dialect>) -> Option<String> {
        if let Some(known) = self.0.get(path) {
            return Some(known.clone());
        }
        let session = session_of(path, dialect)?;
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(path.to_owned(), session.clone());
        Some(session)
    }
}

/// Returns the session that the file's first line names, reading at most 64 KiB.
pub(crate) fn session_of(path: &Path, dialect: Option<Dialect>) -> Option<String> {
    let mut file = open_regular(path).ok()?;
    let mut head = Vec::new();
    file.by_ref().take(FIRST_READ_BYTES).read_to_end(&mut head).ok()?;
    let found = session_in(&head, dialect);
    if found.is_some() || memchr::memchr(b'\n', &head).is_some() || (head.len() as u64) < FIRST_READ_BYTES {
        return found;
    }
    file.take(PEEK_BYTES - FIRST_READ_BYTES).read_to_end(&mut head).ok()?;
    session_in(&head, dialect)
}

/// The session named in the first line of these bytes, also where the line is cut after naming it.
fn session_in(bytes: &[u8], dialect: Option<Dialect>) -> Option<String> {
    let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
    harness_of(dialect?)?.session_in_line(line)
}

#[cfg(test)]
mod tests {
    use subscope_harness::claude_code::TRANSCRIPT;

    use super::*;

    #[test]
    fn session_of_long_first_line_is_found_within_64_kib_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent-a.jsonl");
        for (padding, expected) in [(10, Some("s")), (50_000, Some("s")), (70_000, None)] {
            let line = format!("{{\"text\":\"{}\",\"sessionId\":\"s\"}}\n", "x".repeat(padding));
            std::fs::write(&path, line).unwrap();
            assert_eq!(session_of(&path, Some(TRANSCRIPT)).as_deref(), expected, "{padding}");
        }
    }
}
