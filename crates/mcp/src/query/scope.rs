//! Visibility of sessions: one out of scope is treated as unknown.

use std::{
    collections::HashMap,
    fs,
    path::{Component, Path, PathBuf},
};

use subscope_model::{SessionId, SessionRow, Text};
use subscope_query::ListQuery;

use super::{QueryError, QuestionSender, ask, find_by_id};

/// Most sessions listed, newest first. Bounds the cost of a call; older sessions do not matter to a running agent.
const MAX_SESSIONS: usize = 5_000;

/// Name of the client's own session.
pub(super) const OWN: &str = "self";

/// Filter of visible sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Directory of the project; `None` for all sessions.
    project: Option<PathBuf>,
}

impl Scope {
    /// Only sessions started in this directory or below it, and those in work trees of a project there.
    pub fn project(folder: &Path) -> Self {
        Self { project: Some(resolve(folder)) }
    }

    /// All sessions of this machine.
    pub fn everything() -> Self {
        Self { project: None }
    }

    /// Whether a session with this directory is in scope; one with an unknown directory is not.
    fn contains(&self, directory: Option<&str>) -> bool {
        let Some(project) = &self.project else { return true };
        // A relative directory cannot be resolved.
        let Some(directory) = directory.map(Path::new).filter(|path| path.is_absolute()) else {
            return false;
        };
        resolve(directory).starts_with(project)
    }
}

/// Resolves symbolic links; of a directory that does not exist, only `.` and `..`.
fn resolve(folder: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(folder) {
        return real;
    }
    let mut plain = PathBuf::new();
    for part in folder.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// The visible sessions.
#[derive(Debug)]
pub(super) struct VisibleSessions {
    /// Rows, in the order of the query.
    pub(super) rows: Vec<SessionRow>,
    /// Whether there are more sessions beyond [`MAX_SESSIONS`].
    pub(super) is_cut: bool,
}

impl VisibleSessions {
    /// Lists the visible sessions of a query, whatever its limit.
    pub(super) async fn list(
        to: &QuestionSender,
        scope: &Scope,
        query: ListQuery,
    ) -> Result<Self, QueryError> {
        let query = ListQuery { limit: MAX_SESSIONS, ..query };
        let page = ask(to, move |host| host.sessions(&query)).await?;
        let is_cut = page.next.is_some();
        let mut rows = page.sessions;
        let mut checked: HashMap<Option<Text>, bool> = HashMap::new();
        let mut contains = |directory: &Option<Text>| {
            let check = || scope.contains(directory.as_deref());
            *checked.entry(directory.clone()).or_insert_with(check)
        };
        rows.retain(|row| contains(&row.cwd) || row.project.is_some() && contains(&row.project));
        Ok(Self { rows, is_cut })
    }

    /// Lists the newest visible sessions.
    pub(super) async fn newest(to: &QuestionSender, scope: &Scope) -> Result<Self, QueryError> {
        Self::list(to, scope, ListQuery::of_words(MAX_SESSIONS, String::new())).await
    }

    /// Finds a session by id, unambiguous id prefix, `last` for the newest, or `self` for the client's own.
    pub(super) async fn find(&self, word: &str, to: &QuestionSender) -> Result<SessionId, QueryError> {
        let own;
        let (word, row) = match word {
            "last" => (word, self.rows.first()),
            OWN => {
                own = ask(to, |host| host.own_session()).await?;
                (own.as_str(), self.rows.iter().find(|row| row.id == own))
            }
            _ => (word, find_by_id(&self.rows, |row| row.id.as_str(), word, "sessions'")?),
        };
        row.map(|row| row.id.clone()).ok_or_else(|| QueryError::NoSession(word.to_owned()))
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
            assert_eq!(scope.contains(cwd), expected, "{cwd:?}");
            assert!(Scope::everything().contains(cwd));
        }
    }
}
