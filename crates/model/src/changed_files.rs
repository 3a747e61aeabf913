//! The files that the agents of a session changed, as far as the arguments of their calls name them.
//!
//! What commands change is not in it: no source says which files a command wrote.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Agent, AgentId, Millis, SessionId, Text, ToolStatus, Tree};

/// Schema version of [`ChangedFiles`]. Changes within it are additive only.
pub const FILES_SCHEMA: &str = "subscope.files/1";

/// The changed files of a session: the JSON of `subscope files --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangedFiles {
    /// Always [`FILES_SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session_id: SessionId,
    /// Its working directory; `None` if it is not known.
    pub cwd: Option<Text>,
    /// The files, by their paths.
    pub files: Vec<ChangedFile>,
}

/// A file that calls changed, or are changing. Calls that failed or were denied do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangedFile {
    /// Its path: relative to the session's working directory where it is below that, else as the calls name it.
    pub path: Text,
    /// Number of calls.
    pub calls: u32,
    /// Number of those that have not ended.
    pub open_calls: u32,
    /// The agents that made them, in the order of the tree.
    pub agents: Vec<AgentId>,
    /// Start of the last of them; `None` if no start is known.
    pub last_at_ms: Option<Millis>,
}

impl ChangedFiles {
    /// Lists the files of a session.
    pub fn of(tree: &Tree) -> Self {
        Self {
            schema: FILES_SCHEMA.into(),
            session_id: tree.session.id.clone(),
            cwd: tree.session.cwd.clone(),
            files: changed_files(&tree.agents, tree.session.cwd.as_deref()),
        }
    }
}

/// Returns the files that agents changed. Agents copied from another session changed nothing in this one.
fn changed_files(agents: &[Agent], cwd: Option<&str>) -> Vec<ChangedFile> {
    let mut files: BTreeMap<&str, ChangedFile> = BTreeMap::new();
    for agent in agents.iter().filter(|agent| !agent.is_copy()) {
        for call in &agent.tools {
            let is_open = match call.status {
                ToolStatus::Ok => false,
                ToolStatus::Open => true,
                ToolStatus::Error | ToolStatus::Denied => continue,
            };
            for path in call.writes.iter().map(|path| relative_path(path, cwd)) {
                let file = files.entry(path).or_insert_with(|| ChangedFile::new(path));
                file.calls += 1;
                file.open_calls += u32::from(is_open);
                if file.agents.last() != Some(&agent.id) {
                    file.agents.push(agent.id.clone());
                }
                file.last_at_ms = file.last_at_ms.max(call.started_at_ms);
            }
        }
    }
    files.into_values().collect()
}

impl ChangedFile {
    fn new(path: &str) -> Self {
        Self { path: path.into(), calls: 0, open_calls: 0, agents: Vec::new(), last_at_ms: None }
    }
}

/// Returns a path relative to a folder where it is below that. `./` at its beginning is no part of it.
fn relative_path<'p>(path: &'p str, folder: Option<&str>) -> &'p str {
    let separators = ['/', '\\'];
    let below = folder.filter(|folder| !folder.is_empty()).and_then(|folder| {
        let rest = path.strip_prefix(folder.trim_end_matches(separators))?;
        rest.strip_prefix(separators).filter(|rest| !rest.is_empty())
    });
    let here = ["./", ".\\"].iter().find_map(|here| path.strip_prefix(here).filter(|rest| !rest.is_empty()));
    below.or(here).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::AgentStatus;

    #[test]
    fn paths_below_the_working_directory_are_relative_to_it() {
        for (path, folder, expected) in [
            ("/home/user/shop/src/a.rs", Some("/home/user/shop"), "src/a.rs"),
            ("/home/user/shop/src/a.rs", Some("/home/user/shop/"), "src/a.rs"),
            ("/home/user/shopping/a.rs", Some("/home/user/shop"), "/home/user/shopping/a.rs"),
            ("/home/user/shop", Some("/home/user/shop"), "/home/user/shop"),
            ("./src/a.rs", Some("/home/user/shop"), "src/a.rs"),
            (r"C:\shop\src\a.rs", Some(r"C:\shop"), r"src\a.rs"),
            ("src/a.rs", None, "src/a.rs"),
            ("/a.rs", Some("/"), "a.rs"),
            ("/a.rs", Some(""), "/a.rs"),
        ] {
            assert_eq!(relative_path(path, folder), expected, "{path} below {folder:?}");
        }
    }

    /// Cases that the page is tested with, too: a session, then path, calls, open calls, agents and last start of each file.
    #[test]
    fn calls_that_changed_nothing_do_not_count_and_names_of_one_file_are_one() {
        let list: Value = serde_json::from_str(include_str!("../../../fixtures/figures.json")).unwrap();
        for case in list["files"].as_array().unwrap() {
            let agents: Vec<Agent> = case[0]["agents"].as_array().unwrap().iter().map(agent).collect();
            let files = changed_files(&agents, case[0]["cwd"].as_str());
            let listed = files
                .iter()
                .map(|file| json!([file.path, file.calls, file.open_calls, file.agents, file.last_at_ms]));
            assert_eq!(Value::from_iter(listed), case[1]);
        }
    }

    fn agent(given: &Value) -> Agent {
        let call = |given: &Value| {
            let mut call =
                json!({"id": null, "name": "Edit", "basis": "wire", "ended_at_ms": null, "detail": null});
            call.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            serde_json::from_value(call).unwrap()
        };
        Agent {
            tools: given["tools"].as_array().unwrap().iter().map(call).collect(),
            ..Agent::unknown(AgentId::from(given["id"].as_str().unwrap()), 1, AgentStatus::Running)
        }
    }
}
