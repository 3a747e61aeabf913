//! Passages of the inbox in the text index: rows of it that are indexed together are one file of the index, for each session that
//! they are of, and a passage's place names its row.

use std::path::{Path, PathBuf};

use subscope_model::SessionId;

use super::{Hit, Span, TextFile};
use crate::Identity;

/// The folder that such a file seems to stand in. Files of the disk have absolute paths.
const FOLDER: &str = "inbox";
/// How many bits of a place are the offset within a row: its body is shorter than 256 MiB.
const OFFSET_BITS: u32 = 28;

/// Where a passage stands in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxPlace {
    /// The number of the row.
    pub row: u64,
    /// The first byte of its JSON text within the row's body.
    pub offset: u64,
}

impl InboxPlace {
    /// Returns the place as one number, with the length of the passage's JSON text.
    pub fn span(self, bytes: u64) -> Span {
        Span { start: self.row << OFFSET_BITS | self.offset, bytes }
    }
}

impl Hit {
    /// Returns where in the inbox the passage stands; `None` where it stands in a file of the disk.
    pub fn inbox_place(&self) -> Option<InboxPlace> {
        let Span { start, .. } = self.span;
        let place = InboxPlace { row: start >> OFFSET_BITS, offset: start & ((1 << OFFSET_BITS) - 1) };
        is_inbox(&self.path).then_some(place)
    }
}

impl TextFile {
    /// The rows of a session that are indexed together, up to the given one.
    pub fn of_inbox(session: SessionId, last_row: u64) -> Self {
        // A session may be called anything: what is joined to a path could replace it.
        let path = PathBuf::from(format!("{FOLDER}/{last_row}/{session}"));
        Self { path, session, identity: Identity { inode: last_row, ..Identity::default() } }
    }
}

/// Returns the last row of the inbox that is indexed, by the files that are.
pub(super) fn last_row(files: &[(PathBuf, Identity)]) -> u64 {
    files.iter().filter(|(path, _)| is_inbox(path)).map(|(_, identity)| identity.inode).max().unwrap_or(0)
}

fn is_inbox(path: &Path) -> bool {
    path.starts_with(FOLDER)
}
