//! The record of one iteration: a folder whose files are written as things happen, so that it is readable whatever ends us.
//!
//! `<session8>_<UTC time>_<name>/` with `stdout.log`, `stderr.log` (the bytes), `posted.jsonl` (events of descendants, where
//! there were any), `trace.json` (written anew now and then, whole each time) and `meta.json`. Until the session is known the
//! run's own id stands in its place; then the folder is renamed. Only an id's letters and digits get into a name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use subscope_export::write_trace;
use subscope_model::{Millis, Trace};

use crate::RunError;

/// The version of [`Meta`].
pub const SCHEMA: &str = "subscope.iteration/1";
/// Where iterations are recorded, in the folder that the command was given in.
pub const FOLDER: &str = ".subscope/iterations";
/// The files of a record.
pub const STDOUT: &str = "stdout.log";
/// The child's standard error.
pub const STDERR: &str = "stderr.log";
/// What descendants posted.
pub const POSTED: &str = "posted.jsonl";
/// The lifecycle trace.
pub const TRACE: &str = "trace.json";
/// What is known of the iteration.
pub const META: &str = "meta.json";
/// The longest name that becomes a part of a path.
const NAME_LETTERS: usize = 60;

/// How an iteration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its command runs.
    Running,
    /// Its command ended with 0.
    Completed,
    /// Its command ended otherwise.
    Failed,
    /// Whoever recorded it was ended before its command: what there is was seen until then.
    Cut,
}

/// What is known of an iteration: `meta.json`, and a row of `subscope.iterations/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run that it is of.
    pub run: String,
    /// Its number, from 1.
    pub iteration: u32,
    /// How many were asked for, where a number was.
    pub of: Option<u32>,
    /// The name that was given, else the command's.
    pub name: String,
    /// The command, as it was started.
    pub command: Vec<String>,
    /// The folder that it was started in.
    pub cwd: String,
    /// The harness's session, once it is known.
    pub session_id: Option<String>,
    /// How it stands.
    pub status: State,
    /// The exit code, once it has ended; 128 and the number of a signal.
    pub exit_code: Option<i32>,
    /// When it began.
    pub started_at_ms: Millis,
    /// When it ended.
    pub ended_at_ms: Option<Millis>,
    /// The process that records it.
    pub pid: u32,
}

impl Meta {
    /// Reads the note of a folder; `None` where it is no record. One whose recorder is gone is [`State::Cut`].
    pub fn read(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join(META)).ok()?;
        let mut meta: Self = serde_json::from_slice(&bytes).ok()?;
        if meta.schema != SCHEMA {
            return None;
        }
        if meta.status == State::Running && !is_running(meta.pid) {
            meta.status = State::Cut;
        }
        Some(meta)
    }
}

fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// Returns the name of a record's folder.
pub fn folder_name(session: &str, stamp: &str, name: &str) -> String {
    let session: String = session.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
        .take(NAME_LETTERS)
        .collect();
    let name = name.trim_start_matches('.');
    format!("{session}_{stamp}_{}", if name.is_empty() { "run" } else { name })
}

/// Where the folder is now: it is renamed once.
type Place = Arc<Mutex<PathBuf>>;

/// An iteration that is being recorded.
#[derive(Debug)]
pub struct Record {
    place: Place,
    base: PathBuf,
    /// When it began, in UTC, as a part of a name.
    stamp: String,
    /// What is known of it.
    pub meta: Meta,
}

/// Writes posted events down; the file is made with the first.
#[derive(Debug)]
pub struct EventsLog {
    place: Place,
    file: Option<File>,
}

