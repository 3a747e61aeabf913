//! Bundles: a file or folder in which a harness keeps many sessions. Each root session, with those below it, is read as
//! lines; `BUNDLE/SESSION` is its path, although no such file exists.
//!
//! A bundle is described here and read by the crate `collect`, so that nothing here opens a file.

/// How the sessions of a bundle become lines.
#[derive(Debug)]
pub enum Bundle {
    /// A SQLite database. It is opened read-only, its write-ahead log included, for one short transaction at a time.
    Sql(SqlBundle),
    /// A folder of JSON objects.
    Folders(FolderBundle),
    /// A folder of tasks.
    Tasks(TaskBundle),
}

/// Queries of a SQLite database. Of alternative queries the first that the database accepts is used.
#[derive(Debug)]
pub struct SqlBundle {
    /// Gives each session, its parent or NULL, and the time of its last change in milliseconds since 1970.
    pub sessions: &'static str,
    /// Gives the session `?1` and each below it, and the time of its last change in milliseconds since 1970.
    pub tree: &'static str,
    /// Gives each session of the JSON array `?1` that has rows in `lengths`, and how many bytes their lines are, line ends
    /// included.
    pub sizes: &'static [&'static str],
    /// Gives the number of each line of the sessions in the JSON array `?1`, its length with its end, and its session, in
    /// order. A line is never changed, and a new one comes last.
    pub lengths: &'static [&'static str],
    /// Gives the line of a number `?1`.
    pub line: &'static [&'static str],
    /// Gives all lines of the sessions in the JSON array `?1`, which have none in `lengths`.
    pub rows: &'static str,
    /// Gives lines of the totals that the database states of the sessions in the JSON array `?1`: they are in no line of
    /// `lengths` and `rows`.
    pub totals: &'static str,
    /// Queries that count sessions in tables that are not read, each with the name of the version that wrote them.
    pub unread: &'static [(&'static str, &'static str)],
}

/// Names of a folder of objects: `sessions/<any>/<session>.json`, `messages/<session>/<message>.json` and
/// `parts/<message>/<part>.json`. Ids of messages and parts sort by time.
#[derive(Debug)]
pub struct FolderBundle {
    /// The folder of sessions.
    pub sessions: &'static str,
    /// The folder of messages.
    pub messages: &'static str,
    /// The folder of parts.
    pub parts: &'static str,
    /// The field of a session that names its parent.
    pub parent: &'static str,
    /// Text before and after the object in a line: of a session, a message and a part.
    pub wraps: [(&'static str, &'static str); 3],
}

/// Names of a folder of tasks: each is a folder of documents, which are rewritten as a whole. A document is a line:
/// `{"type":TYPE,"task":TASK,"root":ROOT,"parent":PARENT,"content":DOCUMENT}`; one that is being written has an empty text in its
/// place.
#[derive(Debug)]
pub struct TaskBundle {
    /// The document about a task.
    pub about: &'static str,
    /// The field of that which names the parent.
    pub parent: &'static str,
    /// The documents of a task that are read, in order, each with the type of its line.
    pub documents: &'static [(&'static str, &'static str)],
}
