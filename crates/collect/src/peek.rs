//! The session named in the first line of a file whose path does not tell it (subagents of 2.0.x).

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    io::Read,
    path::{Path, PathBuf},
};

use serde::{
    Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

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
    pub(crate) fn session(&mut self, path: &Path) -> Option<String> {
        if let Some(known) = self.0.get(path) {
            return Some(known.clone());
        }
        let session = session_of(path)?;
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(path.to_owned(), session.clone());
        Some(session)
    }
}

/// Returns the session that the file's first line names, reading at most 64 KiB.
pub(crate) fn session_of(path: &Path) -> Option<String> {
    let mut file = open_regular(path).ok()?;
    let mut head = Vec::new();
    file.by_ref().take(FIRST_READ_BYTES).read_to_end(&mut head).ok()?;
    let found = session_in(&head);
    if found.is_some() || memchr::memchr(b'\n', &head).is_some() || (head.len() as u64) < FIRST_READ_BYTES {
        return found;
    }
    file.take(PEEK_BYTES - FIRST_READ_BYTES).read_to_end(&mut head).ok()?;
    session_in(&head)
}

/// The session named in the first line of these bytes, also where the line is cut after naming it.
fn session_in(bytes: &[u8]) -> Option<String> {
    let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
    let mut session = None;
    // The outcome is ignored: a cut line fails after its session was noted.
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(SessionField(&mut session));
    session.filter(|name| is_plain(name))
}

/// Whether the name can stand for one file: it becomes part of a path when the session's files are looked for.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 128 && !name.contains(['/', '\\', '\0'])
}

struct SessionField<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for SessionField<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "sessionId" {
                *self.0 = map.next_value()?;
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_in_first_line_is_found_whole_or_cut() {
        assert_eq!(
            session_in(b"{\"a\":{\"sessionId\":\"no\"},\"sessionId\":\"s1\",\"b\":1}\n{}").as_deref(),
            Some("s1")
        );
        assert_eq!(session_in(b"{\"sessionId\":\"s1\",\"message\":\"cut her").as_deref(), Some("s1"));
    }

    #[test]
    fn session_in_foreign_or_hostile_line_is_none() {
        let lines: [&[u8]; 8] = [
            b"",
            b"not json",
            b"{\"sessionId\":\"cu",
            b"{\"sessionId\":7}",
            b"{\"sessionId\":null}",
            b"{\"sessionId\":\"../up\"}",
            b"{\"sessionId\":\"..\"}",
            b"{}\n{\"sessionId\":\"second\"}",
        ];
        for line in lines {
            assert_eq!(session_in(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn session_of_long_first_line_is_found_within_64_kib_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent-a.jsonl");
        for (padding, expected) in [(10, Some("s")), (50_000, Some("s")), (70_000, None)] {
            let line = format!("{{\"text\":\"{}\",\"sessionId\":\"s\"}}\n", "x".repeat(padding));
            std::fs::write(&path, line).unwrap();
            assert_eq!(session_of(&path).as_deref(), expected, "{padding}");
        }
    }
}
