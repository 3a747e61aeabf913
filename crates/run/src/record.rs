//! Record of an iteration: a folder of files that are written incrementally, so that it is readable after a crash.
//!
//! `<session8>_<UTC time>_<name>/` with `stdout.log`, `stderr.log` (raw bytes), `posted.jsonl` and `otlp.jsonl` (events
//! and OpenTelemetry records of child processes, if any), `acp.jsonl` (messages of an agent and its client), `trace.json`
//! (rewritten from time to time) and `meta.json`. The folder is named by the run's id until the session is known, then
//! renamed. Only letters and digits of an id are used in the name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use subscope_export::{
    iteration::{META, TRACE},
    write_trace,
};
use subscope_model::{IterationMeta, IterationStatus, Millis, Trace};

use crate::{CommandRunError, post_relay::PostLogs};

/// The child's standard output.
pub const STDOUT: &str = "stdout.log";
/// The child's standard error.
pub const STDERR: &str = "stderr.log";
/// Messages of an agent and its client, with their directions and times.
pub const ACP: &str = "acp.jsonl";
/// Events posted by child processes.
pub const POSTED: &str = "posted.jsonl";
/// OpenTelemetry records posted by child processes.
pub const OTLP: &str = "otlp.jsonl";
/// Maximum length of the name in a folder name.
const MAX_NAME_CHARACTERS: usize = 60;

/// Returns the folder name of a record.
pub fn folder_name(session: &str, stamp: &str, name: &str) -> String {
    let session: String = session.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
        .take(MAX_NAME_CHARACTERS)
        .collect();
    let name = name.trim_start_matches('.');
    format!("{session}_{stamp}_{}", if name.is_empty() { "run" } else { name })
}

/// Current path of the folder, which is renamed once.
type FolderPath = Arc<Mutex<PathBuf>>;

/// Record of a running iteration.
#[derive(Debug)]
pub struct Record {
    folder: FolderPath,
    base: PathBuf,
    /// Start time in UTC, formatted for the folder name.
    stamp: String,
    /// Metadata.
    pub meta: IterationMeta,
}

/// Writer of what was posted; the file is created with the first lines.
#[derive(Debug)]
pub struct PostLog {
    folder: FolderPath,
    name: &'static str,
    file: Option<File>,
}

