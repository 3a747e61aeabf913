//! Codex's rollouts: `sessions/YYYY/MM/DD/rollout-<local start>-<thread>.jsonl`, one for each thread, children next to
//! their parents, and `archived_sessions/`. Codex may compress those of idle threads: `….jsonl.zst`.
//!
//! Observed: 0.118.0 and 0.169.0. The first line names the thread, its parent and, since versions after 0.118, the root;
//! before them the root is found by the chain of parents. A resumed session continues in the root's file, and its new
//! children are in the folders of their day.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use serde::Deserialize;
use subscope_decode::lenient::Str;
use subscope_model::iso8601;

use super::ROLLOUT;
use crate::{Place, Role, SessionFiles};

/// The variable that moves its files.
pub(super) const HOME_VARIABLE: &str = "CODEX_HOME";
/// The folder of its files below the user's home otherwise.
pub(super) const HOME_FOLDER: &str = ".codex";
/// The folder of rollouts, in folders of days.
const DAYS: &str = "sessions";
/// The folder of rollouts of archived threads.
const ARCHIVED: &str = "archived_sessions";
/// Folders of rollouts.
pub(super) const FOLDERS: [&str; 2] = [DAYS, ARCHIVED];
/// Suffix of the names of rollouts that Codex has compressed.
const PACKED: &str = ".zst";
/// Most bytes read of a first line: a project's instructions come after the fields that name the thread.
const HEAD_BYTES: u64 = 64 * 1024;
/// How many parents are followed to the root.
const MOST_DEPTH: usize = 32;

/// The fields of a first line by which a rollout is placed.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Head<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    payload: Meta<'a>,
    /// The thread, in versions before 0.32, which write no envelope.
    id: Str<'a>,
}

/// The fields of `session_meta` that place a thread in its session.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Meta<'a> {
    pub(super) id: Str<'a>,
    session_id: Str<'a>,
    parent_thread_id: Str<'a>,
    pub(super) agent_path: Str<'a>,
    pub(super) agent_nickname: Str<'a>,
    pub(super) agent_role: Str<'a>,
    pub(super) source: Source<'a>,
    pub(super) originator: Str<'a>,
    pub(super) model_provider: Str<'a>,
}

/// What started a thread: a word, or an object for a subagent.
#[derive(Default)]
pub(super) struct Source<'a> {
    pub(super) spawn: Option<ThreadSpawn<'a>>,
    /// Whether Codex started it for a purpose of its own, as its guardian.
    is_own: bool,
    /// Whether `codex exec` started it.
    is_exec: bool,
}

/// Editors that have titles made by `codex exec`.
const EDITORS: &[&str] = &["codex_vscode", "Codex Desktop"];
/// Purposes of Codex's own threads, besides those that it calls `other`.
const OWN_THREADS: &[&str] = &["compact", "memory_consolidation"];

impl<'de: 'a, 'a> Deserialize<'de> for Source<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&serde_json::value::RawValue>::deserialize(deserializer)?;
        let word: Str<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let object: SourceObject<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let of_subagent = object.subagent.map_or("", serde_json::value::RawValue::get);
        let purpose: Str<'_> = serde_json::from_str(of_subagent).unwrap_or_default();
        let subagent: SubagentSource<'a> = serde_json::from_str(of_subagent).unwrap_or_default();
        Ok(Self {
            spawn: subagent.thread_spawn,
            is_own: subagent.other.filled().is_some() || OWN_THREADS.iter().any(|own| purpose.is(own)),
            is_exec: word.is("exec"),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SourceObject<'a> {
    #[serde(borrow)]
    subagent: Option<&'a serde_json::value::RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SubagentSource<'a> {
    thread_spawn: Option<ThreadSpawn<'a>>,
    other: Str<'a>,
}

/// The spawn of a thread.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ThreadSpawn<'a> {
    pub(super) parent_thread_id: Str<'a>,
    pub(super) agent_path: Str<'a>,
    pub(super) agent_nickname: Str<'a>,
    pub(super) agent_role: Str<'a>,
}

impl Meta<'_> {
    /// The thread that started this one; `None` for a root.
    pub(super) fn parent(&self) -> Option<&str> {
        let by_source = || self.source.spawn.as_ref().and_then(|spawn| spawn.parent_thread_id.filled());
        self.parent_thread_id.filled().or_else(by_source)
    }

    /// Whether Codex or an editor started the thread for a purpose of its own: it checks calls, makes a title.
    pub(super) fn is_own(&self) -> bool {
        let is_of_editor = self.originator.get().is_some_and(|by| EDITORS.contains(&by));
        self.parent().is_none() && (self.source.is_own || self.source.is_exec && is_of_editor)
    }

    /// The root of the tree, where the line names it.
    pub(super) fn root(&self) -> Option<&str> {
        let by_id = || self.parent().is_none().then(|| self.id.filled())?;
        self.session_id.filled().or_else(by_id)
    }
}

