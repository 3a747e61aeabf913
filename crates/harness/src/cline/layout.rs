//! Cline's folders: the meaning of the parts of a path. Observed: 3.0.65.
//!
//! ```text
//! data/sessions/<session>/<session>.json             about the session
//! data/sessions/<session>/<session>.messages.json    the root
//! data/sessions/<session>/<agent>.messages.json      an agent, at every depth
//! data/sessions/<session>/<mate>__<run>.messages.json
//! data/db/sessions.db                                rows about sessions and their agents
//! ```

use std::path::{Path, PathBuf};

use super::{MESSAGES, ROWS, STATE};
use crate::{Place, Role, SessionFiles};

/// The variable that moves its data.
pub(super) const HOME_VARIABLE: &str = "CLINE_DATA_DIR";
/// Its data below the user's home otherwise.
pub(super) const HOME_FOLDER: &str = ".cline/data";
/// The variable that moves its whole folder, in which the data is.
pub(super) const FOLDER_VARIABLE: &str = "CLINE_DIR";
/// The folder of data in that.
pub(super) const DATA: &str = "data";
/// The folder of all sessions.
pub(super) const SESSIONS: &str = "sessions";
/// The database of sessions, below the data.
const DATABASE: [&str; 2] = ["db", "sessions.db"];
/// Ending of the names of conversations.
const MESSAGES_ENDING: &str = ".messages.json";
/// What separates the parts of the id of an agent's session.
pub(super) const SEPARATOR: &str = "__";

/// Whether a path is the database of sessions.
pub(super) fn is_database(path: &Path) -> bool {
    path.ends_with(Path::new(DATABASE[0]).join(DATABASE[1]))
}

/// Whether a name is the id of a session: `<milliseconds>_<letters>`.
pub(super) fn is_session(name: &str) -> bool {
    let fits = |(time, rest): (&str, &str)| {
        time.len() >= 12
            && time.bytes().all(|byte| byte.is_ascii_digit())
            && !rest.is_empty()
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    name.split_once('_').is_some_and(fits)
}

/// Classifies a file, or a session in the database.
pub(super) fn place(path: &Path) -> Option<Place> {
    let (name, above) = (path.file_name()?.to_str()?, path.parent()?);
    let place = |role, dialect, session: &str, agent: Option<&str>| {
        let (session, agent) = (Some(session.to_owned()), agent.map(str::to_owned));
        Some(Place { role, dialect: Some(dialect), session, agent, workflow: None })
    };
    if is_database(above) {
        return if is_session(name) { place(Role::Note, ROWS, name, None) } else { None };
    }
    let session = above.file_name()?.to_str().filter(|folder| is_session(folder))?;
    if name.strip_suffix(".json") == Some(session) {
        return place(Role::Note, STATE, session, None);
    }
    match name.strip_suffix(MESSAGES_ENDING)? {
        "" => None,
        main if main == session => place(Role::Main, MESSAGES, session, None),
        agent => {
            // A run of a teammate.
            let agent = agent.rsplit_once(SEPARATOR).map_or(agent, |(mate, _)| mate);
            place(Role::Agent, MESSAGES, session, Some(agent))
        }
    }
}

/// Returns the folder of the session that a classified path is of.
pub(super) fn folder_of(path: &Path, session: &str) -> Option<PathBuf> {
    let above = path.parent()?;
    if is_database(above) {
        return Some(above.parent()?.parent()?.join(SESSIONS).join(session));
    }
    (above.file_name()? == session).then(|| above.to_owned())
}

/// Returns the files of the session whose folder this is.
pub(super) fn files(folder: &Path) -> Option<SessionFiles> {
    let session = folder.file_name()?.to_str().filter(|name| is_session(name))?;
    Some(files_of(folder, session))
}

pub(super) fn files_of(folder: &Path, session: &str) -> SessionFiles {
    let rows = folder.parent().and_then(Path::parent).map(|data| {
        let database = data.join(DATABASE[0]).join(DATABASE[1]);
        database.join(session)
    });
    SessionFiles {
        session: session.to_owned(),
        main: folder.join(format!("{session}{MESSAGES_ENDING}")),
        place: Place {
            role: Role::Main,
            dialect: Some(MESSAGES),
            session: Some(session.to_owned()),
            agent: None,
            workflow: None,
        },
        folders: std::iter::once(folder.to_owned()).chain(rows).collect(),
        shared: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Cline, *};
    use crate::Harness;

    const SESSION: &str = "1795721277480_8ea7b";

    #[test]
    fn files_are_classified_by_name_and_folder() {
        let data = "/h/.cline/data";
        let folder = format!("{data}/sessions/{SESSION}");
        let cases = [
            (format!("{folder}/{SESSION}.messages.json"), Some((Role::Main, None))),
            (format!("{folder}/agent_1_x.messages.json"), Some((Role::Agent, Some("agent_1_x")))),
            (format!("{folder}/my_mate__ttmCLy.messages.json"), Some((Role::Agent, Some("my_mate")))),
            (format!("{folder}/{SESSION}.json"), Some((Role::Note, None))),
            (format!("{data}/db/sessions.db/{SESSION}"), Some((Role::Note, None))),
            (format!("{data}/db/sessions.db/{SESSION}__agent_1_x"), None),
            (format!("{folder}/other.json"), None),
            ("/h/x/a.messages.json".to_owned(), None),
            (format!("{data}/db/teams.db"), None),
        ];
        for (path, expected) in cases {
            let path = Path::new(&path);
            let place = Cline.classify(path);
            let found = place.as_ref().map(|place| (place.role, place.agent.as_deref()));
            assert_eq!(found, expected, "{}", path.display());
            if expected.is_some() {
                let files = Cline.session_files(Path::new(data), path, SESSION);
                assert_eq!(files.main, Path::new(&folder).join(format!("{SESSION}.messages.json")));
                assert_eq!(files.folders[1], Path::new(data).join("db/sessions.db").join(SESSION));
                assert_eq!(Cline.target(path), Some(files));
            }
        }
        let root = Path::new(data);
        assert!(Cline.session_of_folder(root, &root.join("sessions")).is_none());
        assert_eq!(Cline.session_of_folder(root, Path::new(&folder)).unwrap().session, SESSION);
        assert!(Cline.bundle(&root.join("db/sessions.db")).is_some());
        assert!(Cline.bundle(&root.join("sessions.db")).is_none());
    }

    #[test]
    fn home_follows_its_variables() {
        let env = |variable: &'static str| {
            move |name: &str| match name {
                "HOME" => Some("/home/user".into()),
                _ if name == variable => Some("/else".into()),
                _ => None,
            }
        };
        for (variable, folder) in
            [("", "/home/user/.cline/data"), ("CLINE_DATA_DIR", "/else"), ("CLINE_DIR", "/else/data")]
        {
            assert_eq!(Cline.roots(&env(variable)), [Path::new(folder)], "{variable}");
        }
    }
}
