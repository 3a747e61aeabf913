//! Loads the sources of sessions into a router: the one place where a file or stored input from programs is read for
//! rows.
//!
//! `tree`, `export` and the page's past sessions ([`crate::SessionSources`], [`crate::BatchRead`]), the index, a hub
//! that loads a session again, and the inbox replay all come here.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use subscope_collect::{Found, bundled, read};
use subscope_harness::Role;
use subscope_model::SourceId;
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
        group,
        session: found.session.clone(),
        only: None,
        agent: found.agent.clone(),
        workflow: found.workflow.clone(),
        origin: SourceOrigin::File,
    }
}

/// Returns a file's identity; all zero if it does not exist.
pub(crate) fn file_identity(path: &Path) -> FileIdentity {
    if let Some((bytes, modified_ms)) = bundled(path) {
        // A session of a database is not a file: its length and its time of change identify a state.
        return FileIdentity { inode: 0, bytes, modified_ns: modified_ms.saturating_mul(1_000_000) };
    }
    let Ok(metadata) = fs::metadata(path) else { return FileIdentity::default() };
    FileIdentity {
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
    }
}

/// Returns the identity of a file that was just found. A database is not asked again for each of its sessions.
pub(crate) fn found_identity(found: &Found) -> FileIdentity {
    let is_bundled = found.path.parent().is_some_and(|above| subscope_harness::bundle(above).is_some());
    if !is_bundled {
        return file_identity(&found.path);
    }
    let modified_ns = found.modified_ms.unwrap_or(0).saturating_mul(1_000_000);
    FileIdentity { inode: 0, bytes: found.len, modified_ns }
}

/// Loads files. Keeps its buffer from one to the next.
#[derive(Default)]
pub(crate) struct FileLoader {
    chunk: Vec<u8>,
}

impl FileLoader {
    /// Reads a whole file into a new source of a router. Returns the source, and the number of bytes read.
    ///
    /// # Errors
    /// If the file cannot be read; what was read before stays.
    pub(crate) fn load(
        &mut self,
        path: &Path,
        spec: SourceSpec,
        router: &mut SessionRouter,
    ) -> (SourceId, io::Result<u64>) {
        let source = router.open(spec);
        let end = read::read_file(path, 0, &mut self.chunk, &mut |_, bytes| router.push(source, bytes));
        router.flush(source);
        (source, end)
    }

    /// Reads a file up to an offset into an open source, which gets later content too.
    ///
    /// # Errors
    /// If the file cannot be read; what was read before stays.
    pub(crate) fn load_until(
        &mut self,
        path: &Path,
        until: u64,
        source: SourceId,
        router: &mut SessionRouter,
    ) -> io::Result<u64> {
        read::read_file(path, 0, &mut self.chunk, &mut |offset, bytes| {
            let rest = usize::try_from(until.saturating_sub(offset)).unwrap_or(usize::MAX);
            router.push(source, bytes.get(..rest).unwrap_or(bytes));
        })
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
