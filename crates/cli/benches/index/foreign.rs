//! Sessions of the other harnesses, in addition to those of a history: copies of recordings with ids of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use rusqlite::Connection;
use subscope_testkit::fixtures;

/// Sessions of each harness.
pub(crate) const OF_EACH: usize = 2_000;
/// Sessions in one folder where a harness has one for each day or project.
const A_FOLDER: usize = 40;

const DAY_MS: u64 = 86_400_000;

/// Where the files of a recording are, and where they go.
struct Copied {
    recorded: &'static str,
    /// Below the home; `{}` is the folder of a day or a project.
    to: &'static str,
    /// Whether ids differ in their first characters: the names of files have only those.
    by_head: bool,
}

const COPIED: &[Copied] = &[
    Copied {
        recorded: "codex/0.169.0/v1_two_parallel/sessions/2026/11/21",
        to: ".codex/sessions/2026/{}",
        by_head: false,
    },
    Copied {
        recorded: "copilot/1.0.102/two_parallel/dot_copilot/session-state",
        to: ".copilot/session-state",
        by_head: false,
    },
    Copied {
        recorded: "gemini/0.61.0/two_parallel/dot_gemini_tmp/gemini",
        to: ".gemini/tmp/{}",
        by_head: true,
    },
    Copied {
        recorded: "qwen/0.24.4/two_background/dot_qwen/projects/-home-user-ws-qwen",
        to: ".qwen/projects/{}",
        by_head: false,
    },
];

/// Adds sessions of the other harnesses to a home; returns how many, and the bytes of their files.
pub(crate) fn add(home: &Path) -> (usize, u64) {
    let mut bytes = 0;
    for copied in COPIED {
        let from = fixtures::root().join(copied.recorded);
        let files: Vec<(PathBuf, String)> = fixtures::files_below(&from)
            .into_iter()
            .filter_map(|path| {
                Some((path.strip_prefix(&from).ok()?.to_owned(), fs::read_to_string(&path).ok()?))
            })
            .collect();
        for number in 0..OF_EACH {
            let day = number / A_FOLDER;
            // A year of days; for projects any names do.
            let folder = format!("{:02}/{:02}", day / 28 % 12 + 1, day % 28 + 1);
            let project = if copied.to.contains("sessions") { folder } else { format!("project-{day}") };
            let to = home.join(copied.to.replace("{}", &project));
            for (below, text) in &files {
                let path = to.join(renumbered(&below.display().to_string(), number, copied.by_head));
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                let text = renumbered(text, number, copied.by_head);
                bytes += text.len() as u64;
                fs::write(path, text).expect("a file");
            }
        }
    }
    bytes += add_database(&home.join(".local/share/opencode/opencode.db"));
    (OF_EACH * (COPIED.len() + 1), bytes)
}

/// Makes files as old as those of a history are: of each day of the last year, none of today.
pub(crate) fn age(home: &Path) {
    let now_ms = u64::try_from(subscope_hub::clock::now_ms()).expect("a time after 1970");
    for (number, path) in fixtures::files_below(home).into_iter().enumerate() {
        let days = u64::try_from(number % 365).unwrap_or(0) + 1;
        let file = fs::File::options().append(true).open(path).expect("a file");
        let modified = Duration::from_millis(now_ms - days * DAY_MS);
        file.set_modified(UNIX_EPOCH + modified).expect("a time");
    }
}

/// Returns a text in which each UUID, and each number of milliseconds in an id, is another one.
fn renumbered(text: &str, number: usize, by_head: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('-') {
        let from = at.saturating_sub(8);
        match rest.get(from..from + 36).filter(|id| at >= 8 && is_uuid(id)) {
            Some(id) if by_head => {
                out.push_str(&rest[..from]);
                out.push_str(&format!("{number:08x}{}", &id[8..]));
                rest = &rest[from + 36..];
            }
            Some(id) => {
                out.push_str(&rest[..from]);
                // Ids of one recording differ in their last characters.
                out.push_str(&format!("{}{number:06x}{}", &id[..24], &id[30..]));
                rest = &rest[from + 36..];
            }
            None => {
                out.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out.replace("invoke_agent_1795293", &format!("invoke_agent_{number}"))
        .replace("run_shell_command_1795293", &format!("run_shell_command_{number}"))
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Writes one database of many sessions; returns its bytes.
fn add_database(path: &Path) -> u64 {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::copy(fixtures::root().join("opencode/1.18.33/two_parallel/opencode.db"), path).expect("a copy");
    let mut database = Connection::open(path).expect("a database");
    database.pragma_update(None, "foreign_keys", false).expect("a setting");
    let transaction = database.transaction().expect("a transaction");
    for number in 1..OF_EACH {
        for (table, ids) in [
            ("session", &["id", "parent_id"][..]),
            ("event", &["id", "aggregate_id", "data"]),
            ("message", &["id", "session_id", "data"]),
            ("part", &["id", "message_id", "session_id", "data"]),
        ] {
            let columns: Vec<String> = transaction
                .prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))
                .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
                .expect("columns");
            // Ids end alike in no other copy; the first six characters after their kind are a time.
            let new = |name: &String| match ids.contains(&name.as_str()) {
                true => ["ses_e0", "msg_1f", "prt_1f", "evt_1f"]
                    .iter()
                    .fold(name.clone(), |sql, id| format!("replace({sql}, '{id}', '{id}{number:06x}')")),
                false if name == "slug" => format!("slug || '{number}'"),
                false => name.clone(),
            };
            let values: Vec<String> = columns.iter().map(new).collect();
            let first = "WHERE rowid <= (SELECT max_rowid FROM temp.firsts WHERE name = ";
            let sql = format!(
                "INSERT INTO {table} SELECT {} FROM {table} {first}'{table}') ORDER BY rowid",
                values.join(", ")
            );
            if number == 1 {
                let note = format!(
                    "CREATE TABLE IF NOT EXISTS temp.firsts (name, max_rowid);
                     INSERT INTO temp.firsts SELECT '{table}', max(rowid) FROM {table}"
                );
                transaction.execute_batch(&note).expect("a note");
            }
            transaction.execute(&sql, []).expect("copied rows");
        }
    }
    transaction.commit().expect("a commit");
    fs::metadata(path).expect("a file").len()
}
