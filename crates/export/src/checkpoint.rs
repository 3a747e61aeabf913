//! Checkpoints on disk: a folder with `checkpoint.json` and `metadata.json` (requirement 5.2).
//!
//! Files are replaced atomically: written to a temporary file, synced, renamed. A crash leaves the old or the new file,
//! never a part. Both are synced before either is renamed, so that only a crash between two renames leaves one old and
//! one new file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use subscope_model::{CHECKPOINT_VERSION, Checkpoint, CheckpointMetadata};

/// File name of the traces.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// File name of the metadata.
const METADATA_FILE: &str = "metadata.json";

/// Maximum size of a file to read. The largest real sessions have some 100 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Error of writing a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The folder could not be created or synced.
    #[error("cannot prepare the folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be written; the old one is unchanged.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Error of reading a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is larger than the limit.
    #[error("{} is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// A file has invalid content.
    #[error("{}:{line}: not a valid {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line number from 1; 0 if unknown.
        line: usize,
        /// The expected content.
        what: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// The checkpoint has no version.
    #[error("{}: no version; only {supported:?} can be read", path.display())]
    NoVersion {
        /// The file.
        path: PathBuf,
        /// The supported version.
        supported: &'static str,
    },
    /// The checkpoint has another version.
    #[error("{}: version {found:?} is not supported; only {supported:?} can be read", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The supported version.
        supported: &'static str,
    },
}

/// Writes a checkpoint and its metadata into `folder`, which is created if missing. Existing files are replaced.
///
/// On return both files and their directory entries are synced.
///
/// # Errors
/// Names the folder or file and the cause. A file that could not be replaced is unchanged.
pub fn write_checkpoint(
    folder: &Path,
    checkpoint: &Checkpoint,
    metadata: &CheckpointMetadata,
) -> Result<(), SaveError> {
    let folder_error = |source| SaveError::Folder { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(folder_error)?;
    let metadata = StagedFile::write(folder, METADATA_FILE, metadata)?;
    let checkpoint = StagedFile::write(folder, CHECKPOINT_FILE, checkpoint)?;
    metadata.commit()?;
    checkpoint.commit()?;
    sync_folder(folder).map_err(folder_error)
}

/// Syncs a folder, so that renames in it are durable. Other systems than Unix cannot open folders and need no sync.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A synced temporary file; removed on drop unless [`StagedFile::commit`] renames it.
struct StagedFile {
    temporary: PathBuf,
    path: PathBuf,
    is_committed: bool,
}

impl StagedFile {
    fn write<T: Serialize>(folder: &Path, name: &str, value: &T) -> Result<Self, SaveError> {
        /// Makes names unique within the process; the process id makes them unique among processes.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = folder.join(name);
        let error = |source| SaveError::Write { path: path.clone(), source };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        // A leftover of a crashed process with the same id. It is removed, not overwritten: it may be a link to another
        // file.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(error)?;
        let staged = Self { temporary, path: path.clone(), is_committed: false };
        write_value(file, value).map_err(error)?;
        Ok(staged)
    }

    fn commit(mut self) -> Result<(), SaveError> {
        let renamed = fs::rename(&self.temporary, &self.path);
        self.is_committed = renamed.is_ok();
        renamed.map_err(|source| SaveError::Write { path: self.path.clone(), source })
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // A leftover is harmless.
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

/// Reads a checkpoint from its folder or file; with the `metadata.json` in the same folder if the file is named
/// `checkpoint.json`.
///
/// # Errors
/// Names the file and the cause: unreadable, too large, invalid (with the line), or another version than
/// [`CHECKPOINT_VERSION`]. Invalid metadata is an error too.
pub fn read_checkpoint(path: &Path) -> Result<(Checkpoint, Option<CheckpointMetadata>), ImportError> {
    let file = if path.is_dir() { path.join(CHECKPOINT_FILE) } else { path.to_owned() };
    let bytes = read_file(&file)?;
    // Check the version first: another version may not parse.
    let header: VersionHeader = parse(&file, "checkpoint", &bytes)?;
    match header.version {
        None => return Err(ImportError::NoVersion { path: file, supported: CHECKPOINT_VERSION }),
        Some(version) if version.as_str() != Some(CHECKPOINT_VERSION) => {
            let found = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
            return Err(ImportError::Version { path: file, found, supported: CHECKPOINT_VERSION });
        }
        Some(_) => {}
    }
    let checkpoint = parse(&file, "checkpoint", &bytes)?;
    let metadata_file = file.with_file_name(METADATA_FILE);
    // `metadata.json` is a common name: next to a file of another name it is probably unrelated.
    let is_ours = file.file_name().is_some_and(|name| name == CHECKPOINT_FILE) && metadata_file.exists();
    let metadata = if is_ours {
        Some(parse(&metadata_file, "checkpoint metadata", &read_file(&metadata_file)?)?)
    } else {
        None
    };
    Ok((checkpoint, metadata))
}

/// Fields of every version.
#[derive(Deserialize)]
struct VersionHeader {
    #[serde(default)]
    version: Option<serde_json::Value>,
}

fn read_file(path: &Path) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    let length = read.map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
    if u64::try_from(length).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
        return Err(ImportError::TooLarge { path: path.to_owned(), limit_bytes: MAX_FILE_BYTES });
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
