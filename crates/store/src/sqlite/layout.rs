//! Layout of the tables whose rows are checked: their columns in the order in which SQLite stores them.
//!
//! Each of these rows ends with `sum`, a CRC-32 of what the row says ([`row_sum`]), so that a bit that flips on the disk
//! is seen by whoever reads the row; SQLite itself keeps no checksums. Rows that version 3 of the schema wrote have
//! none until they are written again. The same tables are read back from the pages of a damaged file (`repair.rs`).

use std::sync::OnceLock;

use rusqlite::{
    Connection, Row,
    functions::{Context, FunctionFlags},
    types::{Value, ValueRef},
};

/// What a column may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The row number, which SQLite stores beside the row.
    RowNo,
    Integer,
    Text,
    Blob,
    /// An integer or NULL.
    MaybeInteger,
    /// A text or NULL.
    MaybeText,
}

/// A column, and whether `sum` covers it.
pub(super) struct Column(pub(super) &'static str, pub(super) Kind, Cover);

/// Whether `sum` covers a column.
#[derive(PartialEq, Eq)]
enum Cover {
    Covered,
    /// It changes alone. It is in an index, which SQLite compares with the table, or the next index run sets it.
    Apart,
}

use Cover::{Apart, Covered};
use Kind::{Blob, Integer, MaybeInteger, MaybeText, RowNo, Text};

/// A table whose rows are checked.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its columns but `sum`, which is the last one.
    pub(super) columns: &'static [Column],
    /// Number of columns that rows of the first version of the schema have.
    first_width: usize,
    /// What becomes of a row with the same key.
    conflict: Conflict,
    insert: OnceLock<String>,
    is_intact: OnceLock<String>,
}

/// What an insert does where there is a row with the same key.
#[derive(Clone, Copy)]
enum Conflict {
    Fail,
    Ignore,
    Replace,
}

impl Table {
    const fn new(
        name: &'static str,
        columns: &'static [Column],
        first_width: usize,
        conflict: Conflict,
    ) -> Self {
        Self { name, columns, first_width, conflict, insert: OnceLock::new(), is_intact: OnceLock::new() }
    }
}

pub(super) static SESSIONS: Table = Table::new(
    "sessions",
    &[
        Column("no", RowNo, Apart),
        Column("id", Text, Covered),
        Column("last_ms", Integer, Covered),
        Column("is_live", Integer, Covered),
        Column("deadline_ms", MaybeInteger, Apart),
        Column("is_frozen", Integer, Apart),
        Column("is_forgotten", Integer, Covered),
        Column("rules", Text, Covered),
        Column("row", Text, Covered),
        Column("kept_ms", Integer, Apart),
        Column("rev", Integer, Apart),
    ],
    10,
    Conflict::Fail,
);
pub(super) static TREES: Table = Table::new(
    "trees",
    &[Column("session_no", RowNo, Covered), Column("body", Blob, Covered)],
    2,
    Conflict::Replace,
);
pub(super) static AGENTS: Table = Table::new(
    "agents",
    &[
        Column("id", Text, Covered),
        Column("session_no", Integer, Covered),
        Column("spawned_by", MaybeText, Covered),
        Column("type", MaybeText, Covered),
        Column("description", MaybeText, Covered),
    ],
    5,
    Conflict::Ignore,
);
pub(super) static QUARTERS: Table = Table::new(
    "quarters",
    &[
        Column("session_no", Integer, Covered),
        Column("quarter", Integer, Covered),
        Column("by", Integer, Covered),
        Column("name", Text, Covered),
        Column("agents", Integer, Covered),
        Column("calls", Integer, Covered),
        Column("errors", Integer, Covered),
        Column("denied", Integer, Covered),
        Column("busy_ms", Integer, Covered),
        Column("input", Integer, Covered),
        Column("output", Integer, Covered),
        Column("cache_read", Integer, Covered),
        Column("cache_write", Integer, Covered),
        Column("floor", Integer, Covered),
        Column("cost", Integer, Covered),
    ],
    15,
    Conflict::Fail,
);
pub(super) static AT_WORK: Table = Table::new(
    "at_work",
    &[Column("session_no", RowNo, Covered), Column("intervals", Text, Covered)],
    2,
    Conflict::Replace,
);
pub(super) static SLOW_CALLS: Table = Table::new(
    "slow_calls",
    &[
        Column("session_no", Integer, Covered),
        Column("place", Integer, Covered),
        Column("call", Text, Covered),
    ],
    3,
    Conflict::Fail,
);
pub(super) static TOP_AGENTS: Table = Table::new(
    "top_agents",
    &[
        Column("session_no", Integer, Covered),
        Column("agent", Text, Covered),
        Column("started_ms", MaybeInteger, Covered),
        Column("name", Text, Covered),
        Column("agents", Integer, Covered),
        Column("calls", Integer, Covered),
        Column("errors", Integer, Covered),
        Column("denied", Integer, Covered),
        Column("busy_ms", Integer, Covered),
        Column("input", Integer, Covered),
        Column("output", Integer, Covered),
        Column("cache_read", Integer, Covered),
        Column("cache_write", Integer, Covered),
        Column("floor", Integer, Covered),
        Column("cost", Integer, Covered),
    ],
    // The table came with the sums.
    16,
    Conflict::Replace,
);
pub(super) static SOURCES: Table = Table::new(
    "sources",
    &[
        Column("path", Blob, Covered),
        Column("session_no", Integer, Covered),
        Column("inode", Integer, Covered),
        Column("bytes", Integer, Covered),
        Column("modified_ns", Integer, Covered),
    ],
    5,
    Conflict::Replace,
);
pub(super) static HELD: Table = Table::new(
    "held",
    &[
        Column("session_no", RowNo, Covered),
        Column("began_ms", MaybeInteger, Covered),
        Column("heads", Blob, Covered),
        Column("is_compared", Integer, Apart),
    ],
    4,
    Conflict::Fail,
);
pub(super) static HOLDINGS: Table = Table::new(
    "holdings",
    &[Column("no", RowNo, Apart), Column("session_no", Integer, Covered), Column("keys", Blob, Covered)],
    3,
    Conflict::Fail,
);
pub(super) static KIN: Table = Table::new(
    "kin",
    &[
        Column("later_no", Integer, Covered),
        Column("earlier_no", Integer, Covered),
        Column("shared", Integer, Covered),
    ],
    3,
    Conflict::Replace,
);
pub(super) static UNSETTLED: Table =
    Table::new("unsettled", &[Column("session", Text, Covered)], 1, Conflict::Ignore);