/// Returns the thread that a rollout's name ends with.
pub(super) fn thread_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_prefix("rollout-")?;
    let stem = name.strip_suffix(PACKED).unwrap_or(name).strip_suffix(".jsonl")?;
    let thread = stem.get(stem.len().checked_sub(36)?..)?;
    is_uuid(thread).then_some(thread)
}

/// Returns the thread of a rollout of the CLI of spring 2025, one object in a `.json` file: known, but not read.
fn thread_of_object(path: &Path) -> Option<&str> {
    let stem = path.file_name()?.to_str()?.strip_prefix("rollout-")?.strip_suffix(".json")?;
    let thread = stem.get(stem.len().checked_sub(36)?..)?;
    is_uuid(thread).then_some(thread)
}

/// Classifies a file by its name.
pub(super) fn classify(path: &Path) -> Option<Place> {
    let object = || thread_of_object(path).map(|thread| Place { dialect: None, ..unread(thread) });
    thread_of(path).map(unread).or_else(object)
}

pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A rollout whose first line was not read: it may be a root's.
fn unread(thread: &str) -> Place {
    Place {
        role: Role::Agent,
        dialect: Some(ROLLOUT),
        session: None,
        agent: Some(thread.to_owned()),
        workflow: None,
    }
}

fn main_place(session: &str) -> Place {
    Place { role: Role::Main, session: Some(session.to_owned()), agent: None, ..unread(session) }
}

/// Completes the place of a rollout by its first line, which may be cut.
pub(super) fn complete(path: &Path, line: &[u8]) -> Option<Place> {
    let text = String::from_utf8_lossy(line);
    let (thread, root) = with_head(&text, |meta| {
        let root = match meta.root() {
            Some(root) => root.to_owned(),
            None => root_by_chain(path, meta.parent()?)?,
        };
        Some((meta.id.filled()?.to_owned(), root))
    })?;
    if thread == root {
        return Some(main_place(&root));
    }
    Some(Place { session: Some(root), ..unread(&thread) })
}

/// Reads the head of a first line: whole, or the fields before the instructions that make it long.
fn with_head<T>(text: &str, each: impl FnOnce(&Meta<'_>) -> Option<T>) -> Option<T> {
    let cut = || {
        let long = |name: &str| text.find(&format!(",\"{name}\":"));
        match long("base_instructions") {
            Some(fields) => Some(format!("{}}}}}", &text[..fields])),
            None => Some(format!("{}}}", &text[..long("instructions")?])),
        }
    };
    let owned;
    let head: Head<'_> = match serde_json::from_str(text) {
        Ok(head) => head,
        Err(_) => {
            owned = cut()?;
            serde_json::from_str(&owned).ok()?
        }
    };
    match head.kind.get() {
        Some("session_meta") => each(&head.payload),
        None if head.id.filled().is_some() => each(&Meta { id: head.id, ..Meta::default() }),
        Some(_) | None => None,
    }
}

/// Returns the first line of a rollout, or the beginning of a long one.
fn first_line(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let is_packed = path.extension().is_some_and(|ending| PACKED.strip_prefix('.') == ending.to_str());
    let mut line = Vec::new();
    if is_packed {
        let content = zstd::stream::read::Decoder::new(file).ok()?;
        BufReader::new(content).take(HEAD_BYTES).read_until(b'\n', &mut line).ok()?;
    } else {
        BufReader::new(file).take(HEAD_BYTES).read_until(b'\n', &mut line).ok()?;
    }
    Some(line)
}

/// Returns the root above a thread of 0.118: each parent's rollout names its own parent.
fn root_by_chain(path: &Path, parent: &str) -> Option<String> {
    let mut at = parent.to_owned();
    for _ in 0..MOST_DEPTH {
        let Some(rollout) = find(path.parent()?, &at) else { return Some(at) };
        let line = first_line(&rollout)?;
        match with_head(&String::from_utf8_lossy(&line), |meta| Some(meta.parent().map(str::to_owned)))? {
            Some(parent) => at = parent,
            None => return Some(at),
        }
    }
    None
}

/// Returns the rollout of a thread: in a folder, else in the folders of the days around its start.
pub(super) fn find(folder: &Path, thread: &str) -> Option<PathBuf> {
    let started = started_ms(thread);
    let sessions = sessions_near(folder);
    let days = sessions.as_ref().map(|sessions| days(sessions, started, started)).unwrap_or_default();
    let archived = sessions.map(|sessions| sessions.with_file_name(ARCHIVED));
    let folders = [folder.to_owned()].into_iter().chain(days).chain(archived);
    folders.into_iter().find_map(|folder| {
        let entries = fs::read_dir(folder).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| thread_of(path) == Some(thread))
    })
}

