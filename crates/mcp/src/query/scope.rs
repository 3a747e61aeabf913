//! Visibility of sessions: one out of scope is treated as unknown.

use std::{
    collections::HashMap,
    fmt, fs,
    path::{Component, Path, PathBuf},
};

use subscope_model::{SessionId, SessionRow, Text};
use subscope_platform::path_from_bytes;
use subscope_query::ListQuery;

use super::{QueryError, QuestionSender, ask, find_by_id};

/// Most sessions listed, newest first. Bounds the cost of a call; older sessions do not matter to a running agent.
const MAX_SESSIONS: usize = 5_000;

/// Name of the client's own session.
pub(super) const OWN: &str = "self";

/// Filter of visible sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Directories of the project; `None` for all sessions.
    projects: Option<Vec<PathBuf>>,
}

impl Scope {
    /// Only sessions started in one of these directories or below it, and those in work trees of a project there.
    pub fn projects<'f>(folders: impl IntoIterator<Item = &'f Path>) -> Self {
        Self { projects: Some(folders.into_iter().map(resolve).collect()) }
    }

    /// All sessions of this machine.
    pub fn everything() -> Self {
        Self { projects: None }
    }

    /// Whether it is not known which sessions are visible: none is.
    pub(super) fn is_unknown(&self) -> bool {
        self.projects.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether a session with this directory is in scope; one with an unknown directory is not.
    fn contains(&self, directory: Option<&str>) -> bool {
        let Some(projects) = &self.projects else { return true };
        // A relative directory cannot be resolved.
        let Some(directory) = directory.map(Path::new).filter(|path| path.is_absolute()) else {
            return false;
        };
        let directory = resolve(directory);
        projects.iter().any(|project| directory.starts_with(project))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.projects {
            None => f.write_str("this machine"),
            Some(projects) => {
                let names: Vec<String> = projects.iter().map(|folder| folder.display().to_string()).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

/// Returns the folder that a `file:` URI names.
pub(super) fn folder_of_uri(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    // The path of a disk of Windows begins with `/`, too: `/C:/x`.
    let of_disk = bytes.get(1..).map(<[u8]>::to_vec);
    let folders = [Some(bytes), of_disk].into_iter().flatten().map(path_from_bytes);
    folders.into_iter().find(|folder| folder.is_absolute())
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
    /// Number of sessions that are not visible.
    hidden: usize,
    /// What was asked for.
    sought: &'static str,
}

impl VisibleSessions {
    /// Lists the visible sessions of a query, whatever its limit.
    pub(super) async fn list(
        to: &QuestionSender,
        scope: &Scope,
        query: ListQuery,
    ) -> Result<Self, QueryError> {
        if scope.is_unknown() {
            return Err(QueryError::NoProject);
        }
        let sought = match (query.only_live, query.since.is_some() || !query.words.is_empty()) {
            (_, true) => "session like that",
            (true, false) => "live session",
            (false, false) => "session",
        };
        let query = ListQuery { limit: MAX_SESSIONS, ..query };
        let page = ask(to, move |host| host.sessions(&query)).await?;
        let is_cut = page.next.is_some();
        let mut rows = page.sessions;
        let mut checked: HashMap<Option<Text>, bool> = HashMap::new();
        let mut contains = |directory: &Option<Text>| {
            let check = || scope.contains(directory.as_deref());
            *checked.entry(directory.clone()).or_insert_with(check)
        };
        let all = rows.len();
        rows.retain(|row| contains(&row.cwd) || row.project.is_some() && contains(&row.project));
        let hidden = all - rows.len();
        Ok(Self { rows, is_cut, hidden, sought })
    }

    /// Returns why nothing is visible; `None` if something is.
    pub(super) fn why_empty(&self, scope: &Scope) -> Option<String> {
        let which = self.sought;
        self.rows.is_empty().then(|| match self.hidden {
            0 => format!("no {which} is known on this machine; `subscope doctor` says what was found"),
            hidden => format!(
                "no {which} of {scope} is known; {hidden} of other projects are hidden: `subscope mcp query \
                 --all-projects` shows them"
            ),
        })
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
    fn roots_are_folders_of_this_machine() {
        for (uri, folder) in [
            ("file:///home/u/a%20b%C3%A9", Some("/home/u/a bé")),
            ("file://localhost/x", Some("/x")),
            ("file:///100%", Some("/100%")),
            ("file:///%zz", Some("/%zz")),
            ("file://other/x", None),
            ("https://x/y", None),
            ("", None),
        ] {
            assert_eq!(folder_of_uri(uri), folder.map(PathBuf::from), "{uri}");
        }
    }

    #[test]
    fn project_holds_its_folder_and_what_is_below() {
        let scope = Scope::projects(["/nowhere/b", "/nowhere/a/shop"].map(Path::new));
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
