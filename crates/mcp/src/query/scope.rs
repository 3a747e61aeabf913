//! Which sessions may be asked about: one that may not is treated as one that is not there.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use subscope_model::{SessionId, SessionRow};

use super::{Answer, Ask, Question, ask};

/// How many of the newest sessions are looked at. Older ones are nobody's subagents any more; without a bound each question
/// would list years.
const SCANNED: usize = 5_000;

/// Which sessions are there for the asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The folder of the project; `None` for all sessions.
    project: Option<PathBuf>,
}

impl Scope {
    /// Only sessions that were started in this folder or below it.
    pub fn project(folder: &Path) -> Self {
        Self { project: Some(resolved(folder)) }
    }

    /// All sessions of this machine.
    pub fn everything() -> Self {
        Self { project: None }
    }

    /// Whether a session that was started there is in scope; of one of which that is not known, it is not.
    fn holds(&self, cwd: Option<&str>) -> bool {
        let Some(project) = &self.project else { return true };
        // Of a relative folder nobody knows where it is.
        let Some(cwd) = cwd.map(Path::new).filter(|cwd| cwd.is_absolute()) else { return false };
        resolved(cwd).starts_with(project)
    }
}

/// The folder behind links; one that is gone as it is written, without `.` and `..`.
fn resolved(folder: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(folder) {
        return real;
    }
    let mut plain = PathBuf::new();
    for part in folder.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The sessions that are there for the asker.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The newest first.
    pub(super) rows: Vec<SessionRow>,
    /// Whether older ones were not looked at.
    pub(super) is_cut: bool,
}

impl Sessions {
    /// Lists them.
    pub(super) async fn list(to: &Ask, scope: &Scope, only_live: bool) -> Result<Self, String> {
        let answer = ask(to, Question::Sessions { limit: SCANNED, only_live }).await?;
        let Answer::Sessions(page) = answer else { return Err("sessions were asked for".to_owned()) };
        let is_cut = page.next.is_some();
        let mut rows = page.sessions;
        let mut known: HashMap<Option<String>, bool> = HashMap::new();
        rows.retain(|row| {
            let cwd = row.cwd.as_deref();
            *known.entry(cwd.map(str::to_owned)).or_insert_with(|| scope.holds(cwd))
        });
        Ok(Self { rows, is_cut })
    }

    /// Finds the one session of that id, of which it is the beginning, or the newest.
    pub(super) fn find(&self, word: &str) -> Result<SessionId, String> {
        let unknown = || format!("no session {word:?} is found; list_sessions lists them");
        if word == "last" {
            return self.rows.first().map(|row| row.id.clone()).ok_or_else(unknown);
        }
        if let Some(row) = self.rows.iter().find(|row| row.id.as_str() == word) {
            return Ok(row.id.clone());
        }
        let mut begin = self.rows.iter().filter(|row| row.id.starts_with(word));
        match (begin.next(), begin.next()) {
            (Some(row), None) => Ok(row.id.clone()),
            (None, _) => Err(unknown()),
            (Some(_), Some(_)) => {
                Err(format!("{word:?} is the beginning of several sessions' ids: give more of it"))
            }
        }
    }

    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.rows.iter().any(|row| row.id == *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_holds_its_folder_and_what_is_below() {
        let scope = Scope::project(Path::new("/nowhere/a/shop"));
        for (cwd, expected) in [
            (Some("/nowhere/a/shop"), true),
            (Some("/nowhere/a/shop/src"), true),
            (Some("/nowhere/a/shop/../shop/x"), true),
            (Some("/nowhere/a/shop/../secret"), false),
            (Some("/nowhere/a/shopping"), false),
            (Some("/nowhere/a"), false),
            (Some("shop"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(scope.holds(cwd), expected, "{cwd:?}");
            assert!(Scope::everything().holds(cwd));
        }
    }
}
