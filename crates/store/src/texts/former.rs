//! Passages of content that a file no longer has: they stay found.
//!
//! When a file is read anew, what was indexed of it becomes that of a former file, `PATH~NUMBER`, which does not exist.
//! Once the file is read to its end, the former one loses the passages that the file still has: mostly all.

use std::{collections::HashMap, path::Path};

use rusqlite::{Connection, params};
use subscope_platform::path_bytes;

use super::delete_passages;

/// Sets aside what is indexed of a file, for each session of which it has lines. What an interrupted run has left of it is
/// deleted.
pub(super) fn set_aside(db: &Connection, path: &Path) -> rusqlite::Result<()> {
    let path = path_bytes(path);
    let mut known = db.prepare_cached(
        "SELECT no, inode = 0 AND bytes = 0 AND modified_ns = 0 FROM files WHERE path = ?1",
    )?;
    let known: Vec<(i64, bool)> =
        known.query_map([&*path], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    for (no, is_interrupted) in known {
        if is_interrupted {
            delete_passages(db, no)?;
        } else {
            let former = [&*path, b"~", no.to_string().as_bytes()].concat();
            db.prepare_cached("UPDATE files SET path = ?1 WHERE no = ?2")?.execute(params![former, no])?;
        }
    }
    Ok(())
}

/// Deletes the passages of former files that a file has, each as often as the file has it. `path` is the file, or a former
/// one that the archive has.
pub(super) fn drop_repeated(db: &Connection, path: &Path) -> rusqlite::Result<()> {
    let path = path_bytes(path);
    let path = original_of(&path);
    let mut own = db.prepare_cached("SELECT no FROM files WHERE path = ?1")?;
    let own: Vec<i64> = own.query_map([path], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let (first, end) = ([path, b"~"].concat(), [path, b"\x7f"].concat());
    let mut select =
        db.prepare_cached("SELECT no FROM files WHERE path >= ?1 AND path < ?2 ORDER BY no DESC")?;
    let formers: Vec<i64> =
        select.query_map(params![first, end], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if formers.is_empty() {
        return Ok(());
    }
    let mut known: HashMap<Key, u32> = HashMap::new();
    for own in own {
        for (_, key) in passages(db, own)? {
            *known.entry(key).or_default() += 1;
        }
    }
    for former in formers {
        let (mut left, mut rest) = (known.clone(), 0);
        for (no, key) in passages(db, former)? {
            match left.get_mut(&key).filter(|count| **count > 0) {
                Some(count) => {
                    *count -= 1;
                    for table in ["words WHERE rowid", "passages WHERE no"] {
                        db.prepare_cached(&format!("DELETE FROM {table} = ?1"))?.execute([no])?;
                    }
                }
                None => {
                    rest += 1;
                    let count = known.entry(key).or_default();
                    *count += 1;
                }
            }
        }
        if rest == 0 {
            db.prepare_cached("DELETE FROM files WHERE no = ?1")?.execute([former])?;
        }
    }
    Ok(())
}

/// Returns the path of the file whose content a former file has.
fn original_of(path: &[u8]) -> &[u8] {
    let digits = path.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (front, number) = path.split_at(path.len() - digits);
    front.strip_suffix(b"~").filter(|_| !number.is_empty()).unwrap_or(path)
}

/// What a passage is recognized by in another file: its session, agent, kind, second, length and tool.
type Key = (String, String, u8, i64, i64, i64);

fn passages(db: &Connection, file: i64) -> rusqlite::Result<Vec<(i64, Key)>> {
    let sql = "SELECT p.no, session, agent, kind, at_s, p.bytes, tool_no
        FROM passages p JOIN files f ON f.no = file_no WHERE file_no = ?1 ORDER BY p.no";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([file], |row| {
        let key = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
        Ok((row.get(0)?, key))
    })?;
    rows.collect()
}
