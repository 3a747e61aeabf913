//! Reads the rows of a damaged SQLite file page by page, without SQLite: of the file only whole pages are needed, not
//! the trees that lead to them. Format: <https://www.sqlite.org/fileformat2.html>.
//!
//! A page does not name its table: the caller recognizes rows by their columns. Free pages are left out where the
//! header is intact; where it is not, deleted rows may come back.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    path::Path,
};

use rusqlite::types::Value;
use subscope_platform::read_at;

/// First bytes of the header.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Length of the header, which precedes the first page's content.
const HEADER_BYTES: usize = 100;
/// Page size where no header gives it: SQLite's default, which our databases have.
const PAGE_BYTES: usize = 4096;
/// Length of the WAL's header, and of the header of each of its frames.
const WAL_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
/// Magic number of a WAL, but for its last bit.
const WAL_MAGIC: u32 = 0x377f_0682;
/// Longest row that is read.
const MAX_ROW_BYTES: usize = 1 << 30;

/// Page types that hold rows.
const INDEX_INTERIOR: u8 = 0x02;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// A row: its number, for a table that has row numbers, and its columns as stored.
pub(crate) type EachRow<'e, E> = &'e mut dyn FnMut(Option<i64>, Vec<Value>) -> Result<(), E>;

/// A damaged database: its file, and the committed pages of its WAL.
#[derive(Debug)]
pub(crate) struct DamagedFile {
    file: File,
    wal: Option<File>,
    /// Offsets in the WAL of the pages that it has.
    frames: HashMap<u32, u64>,
    page_bytes: usize,
    /// Bytes at the end of each page that are not used.
    reserved: usize,
    pages: u32,
    free: HashSet<u32>,
}

impl DamagedFile {
    /// Opens the file and its WAL.
    pub(crate) fn open(path: &Path, wal: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let header = read_up_to(&file, 0, HEADER_BYTES)?;
        let is_intact = header.len() == HEADER_BYTES && header.starts_with(MAGIC);
        let own_size = be16(&header, 16).filter(|_| is_intact);
        let own_size = own_size.map(|size| if size == 1 { 1 << 16 } else { size });
        let mut all = Self {
            wal: File::open(wal).ok(),
            frames: HashMap::new(),
            page_bytes: own_size.filter(|size| is_page_size(*size)).unwrap_or(PAGE_BYTES),
            reserved: if is_intact { header.get(20).copied().unwrap_or(0).into() } else { 0 },
            pages: 0,
            free: HashSet::new(),
            file,
        };
        all.read_wal()?;
        let in_file = all.file.metadata()?.len() / all.page_bytes as u64;
        let in_wal = all.frames.keys().copied().max().unwrap_or(0);
        all.pages = u32::try_from(in_file).unwrap_or(u32::MAX).max(in_wal);
        all.read_free_list()?;
        Ok(all)
    }

    /// Notes the pages of the WAL's committed transactions.
    fn read_wal(&mut self) -> io::Result<()> {
        let Some(wal) = &self.wal else { return Ok(()) };
        let header = read_up_to(wal, 0, WAL_HEADER_BYTES as usize)?;
        let is_wal = be32(&header, 0).is_some_and(|magic| magic & !1 == WAL_MAGIC);
        let size = be32(&header, 8).map(|size| size as usize);
        let Some(size) = size.filter(|size| is_wal && is_page_size(*size)) else { return Ok(()) };
        self.page_bytes = size;
        let salts = header.get(16..24);
        let (mut at, mut pending) = (WAL_HEADER_BYTES, Vec::new());
        loop {
            let frame = read_up_to(wal, at, FRAME_HEADER_BYTES as usize)?;
            // Frames of an earlier generation have other salts.
            let (Some(page), Some(size_after)) = (be32(&frame, 0), be32(&frame, 4)) else { return Ok(()) };
            if frame.get(8..16) != salts {
                return Ok(());
            }
            pending.push((page, at + FRAME_HEADER_BYTES));
            if size_after != 0 {
                self.frames.extend(pending.drain(..));
            }
            at += FRAME_HEADER_BYTES + size as u64;
        }
    }