pub(super) static INBOX: Table = Table::new(
    "inbox",
    &[
        Column("no", RowNo, Apart),
        Column("source", Text, Covered),
        Column("session", MaybeText, Covered),
        Column("key", Text, Covered),
        Column("dialect", Text, Covered),
        Column("received_ms", Integer, Covered),
        Column("sessions", MaybeText, Covered),
        Column("body", Blob, Covered),
    ],
    8,
    Conflict::Fail,
);
pub(super) static INBOX_PARTS: Table = Table::new(
    "inbox_parts",
    &[
        Column("no", Integer, Covered),
        Column("session", Text, Covered),
        Column("line", Integer, Covered),
        Column("offset", Integer, Covered),
        Column("body", Blob, Covered),
    ],
    5,
    Conflict::Fail,
);
pub(super) static CHANGES: Table = Table::new(
    "changes",
    &[Column("seq", RowNo, Covered), Column("session", Text, Covered), Column("body", Text, Covered)],
    3,
    Conflict::Fail,
);

pub(super) static FACTS: Table = Table::new(
    "facts",
    &[
        Column("session_no", RowNo, Covered),
        Column("is_needed", Integer, Covered),
        Column("body", Blob, Covered),
    ],
    // The table came with the sums; without one, its rows would look like those of `holdings`.
    4,
    Conflict::Replace,
);

pub(super) static LOOKS: Table = Table::new(
    "looks",
    &[Column("session", Text, Covered), Column("facts", Text, Covered), Column("at_ms", Integer, Covered)],
    // The table came with the sums.
    4,
    Conflict::Replace,
);

/// All tables whose rows are checked. The others are indexes of these (`*_keys`, `*_of`) and counters (`meta`).
pub(super) static CHECKED: [&Table; 17] = [
    &SESSIONS,
    &TREES,
    &FACTS,
    &AGENTS,
    &QUARTERS,
    &AT_WORK,
    &SLOW_CALLS,
    &TOP_AGENTS,
    &SOURCES,
    &HELD,
    &HOLDINGS,
    &KIN,
    &UNSETTLED,
    &INBOX,
    &INBOX_PARTS,
    &CHANGES,
    &LOOKS,
];

impl Table {
    fn covered(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().filter(|column| column.2 == Covered).map(|column| column.0)
    }

    /// Returns the statement that inserts a row: a parameter for each column that `sum` covers, in their order.
    pub(super) fn insert(&self) -> &str {
        self.insert.get_or_init(|| self.insert_sql())
    }

