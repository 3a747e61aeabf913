//! Gemini's folders: the meaning of the parts of a path.
//!
//! ```text
//! tmp/<project>/chats/session-<UTC minute>-<first 8 of the id>.jsonl    a session; its id is inside
//! tmp/<project>/chats/<session>/<agent>.jsonl                          an agent of it
//! tmp/<project>/chats/session-<UTC minute>-<first 8 of the id>.json     a session up to 0.39: one object
//! tmp/<project>/chats/<session>/<agent>.json                           an agent of it, likewise
//! tmp/<project>/chats/skill-extraction-<id>/<agent>.json               an agent of the program itself, of no session
//! ```
//!
//! Observed: 0.61.0; 0.34.0 in its source; objects of agents on disks of spring 2026. `<project>` is a short name or a hash of the project's path.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use subscope_decode::lenient::Str;

use super::{CHAT, SESSION};
use crate::{Place, Role, SessionFiles};

/// The variable that moves its folder.
pub(super) const HOME_VARIABLE: &str = "GEMINI_CLI_HOME";
/// Its folder below that, or below the user's home.
pub(super) const HOME_FOLDER: &str = ".gemini";
/// The folder of all projects.
pub(super) const PROJECTS: &str = "tmp";
/// The folder of a project's chats.
pub(super) const CHATS: &str = "chats";
/// Folders without chats.
pub(super) const SKIPPED: &[&str] = &["tool-outputs", "shell_history"];
/// Prefix of the names of chats of sessions.
const MAIN: &str = "session-";
/// Prefix of the names of folders of agents that the program starts by itself.
pub(super) const OWN_AGENTS: &str = "skill-extraction-";
/// How much of the beginning of a file is read for the session that it names.
const HEAD_BYTES: u64 = 4 << 10;
/// How many characters of its session's id the name of a file has.
const SHORT_ID: usize = 8;

/// Classifies a file by its path.
pub(super) fn classify(path: &Path) -> Option<Place> {
    let name = path.file_name()?.to_str()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let dialect = match ending {
        "jsonl" => CHAT,
        "json" => SESSION,
        _ => return None,
    };
    if stem.strip_prefix(MAIN).is_some_and(is_dated) {
        return Some(Place { role: Role::Main, dialect: Some(dialect), ..Place::UNKNOWN });
    }
    let folder = path.parent()?;
    let is_in_chats = folder.parent()?.file_name()? == CHATS;
    let session = folder.file_name()?.to_str()?;
    let is_agent = is_uuid(session) || is_uuid(stem) && dialect == CHAT || session.starts_with(OWN_AGENTS);
    (is_in_chats && is_agent).then(|| Place {
        role: Role::Agent,
        dialect: Some(dialect),
        session: Some(session.to_owned()),
        agent: Some(stem.to_owned()),
        workflow: None,
    })
}

/// Whether a name continues with a date and a short id: `2026-11-21T20-43-935638a0`.
fn is_dated(rest: &str) -> bool {
    let (date, id) = rest.rsplit_once('-').unwrap_or_default();
    date.len() >= 10 && date.starts_with(|first: char| first.is_ascii_digit()) && id.len() == SHORT_ID
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether the name is a plain file name: it becomes part of a path when the session's files are searched.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 128 && !name.contains(['/', '\\', '\0'])
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Header<'a> {
    session_id: Str<'a>,
    kind: Str<'a>,
}

/// Returns the session that the first line of its chat names.
pub(super) fn session_in_line(line: &[u8]) -> Option<String> {
    let header: Header<'_> = serde_json::from_slice(line).ok()?;
    if header.kind.is("subagent") {
        return None;
    }
    header.session_id.filled().filter(|name| is_plain(name)).map(str::to_owned)
}

/// Returns the session that the beginning of a chat names, in either format.
pub(super) fn session_in_file(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    session_in_line(line).or_else(|| session_in_object(&head))
}

/// Returns the session that the beginning of a pretty-printed object names: its first field.
fn session_in_object(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    let (_, rest) = text.trim_start().strip_prefix('{')?.split_once("\"sessionId\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (session, _) = rest.split_once('"')?;
    Some(session.to_owned()).filter(|name| is_plain(name))
}

/// Returns the chats of a session in a folder of chats.
pub(super) fn mains_of(chats: &Path, session: &str) -> Vec<PathBuf> {
    let short: String = session.chars().take(SHORT_ID).collect();
    let is_named = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        stem.ends_with(&short) && classify(path).is_some_and(|place| place.role == Role::Main)
    };
    let entries = fs::read_dir(chats).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        entries.filter(is_named).filter(|path| session_in_file(path).as_deref() == Some(session)).collect();
    found.sort();
    found
}

/// Returns the chat of the session that a folder of agents belongs to.
pub(super) fn main_of_folder(folder: &Path) -> Option<PathBuf> {
    let chats = folder.parent().filter(|chats| chats.file_name().is_some_and(|name| name == CHATS))?;
    mains_of(chats, folder.file_name()?.to_str()?).pop()
}

/// Returns a name that the chat of a session could have.
pub(super) fn main_name(session: &str) -> String {
    format!("{MAIN}{session}.jsonl")
}

/// Returns the session whose agents' chats a folder below a root holds.
pub(super) fn session_of_folder<'p>(root: &Path, folder: &'p Path) -> Option<&'p str> {
    let mut steps = folder.strip_prefix(root).ok()?.iter();
    let (_, chats, session) = (steps.next()?, steps.next()?, steps.next()?);
    (chats == CHATS).then(|| session.to_str())?
}

pub(super) fn files(main: &Path, session: &str, place: Place) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main.to_owned(),
        place: Place { role: Role::Main, session: Some(session.to_owned()), ..place },
        folders: vec![main.with_file_name(session)],
        shared: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_are_classified_by_name_and_folder() {
        let of = |path: &str| {
            classify(Path::new(path)).map(|place| (place.role, place.dialect, place.session, place.agent))
        };
        let main = |dialect| Some((Role::Main, Some(dialect), None, None));
        assert_eq!(of("/t/g/chats/session-2026-11-21T20-43-935638a0.jsonl"), main(CHAT));
        assert_eq!(of("/t/g/chats/session-2026-04-01T10-00-935638a0.json"), main(SESSION));
        let agent = "fcbb6fe2-4de9-4815-aff4-05257de28004";
        let expected = Some((Role::Agent, Some(CHAT), Some("s1".to_owned()), Some(agent.to_owned())));
        assert_eq!(of(&format!("/t/g/chats/s1/{agent}.jsonl")), expected);
        let named = Some((Role::Agent, Some(CHAT), Some(agent.to_owned()), Some("explorer-1".to_owned())));
        assert_eq!(of(&format!("/t/g/chats/{agent}/explorer-1.jsonl")), named, "by the session's name");
        for none in ["/t/g/logs.json", "/t/g/chats/s1/x.jsonl", "/x/session-a.jsonl", "/t/session-.json", ""]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn session_is_named_inside() {
        let line = br#"{"sessionId":"s1","projectHash":"h","kind":"main"}"#;
        assert_eq!(session_in_line(line).as_deref(), Some("s1"));
        assert_eq!(session_in_line(br#"{"sessionId":"a1","kind":"subagent"}"#), None);
        assert_eq!(session_in_line(br#"{"sessionId":"../up"}"#), None);
        assert_eq!(session_in_object(b"{\n  \"sessionId\": \"s1\",\n  \"mess").as_deref(), Some("s1"));
    }
}