/// Returns the folder of all days: above a folder of one day, or next to the folder of archived threads.
fn sessions_near(folder: &Path) -> Option<PathBuf> {
    if folder.file_name().is_some_and(|name| name == ARCHIVED) {
        return Some(folder.with_file_name(DAYS));
    }
    let above = folder.ancestors().nth(3)?;
    above.file_name().is_some_and(|name| name == DAYS).then(|| above.to_owned())
}

/// Returns when a thread was made, in milliseconds since 1970: its id begins with that time.
fn started_ms(thread: &str) -> Option<i64> {
    let digits: String = thread.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    i64::from_str_radix(&digits, 16).ok()
}

/// Returns the folders of days from a time until another, and of a day before and after: their names are of local days.
/// All of them where a time is not known.
fn days(sessions: &Path, from_ms: Option<i64>, until_ms: Option<i64>) -> Vec<PathBuf> {
    const DAY_MS: i64 = 86_400_000;
    let date = |ms: i64| iso8601(ms).chars().take(10).collect::<String>();
    let first = from_ms.map(|ms| date(ms - DAY_MS));
    let last = until_ms.map(|ms| date(ms + DAY_MS));
    let named = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
            .collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for (year, in_year) in named(sessions) {
        for (month, in_month) in named(&in_year) {
            for (day, folder) in named(&in_month) {
                let date = format!("{year}-{month}-{day}");
                let is_between = first.as_ref().is_none_or(|first| *first <= date)
                    && last.as_ref().is_none_or(|last| date <= *last);
                if is_between && folder.is_dir() {
                    found.push(folder);
                }
            }
        }
    }
    found.sort();
    found
}

/// Returns the files of a session, given one of its rollouts. The root's own may be missing: it is on another machine.
pub(super) fn files(path: &Path, session: &str) -> SessionFiles {
    let folder = path.parent().unwrap_or(path);
    let is_main = thread_of(path) == Some(session);
    let missing = || folder.join(format!("rollout-{session}.jsonl"));
    let main = if is_main { path.to_owned() } else { find(folder, session).unwrap_or_else(missing) };
    let home = main.parent().unwrap_or(folder).to_owned();
    // Children begin while the root is being written.
    let written = fs::metadata(&main).and_then(|metadata| metadata.modified()).ok();
    let until =
        written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|since: Duration| since.as_millis());
    let started = started_ms(session);
    // A copy may have another time than the original: then search all days.
    let until =
        until.and_then(|ms| i64::try_from(ms).ok()).filter(|ms| started.is_none_or(|from| from <= *ms));
    let mut shared = sessions_near(&home).map(|sessions| days(&sessions, started, until)).unwrap_or_default();
    for folder in [home.as_path(), folder] {
        if !shared.iter().any(|known| known == folder) {
            shared.push(folder.to_owned());
        }
    }
    SessionFiles {
        session: session.to_owned(),
        main,
        place: main_place(session),
        folders: Vec::new(),
        shared,
    }
}

/// Returns the session that a rollout belongs to, by its first line.
pub(super) fn session_at(path: &Path) -> Option<String> {
    complete(path, &first_line(path)?)?.session
}

/// Returns the rollouts of a root below a folder of rollouts.
pub(super) fn rollouts_of(root: &Path, session: &str) -> Vec<PathBuf> {
    let started = started_ms(session);
    let folders = [root.to_owned()].into_iter().chain(days(root, started, started));
    let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    files.map(|entry| entry.path()).filter(|path| thread_of(path) == Some(session)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_the_end_of_a_rollouts_name() {
        let thread = "01a1ffd0-c11c-7d71-9e82-986856b9c6d4";
        let path = format!("/x/rollout-2026-11-21T20-33-53-{thread}.jsonl");
        assert_eq!(thread_of(Path::new(&path)), Some(thread));
        assert_eq!(thread_of(Path::new(&format!("{path}.zst"))), Some(thread));
        assert_eq!(started_ms(thread).map(|ms| ms / 86_400_000), Some(20_778));
        for none in ["/x/rollout-1.jsonl", "/x/history.jsonl", "rollout-.jsonl", "/"] {
            assert_eq!(thread_of(Path::new(none)), None, "{none}");
            assert_eq!(classify(Path::new(none)), None, "{none}");
        }
        let object = classify(Path::new(&format!("/x/rollout-2025-05-01-{thread}.json"))).unwrap();
        assert_eq!((object.role, object.dialect, object.session), (Role::Agent, None, None));
    }
}
