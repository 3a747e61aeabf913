//! Loads the sources of sessions into a router: the one place where a file or stored input from programs is read for
//! rows.
//!
//! `tree`, `export` and the page's past sessions ([`crate::SessionSources`], [`crate::BatchRead`]), the index, a hub
//! that loads a session again, and the inbox replay all come here.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use subscope_collect::{Found, bundled, read};
use subscope_harness::Role;
use subscope_model::{Problem, SourceId};
use subscope_platform::{device_inode, modified_ns};
use subscope_session::{Dialect, SessionRouter, SourceOrigin, SourceSpec};
use subscope_store::{FileIdentity, ReceivedInput};

use crate::partitions::{InputChunk, Partitions};

/// Returns the source description of a file, by its path.
pub(crate) fn file_spec(found: &Found, group: u32, dialect: Option<Dialect>) -> SourceSpec {
    // A main transcript's dialect is recognized by its content, not by its name.
    let by_path = found.dialect.filter(|_| found.role != Role::Main);
    SourceSpec {
        label: found.path.display().to_string(),
        dialect: by_path.or(dialect),
        by_path: found.dialect,
        group,
        session: found.session.clone(),
        only: None,
        agent: found.agent.clone(),
        workflow: found.workflow.clone(),
        origin: SourceOrigin::File,
    }
}

/// A file that could not be read to its end. It counts as unread: it gets no identity, and takes nothing away.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct Unread {
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system, of a bundle or of the archive.
    #[source]
    pub error: io::Error,
}

impl Unread {
    /// How each of its problems begins.
    pub(crate) const WHAT: &str = "cannot be read:";

    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        Self { path: path.to_owned(), error }
    }

    /// The problem to show for the file's session.
    pub(crate) fn problem(&self) -> Problem {
        let what = format!("{} {}; what is known of it stays", Self::WHAT, self.error);
        Problem { at: self.path.display().to_string(), what }
    }
}

/// Returns a file's identity.
///
/// # Errors
/// If the file does not exist or cannot be looked at.
pub(crate) fn file_identity(path: &Path) -> io::Result<FileIdentity> {
    if let Some((bytes, modified_ms)) = bundled(path)? {
        // A session of a database is not a file: its length and its time of change identify a state.
        return Ok(FileIdentity { inode: 0, bytes, modified_ns: modified_ms.saturating_mul(1_000_000) });
    }
    let metadata = fs::metadata(path)?;
    Ok(FileIdentity {
        inode: device_inode(path, &metadata)?.inode,
        bytes: metadata.len(),
        modified_ns: modified_ns(&metadata),
    })
}

/// Returns the identity of a file that was just found. A database is not asked again for each of its sessions.
///
/// # Errors
/// As [`file_identity`].
pub(crate) fn found_identity(found: &Found) -> io::Result<FileIdentity> {
    let is_bundled = found.path.parent().is_some_and(|above| subscope_harness::bundle(above).is_some());
    if !is_bundled {
        return file_identity(&found.path);
    }
    let modified_ns = found.modified_ms.unwrap_or(0).saturating_mul(1_000_000);
    Ok(FileIdentity { inode: 0, bytes: found.len, modified_ns })
}

/// Loads files. Keeps its buffer from one to the next.
#[derive(Default)]
pub(crate) struct FileLoader {
    chunk: Vec<u8>,
}

impl FileLoader {
    /// Reads a whole file into an open source of a router. Returns the number of bytes.
    ///
    /// # Errors
    /// If the file cannot be read to its end; what was read before stays in the router.
    pub(crate) fn load(
        &mut self,
        path: &Path,
        source: SourceId,
        router: &mut SessionRouter,
    ) -> Result<u64, Unread> {
        let end = read::read_file(path, 0, &mut self.chunk, &mut |_, bytes| router.push(source, bytes));
        router.flush(source);
        end.map_err(|error| Unread::new(path, error))
    }

    /// Reads a part of a file into an open source, which gets later content too. Advances `span.start` past what was
    /// read, also if reading fails.
    ///
    /// # Errors
    /// If the file cannot be read to the end of the span.
    pub(crate) fn load_span(
        &mut self,
        path: &Path,
        span: &mut Range<u64>,
        source: SourceId,
        router: &mut SessionRouter,
    ) -> Result<(), Unread> {
        let until = span.end;
        let outcome = read::read_file(path, span.start, &mut self.chunk, &mut |offset, bytes| {
            let rest = usize::try_from(until.saturating_sub(offset)).unwrap_or(usize::MAX);
            let bytes = bytes.get(..rest).unwrap_or(bytes);
            router.push(source, bytes);
            span.start = offset + bytes.len() as u64;
        });
        outcome.map(|_| ()).map_err(|error| Unread::new(path, error))
    }
}

/// Loads stored input from programs. Passes each chunk with its source to `each`.
pub(crate) fn load_input(
    input: &ReceivedInput,
    partitions: &mut Partitions,
    router: &mut SessionRouter,
    each: &mut dyn FnMut(SourceId, &InputChunk<'_>),
) {
    for chunk in InputChunk::of(input) {
        each(partitions.push(router, &chunk), &chunk);
    }
}
