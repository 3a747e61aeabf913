//! The folders of tasks: the meaning of the parts of a path.
//!
//! ```text
//! <editor>/User/globalStorage/<extension>/tasks/<task>/ui_messages.json                 what the editor showed
//! <editor>/User/globalStorage/<extension>/tasks/<task>/api_conversation_history.json    the conversation with the model
//! <editor>/User/globalStorage/<extension>/tasks/<task>/history_item.json                about the task (Roo Code, Kilo Code)
//! <editor>/User/globalStorage/<extension>/tasks/<task>/task_metadata.json               models and versions (Cline)
//! ```

use std::path::Path;

use super::family::TaskExtension;
use crate::{Place, Role, SessionFiles};

/// The variable that names the folder of a portable VS Code.
pub(super) const PORTABLE: &str = "VSCODE_PORTABLE";
/// The folder of extensions' data in that.
pub(super) const IN_PORTABLE: &str = "user-data/User/globalStorage";
/// The folder of tasks.
pub(super) const TASKS: &str = "tasks";
/// The folder in which Cline keeps its data beside those of editors.
const OWN_DATA: &str = ".cline/data";

/// The folders of extensions' data below the user's home, VS Code's first.
pub(super) const EDITORS: [&str; 15] = [
    ".config/Code/User/globalStorage",
    ".config/Code - Insiders/User/globalStorage",
    ".config/VSCodium/User/globalStorage",
    ".config/Cursor/User/globalStorage",
    ".config/Windsurf/User/globalStorage",
    ".vscode-server/data/User/globalStorage",
    ".vscode-server-insiders/data/User/globalStorage",
    ".cursor-server/data/User/globalStorage",
    ".windsurf-server/data/User/globalStorage",
    ".local/share/code-server/User/globalStorage",
    "Library/Application Support/Code/User/globalStorage",
    "Library/Application Support/Code - Insiders/User/globalStorage",
    "Library/Application Support/VSCodium/User/globalStorage",
    "Library/Application Support/Cursor/User/globalStorage",
    "Library/Application Support/Windsurf/User/globalStorage",
];

/// Whether a folder is one of the extension's.
pub(super) fn is_folder(path: &Path, member: &TaskExtension) -> bool {
    let is_own = path.file_name().is_some_and(|name| name == member.extension);
    is_own || member.has_own_data() && path.ends_with(OWN_DATA)
}

/// Whether a path is the folder of an extension's tasks.
pub(super) fn is_tasks(path: &Path, member: &TaskExtension) -> bool {
    let is_named = path.file_name().is_some_and(|name| name == TASKS);
    is_named && path.parent().is_some_and(|above| is_folder(above, member))
}

/// Returns the task of an extension that a path is the folder of.
pub(super) fn task_of<'p>(path: &'p Path, member: &TaskExtension) -> Option<&'p str> {
    let name = path.file_name()?.to_str().filter(|name| is_task(name))?;
    path.parent().is_some_and(|above| is_tasks(above, member)).then_some(name)
}

/// Whether a name is the id of a task: a time in milliseconds, or a UUID.
fn is_task(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    name.len() >= 8 && is_plain && name.bytes().any(|byte| byte.is_ascii_digit())
}

pub(super) fn place(task: &str, member: &TaskExtension) -> Place {
    Place {
        role: Role::Main,
        dialect: member.dialect(),
        session: Some(task.to_owned()),
        agent: None,
        workflow: None,
    }
}

pub(super) fn files(main: &Path, session: &str, member: &TaskExtension) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main.to_owned(),
        place: place(session, member),
        folders: Vec::new(),
        shared: Vec::new(),
    }
}
