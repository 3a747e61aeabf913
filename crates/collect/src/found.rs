//! A file to read, with what is known about it.

use std::{
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use subscope_decode::Dialect;
use subscope_harness::{Place, Role, classify};
use subscope_model::Millis;

use crate::archive::Kept;

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path; absolute and without symbolic links.
    pub path: PathBuf,
    /// What it is.
    pub role: Role,
    /// Its dialect, by its path.
    pub dialect: Option<Dialect>,
    /// The session: from the path, else from the first line; `None` where neither names it.
    pub session: Option<String>,
    /// The subagent's id, from the path.
    pub agent: Option<String>,
    /// The group of agents that one call started, from the path.
    pub workflow: Option<String>,
    /// Its length in bytes when it was found; it may have grown since.
    pub len: u64,
    /// When it was last written; `None` where the file system does not know.
    pub modified_ms: Option<Millis>,
    /// Where its bytes are if not at `path`: in the archive.
    pub kept_at: Option<PathBuf>,
}

impl Found {
    pub(crate) fn new(path: PathBuf, place: Place, metadata: &Metadata) -> Self {
        let Place { role, dialect, session, agent, workflow } = place;
        let (len, modified_ms) = (metadata.len(), modified_ms(metadata));
        Self { path, role, dialect, session, agent, workflow, len, modified_ms, kept_at: None }
    }

    /// A file that was found before as one of a session, and of which the archive may have the bytes; `None` where neither
    /// has it.
    pub fn again(path: &Path, session: &str, kept: Option<Kept>) -> Option<Self> {
        let mut place = classify(path);
        place.session = Some(session.to_owned());
        if place.role == Role::Other {
            // It was a main transcript because of its session's folder.
            place.role = Role::Main;
        }
        let Some(kept) = kept else {
            let metadata = fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
            return Some(Self::new(path.to_owned(), place, &metadata));
        };
        let Place { role, dialect, session, agent, workflow } = place;
        let (len, modified_ms) = (kept.bytes, Some(kept.modified_ns / 1_000_000));
        let path = path.to_owned();
        Some(Self {
            path,
            role,
            dialect,
            session,
            agent,
            workflow,
            len,
            modified_ms,
            kept_at: Some(kept.path),
        })
    }

    /// Returns the path to read it at.
    pub fn place(&self) -> &Path {
        self.kept_at.as_deref().unwrap_or(&self.path)
    }
}

/// Returns when a file was last written, in milliseconds since 1970.
pub(crate) fn modified_ms(metadata: &Metadata) -> Option<Millis> {
    let modified = metadata.modified().ok()?;
    let ms = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_millis()).ok()?,
        Err(before) => -i128::try_from(before.duration().as_millis()).ok()?,
    };
    Millis::try_from(ms).ok()
}
