//! Files in which running processes of a harness note which session they are in.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use subscope_harness::{Harness, ProcessNote, ProcessNotes};

/// Maximum size of a process file.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// Folders of a harness.
pub struct HarnessHome {
    /// The harness.
    pub harness: &'static dyn Harness,
    /// The form and the folder of its process files, where its processes write some.
    pub notes: Option<(&'static dyn ProcessNotes, PathBuf)>,
    /// Folders that its transcripts are below.
    pub roots: Vec<PathBuf>,
}

/// A process file that has not been read.
pub(crate) struct NoteFile {
    /// The process, by the file's name.
    pub(crate) process: i32,
    form: &'static dyn ProcessNotes,
    path: PathBuf,
}

impl HarnessHome {
    /// Returns the process files of the harness.
    pub(crate) fn note_files(&self) -> impl Iterator<Item = NoteFile> {
        self.notes.iter().flat_map(|(form, folder)| {
            fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| {
                let process = form.process(&entry.file_name())?;
                Some(NoteFile { process, form: *form, path: entry.path() })
            })
        })
    }
}

impl NoteFile {
    /// Returns when the file was last written; `None` if it is gone.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        fs::symlink_metadata(&self.path).and_then(|metadata| metadata.modified()).ok()
    }

    /// Reads the note; `None` if the file is none, is just being written, or names another process.
    pub(crate) fn read(&self) -> Option<ProcessNote> {
        let note = self.form.read(&read(&self.path)?)?;
        (note.process == self.process).then_some(note)
    }
}

/// Returns the content of a process file; `None` if it is too long to be one.
fn read(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_NOTE_BYTES {
        return None;
    }
    fs::read(path).ok()
}
