//! Checkpoints on disk: a folder with `checkpoint.json` and `metadata.json` (requirement 5.2).
//!
//! Each file is replaced whole: written beside its place, synced, renamed. A crash leaves the old file or the new
//! one, never a part. Both are on the disk before either is renamed, so the moment at which one is new and the
//! other old is as short as two renames.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use subscope_model::{CHECKPOINT_VERSION, Checkpoint, CheckpointMetadata};

/// The name of the file with the traces.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// The name of the file that says what the checkpoint is of.
pub const METADATA_FILE: &str = "metadata.json";

/// The greatest file that is read. The largest real sessions give some 100 MB; what is greater is not a checkpoint,
/// and reading it would only fill the memory.
const FILE_LIMIT_BYTES: u64 = 1 << 30;

/// Why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The folder could not be made or synced.
    #[error("cannot prepare the folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written; the former one is untouched.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file's place.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a checkpoint was not read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is greater than any checkpoint.
    #[error("{} is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The greatest size that is read.
        limit_bytes: u64,
    },
    /// A file is not what it should be.
    #[error("{}:{line}: not a valid {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 where none can be named.
        line: usize,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The checkpoint does not say its version.
    #[error("{}: no version; only {supported:?} can be read", path.display())]
    NoVersion {
        /// The file.
        path: PathBuf,
        /// The version that can be read.
        supported: &'static str,
    },
    /// The checkpoint is of another version.
    #[error("{}: version {found:?} is not supported; only {supported:?} can be read", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The version that can be read.
        supported: &'static str,
    },
}

/// Writes a checkpoint and what it is of into `folder`, which is made if it is not there. Former files are replaced.
///
/// On return both files and their names are on the disk.
///
/// # Errors
/// Names the folder or file and what the system said. A file that could not be replaced is as it was before.
pub fn write_checkpoint(
    folder: &Path,
    checkpoint: &Checkpoint,
    metadata: &CheckpointMetadata,
) -> Result<(), SaveError> {
    let folder_error = |source| SaveError::Folder { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(folder_error)?;
    let metadata = Staged::write(folder, METADATA_FILE, metadata)?;
    let checkpoint = Staged::write(folder, CHECKPOINT_FILE, checkpoint)?;
    metadata.place()?;
    checkpoint.place()?;
    sync_folder(folder).map_err(folder_error)
}

/// Makes the renames in a folder last. Elsewhere than on Unix a folder cannot be opened, and the system does it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A file that is on the disk, but not yet under its name. Dropped without [`Staged::place`] it is removed.
struct Staged {
    temporary: PathBuf,
    path: PathBuf,
    placed: bool,
}

impl Staged {
    fn write<T: Serialize>(folder: &Path, name: &str, value: &T) -> Result<Self, SaveError> {
        /// Tells apart the files that one process writes at a time; the process id those of several.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = folder.join(name);
        let error = |source| SaveError::Write { path: path.clone(), source };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        // A leftover of a crashed process with the same id is nobody's. It is removed and not written over: what
        // stands there may be a link to somebody's file.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(error)?;
        let staged = Self { temporary, path: path.clone(), placed: false };
        write_value(file, value).map_err(error)?;
        Ok(staged)
    }

    fn place(mut self) -> Result<(), SaveError> {
        let renamed = fs::rename(&self.temporary, &self.path);
        self.placed = renamed.is_ok();
        renamed.map_err(|source| SaveError::Write { path: self.path.clone(), source })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed {
            // Nothing is lost if this fails: the file has a name that nobody reads.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn write_value<T: Serialize>(file: File, value: &T) -> io::Result<()> {
    let mut buffer = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut buffer, value)?;
    buffer.write_all(b"\n")?;
    buffer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Reads a checkpoint from its folder or from its file, with `metadata.json` where it stands beside a file named
/// `checkpoint.json`.
///
/// # Errors
/// Names the file and what is wrong with it: unreadable, too large, not a checkpoint (with the line), or of another
/// version than [`CHECKPOINT_VERSION`]. Damaged metadata is an error too, and never taken for missing.
pub fn read_checkpoint(path: &Path) -> Result<(Checkpoint, Option<CheckpointMetadata>), ImportError> {
    let file = if path.is_dir() { path.join(CHECKPOINT_FILE) } else { path.to_owned() };
    let bytes = read_file(&file)?;
    // The version is looked at first: the rest of another version may not be readable at all.
    let probe: Probe = parse(&file, "checkpoint", &bytes)?;
    match probe.version {
        None => return Err(ImportError::NoVersion { path: file, supported: CHECKPOINT_VERSION }),
        Some(version) if version.as_str() != Some(CHECKPOINT_VERSION) => {
            let found = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
            return Err(ImportError::Version { path: file, found, supported: CHECKPOINT_VERSION });
        }
        Some(_) => {}
    }
    let checkpoint = parse(&file, "checkpoint", &bytes)?;
    let beside = file.with_file_name(METADATA_FILE);
    // `metadata.json` is a common name: beside a file of any other name it is likely to be somebody else's.
    let is_ours = file.file_name().is_some_and(|name| name == CHECKPOINT_FILE) && beside.exists();
    let metadata =
        if is_ours { Some(parse(&beside, "checkpoint metadata", &read_file(&beside)?)?) } else { None };
    Ok((checkpoint, metadata))
}

/// The only field that every version must have.
#[derive(Deserialize)]
struct Probe {
    #[serde(default)]
    version: Option<serde_json::Value>,
}

fn read_file(path: &Path) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LIMIT_BYTES + 1).read_to_end(&mut bytes));
    let length = read.map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
    if u64::try_from(length).unwrap_or(u64::MAX) > FILE_LIMIT_BYTES {
        return Err(ImportError::TooLarge { path: path.to_owned(), limit_bytes: FILE_LIMIT_BYTES });
    }
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(path: &Path, what: &'static str, bytes: &[u8]) -> Result<T, ImportError> {
    serde_json::from_slice(bytes).map_err(|source| ImportError::Invalid {
        path: path.to_owned(),
        line: source.line(),
        what,
        source,
    })
}

#[cfg(test)]
mod tests;
