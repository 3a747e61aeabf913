//! Kimi Code's folders: the meaning of the parts of a path. Observed: 2.1.0.
//!
//! ```text
//! sessions/<project>/<session>/state.json
//! sessions/<project>/<session>/agents/main/wire.jsonl       the root
//! sessions/<project>/<session>/agents/<agent>/wire.jsonl    an agent, at every depth
//! ```

use std::path::{Path, PathBuf};

use super::{STATE, WIRE};
use crate::{Place, Role, SessionFiles};

/// The variable that moves its folder.
pub(super) const HOME_VARIABLE: &str = "KIMI_CODE_HOME";
/// Its folder below the user's home otherwise.
pub(super) const HOME_FOLDER: &str = ".kimi-code";
/// The folder of all projects.
pub(super) const SESSIONS: &str = "sessions";
/// The object about a session, in its folder.
pub(super) const STATE_FILE: &str = "state.json";
/// The lines of an agent, in its folder.
const WIRE_FILE: &str = "wire.jsonl";
/// The folder of a session's agents.
const AGENTS: &str = "agents";
/// The root, as an agent.
pub(super) const MAIN: &str = "main";
/// Prefix of the ids of sessions.
pub(super) const SESSION_ID: &str = "session_";

/// Classifies a file by its path.
pub(super) fn classify(path: &Path) -> Option<Place> {
    let folder = path.parent()?;
    if path.file_name()? == STATE_FILE {
        let is_named = folder.file_name()?.to_str()?.starts_with(SESSION_ID);
        return if is_named { place_in(folder, path) } else { None };
    }
    let agents = folder.parent().filter(|agents| agents.file_name().is_some_and(|name| name == AGENTS))?;
    place_in(agents.parent()?, path)
}

/// Classifies a file in the folder of a session.
pub(super) fn place_in(session: &Path, path: &Path) -> Option<Place> {
    let id = session.file_name()?.to_str()?.to_owned();
    let place = |role, dialect, agent: Option<&str>| Place {
        role,
        dialect: Some(dialect),
        session: Some(id.clone()),
        agent: agent.map(str::to_owned),
        workflow: None,
    };
    let below: Vec<&str> = path.strip_prefix(session).ok()?.iter().filter_map(|part| part.to_str()).collect();
    match below.as_slice() {
        [STATE_FILE] => Some(place(Role::Note, STATE, None)),
        [AGENTS, MAIN, WIRE_FILE] => Some(place(Role::Main, WIRE, None)),
        [AGENTS, agent, WIRE_FILE] => Some(place(Role::Agent, WIRE, Some(*agent))),
        _ => None,
    }
}

/// Returns the folder of the session that a path below a root is in.
pub(super) fn session_below(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut parts = path.strip_prefix(root).ok()?.iter();
    let (project, session) = (parts.next()?, parts.next()?);
    let folder = root.join(project).join(session);
    // A file directly in a project's folder is no session.
    (folder != path || path.extension().is_none()).then_some(folder)
}

/// Returns the folder of the session that a classified file is in.
pub(super) fn folder_of<'p>(path: &'p Path, place: &Place) -> Option<&'p Path> {
    let depth = if place.role == Role::Note { 1 } else { 3 };
    path.ancestors().nth(depth)
}

/// Whether a folder looks like that of a session. Looks at names on disk only.
pub(super) fn is_session(folder: &Path) -> bool {
    folder.join(STATE_FILE).is_file() && folder.join(AGENTS).is_dir()
}

pub(super) fn main_path(folder: &Path) -> PathBuf {
    folder.join(AGENTS).join(MAIN).join(WIRE_FILE)
}

/// Returns the files of the session whose folder this is.
pub(super) fn files(folder: &Path) -> Option<SessionFiles> {
    Some(files_of(folder, folder.file_name()?.to_str()?))
}

pub(super) fn files_of(folder: &Path, session: &str) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main_path(folder),
        place: Place {
            role: Role::Main,
            dialect: Some(WIRE),
            session: Some(session.to_owned()),
            agent: None,
            workflow: None,
        },
        folders: vec![folder.to_owned()],
        shared: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Kimi, *};
    use crate::Harness;

    #[test]
    fn files_are_classified_by_name_and_folder() {
        const SESSION: &str = "session_e7aca853-d301-42cb-88c6-30ce138fe9e1";
        let folder = format!("/h/sessions/wd_x_1/{SESSION}");
        let root = Path::new("/h/sessions");
        let cases = [
            (format!("{folder}/agents/main/wire.jsonl"), Some((Role::Main, None))),
            (format!("{folder}/agents/agent-0/wire.jsonl"), Some((Role::Agent, Some("agent-0")))),
            (format!("{folder}/state.json"), Some((Role::Note, None))),
            (format!("{folder}/notify/state.json"), None),
            (format!("{folder}/agents/main/tasks/agent-1/output.log"), None),
            (format!("{folder}/wire.jsonl"), None),
            ("/h/session_index.jsonl".to_owned(), None),
        ];
        for (path, expected) in cases {
            let path = Path::new(&path);
            for place in [Kimi.classify(path), Kimi.classify_below(root, path)] {
                let found = place.as_ref().map(|place| (place.role, place.agent.as_deref()));
                assert_eq!(found, expected, "{}", path.display());
                assert!(place.is_none_or(|place| place.session.as_deref() == Some(SESSION)));
            }
            if expected.is_some() {
                let files = Kimi.session_files(root, path, SESSION);
                assert_eq!(files.folders, [Path::new(&folder)], "{}", path.display());
            }
        }
        assert!(Kimi.classify(Path::new("/x/state.json")).is_none());
        let of = |folder: &str| Kimi.session_of_folder(root, Path::new(folder)).map(|files| files.session);
        assert_eq!(of(&format!("{folder}/agents")).as_deref(), Some(SESSION));
        assert_eq!(of("/h/sessions/wd_x_1"), None);
    }

    #[test]
    fn home_follows_its_variable() {
        let env = |home: &'static str| {
            move |name: &str| match name {
                "KIMI_CODE_HOME" if !home.is_empty() => Some(home.into()),
                "HOME" => Some("/home/user".into()),
                _ => None,
            }
        };
        assert_eq!(Kimi.roots(&env("/else"))[0], Path::new("/else/sessions"));
        assert_eq!(Kimi.roots(&env(""))[0], Path::new("/home/user/.kimi-code/sessions"));
    }
}
