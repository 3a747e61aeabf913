//! Inbox rows in the text index: the rows of a session that are indexed together are one pseudo file, and a passage's
//! offset encodes its row.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rusqlite::params;
use subscope_model::SessionId;
use subscope_platform::path_bytes;

use super::{ByteSpan, Hit, PassageBatch, TextFile, TextIndex, delete_passages, insert_batch};
use crate::{
    FileIdentity, StoreError, StoreResult,
    sqlite::{identity_at, path_at, select},
};

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
    /// Decodes the position from the start of a passage's span.
    pub(super) fn of(start: u64) -> Self {
        Self { row: start >> OFFSET_BITS, offset: start & ((1 << OFFSET_BITS) - 1) }
    }

    /// Encodes the position and the length of the passage's JSON text; 0 if that is encoded in a record.
    pub fn span(self, bytes: u64) -> ByteSpan {
        ByteSpan { start: self.row << OFFSET_BITS | self.offset, bytes }
    }
}

impl Hit {
    /// Returns the position in the inbox; `None` if the passage is in a file on disk.
    pub fn inbox_position(&self) -> Option<InboxPosition> {
        is_inbox(&self.path).then(|| InboxPosition::of(self.span.start))
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

impl TextIndex {
    /// Returns the pseudo files of the inbox; the inode number of each is that of the last row which was indexed with it.
    pub fn inbox_files(&self) -> StoreResult<Vec<TextFile>> {
        let sql = "SELECT path, session, inode, bytes, modified_ns FROM files WHERE path >= ?1 AND path < ?2";
        // The character after the slash ends what begins with the folder.
        let (first, end) = (format!("{FOLDER}/"), format!("{FOLDER}0"));
        self.checked(select(&self.db, sql, [first.as_bytes(), end.as_bytes()], |row| {
            Ok(TextFile {
                path: path_at(row, 0)?,
                session: SessionId(row.get(1)?),
                identity: identity_at(row, 2)?,
            })
        }))
    }

    /// Returns the numbers of the inbox rows of which a pseudo file has passages, in order.
    pub fn inbox_rows(&self, file: &TextFile) -> StoreResult<Vec<u64>> {
        let sql = "SELECT DISTINCT start FROM passages JOIN files ON files.no = file_no WHERE path = ?1 AND session = ?2";
        let of = params![path_bytes(&file.path), file.session.as_str()];
        let starts =
            self.checked(select(&self.db, sql, of, |row| Ok(row.get::<_, i64>(0)?.cast_unsigned())))?;
        let rows: BTreeSet<u64> = starts.into_iter().map(|start| InboxPosition::of(start).row).collect();
        Ok(rows.into_iter().collect())
    }

    /// Replaces the passages of a pseudo file by a batch: they are another session's. Nothing of them is kept.
    pub fn move_inbox(&mut self, file: &TextFile, batch: &PassageBatch) -> StoreResult<()> {
        let outcome = self.db.transaction().and_then(|transaction| {
            let of = params![path_bytes(&file.path), file.session.as_str()];
            let sql = "SELECT no FROM files WHERE path = ?1 AND session = ?2";
            let no = transaction.query_row(sql, of, |row| row.get(0))?;
            delete_passages(&transaction, no)?;
            insert_batch(&transaction, batch)?;
            transaction.commit()
        });
        self.checked(outcome.map_err(StoreError::from))
    }
}

fn is_inbox(path: &Path) -> bool {
    path.starts_with(FOLDER)
}