    /// Notes the free pages, as far as the header leads to them.
    fn read_free_list(&mut self) -> io::Result<()> {
        let Some(first) = self.page(1)?.filter(|page| page.starts_with(MAGIC)) else { return Ok(()) };
        let mut trunk = be32(&first, 32).unwrap_or(0);
        while trunk != 0 && self.free.insert(trunk) {
            let Some(page) = self.page(trunk)? else { return Ok(()) };
            let count = be32(&page, 4).unwrap_or(0) as usize;
            let leaves = (0..count).map_while(|number| be32(&page, 8 + 4 * number));
            self.free.extend(leaves);
            trunk = be32(&page, 0).unwrap_or(0);
        }
        Ok(())
    }

    /// Returns a page; `None` if the file does not contain it as a whole.
    fn page(&self, number: u32) -> io::Result<Option<Vec<u8>>> {
        let (file, offset) = match (self.frames.get(&number), &self.wal) {
            (Some(offset), Some(wal)) => (wal, *offset),
            _ if number == 0 => return Ok(None),
            _ => (&self.file, u64::from(number - 1) * self.page_bytes as u64),
        };
        let page = read_up_to(file, offset, self.page_bytes)?;
        Ok((page.len() == self.page_bytes).then_some(page))
    }

    /// Passes every row that can be read to `each`, in the order of the pages.
    ///
    /// # Errors
    /// If the file cannot be read, or `each` fails.
    pub(crate) fn rows<E: From<io::Error>>(&self, each: EachRow<'_, E>) -> Result<(), E> {
        for number in (1..=self.pages).filter(|number| !self.free.contains(number)) {
            let Some(page) = self.page(number)? else { continue };
            let start = if number == 1 { HEADER_BYTES } else { 0 };
            let Some(kind @ (INDEX_INTERIOR | INDEX_LEAF | TABLE_LEAF)) = page.get(start).copied() else {
                continue;
            };
            let pointers = start + if kind == INDEX_INTERIOR { 12 } else { 8 };
            for cell in 0..be16(&page, start + 3).unwrap_or(0) {
                let Some(at) = be16(&page, pointers + 2 * cell) else { break };
                if let Some((row, values)) = self.row(&page, at, kind)? {
                    each(row, values)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the row of a cell; `None` if it is damaged.
    fn row(&self, page: &[u8], at: usize, kind: u8) -> io::Result<Option<(Option<i64>, Vec<Value>)>> {
        let mut cell = Bytes { all: page, at: at + if kind == INDEX_INTERIOR { 4 } else { 0 } };
        let Some(length) = cell.varint().and_then(|length| usize::try_from(length).ok()) else {
            return Ok(None);
        };
        let row = if kind == TABLE_LEAF { cell.varint() } else { None };
        if length > MAX_ROW_BYTES || (kind == TABLE_LEAF && row.is_none()) {
            return Ok(None);
        }
        let local = self.local_bytes(length, kind);
        let Some(mut payload) = cell.take(local).map(<[u8]>::to_vec) else { return Ok(None) };
        let mut next = if local < length { cell.take(4).and_then(|bytes| be32(bytes, 0)) } else { None };
        while payload.len() < length {
            let Some(page) = next.map(|next| self.page(next)).transpose()?.flatten() else { return Ok(None) };
            next = be32(&page, 0);
            let rest = (length - payload.len()).min(self.usable() - 4);
            payload.extend_from_slice(page.get(4..4 + rest).unwrap_or_default());
        }
        Ok(values(&payload).map(|values| (row, values)))
    }

    fn usable(&self) -> usize {
        self.page_bytes - self.reserved
    }

    /// Returns how many bytes of a row are in its cell; the others are in overflow pages.
    fn local_bytes(&self, length: usize, kind: u8) -> usize {
        let usable = self.usable();
        let most = if kind == TABLE_LEAF { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
        if length <= most {
            return length;
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let wanted = least + (length - least) % (usable - 4);
        if wanted <= most { wanted } else { least }
    }
}

/// Reads the columns of a row; `None` if it is damaged.
fn values(payload: &[u8]) -> Option<Vec<Value>> {
    let mut header = Bytes { all: payload, at: 0 };
    let end = usize::try_from(header.varint()?).ok()?;
    let (mut body, mut values) = (Bytes { all: payload, at: end }, Vec::new());
    while header.at < end {
        let kind = header.varint()?;
        values.push(match kind {
            0 => Value::Null,
            1..=6 => Value::Integer(integer(body.take([1, 2, 3, 4, 6, 8][kind as usize - 1])?)),
            7 => Value::Real(f64::from_be_bytes(body.take(8)?.try_into().ok()?)),
            8 | 9 => Value::Integer(kind - 8),
            12.. => {
                let bytes = body.take(usize::try_from((kind - 12) / 2).ok()?)?.to_vec();
                if kind % 2 == 0 { Value::Blob(bytes) } else { Value::Text(String::from_utf8(bytes).ok()?) }
            }
            _ => return None,
        });
    }
    (header.at == end && body.at == payload.len()).then_some(values)
}

/// Reads a big-endian integer with a sign.
fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// Bytes that are read one after the other.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.all.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// Reads a number of one to nine bytes, of which each but the ninth has seven bits.
    fn varint(&mut self) -> Option<i64> {
        let mut number: u64 = 0;
        for place in 0..9 {
            let byte = *self.take(1)?.first()?;
            if place == 8 {
                number = number << 8 | u64::from(byte);
            } else {
                number = number << 7 | u64::from(byte & 0x7f);
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        Some(number.cast_signed())
    }
}

fn is_page_size(size: usize) -> bool {
    (512..=1 << 16).contains(&size) && size.is_power_of_two()
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads bytes at an offset: fewer at the end of the file.
fn read_up_to(file: &File, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut filled) = (vec![0; count], 0);
    while filled < count {
        match read_at(file, bytes.get_mut(filled..).unwrap_or_default(), offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, params};

    use super::*;

    /// Rows of the table `t` that are found in a file.
    fn found(path: &Path) -> Vec<(i64, String, Vec<u8>)> {
        let wal = path.with_extension("db-wal");
        let mut rows = Vec::new();
        let damaged = DamagedFile::open(path, &wal).unwrap();
        let read: Result<(), io::Error> = damaged.rows(&mut |row, values| {
            if let (
                Some(row),
                [Value::Null, Value::Text(text), Value::Blob(blob), Value::Integer(number), Value::Real(_)],
            ) = (row, values.as_slice())
            {
                assert_eq!(*number, -row * 1_000_003);
                rows.push((row, text.clone(), blob.clone()));
            }
            Ok(())
        });
        read.unwrap();
        rows.sort();
        rows
    }

    fn expected(row: i64) -> (i64, String, Vec<u8>) {
        let length = usize::try_from(row * row % 20_000).unwrap();
        (row, format!("text {row} é"), (0..length).map(|at| (at % 251) as u8).collect())
    }

    /// Writes rows, the last ones into the WAL only, and returns the open connection.
    fn write(path: &Path, rows: std::ops::Range<i64>) -> Connection {
        let db = Connection::open(path).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS t(no INTEGER PRIMARY KEY, a TEXT, b BLOB, c INTEGER, d REAL);",
        )
        .unwrap();
        for row in rows {
            let (_, text, blob) = expected(row);
            db.execute(
                "INSERT INTO t VALUES(?1, ?2, ?3, ?4, 0.5)",
                params![row, text, blob, -row * 1_000_003],
            )
            .unwrap();
        }
        db
    }

    #[test]
    fn all_rows_are_found_in_file_and_wal_without_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        drop(write(&path, 1..300));
        let open = write(&path, 300..400);
        let copy = folder.path().join("y.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(folder.path().join("x.db-wal"), folder.path().join("y.db-wal")).unwrap();
        drop(open);
        let all: Vec<_> = (1..400).map(expected).collect();
        assert!(found(&copy) == all);
        let mut bytes = std::fs::read(&copy).unwrap();
        bytes[..4096].fill(0xa5);
        std::fs::write(&copy, &bytes).unwrap();
        assert!(found(&copy) == all, "the first page holds no row");
        // Half of the file: what its whole pages hold, and all of the WAL.
        std::fs::write(&copy, &bytes[..bytes.len() / 2]).unwrap();
        let half = found(&copy);
        assert!(half.len() > 100 && half.iter().all(|row| *row == expected(row.0)), "{}", half.len());
    }

    #[test]
    fn garbage_holds_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        for kind in [INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF, 0xff] {
            let mut random = 7_u64;
            let mut bytes: Vec<u8> = (0..100_000)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (random >> 56) as u8
                })
                .collect();
            bytes.chunks_mut(4096).for_each(|page| page[0] = kind);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(found(&path), []);
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(found(&path), []);
    }

    #[test]
    fn deleted_rows_stay_deleted_where_the_header_is_intact() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let db = write(&path, 1..300);
        db.execute("DELETE FROM t WHERE no > 50", []).unwrap();
        drop(db);
        assert!(found(&path) == (1..=50).map(expected).collect::<Vec<_>>());
    }
}