impl EventsLog {
    /// Adds lines. A file that cannot be written to loses them; they are shown and kept elsewhere all the same.
    pub(crate) fn write(&mut self, lines: &[u8]) {
        if self.file.is_none() {
            let path = self.place.lock().unwrap_or_else(PoisonError::into_inner).join(POSTED);
            self.file = append(&path).ok();
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(lines);
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn wrong(path: &Path) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Record { path, source }
}

impl Record {
    /// Begins a record below `base`. `stamp` is the time in UTC, as a part of a name.
    ///
    /// # Errors
    /// Where the folder cannot be made or written to.
    pub fn begin(base: &Path, stamp: &str, meta: Meta) -> Result<Self, RunError> {
        fs::create_dir_all(base).map_err(wrong(base))?;
        let name = folder_name(&meta.run, stamp, &meta.name);
        let mut number = 1;
        let folder = loop {
            let folder = base.join(numbered(&name, number));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(wrong(&folder)(error)),
            }
        };
        let place = Arc::new(Mutex::new(folder));
        let record = Self { place, base: base.to_owned(), stamp: stamp.to_owned(), meta };
        record.write_meta()?;
        Ok(record)
    }

    /// Where it stands now.
    pub fn folder(&self) -> PathBuf {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens one of its files.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn file(&self, name: &str) -> Result<File, RunError> {
        let path = self.folder().join(name);
        append(&path).map_err(wrong(&path))
    }

    /// What posted events are written to.
    pub fn events_log(&self) -> EventsLog {
        EventsLog { place: Arc::clone(&self.place), file: None }
    }

    /// Notes the session, and names the folder by it.
    ///
    /// # Errors
    /// Where the note cannot be written.
    pub fn set_session(&mut self, session: &str) -> Result<(), RunError> {
        if self.meta.session_id.as_deref() == Some(session) {
            return Ok(());
        }
        let is_first = self.meta.session_id.replace(session.to_owned()).is_none();
        if is_first {
            let name = folder_name(session, &self.stamp, &self.meta.name);
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            let free =
                (1..).map(|number| self.base.join(numbered(&name, number))).find(|path| !path.exists());
            // One that cannot be renamed keeps its name.
            if let Some(folder) = free
                && fs::rename(&*place, &folder).is_ok()
            {
                *place = folder;
            }
        }
        self.write_meta()
    }

    /// Writes the trace, whole: who reads it meanwhile reads the one before.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write_trace(&self, trace: &Trace) -> Result<(), RunError> {
        self.replace(TRACE, |out| write_trace(trace, out))
    }

    /// Notes how it ended.
    ///
    /// # Errors
    /// Where the note cannot be written.
    pub fn finish(&mut self, exit_code: i32, now: Millis) -> Result<(), RunError> {
        self.meta.exit_code = Some(exit_code);
        self.meta.ended_at_ms = Some(now);
        self.meta.status = if exit_code == 0 { State::Completed } else { State::Failed };
        self.write_meta()
    }

    fn write_meta(&self) -> Result<(), RunError> {
        self.replace(META, |out| {
            serde_json::to_writer_pretty(&mut *out, &self.meta)?;
            out.write_all(b"\n")
        })
    }

    fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), RunError> {
        let path = self.folder().join(name);
        let temporary = path.with_extension("json.new");
        let written = File::create(&temporary).and_then(|mut file| write(&mut file));
        written.and_then(|()| fs::rename(&temporary, &path)).map_err(wrong(&path))
    }
}

fn numbered(name: &str, number: u32) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// Returns the records below a folder, the newest first.
pub fn list(base: &Path) -> Vec<(PathBuf, Meta)> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, Meta)> =
        entries.filter_map(|entry| Some((entry.path(), Meta::read(&entry.path())?))).collect();
    found.sort_by(|(left, a), (right, b)| {
        (b.started_at_ms, b.iteration, right).cmp(&(a.started_at_ms, a.iteration, left))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            schema: SCHEMA.to_owned(),
            run: "0123abcd".to_owned(),
            iteration: 1,
            of: Some(2),
            name: "beads-123/sub:test".to_owned(),
            command: vec!["sh".to_owned()],
            cwd: "/".to_owned(),
            session_id: None,
            status: State::Running,
            exit_code: None,
            started_at_ms: 1,
            ended_at_ms: None,
            pid: std::process::id(),
        }
    }

    #[test]
    fn names_of_folders_hold_nothing_that_means_something_in_a_path() {
        let stamp = "2024-01-15_10-30-45";
        let name = folder_name("a1b2c3d4-e5f6-7890", stamp, "beads-123/sub:test");
        assert_eq!(name, "a1b2c3d4_2024-01-15_10-30-45_beads-123-sub-test");
        assert_eq!(folder_name("../../x", stamp, "../.."), format!("x_{stamp}_-.."));
        assert_eq!(folder_name("", stamp, "\u{202e}\n"), format!("_{stamp}_--"));
        assert_eq!(folder_name("a", stamp, ""), format!("a_{stamp}_run"));
    }

    #[test]
    fn record_is_named_by_its_session_and_two_of_one_moment_stand_side_by_side() {
        let base = tempfile::tempdir().unwrap();
        let mut first = Record::begin(base.path(), "t", meta()).unwrap();
        let second = Record::begin(base.path(), "t", meta()).unwrap();
        assert_ne!(first.folder(), second.folder());
        let mut log = first.events_log();
        first.set_session("5e551011-x").unwrap();
        log.write(b"{}\n");
        assert!(first.folder().ends_with("5e551011_t_beads-123-sub-test"), "{:?}", first.folder());
        assert_eq!(fs::read(first.folder().join(POSTED)).unwrap(), b"{}\n");
        assert_eq!(Meta::read(&first.folder()).unwrap().status, State::Running);
        first.finish(3, 9).unwrap();
        let read = Meta::read(&first.folder()).unwrap();
        assert_eq!((read.status, read.exit_code), (State::Failed, Some(3)));
        assert_eq!(list(base.path()).len(), 2);
    }

    #[test]
    fn record_of_a_process_that_is_gone_was_cut() {
        let base = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let record = Record::begin(base.path(), "t", Meta { pid: gone.id(), ..meta() }).unwrap();
        assert_eq!(Meta::read(&record.folder()).unwrap().status, State::Cut);
    }
}
