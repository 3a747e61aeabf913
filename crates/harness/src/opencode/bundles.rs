//! How the sessions of a database, and of a folder of objects, become lines: the same for all programs of the family.
//!
//! An event is a row that is only ever added; sessions that were copied from an older database have none, and are read
//! from their rows. A line begins with the mark of a fork, so that it is known wherever it is read again.

/// Returns the form of a database. `$mark` is an expression of SQL: what each line begins with, behind its brace.
macro_rules! database {
    ($mark:expr) => {
        $crate::Bundle::Sql($crate::SqlBundle {
            sessions: "SELECT id, parent_id, time_updated FROM session",
            tree: "WITH RECURSIVE tree(id) AS (
                     SELECT ?1
                     UNION SELECT session.id FROM session JOIN tree ON session.parent_id = tree.id)
                   SELECT id, time_updated FROM session JOIN tree USING (id)",
            sizes: &[
                concat!(
                    "SELECT aggregate_id, SUM(octet_length(id) + octet_length(seq) + octet_length(type)
                       + octet_length(data) + 35 + octet_length(",
                    $mark,
                    "))
                     FROM event WHERE aggregate_id IN (SELECT value FROM json_each(?1)) GROUP BY aggregate_id"
                ),
                "SELECT '', 0 WHERE ?1 IS NULL",
            ],
            lengths: &[
                concat!(
                    "SELECT rowid, octet_length(id) + octet_length(seq) + octet_length(type)
                       + octet_length(data) + 35 + octet_length(",
                    $mark,
                    "), aggregate_id
                     FROM event WHERE aggregate_id IN (SELECT value FROM json_each(?1)) ORDER BY rowid"
                ),
                "SELECT 0, 0, '' WHERE ?1 IS NULL",
            ],
            line: &[
                concat!(
                    "SELECT '{' || ",
                    $mark,
                    " || '\"id\":\"' || id || '\",\"seq\":' || seq || ',\"type\":\"' || type || '\",\"data\":' || data || '}'
                     FROM event WHERE rowid = ?1"
                ),
                "SELECT '' WHERE ?1 IS NULL",
            ],
            rows: concat!(
                "SELECT '{' || ",
                $mark,
                " || line FROM (
                   SELECT time_created AS at, 0 AS level, id,
                     '\"id\":\"evt_' || id || '\",\"type\":\"session.updated\",\"data\":{\"info\":' || json_object(
                       'id', id, 'parentID', parent_id, 'directory', directory, 'title', title, 'version', version,
                       'time', json_object('created', time_created, 'updated', time_updated)) || '}}' AS line
                     FROM session WHERE id IN (SELECT value FROM json_each(?1))
                   UNION ALL SELECT time_created, 1, id,
                     '\"id\":\"evt_' || id || '\",\"type\":\"message.updated\",\"data\":{\"info\":'
                       || json_set(data, '$.id', id, '$.sessionID', session_id) || '}}'
                     FROM message WHERE session_id IN (SELECT value FROM json_each(?1))
                   UNION ALL SELECT time_created, 2, id,
                     '\"id\":\"evt_' || id || '\",\"type\":\"message.part.updated\",\"data\":{\"part\":'
                       || json_set(data, '$.id', id, '$.messageID', message_id, '$.sessionID', session_id)
                       || ',\"time\":' || time_updated || '}}'
                     FROM part WHERE session_id IN (SELECT value FROM json_each(?1))
                   ) ORDER BY at, level, id"
            ),
            totals: "SELECT json_object('type', 'session.totals', 'id', id, 'cost', cost, 'input', tokens_input,
                       'output', tokens_output, 'reasoning', tokens_reasoning, 'cache_read', tokens_cache_read,
                       'cache_write', tokens_cache_write)
                     FROM session WHERE id IN (SELECT value FROM json_each(?1))",
            unread: &[("SELECT COUNT(*) FROM session_v2", "OpenCode 2")],
        })
    };
}

/// Returns the form of a folder of objects. `$mark` is what each line begins with, behind its brace.
macro_rules! objects {
    ($mark:expr) => {
        $crate::Bundle::Folders($crate::FolderBundle {
            sessions: "session",
            messages: "message",
            parts: "part",
            parent: "parentID",
            wraps: [
                (
                    concat!(
                        "{",
                        $mark,
                        "\"id\":\"evt_session\",\"type\":\"session.updated\",\"data\":{\"info\":"
                    ),
                    "}}",
                ),
                (
                    concat!(
                        "{",
                        $mark,
                        "\"id\":\"evt_message\",\"type\":\"message.updated\",\"data\":{\"info\":"
                    ),
                    "}}",
                ),
                (
                    concat!(
                        "{",
                        $mark,
                        "\"id\":\"evt_part\",\"type\":\"message.part.updated\",\"data\":{\"part\":"
                    ),
                    "}}",
                ),
            ],
        })
    };
}

pub(super) use {database, objects};
