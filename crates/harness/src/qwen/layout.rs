//! Qwen Code's folders: the meaning of the parts of a path. Observed: 0.24.4.
//!
//! ```text
//! projects/<folder>/chats/<session>.jsonl                                 a session
//! projects/<folder>/subagents/<session>/agent-<type>-<call>.jsonl          an agent of it, at every depth
//! projects/<folder>/subagents/<session>/agent-<type>-<call>.meta.json
//! ```

use std::path::{Path, PathBuf};

use subscope_decode::Dialect;

use super::{CHAT, META};
use crate::{Place, Role, SessionFiles};

/// The variable that moves its folder.
pub(super) const HOME_VARIABLE: &str = "QWEN_HOME";
/// The variable that moves its conversations alone.
pub(super) const RUNTIME_VARIABLE: &str = "QWEN_RUNTIME_DIR";
/// Its folder below the user's home otherwise.
pub(super) const HOME_FOLDER: &str = ".qwen";
/// The folder of all projects.
pub(super) const PROJECTS: &str = "projects";
const CHATS: &str = "chats";
const SUBAGENTS: &str = "subagents";

/// Classifies a file by its path.
pub(super) fn classify(path: &Path) -> Option<Place> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent()?;
    if folder.file_name()? == CHATS {
        let stem = name.strip_suffix(".jsonl").filter(|stem| is_uuid(stem))?;
        return Some(place(Role::Main, CHAT, stem, None));
    }
    if folder.parent()?.file_name()? != SUBAGENTS {
        return None;
    }
    let session = folder.file_name()?.to_str().filter(|session| is_uuid(session))?;
    let rest = name.strip_prefix("agent-")?;
    let (agent, role, dialect) = match rest.strip_suffix(".meta.json") {
        Some(agent) => (agent, Role::Note, META),
        None => (rest.strip_suffix(".jsonl")?, Role::Agent, CHAT),
    };
    (!agent.is_empty()).then(|| place(role, dialect, session, Some(agent)))
}

fn place(role: Role, dialect: Dialect, session: &str, agent: Option<&str>) -> Place {
    Place {
        role,
        dialect: Some(dialect),
        session: Some(session.to_owned()),
        agent: agent.map(str::to_owned),
        workflow: None,
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns the project and the session whose agents' files a folder holds.
pub(super) fn session_of_folder(folder: &Path) -> Option<(&Path, &str)> {
    let above = folder.parent().filter(|above| above.file_name().is_some_and(|name| name == SUBAGENTS))?;
    let session = folder.file_name()?.to_str().filter(|session| is_uuid(session))?;
    Some((above.parent()?, session))
}

/// Returns the project of a session's file.
pub(super) fn project_of(path: &Path) -> Option<&Path> {
    let is_above = |folder: &&Path| folder.file_name().is_some_and(|name| name == CHATS || name == SUBAGENTS);
    path.ancestors().skip(1).find(is_above)?.parent()
}

pub(super) fn main_path(project: &Path, session: &str) -> PathBuf {
    project.join(CHATS).join(format!("{session}.jsonl"))
}

pub(super) fn files(project: &Path, session: &str) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main_path(project, session),
        place: place(Role::Main, CHAT, session, None),
        folders: vec![project.join(SUBAGENTS).join(session)],
        shared: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_classified_by_name_and_folder() {
        const SESSION: &str = "e7aca853-d301-42cb-88c6-30ce138fe9e1";
        let of = |path: String| {
            classify(Path::new(&path)).map(|place| (place.role, place.session.unwrap(), place.agent))
        };
        let named = |role, agent: Option<&str>| Some((role, SESSION.to_owned(), agent.map(str::to_owned)));
        assert_eq!(of(format!("/p/x/chats/{SESSION}.jsonl")), named(Role::Main, None));
        let below = format!("/p/x/subagents/{SESSION}");
        assert_eq!(of(format!("{below}/agent-a-1.jsonl")), named(Role::Agent, Some("a-1")));
        assert_eq!(of(format!("{below}/agent-a-1.meta.json")), named(Role::Note, Some("a-1")));
        assert_eq!(of(format!("/p/x/{SESSION}/subagents/agent-a.jsonl")), None);
        assert_eq!(of(format!("/p/x/{SESSION}.jsonl")), None);
        let files = files(Path::new("/p/x"), SESSION);
        assert_eq!(project_of(&files.main), Some(Path::new("/p/x")));
        assert_eq!(session_of_folder(&files.folders[0]), Some((Path::new("/p/x"), SESSION)));
    }
}