    fn insert_sql(&self) -> String {
        let verb = match self.conflict {
            Conflict::Fail => "INSERT",
            Conflict::Ignore => "INSERT OR IGNORE",
            Conflict::Replace => "INSERT OR REPLACE",
        };
        let columns: Vec<&str> = self.covered().collect();
        let places: Vec<String> = (1..=columns.len()).map(|no| format!("?{no}")).collect();
        let (name, columns, places) = (self.name, columns.join(", "), places.join(", "));
        format!("{verb} INTO {name}({columns}, sum) VALUES({places}, row_sum('{name}', {places}))")
    }

    /// Inserts all columns of a row that [`Self::read`] has read, unless there is one with the same key. Returns whether
    /// it did.
    pub(super) fn restore(&self, db: &Connection, values: &[Value]) -> rusqlite::Result<bool> {
        let columns: Vec<&str> = self.columns.iter().map(|column| column.0).collect();
        let place = |name: &str| columns.iter().position(|column| *column == name).unwrap_or(0) + 1;
        let covered: Vec<String> = self.covered().map(|name| format!("?{}", place(name))).collect();
        let all: Vec<String> = (1..=columns.len()).map(|no| format!("?{no}")).collect();
        let (name, columns, all, covered) =
            (self.name, columns.join(", "), all.join(", "), covered.join(", "));
        let sql = format!(
            "INSERT OR IGNORE INTO {name}({columns}, sum) VALUES({all}, row_sum('{name}', {covered}))"
        );
        Ok(db.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(values))? > 0)
    }

    /// Returns the expression of the sum that a row should have, where these columns have other values.
    pub(super) fn sum_with(&self, values: &[(&str, &str)]) -> String {
        let value =
            |column| values.iter().find(|(name, _)| *name == column).map_or(column, |(_, value)| *value);
        let columns: Vec<&str> = self.covered().map(value).collect();
        format!("row_sum('{}', {})", self.name, columns.join(", "))
    }

    /// Returns the condition that a row is as it was written. Columns are named with their table.
    pub(super) fn is_intact(&self) -> &str {
        self.is_intact.get_or_init(|| {
            let columns: Vec<String> =
                self.covered().map(|column| format!("{}.{column}", self.name)).collect();
            format!("({0}.sum IS NULL OR {0}.sum = row_sum('{0}', {1}))", self.name, columns.join(", "))
        })
    }

    /// Returns the columns that `sum` covers, and `sum`, for [`Self::is_read_intact`]; `NULL` in its place where rows have
    /// none.
    pub(super) fn checked_columns(&self, has_sums: bool) -> String {
        let columns: Vec<String> = self.covered().map(|column| format!("{}.{column}", self.name)).collect();
        let sum = if has_sums { format!("{}.sum", self.name) } else { "NULL".to_owned() };
        format!("{}, {sum}", columns.join(", "))
    }

    /// Whether a row of a query, whose first columns are [`Self::checked_columns`], is as it was written.
    pub(super) fn is_read_intact(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let count = self.covered().count();
        let ValueRef::Blob(sum) = row.get_ref(count)? else {
            return Ok(row.get_ref(count)? == ValueRef::Null);
        };
        let mut values = Vec::with_capacity(count);
        for at in 0..count {
            values.push(row.get_ref(at)?);
        }
        Ok(sum == row_sum(self.name, values.into_iter()))
    }

    /// Reads values, as stored, as a row of this table, if they have its form; `no` is the row number, if there is one.
    /// Columns that an older version of the schema did not have are NULL, `sum` is left out.
    pub(super) fn read(&self, no: Option<i64>, values: &[Value]) -> Option<StoredRow> {
        let has_no = self.columns.first().is_some_and(|column| column.1 == RowNo);
        // `inbox_parts` has row numbers of its own.
        let is_numbered = has_no || self.name == INBOX_PARTS.name;
        let width = self.columns.len();
        if no.is_some() != is_numbered || !(self.first_width..=width + 1).contains(&values.len()) {
            return None;
        }
        let fits = self.columns.iter().zip(values.iter()).all(|(column, value)| {
            matches!(
                (column.1, value),
                (RowNo, Value::Null)
                    | (Integer | MaybeInteger, Value::Integer(_))
                    | (Text | MaybeText, Value::Text(_))
                    | (Blob, Value::Blob(_))
                    | (MaybeInteger | MaybeText, Value::Null)
            )
        });
        if !fits {
            return None;
        }
        let mut values = values.to_vec();
        let sum = if values.len() > width { values.pop() } else { None };
        if let (Some(no), true, Some(first)) = (no, has_no, values.first_mut()) {
            *first = Value::Integer(no);
        }
        let covered = self.columns.iter().zip(values.iter()).filter(|(column, _)| column.2 == Covered);
        let expected = row_sum(self.name, covered.map(|(_, value)| ValueRef::from(value)));
        let is_intact = match sum {
            None | Some(Value::Null) => true,
            Some(Value::Blob(sum)) => sum == expected,
            Some(Value::Integer(_) | Value::Real(_) | Value::Text(_)) => false,
        };
        values.resize(width, Value::Null);
        Some(StoredRow { values, is_intact })
    }
}

