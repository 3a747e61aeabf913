//! OpenCode's files: one database of all sessions, and the folder of small objects that versions before 1.2 wrote.
//!
//! Observed: 1.1.53 (`storage/{session/<project>,message/<session>,part/<message>}/<id>.json`) and 1.18.33
//! (`opencode.db`, in WAL mode: the newest rows may be in `opencode.db-wal` alone). Both may lie side by side. A session
//! in either is read as lines: see [`crate::Bundle`].

use std::{ffi::OsStr, path::Path};

use super::DATABASE;
use crate::{Bundle, FolderBundle, Place, Role, SessionFiles, SqlBundle, unsupported::is_of_fork};

/// The variable that names the database.
pub(super) const DATABASE_VARIABLE: &str = "OPENCODE_DB";
/// The variable that moves the folder of data.
pub(super) const DATA_VARIABLE: &str = "XDG_DATA_HOME";
/// The folder of data below the user's home otherwise.
pub(super) const DATA_FOLDER: &str = ".local/share";
/// Its folder there.
pub(super) const FOLDER: &str = "opencode";
/// Ending of the names of databases.
const DATABASE_ENDING: &str = ".db";
/// The folder of objects.
pub(super) const STORAGE: &str = "storage";
/// Prefix of the ids of sessions.
const SESSION_ID: &str = "ses_";

/// All sessions of a database. An event is a row that is only ever added; sessions that were copied from an older
/// database have none, and are read from their rows.
const IN_DATABASE: Bundle = Bundle::Sql(SqlBundle {
    sessions: "SELECT id, parent_id, time_updated FROM session",
    tree: "WITH RECURSIVE tree(id) AS (
             SELECT ?1
             UNION SELECT session.id FROM session JOIN tree ON session.parent_id = tree.id)
           SELECT id, time_updated FROM session JOIN tree USING (id)",
    sizes: &[
        "SELECT aggregate_id, SUM(octet_length(id) + octet_length(seq) + octet_length(type) + octet_length(data) + 35)
         FROM event WHERE aggregate_id IN (SELECT value FROM json_each(?1)) GROUP BY aggregate_id",
        "SELECT '', 0 WHERE ?1 IS NULL",
    ],
    lengths: &[
        "SELECT rowid, octet_length(id) + octet_length(seq) + octet_length(type) + octet_length(data) + 35, aggregate_id
         FROM event WHERE aggregate_id IN (SELECT value FROM json_each(?1)) ORDER BY rowid",
        "SELECT 0, 0, '' WHERE ?1 IS NULL",
    ],
    line: &[
        "SELECT '{\"id\":\"' || id || '\",\"seq\":' || seq || ',\"type\":\"' || type || '\",\"data\":' || data || '}'
         FROM event WHERE rowid = ?1",
        "SELECT '' WHERE ?1 IS NULL",
    ],
    rows: "SELECT line FROM (
           SELECT time_created AS at, 0 AS level, id,
             '{\"id\":\"evt_' || id || '\",\"type\":\"session.updated\",\"data\":{\"info\":' || json_object(
               'id', id, 'parentID', parent_id, 'directory', directory, 'title', title, 'version', version,
               'time', json_object('created', time_created, 'updated', time_updated)) || '}}' AS line
             FROM session WHERE id IN (SELECT value FROM json_each(?1))
           UNION ALL SELECT time_created, 1, id,
             '{\"id\":\"evt_' || id || '\",\"type\":\"message.updated\",\"data\":{\"info\":'
               || json_set(data, '$.id', id, '$.sessionID', session_id) || '}}'
             FROM message WHERE session_id IN (SELECT value FROM json_each(?1))
           UNION ALL SELECT time_created, 2, id,
             '{\"id\":\"evt_' || id || '\",\"type\":\"message.part.updated\",\"data\":{\"part\":'
               || json_set(data, '$.id', id, '$.messageID', message_id, '$.sessionID', session_id)
               || ',\"time\":' || time_updated || '}}'
             FROM part WHERE session_id IN (SELECT value FROM json_each(?1))
           ) ORDER BY at, level, id",
    totals: "SELECT json_object('type', 'session.totals', 'id', id, 'cost', cost, 'input', tokens_input,
               'output', tokens_output, 'reasoning', tokens_reasoning, 'cache_read', tokens_cache_read,
               'cache_write', tokens_cache_write)
             FROM session WHERE id IN (SELECT value FROM json_each(?1))",
    unread: &[("SELECT COUNT(*) FROM session_v2", "OpenCode 2")],
});

/// All sessions of a folder of objects.
const IN_FOLDER: Bundle = Bundle::Folders(FolderBundle {
    sessions: "session",
    messages: "message",
    parts: "part",
    parent: "parentID",
    wraps: [
        ("{\"id\":\"evt_session\",\"type\":\"session.updated\",\"data\":{\"info\":", "}}"),
        ("{\"id\":\"evt_message\",\"type\":\"message.updated\",\"data\":{\"info\":", "}}"),
        ("{\"id\":\"evt_part\",\"type\":\"message.part.updated\",\"data\":{\"part\":", "}}"),
    ],
});

/// Returns the form of a file or folder that holds all sessions. Looks at names on disk only.
pub(super) fn bundle(path: &Path) -> Option<&'static Bundle> {
    let name = path.file_name()?;
    if is_of_fork(path) {
        return None;
    }
    if is_database(path) {
        return Some(&IN_DATABASE);
    }
    (name == STORAGE && path.join("session").is_dir() && path.join("message").is_dir()).then_some(&IN_FOLDER)
}

/// Whether a file has the name of a database: each channel of releases has one of its own, and people name theirs.
fn is_database(path: &Path) -> bool {
    let Some(stem) =
        path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(DATABASE_ENDING))
    else {
        return false;
    };
    let is_in_folder = || path.parent().and_then(Path::file_name).is_some_and(|folder| folder == FOLDER);
    stem == FOLDER || stem.starts_with("opencode-") || is_in_folder()
}

/// Returns the session that a path inside a bundle names.
pub(super) fn session_of(path: &Path) -> Option<&str> {
    let session = path.file_name()?.to_str()?;
    let is_bundle = |path: &Path| is_database(path) || path.file_name().is_some_and(|name| name == STORAGE);
    let is_own = path.parent().is_some_and(|bundle| is_bundle(bundle) && !is_of_fork(bundle));
    (is_own && session.starts_with(SESSION_ID)).then_some(session)
}

pub(super) fn place(session: &str) -> Place {
    Place {
        role: Role::Main,
        dialect: Some(DATABASE),
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
