//! Copilot's folders: `session-state/<session>/events.jsonl`, with the events of all agents of the session; before them
//! (0.0.342) `session-state/<session>.jsonl`.
//!
//! Observed: 1.0.39 and 1.0.102. In the folder of a session: `workspace.yaml`, `checkpoints/`, `rewind-file-snapshots/`, and
//! `inuse.<process>.lock` while a process has the session open.

use std::path::{Path, PathBuf};

use super::EVENTS;
use crate::{Place, Role, SessionFiles};

/// The variable that moves its files.
pub(super) const HOME_VARIABLE: &str = "COPILOT_HOME";
/// The folder of its files below the user's home otherwise.
pub(super) const HOME_FOLDER: &str = ".copilot";
/// The folder of all sessions.
pub(super) const SESSIONS: &str = "session-state";
/// The folder of the sessions of versions before 0.0.342, one object each: known, but not read.
pub(super) const OLD_SESSIONS: &str = "history-session-state";
/// The transcript in a session's folder.
pub(super) const EVENTS_FILE: &str = "events.jsonl";
/// What the name of a transcript ends with that is not in a session's folder.
const FLAT_ENDING: &str = ".jsonl";
/// Folders without transcripts.
pub(super) const SKIPPED: &[&str] = &[".session-operation-locks", "rewind-file-snapshots"];

/// Returns the session whose transcript a path is: its folder has the session's id, or is below `session-state`; or the
/// file itself is directly in `session-state`.
pub(super) fn session_of(path: &Path) -> Option<&str> {
    let folder = path.parent()?;
    let name = folder.file_name()?.to_str()?;
    if name == SESSIONS {
        return flat_session(path);
    }
    let is_below = || folder.parent().and_then(Path::file_name).is_some_and(|name| name == SESSIONS);
    let is_named = path.file_name().is_some_and(|name| name == EVENTS_FILE);
    (is_named && (is_uuid(name) || is_below())).then_some(name)
}

/// Returns the session of a transcript below a root.
pub(super) fn session_below<'p>(root: &Path, path: &'p Path) -> Option<&'p str> {
    let folder = path.parent()?;
    if folder == root {
        return flat_session(path);
    }
    let is_transcript = path.file_name().is_some_and(|name| name == EVENTS_FILE);
    (is_transcript && folder.parent() == Some(root)).then(|| folder.file_name()?.to_str())?
}

/// Returns the session that a transcript outside of a session's folder is named after.
fn flat_session(path: &Path) -> Option<&str> {
    let session = path.file_name()?.to_str()?.strip_suffix(FLAT_ENDING)?;
    (!session.is_empty() && path.file_name()? != EVENTS_FILE).then_some(session)
}

/// Returns the transcripts that a session may have below a root: one in its folder, and one next to that.
pub(super) fn transcripts(root: &Path, session: &str) -> [PathBuf; 2] {
    [root.join(session).join(EVENTS_FILE), root.join(format!("{session}{FLAT_ENDING}"))]
}

/// Returns the main transcript of a session below a root: the one in its folder, unless only the other exists.
pub(super) fn main_below(root: &Path, session: &str) -> PathBuf {
    let [in_folder, flat] = transcripts(root, session);
    if !in_folder.exists() && flat.exists() { flat } else { in_folder }
}

/// Classifies the session of an old version, which is named and not read.
pub(super) fn unread(path: &Path) -> Option<Place> {
    let is_old = path.parent()?.file_name()? == OLD_SESSIONS;
    let name = path.file_name()?.to_str()?.strip_suffix(".json").filter(|_| is_old)?;
    Some(Place { role: Role::Agent, agent: Some(name.to_owned()), ..Place::UNKNOWN })
}

pub(super) fn place(session: &str) -> Place {
    Place {
        role: Role::Main,
        dialect: Some(EVENTS),
        session: Some(session.to_owned()),
        agent: None,
        workflow: None,
    }
}

pub(super) fn files(main: &Path, session: &str) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main.to_owned(),
        place: place(session),
        folders: Vec::new(),
        shared: Vec::new(),
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{super::Copilot, *};
    use crate::Harness;

    const SESSION: &str = "314697d9-2de5-4d9d-860c-44889acdd1b8";

    #[test]
    fn transcript_is_classified_by_its_folder() {
        let of = |path: &str| Copilot.classify(Path::new(path)).and_then(|place| place.session);
        assert_eq!(of(&format!("/x/{SESSION}/events.jsonl")).as_deref(), Some(SESSION));
        assert_eq!(of("/x/session-state/short/events.jsonl").as_deref(), Some("short"));
        for none in ["/x/y/events.jsonl", "/x/session-state/s/other.jsonl", "events.jsonl", "/", ""] {
            assert_eq!(of(none), None, "{none}");
        }
        let below = |path: &str| {
            Copilot.classify_below(Path::new("/r"), Path::new(path)).and_then(|place| place.session)
        };
        assert_eq!(below("/r/s/events.jsonl").as_deref(), Some("s"));
        assert_eq!((below("/r/events.jsonl"), below("/r/s/t/events.jsonl")), (None, None));
        assert_eq!(of(&format!("/x/session-state/{SESSION}.jsonl")).as_deref(), Some(SESSION));
        assert_eq!(below(&format!("/r/{SESSION}.jsonl")).as_deref(), Some(SESSION));
        for none in ["/x/session-state/events.jsonl", "/x/session-state/.jsonl", "/x/session-state/s.json"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn home_follows_its_variable() {
        let env = |home: &'static str| {
            move |name: &str| match name {
                "COPILOT_HOME" => Some(OsString::from(home)),
                "HOME" => Some(OsString::from("/home/user")),
                _ => None,
            }
        };
        assert_eq!(Copilot.home(&env("/else")).folder, Path::new("/else"));
        assert_eq!(Copilot.roots(&env(""))[0], Path::new("/home/user/.copilot/session-state"));
    }
}