impl PostLog {
    /// Appends lines, best effort: they are stored and shown elsewhere too.
    pub(crate) fn write(&mut self, lines: &[u8]) {
        if self.file.is_none() {
            let path = self.folder.lock().unwrap_or_else(PoisonError::into_inner).join(self.name);
            self.file = open_append(&path).ok();
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(lines);
        }
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn record_error(path: &Path) -> impl FnOnce(io::Error) -> CommandRunError {
    let path = path.to_owned();
    move |source| CommandRunError::Record { path, source }
}

impl Record {
    /// Creates a record below `base`. `stamp` is the UTC time for the folder name.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn begin(base: &Path, stamp: &str, meta: IterationMeta) -> Result<Self, CommandRunError> {
        // Records hold what the command printed: for this user alone, whatever the umask is.
        let private = |is_recursive| {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(is_recursive);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder
        };
        private(true).create(base).map_err(record_error(base))?;
        let name = folder_name(&meta.run, stamp, &meta.name);
        let mut number = 1;
        let folder = loop {
            let folder = base.join(numbered(&name, number));
            match private(false).create(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(record_error(&folder)(error)),
            }
        };
        let folder = Arc::new(Mutex::new(folder));
        let record = Self { folder, base: base.to_owned(), stamp: stamp.to_owned(), meta };
        record.write_meta()?;
        Ok(record)
    }

    /// Returns the current path.
    pub fn folder(&self) -> PathBuf {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens one of its files for appending.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn file(&self, name: &str) -> Result<File, CommandRunError> {
        let path = self.folder().join(name);
        open_append(&path).map_err(record_error(&path))
    }

    /// Returns the writers of what is posted.
    pub fn post_logs(&self) -> PostLogs {
        PostLogs { events: self.log(POSTED), records: self.log(OTLP) }
    }

    /// Returns the writer of messages over the Agent Client Protocol.
    pub fn acp_log(&self) -> PostLog {
        self.log(ACP)
    }

    fn log(&self, name: &'static str) -> PostLog {
        PostLog { folder: Arc::clone(&self.folder), name, file: None }
    }

    /// Sets the session; the first one renames the folder.
    ///
    /// # Errors
    /// The metadata cannot be written.
    pub fn set_session(&mut self, session: &str) -> Result<(), CommandRunError> {
        if self.meta.session_id.as_deref() == Some(session) {
            return Ok(());
        }
        let is_first = self.meta.session_id.replace(session.to_owned()).is_none();
        if is_first {
            let name = folder_name(session, &self.stamp, &self.meta.name);
            let mut current = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
            let free =
                (1..).map(|number| self.base.join(numbered(&name, number))).find(|path| !path.exists());
            // If renaming fails the folder keeps its name.
            if let Some(folder) = free
                && fs::rename(&*current, &folder).is_ok()
            {
                *current = folder;
            }
        }
        self.write_meta()
    }

    /// Replaces the trace atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_trace(&self, trace: &Trace) -> Result<(), CommandRunError> {
        self.replace(TRACE, |out| write_trace(trace, out))
    }

    /// Records the end.
    ///
    /// # Errors
    /// The metadata cannot be written.
    pub fn finish(&mut self, exit_code: i32, now: Millis) -> Result<(), CommandRunError> {
        self.meta.exit_code = Some(exit_code);
        self.meta.ended_at_ms = Some(now);
        self.meta.status = if exit_code == 0 { IterationStatus::Completed } else { IterationStatus::Failed };
        self.write_meta()
    }

    fn write_meta(&self) -> Result<(), CommandRunError> {
        self.replace(META, |out| {
            serde_json::to_writer_pretty(&mut *out, &self.meta)?;
            out.write_all(b"\n")
        })
    }

    fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CommandRunError> {
        let path = self.folder().join(name);
        let temporary = path.with_extension("json.new");
        let written = File::create(&temporary).and_then(|mut file| write(&mut file));
        written.and_then(|()| fs::rename(&temporary, &path)).map_err(record_error(&path))
    }
}

fn numbered(name: &str, number: u32) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

#[cfg(test)]
mod tests {
    use subscope_export::iteration::{list, read_meta};

    use super::*;

    fn meta() -> IterationMeta {
        IterationMeta {
            schema: subscope_model::ITERATION_SCHEMA.to_owned(),
            run: "0123abcd".to_owned(),
            iteration: 1,
            of: Some(2),
            name: "beads-123/sub:test".to_owned(),
            command: vec!["sh".to_owned()],
            cwd: "/".to_owned(),
            session_id: None,
            status: IterationStatus::Running,
            exit_code: None,
            started_at_ms: 1,
            ended_at_ms: None,
            pid: std::process::id(),
        }
    }

    #[test]
    fn folder_names_are_safe_in_paths() {
        let stamp = "2024-01-15_10-30-45";
        let name = folder_name("a1b2c3d4-e5f6-7890", stamp, "beads-123/sub:test");
        assert_eq!(name, "a1b2c3d4_2024-01-15_10-30-45_beads-123-sub-test");
        assert_eq!(folder_name("../../x", stamp, "../.."), format!("x_{stamp}_-.."));
        assert_eq!(folder_name("", stamp, "\u{202e}\n"), format!("_{stamp}_--"));
        assert_eq!(folder_name("a", stamp, ""), format!("a_{stamp}_run"));
    }

    #[test]
    fn record_is_named_by_its_session_and_names_are_unique() {
        let base = tempfile::tempdir().unwrap();
        let mut first = Record::begin(base.path(), "t", meta()).unwrap();
        let second = Record::begin(base.path(), "t", meta()).unwrap();
        assert_ne!(first.folder(), second.folder());
        let mut log = first.post_logs().events;
        first.set_session("5e551011-x").unwrap();
        log.write(b"{}\n");
        assert!(first.folder().ends_with("5e551011_t_beads-123-sub-test"), "{:?}", first.folder());
        assert_eq!(fs::read(first.folder().join(POSTED)).unwrap(), b"{}\n");
        assert_eq!(read_meta(&first.folder()).unwrap().status, IterationStatus::Running);
        first.finish(3, 9).unwrap();
        let read = read_meta(&first.folder()).unwrap();
        assert_eq!((read.status, read.exit_code), (IterationStatus::Failed, Some(3)));
        assert_eq!(list(&[base.path().to_owned()]).len(), 2);
    }
}