/// A row of a table as it was found in a file.
pub(super) struct StoredRow {
    /// The values of all columns but `sum`.
    pub(super) values: Vec<Value>,
    /// Whether it is as it was written, as far as its sum says.
    pub(super) is_intact: bool,
}

/// Returns the sum of a row: of its table's name, and of the type and bytes of each value.
fn row_sum<'v>(table: &str, values: impl Iterator<Item = ValueRef<'v>>) -> [u8; 4] {
    let mut sum = Sum::default();
    sum.add(table.as_bytes());
    for value in values {
        match value {
            ValueRef::Null => sum.add(b"n"),
            ValueRef::Integer(number) => {
                sum.add(b"i");
                sum.add(&number.to_le_bytes());
            }
            ValueRef::Real(number) => {
                sum.add(b"r");
                sum.add(&number.to_le_bytes());
            }
            ValueRef::Text(bytes) => sum.add_long(b"t", bytes),
            ValueRef::Blob(bytes) => sum.add_long(b"b", bytes),
        }
    }
    sum.flush();
    sum.crc.finalize().to_le_bytes()
}

/// A CRC-32 with a buffer: a row has many short values, and each piece that is added costs as much as 100 bytes.
struct Sum {
    crc: crc32fast::Hasher,
    buffer: [u8; 256],
    filled: usize,
}

impl Default for Sum {
    fn default() -> Self {
        Self { crc: crc32fast::Hasher::new(), buffer: [0; 256], filled: 0 }
    }
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        if self.filled + bytes.len() > self.buffer.len() {
            self.flush();
        }
        match self.buffer.get_mut(self.filled..self.filled + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled += bytes.len();
            }
            None => self.crc.update(bytes),
        }
    }

    fn add_long(&mut self, kind: &[u8], bytes: &[u8]) {
        self.add(kind);
        self.add(&(bytes.len() as u64).to_le_bytes());
        self.add(bytes);
    }

    fn flush(&mut self) {
        self.crc.update(self.buffer.get(..self.filled).unwrap_or_default());
        self.filled = 0;
    }
}

/// Adds the function `row_sum(table, value, …)` to a connection.
pub(super) fn add_row_sum(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("row_sum", -1, flags, |call: &Context<'_>| {
        let table = call.get_raw(0).as_str().unwrap_or_default();
        Ok(row_sum(table, (1..call.len()).map(|at| call.get_raw(at))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of a table as SQLite stores them: those of the primary key come first where there is no row number.
    fn stored_columns(db: &Connection, table: &str) -> Vec<(String, bool)> {
        let mut statement = db.prepare(&format!("PRAGMA table_info({table})")).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(1)?, row.get::<_, i64>(5)?))).unwrap();
        let all: Vec<(String, i64)> = rows.map(Result::unwrap).collect();
        let sql: String =
            db.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0)).unwrap();
        let is_numbered = !sql.contains("WITHOUT ROWID");
        let mut keys: Vec<&(String, i64)> = all.iter().filter(|(_, key)| *key > 0).collect();
        keys.sort_by_key(|(_, key)| *key);
        let rest = all.iter().filter(|(_, key)| *key == 0);
        keys.into_iter().chain(rest).map(|(name, key)| (name.clone(), is_numbered && *key > 0)).collect()
    }

    #[test]
    fn layout_is_that_of_the_schema() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::schema::create(&mut db, 1).unwrap();
        for table in CHECKED {
            let mut expected: Vec<(String, bool)> =
                table.columns.iter().map(|column| (column.0.to_owned(), column.1 == RowNo)).collect();
            expected.push(("sum".to_owned(), false));
            assert_eq!(stored_columns(&db, table.name), expected, "{}", table.name);
        }
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let names: Vec<String> =
            db.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let is_known = |name: &&String| {
            CHECKED.iter().any(|table| table.name == **name)
                || ["meta", "inbox_keys", "inbox_of", "changes_of"].contains(&name.as_str())
        };
        assert_eq!(names.iter().find(|name| !is_known(name)), None, "a table that no repair knows");
    }
}
