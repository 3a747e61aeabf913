//! The family's files: one database of all sessions, and the folder of small objects that versions before 1.2 wrote.
//!
//! Observed: OpenCode 1.1.53 (`storage/{session/<project>,message/<session>,part/<message>}/<id>.json`) and 1.18.33
//! (`opencode.db`, in WAL mode: the newest rows may be in `opencode.db-wal` alone), Kilo CLI 7.7.7 (`kilo.db`). Both
//! forms may lie side by side. A session in either is read as lines: see [`crate::Bundle`].

use std::{ffi::OsStr, path::Path};

use super::family::{MEMBERS, Member, OPENCODE};
use crate::{Bundle, Place, Role, SessionFiles};

/// The variable that moves the folder of data.
pub(super) const DATA_VARIABLE: &str = "XDG_DATA_HOME";
/// The folder of data below the user's home otherwise.
pub(super) const DATA_FOLDER: &str = ".local/share";
/// Ending of the names of databases.
const DATABASE_ENDING: &str = ".db";
/// The folder of objects.
const STORAGE: &str = "storage";
/// Prefix of the ids of sessions.
const SESSION_ID: &str = "ses_";

/// Returns the form of a file or folder that holds all sessions of a program. Looks at names on disk only.
pub(super) fn bundle(path: &Path, member: &Member) -> Option<&'static Bundle> {
    let owner = owner_of(path).filter(|owner| owner.name == member.name)?;
    if path.file_name()? != STORAGE {
        return Some(&owner.in_database);
    }
    (path.join("session").is_dir() && path.join("message").is_dir()).then_some(&owner.in_folder)
}

/// Returns the program whose database or folder of objects a path names: by the folder that it is in, where people name
/// their databases, else by its own name, which each channel of releases has another of.
fn owner_of(path: &Path) -> Option<&'static Member> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    let by_folder = MEMBERS.iter().copied().find(|member| folder == Some(member.name));
    if name == STORAGE {
        return by_folder.or(Some(&OPENCODE));
    }
    let stem = name.strip_suffix(DATABASE_ENDING)?;
    let is_named = |member: &&Member| {
        stem.strip_prefix(member.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    by_folder.or_else(|| MEMBERS.iter().copied().find(is_named))
}

/// Returns the session of a program that a path inside a bundle names.
pub(super) fn session_of<'p>(path: &'p Path, member: &Member) -> Option<&'p str> {
    let session = path.file_name()?.to_str().filter(|name| name.starts_with(SESSION_ID))?;
    let owner = path.parent().and_then(owner_of)?;
    (owner.name == member.name).then_some(session)
}

pub(super) fn place(session: &str, member: &Member) -> Place {
    Place {
        role: Role::Main,
        dialect: Some(member.database),
        session: Some(session.to_owned()),
        agent: None,
        workflow: None,
    }
}

pub(super) fn files(main: &Path, session: &str, member: &Member) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main.to_owned(),
        place: place(session, member),
        folders: Vec::new(),
        shared: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencode::KILO;

    #[test]
    fn a_database_is_that_of_the_program_whose_folder_or_name_it_has() {
        let cases = [
            ("/h/.local/share/opencode/opencode.db", Some("opencode")),
            ("/h/.local/share/opencode/mine.db", Some("opencode")),
            ("/x/opencode-beta.db", Some("opencode")),
            ("/h/.local/share/kilo/kilo.db", Some("kilo")),
            ("/h/.local/share/kilo/opencode.db", Some("kilo")),
            ("/x/kilo-dev.db", Some("kilo")),
            ("/x/kilometers.db", None),
            ("/h/.local/share/mimocode/mimocode.db", Some("mimocode")),
            ("/h/mimo/data/mimocode-dev.db", Some("mimocode")),
            ("/h/.local/share/icodemate/icodemate.db", Some("icodemate")),
            ("/x/icodemate.db", Some("icodemate")),
            ("/h/.local/share/kilo/storage", Some("kilo")),
            ("/x/storage", Some("opencode")),
            ("/x/other.db", None),
        ];
        for (path, expected) in cases {
            let path = Path::new(path);
            assert_eq!(owner_of(path).map(|owner| owner.name), expected, "{}", path.display());
            for member in MEMBERS {
                let is_own = expected == Some(member.name);
                assert_eq!(session_of(&path.join("ses_1"), member).is_some(), is_own, "{}", path.display());
            }
        }
        assert!(matches!(bundle(Path::new("/x/kilo.db"), &KILO), Some(Bundle::Sql(_))));
        assert!(bundle(Path::new("/x/kilo.db"), &OPENCODE).is_none());
    }
}
