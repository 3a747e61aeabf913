//! Inbox rows in the text index: the rows of a session that are indexed together are one pseudo file, and a passage's
//! offset encodes its row.

use std::path::{Path, PathBuf};

use subscope_model::SessionId;

use super::{ByteSpan, Hit, TextFile};
use crate::FileIdentity;

/// Folder of pseudo files. Real files have absolute paths.
const FOLDER: &str = "inbox";
/// Low bits of a passage's offset that are the offset within a row: bodies are shorter than 256 MiB.
const OFFSET_BITS: u32 = 28;

/// Position of a passage in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxPosition {
    /// Row number.
    pub row: u64,
    /// Offset of its JSON text in the row's body, or its number among the texts that are encoded in records of the row.
    pub offset: u64,
}

impl InboxPosition {
    /// Encodes the position and the length of the passage's JSON text; 0 if that is encoded in a record.
    pub fn span(self, bytes: u64) -> ByteSpan {
        ByteSpan { start: self.row << OFFSET_BITS | self.offset, bytes }
    }
}

impl Hit {
    /// Returns the position in the inbox; `None` if the passage is in a file on disk.
    pub fn inbox_position(&self) -> Option<InboxPosition> {
        let ByteSpan { start, .. } = self.span;
        let position = InboxPosition { row: start >> OFFSET_BITS, offset: start & ((1 << OFFSET_BITS) - 1) };
        is_inbox(&self.path).then_some(position)
    }
}

impl TextFile {
    /// Pseudo file of a session's inbox rows up to `last_row`.
    pub fn of_inbox(session: SessionId, last_row: u64) -> Self {
        // Not `Path::join`: a session id may be anything, and an absolute one would replace the path.
        let path = PathBuf::from(format!("{FOLDER}/{last_row}/{session}"));
        Self { path, session, identity: FileIdentity { inode: last_row, ..FileIdentity::default() } }
    }
}

/// Returns the last indexed inbox row, given all indexed files.
pub(super) fn last_row(files: &[(PathBuf, FileIdentity)]) -> u64 {
    files.iter().filter(|(path, _)| is_inbox(path)).map(|(_, identity)| identity.inode).max().unwrap_or(0)
}

fn is_inbox(path: &Path) -> bool {
    path.starts_with(FOLDER)
}
