//! Queries: each is one statement over an index, or one row that is decompressed.

use std::{path::PathBuf, sync::Arc};

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, OptionalExtension, Params, Row, params, types::ValueRef};
use serde::Deserialize;
use subscope_model::{
    AgentId, AgentName, Event, Looks, Millis, Problem, SessionId, SessionKeys, SessionRow, SlowCall, Stats,
    StatsQuery, StatsRow, Text, TopRow, Tree, Usage, Zone,
};
use subscope_platform::path_from_bytes;

use super::{
    FILE, SharedHistory, SqliteStore, deferred_index,
    layout::{
        AGENTS, AT_WORK, FACTS, INBOX, INBOX_PARTS, QUARTERS, SESSIONS, SLOW_CALLS, SOURCES, TOP_AGENTS,
        TREES, Table,
    },
    list::{AFTER_SESSION, session_row_at},
    looks, pack,
    schema::{COST_FLOOR, TOKENS_FLOOR},
    session_keys::unpack_keys,
    write::remote_key,
};
use crate::{
    Access, AgentLabel, DayCost, FileIdentity, History, KeySet, ListQuery, OpenReader, ReceivedInput,
    RemotePosition, SessionPart, SessionQueries, SourceFile, StoreError, StoreResult, StoredFacts,
    days::{By, quarters_of},
    stats::{QuarterFigures, Sums},
};

/// Returns the rows of a query.
pub(crate) fn select<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> StoreResult<Vec<T>> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(values, row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the first row of a query, if it has any.
pub(super) fn select_one<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    db.prepare_cached(sql)?.query_row(values, row).optional()
}

/// Reads a path, which need not be UTF-8.
pub(crate) fn path_at(row: &Row<'_>, at: usize) -> rusqlite::Result<PathBuf> {
    row.get(at).map(path_from_bytes)
}

/// Reads `inode`, `bytes` and `modified_ns` from a column on.
pub(crate) fn identity_at(row: &Row<'_>, at: usize) -> rusqlite::Result<FileIdentity> {
    Ok(FileIdentity {
        inode: row.get::<_, i64>(at)?.cast_unsigned(),
        bytes: row.get::<_, i64>(at + 1)?.cast_unsigned(),
        modified_ns: row.get(at + 2)?,
    })
}

/// Converts a number to SQLite's type, which has no greater one than [`i64::MAX`].
pub(crate) fn clamp<N>(number: N) -> i64
where
    i64: TryFrom<N>,
{
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the size of a database on disk in bytes, free pages included.
pub(crate) fn size_bytes(db: &Connection) -> StoreResult<u64> {
    const SIZE: &str = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    Ok(db.query_row(SIZE, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// Rows of `quarters` in a range of quarter-hours, session by session; with their checked columns [`figures_row`] reads
/// them.
const FIGURES: &str = "FROM quarters WHERE quarter BETWEEN ?1 AND ?2 ORDER BY session_no";

fn figures_row(row: &Row<'_>) -> rusqlite::Result<QuarterFigures> {
    let by: u8 = row.get(2)?;
    let by = By::ALL.into_iter().find(|known| *known as u8 == by);
    Ok((row.get(1)?, by.ok_or(rusqlite::Error::IntegralValueOutOfRange(2, 0))?, stats_row(row, 1)?))
}

/// Reads a row's figures: the name and what follows it, which belongs to so many sessions.
fn stats_row(row: &Row<'_>, sessions: u64) -> rusqlite::Result<StatsRow> {
    let number = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let floor: u8 = row.get(13)?;
    let usage = Usage::new(number(9)?, number(10)?, number(11)?, number(12)?);
    Ok(StatsRow {
        name: row.get_ref(3)?.as_str()?.into(),
        sessions,
        agents: number(4)?,
        tool_calls: number(5)?,
        tool_errors: number(6)?,
        tools_denied: number(7)?,
        busy_ms: number(8)?,
        usage: Usage { floor: floor & TOKENS_FLOOR > 0, ..usage },
        cost_micro_usd: number(14)?,
        cost_floor: floor & COST_FLOOR > 0,
    })
}

/// Joins the parts of inbox rows that belong to a session, `?1`.
pub(super) const JOIN_PARTS: &str = "LEFT JOIN inbox_parts part ON part.no = inbox.no AND part.session = ?1";
/// Columns that [`received_input`] reads.
const RECEIVED_COLUMNS: &str = "source, inbox.session, key, dialect, received_ms, inbox.body";
/// Memory of an inbox row without its body, in bytes.
const ROW_BYTES: u64 = 256;
/// Approximate compression ratio of bodies.
const COMPRESSION_RATIO: u64 = 4;

fn received_input(row: &Row<'_>) -> StoreResult<ReceivedInput> {
    Ok(ReceivedInput {
        source: row.get(0)?,
        session: row.get(1)?,
        key: row.get(2)?,
        dialect: row.get(3)?,
        received_ms: row.get(4)?,
        body: pack::unpack(row.get(5)?)?,
        parts: Vec::new(),
        sessions: Vec::new(),
    })
}

/// Input in the place of a delivery that is damaged: a line that nothing can decode becomes a problem of its session.
fn damaged_input(session: &SessionId, no: u64) -> ReceivedInput {
    ReceivedInput {
        source: format!("{FILE}, delivery {no}"),
        session: Some(session.to_string()),
        dialect: String::new(),
        key: String::new(),
        received_ms: 0,
        body: b"(damaged in the store)\n".to_vec(),
        parts: Vec::new(),
        sessions: Vec::new(),
    }
}

/// A session with the highest rev of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRev {
    /// The session.
    pub session: SessionId,
    /// The rev; 0 if an older version wrote its rows.
    pub rev: u64,
    /// Time of its last event; 0 if unknown.
    pub last_event_at_ms: Millis,
    /// Whether it is at work.
    pub is_live: bool,
    /// Whether it was forgotten, under this rev.
    pub is_forgotten: bool,
}

impl SqliteStore {
    /// Returns the sessions with a rev from `rev` on, forgotten ones included, the newest last event first.
    pub fn sessions_from_rev(&self, rev: u64) -> StoreResult<Vec<StoredRev>> {
        let sql = "SELECT id, rev, last_ms, is_live, is_forgotten FROM sessions WHERE rev >= ?1 ORDER BY last_ms DESC, id";
        self.select(sql, [clamp(rev)], |row| {
            Ok(StoredRev {
                session: SessionId(row.get(0)?),
                rev: row.get::<_, i64>(1)?.unsigned_abs(),
                last_event_at_ms: row.get(2)?,
                is_live: row.get(3)?,
                is_forgotten: row.get(4)?,
            })
        })
    }

    /// Returns a number that differs from an earlier one if another process has committed since. Cheap.
    pub fn data_version(&self) -> StoreResult<i64> {
        Ok(self.db.query_row("PRAGMA data_version", [], |row| row.get(0))?)
    }

    pub(super) fn select<T>(
        &self,
        sql: &str,
        values: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        select(&self.db, sql, values, row)
    }

    /// Returns the sessions whose ids are the first column of a query.
    pub(super) fn select_sessions(&self, sql: &str, values: impl Params) -> StoreResult<Vec<SessionId>> {
        self.select(sql, values, |row| row.get(0).map(SessionId))
    }

    /// Returns all files that rows were derived from.
    pub fn sources(&self) -> StoreResult<Vec<SourceFile>> {
        self.select_sources("1", [])
    }

    /// Returns the files that a session's rows were derived from, as they were read.
    pub fn sources_of(&self, session: &SessionId) -> StoreResult<Vec<SourceFile>> {
        self.select_sources("id = ?1", [session.as_str()])
    }

    fn select_sources(&self, condition: &str, values: impl rusqlite::Params) -> StoreResult<Vec<SourceFile>> {
        // A damaged row would name a file that there never was.
        let is_intact = if self.has_sums { SOURCES.is_intact() } else { "1" };
        let sql = format!(
            "SELECT path, id, inode, bytes, modified_ns FROM sources JOIN sessions ON no = session_no \
             WHERE {condition} AND {is_intact} ORDER BY path"
        );
        self.select(&sql, values, |row| {
            let (path, session) = (path_at(row, 0)?, SessionId(row.get(1)?));
            Ok(SourceFile { path, session, identity: identity_at(row, 2)? })
        })
    }

    /// Returns the sessions with rows to rebuild: provisional, derived by other rules, older than their inbox input, or
    /// with a deadline that has passed. Frozen sessions, with a deleted source file, are left out.
    pub fn due_sessions(&self, now_ms: Millis) -> StoreResult<Vec<SessionId>> {
        self.select_sessions(
            "SELECT id FROM sessions WHERE is_frozen = 0 AND is_forgotten = 0
                 AND (rules <> ?1 OR deadline_ms <= ?2 OR id IN (SELECT session FROM unsettled))",
            params![self.rules, now_ms],
        )
    }

    /// Whether the stored rows of a session were made by these rules, or may have been.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn has_current_rows(&self, session: &SessionId) -> StoreResult<bool> {
        let sql = "SELECT rules = '' OR rules = ?1 FROM sessions WHERE id = ?2 AND is_forgotten = 0";
        Ok(select_one(&self.db, sql, [&*self.rules, session.as_str()], |row| row.get(0))?.unwrap_or(false))
    }

    /// Returns the sessions that were forgotten and have no new rows since.
    pub fn forgotten_sessions(&self) -> StoreResult<Vec<SessionId>> {
        self.select_sessions("SELECT id FROM sessions WHERE is_forgotten = 1", [])
    }

    /// Returns the ids of all sessions that are not forgotten.
    pub fn session_ids(&self) -> StoreResult<Vec<SessionId>> {
        self.select_sessions("SELECT id FROM sessions WHERE is_forgotten = 0", [])
    }

    /// Returns the files of forgotten sessions, with their size when they were last read.
    pub fn forgotten_files(&self) -> StoreResult<Vec<(PathBuf, u64)>> {
        let sql = "SELECT path, bytes FROM sources JOIN sessions ON no = session_no WHERE is_forgotten = 1";
        self.select(sql, [], |row| Ok((path_at(row, 0)?, row.get::<_, i64>(1)?.cast_unsigned())))
    }

    /// Returns the ended sessions with a last event before `before_ms`; sessions without any time are left out.
    pub fn sessions_older_than(&self, before_ms: Millis) -> StoreResult<Vec<SessionId>> {
        self.select_sessions(
            "SELECT id FROM sessions WHERE is_forgotten = 0 AND is_live = 0 AND last_ms > 0 AND last_ms < ?1",
            [before_ms],
        )
    }

    /// Returns the shared history of all compared sessions.
    pub fn shared_history(&self) -> StoreResult<Vec<SharedHistory>> {
        let sql = "SELECT l.id, e.id, shared FROM kin JOIN sessions l ON l.no = later_no JOIN sessions e ON e.no = earlier_no";
        self.select(sql, [], |row| {
            let (later, earlier) = (SessionId(row.get(0)?), SessionId(row.get(1)?));
            Ok(SharedHistory { later, earlier, shared: row.get::<_, i64>(2)?.unsigned_abs() })
        })
    }

    /// Returns the sessions to compare with all others, and whether their first keys are new too.
    pub fn uncompared_sessions(&self) -> StoreResult<Vec<(SessionId, bool)>> {
        let sql =
            "SELECT id, is_compared = 0 FROM held JOIN sessions ON no = session_no WHERE is_compared <> 1";
        self.select(sql, [], |row| Ok((SessionId(row.get(0)?), row.get(1)?)))
    }

    /// Returns a session's received input in order of arrival, with `sessions` left empty.
    pub fn received_of(&self, session: &SessionId) -> StoreResult<Vec<ReceivedInput>> {
        let mut all = Vec::new();
        self.each_received(session, 0, u64::MAX, &mut |received| all.push(received))?;
        Ok(all)
    }

    /// Passes a page of a session's received input to `each`; see [`crate::Ledger::read_received`].
    pub(super) fn each_received(
        &self,
        session: &SessionId,
        after: u64,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> StoreResult<Option<u64>> {
        let (inbox, part) = match self.has_sums {
            true => (INBOX.is_intact(), INBOX_PARTS.is_intact().replace("inbox_parts.", "part.")),
            false => ("1", "1".to_owned()),
        };
        let mut statement = self.db.prepare_cached(&format!(
            "SELECT {RECEIVED_COLUMNS}, part.line, part.offset, part.body, inbox.no, {inbox} AND {part}
             FROM inbox {JOIN_PARTS} WHERE inbox.no IN ({}) AND inbox.no > ?2 ORDER BY inbox.no, part.line",
            deferred_index::INBOX_ROWS_OF_SESSION
        ))?;
        let mut rows = statement.query(params![session.as_str(), clamp(after)])?;
        let (mut last, mut passed) = (after, 0);
        while let Some(row) = rows.next()? {
            let no = row.get::<_, i64>(9)?.unsigned_abs();
            // The parts of a delivery stay together.
            if no != last && last > after && passed >= bytes {
                return Ok(Some(last));
            }
            last = no;
            let intact = if row.get(10)? { received_input(row).ok() } else { None };
            let Some(mut received) = intact else {
                each(damaged_input(session, no));
                continue;
            };
            if let Some(line) = row.get::<_, Option<i64>>("line")? {
                received.parts.push(SessionPart {
                    session: session.clone(),
                    line: line.unsigned_abs(),
                    offset: row.get::<_, i64>("offset")?.unsigned_abs(),
                    body: pack::unpack(row.get(8)?)?,
                });
            }
            passed += (received.body.len() + received.parts.iter().map(|part| part.body.len()).sum::<usize>())
                as u64;
            each(received);
        }
        Ok(None)
    }

    /// Returns inbox rows after number `row` with their numbers, in order: about `bytes` of compressed bodies, at least
    /// one row if there is one. Bodies split by session are joined. `sessions` is empty for rows of forgotten sessions.
    pub fn received_after(&self, row: u64, bytes: u64) -> StoreResult<Vec<(u64, ReceivedInput)>> {
        let is_intact = if self.has_sums { INBOX.is_intact() } else { "1" };
        let sql = format!(
            "SELECT {RECEIVED_COLUMNS}, no, sessions FROM inbox WHERE no > ?1 AND {is_intact} ORDER BY no"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([clamp(row)])?;
        let (mut all, mut taken) = (Vec::new(), 0);
        while taken < bytes
            && let Some(row) = rows.next()?
        {
            let no: i64 = row.get(6)?;
            let received = received_input(row)?;
            let sessions = match row.get::<_, Option<String>>(7)? {
                Some(json) => serde_json::from_str(&json)?,
                None => received.session.as_deref().map(SessionId::from).into_iter().collect(),
            };
            let body = self.joined_body(no, received.body)?;
            taken += body.len() as u64 / COMPRESSION_RATIO + ROW_BYTES;
            all.push((no.unsigned_abs(), ReceivedInput { body, sessions, ..received }));
        }
        Ok(all)
    }

    /// Returns an inbox row's own body, or its joined parts in line order.
    fn joined_body(&self, no: i64, mut body: Vec<u8>) -> StoreResult<Vec<u8>> {
        if body.is_empty() {
            let sql = "SELECT body FROM inbox_parts WHERE no = ?1 ORDER BY line";
            for part in self.select(sql, [no], |row| row.get(0))? {
                body.extend(pack::unpack(part)?);
            }
        }
        Ok(body)
    }
}

impl SessionQueries for SqliteStore {
    fn list(&self, query: &ListQuery) -> StoreResult<Vec<SessionRow>> {
        self.page(query)
    }

    fn tree(&self, session: &SessionId) -> StoreResult<Option<Tree>> {
        let columns = TREES.checked_columns(self.has_sums);
        let sql = format!("SELECT {columns} FROM trees JOIN sessions ON no = session_no WHERE id = ?1");
        let body = select_one(&self.db, &sql, [session.as_str()], |row| {
            Ok(if TREES.is_read_intact(row)? {
                row.get_ref(1)?.as_blob().ok().map(<[u8]>::to_vec)
            } else {
                None
            })
        })?;
        let Some(body) = body else { return Ok(None) };
        let unpacked = body.and_then(|body| pack::unpack(body).ok());
        let tree = unpacked.and_then(|body| serde_json::from_slice(&body).ok());
        tree.map(Some).ok_or_else(|| StoreError::DamagedRow(format!("session {session}")))
    }

    fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<SessionId>> {
        self.select_sessions(
            // Also those of which only input is stored yet.
            "WITH named AS (
                 SELECT id, last_ms FROM sessions WHERE is_forgotten = 0 AND id >= ?1 AND id < ?1 || char(1114111)
                 UNION ALL SELECT session, ?3 FROM unsettled WHERE session >= ?1 AND session < ?1 || char(1114111)
                     AND session NOT IN (SELECT id FROM sessions WHERE is_forgotten = 0))
             SELECT id FROM named WHERE substr(id, 1, length(?1)) = ?1 ORDER BY last_ms DESC, id LIMIT ?2",
            params![prefix, clamp(limit), i64::MAX],
        )
    }

    fn agents_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<(SessionId, AgentId)>> {
        let sql = "SELECT s.id, a.id FROM agents a JOIN sessions s ON s.no = a.session_no
            WHERE a.id >= ?1 AND substr(a.id, 1, length(?1)) = ?1 AND a.id < ?1 || char(1114111)
            ORDER BY s.last_ms DESC LIMIT ?2";
        self.select(sql, params![prefix, clamp(limit)], |row| {
            Ok((SessionId(row.get(0)?), AgentId(row.get(1)?)))
        })
    }

    fn agents_with_words(&self, words: &str, limit: usize) -> StoreResult<Vec<AgentName>> {
        let is_intact =
            if self.has_sums { AGENTS.is_intact().replace("agents.", "a.") } else { "1".to_owned() };
        // Session by session, so that few are read if there are matches enough.
        let sql = format!(
            "SELECT s.id, a.id, a.type, a.description FROM sessions s CROSS JOIN agents a ON a.session_no = s.no \
             WHERE s.is_forgotten = 0 AND {is_intact} ORDER BY s.last_ms DESC, s.id"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let names: (Option<Text>, Option<Text>) = (row.get(2)?, row.get(3)?);
            let (session, agent) = (SessionId(row.get(0)?), AgentId(row.get(1)?));
            found.extend(AgentName::found(words, session, agent, names.0.as_deref(), names.1.as_deref()));
        }
        Ok(found)
    }

    fn session_row(&self, session: &SessionId) -> StoreResult<Option<SessionRow>> {
        let columns = SESSIONS.checked_columns(self.has_sums);
        let sql = format!("SELECT {columns}, kept_ms FROM sessions WHERE id = ?1 AND is_forgotten = 0");
        Ok(select_one(&self.db, &sql, [session.as_str()], |row| self.row_at(row))?)
    }

    fn stats(&self, query: &StatsQuery) -> StoreResult<Stats> {
        self.stats_with(query, &[])
    }
}

impl SqliteStore {
    /// Sums the stored figures, and those of `unsaved` trees in place of the stored ones; `None` if a row is damaged.
    fn stats_of_rows(&self, query: &StatsQuery, unsaved: &[&Tree]) -> StoreResult<Option<Stats>> {
        let mut sums = Sums::new(query);
        let is_unsaved: HashSet<&SessionId> = unsaved.iter().map(|tree| &tree.session.id).collect();
        unsaved.iter().for_each(|tree| sums.add_tree(tree));
        let mut is_intact = true;
        let mut sessions: HashMap<i64, SessionRow> = HashMap::new();
        let columns = SESSIONS.checked_columns(self.has_sums);
        let sql = format!("SELECT {columns}, no FROM sessions WHERE is_forgotten = 0");
        self.select(&sql, [], |row| {
            match session_row_at(row)? {
                Some(found) if sums.covers(&found) && !is_unsaved.contains(&found.id) => {
                    sessions.insert(row.get(AFTER_SESSION)?, found);
                }
                Some(_) => {}
                None => is_intact = false,
            }
            Ok(())
        })?;
        let (first, last) = sums.quarters_covered();
        let sql = format!("SELECT {} {FIGURES}", QUARTERS.checked_columns(self.has_sums));
        let rows = self.select(&sql, [first, last], |row| {
            if !QUARTERS.is_read_intact(row)? {
                is_intact = false;
                return Ok(None);
            }
            Ok(Some((row.get(0)?, figures_row(row)?)))
        })?;
        let rows: Vec<(i64, QuarterFigures)> = rows.into_iter().flatten().collect();
        for rows in rows.chunk_by(|(one, _), (other, _)| one == other) {
            if let Some(session) = rows.first().and_then(|(no, _)| sessions.get(no)) {
                sums.add_session(session, rows.iter().map(|(_, figures)| figures));
            }
        }
        let (from, _) = sums.span_covered();
        let mut read = |table: &Table, text: usize, each: &mut dyn FnMut(&SessionRow, &str) -> bool| {
            let (name, columns) = (table.name, table.checked_columns(self.has_sums));
            let sql =
                format!("SELECT {columns} FROM {name} JOIN sessions ON no = session_no WHERE last_ms >= ?1");
            self.select(&sql, [from], |row| {
                let is_read = table.is_read_intact(row)?
                    && match (sessions.get(&row.get::<_, i64>(0)?), row.get_ref(text)?) {
                        (Some(session), ValueRef::Text(json)) => {
                            std::str::from_utf8(json).is_ok_and(|json| each(session, json))
                        }
                        (session, _) => session.is_none(),
                    };
                is_intact &= is_read;
                Ok(())
            })
        };
        read(&AT_WORK, 1, &mut |_, json| {
            let intervals = serde_json::from_str::<Vec<[Millis; 2]>>(json);
            intervals.is_ok_and(|intervals| {
                sums.add_work(&intervals);
                true
            })
        })?;
        read(&SLOW_CALLS, 2, &mut |session, json| {
            serde_json::from_str::<SlowCall>(json).is_ok_and(|call| {
                sums.add_calls([SlowCall { session_title: session.title.clone(), ..call }]);
                true
            })
        })?;
        let columns = TOP_AGENTS.checked_columns(self.has_sums);
        let sql =
            format!("SELECT {columns} FROM top_agents JOIN sessions ON no = session_no WHERE last_ms >= ?1");
        self.select(&sql, [from], |row| {
            if !TOP_AGENTS.is_read_intact(row)? {
                is_intact = false;
                return Ok(());
            }
            if let Some(session) = sessions.get(&row.get::<_, i64>(0)?) {
                sums.add_agent(TopRow {
                    session_id: session.id.clone(),
                    session_title: session.title.clone(),
                    agent_id: Some(AgentId(row.get(1)?)),
                    started_at_ms: row.get(2)?,
                    row: stats_row(row, 1)?,
                });
            }
            Ok(())
        })?;
        Ok(is_intact.then(|| sums.finish()))
    }

    /// Sums the figures of all trees, `unsaved` ones in place of the stored, and adds the sessions without one that can
    /// be read to the problems.
    fn stats_of_trees(
        &self,
        query: &StatsQuery,
        unsaved: &[&Tree],
        mut problems: Vec<Problem>,
    ) -> StoreResult<Stats> {
        let mut sums = Sums::new(query);
        let is_unsaved: HashSet<&SessionId> = unsaved.iter().map(|tree| &tree.session.id).collect();
        unsaved.iter().for_each(|tree| sums.add_tree(tree));
        for session in self.session_ids()?.into_iter().filter(|session| !is_unsaved.contains(session)) {
            match self.tree(&session) {
                Ok(Some(tree)) => sums.add_tree(&tree),
                Ok(None) | Err(StoreError::DamagedRow(_)) => {
                    let what = "its tree is damaged, too: the figures lack it".to_owned();
                    problems.push(Problem { at: session.to_string(), what });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Stats { problems, ..sums.finish() })
    }
}

impl History for SqliteStore {
    fn reader(&self) -> OpenReader {
        let (folder, rules) = (self.location.folder().to_owned(), self.rules.clone());
        Arc::new(move || match Self::open(&folder, Access::Read, &rules, 0) {
            Ok(store) => Ok(Box::new(store) as Box<dyn History>),
            Err(error) => Err(StoreError::Storage(Box::new(error))),
        })
    }

    fn stats_with(&self, query: &StatsQuery, unsaved: &[&Tree]) -> StoreResult<Stats> {
        if !self.has_figures {
            return self.stats_of_trees(query, unsaved, Vec::new());
        }
        match self.stats_of_rows(query, unsaved)? {
            Some(stats) => Ok(stats),
            None => {
                let what = "stored figures are damaged: these are made from the sessions' trees".to_owned();
                self.stats_of_trees(query, unsaved, vec![Problem { at: FILE.to_owned(), what }])
            }
        }
    }

    fn agent_label(&self, session: &SessionId, agent: &str) -> StoreResult<Option<AgentLabel>> {
        let sql = "SELECT no FROM sessions WHERE id = ?1 AND is_forgotten = 0";
        let no: Option<i64> = select_one(&self.db, sql, [session.as_str()], |row| row.get(0))?;
        let Some(no) = no else { return Ok(None) };
        if agent == AgentId::ROOT {
            return Ok(Some(AgentLabel { id: agent.into(), agent_type: None, description: None }));
        }
        for column in ["id", "spawned_by"] {
            let sql =
                format!("SELECT id, type, description FROM agents WHERE session_no = ?1 AND {column} = ?2");
            let label = select_one(&self.db, &sql, params![no, agent], |row| {
                Ok(AgentLabel { id: AgentId(row.get(0)?), agent_type: row.get(1)?, description: row.get(2)? })
            })?;
            if label.is_some() {
                return Ok(label);
            }
        }
        Ok(None)
    }

    fn files_of(&self, session: &SessionId) -> StoreResult<Vec<PathBuf>> {
        let sql = "SELECT path FROM sources WHERE session_no = (SELECT no FROM sessions WHERE id = ?1) ORDER BY path";
        self.select(sql, [session.as_str()], |row| path_at(row, 0))
    }

    fn facts_of(&self, session: &SessionId) -> StoreResult<Option<StoredFacts>> {
        // Damaged ones are of no use: the rows stay as they are.
        let is_intact = if self.has_sums { FACTS.is_intact() } else { "1" };
        let own = "session_no = (SELECT no FROM sessions WHERE id = ?1)";
        let sql = format!("SELECT is_needed, body FROM facts WHERE {own} AND {is_intact}");
        let read = |row: &rusqlite::Row<'_>| {
            Ok(StoredFacts { session: session.clone(), is_needed: row.get(0)?, body: row.get(1)? })
        };
        Ok(select_one(&self.db, &sql, [session.as_str()], read)?)
    }

    fn needs_facts(&self, session: &SessionId) -> StoreResult<bool> {
        let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'facts'";
        if select_one(&self.db, sql, [], |row| row.get::<_, i64>(0))?.is_none() {
            // A store of an older version that was opened for reading.
            return Ok(false);
        }
        let sql = "SELECT is_needed FROM facts JOIN sessions ON no = session_no WHERE id = ?1";
        Ok(select_one(&self.db, sql, [session.as_str()], |row| row.get(0))?.unwrap_or(false))
    }

    fn deadlines(&self) -> StoreResult<Vec<(SessionId, Millis)>> {
        let sql = "SELECT id, deadline_ms FROM sessions WHERE deadline_ms IS NOT NULL AND is_frozen = 0";
        self.select(sql, [], |row| Ok((SessionId(row.get(0)?), row.get(1)?)))
    }

    fn received_row(&self, row: u64) -> StoreResult<Option<ReceivedInput>> {
        let no = clamp(row);
        let is_intact = if self.has_sums { INBOX.is_intact() } else { "1" };
        let sql = format!("SELECT {RECEIVED_COLUMNS} FROM inbox WHERE no = ?1 AND {is_intact}");
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([no])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let received = received_input(row)?;
        let body = self.joined_body(no, received.body)?;
        Ok(Some(ReceivedInput { body, ..received }))
    }

    fn first_keys(&self) -> StoreResult<Vec<(SessionId, Vec<u64>)>> {
        let sql = "SELECT id, heads FROM held JOIN sessions ON no = session_no";
        self.select(sql, [], |row| Ok((SessionId(row.get(0)?), unpack_keys(row.get_ref(1)?).collect())))
    }

    fn sessions_with_keys(&self, keys: &KeySet) -> StoreResult<Vec<(SessionId, u64)>> {
        let mut statement = self.db.prepare_cached("SELECT session_no, keys FROM holdings")?;
        let mut rows = statement.query([])?;
        let mut found: HashSet<(i64, u64)> = HashSet::new();
        while let Some(row) = rows.next()? {
            let session: i64 = row.get(0)?;
            found.extend(
                unpack_keys(row.get_ref(1)?).filter(|key| keys.contains(key)).map(|key| (session, key)),
            );
        }
        let mut name = self.db.prepare_cached("SELECT id FROM sessions WHERE no = ?1")?;
        let mut id = |no| name.query_row([no], |row| row.get(0).map(SessionId));
        found.into_iter().map(|(no, key)| Ok((id(no)?, key))).collect()
    }

    fn session_keys(&self, session: &SessionId) -> StoreResult<Option<SessionKeys>> {
        let sql =
            "SELECT session_no, began_ms, heads FROM held JOIN sessions ON no = session_no WHERE id = ?1";
        let held = select_one(&self.db, sql, [session.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get(1)?, unpack_keys(row.get_ref(2)?).collect()))
        })?;
        let Some((no, began_ms, first_keys)) = held else { return Ok(None) };
        let mut statement = self.db.prepare_cached("SELECT keys FROM holdings WHERE session_no = ?1")?;
        let mut rows = statement.query([no])?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            keys.extend(unpack_keys(row.get_ref(0)?));
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(SessionKeys { session: session.clone(), began_ms, first_keys, keys }))
    }

    fn cost_of_day(&self, day: i64, zone: &Zone, session: Option<&SessionId>) -> StoreResult<DayCost> {
        let types = By::Type as u8;
        let (first, last) = quarters_of(day, day, zone);
        // Where the session's own cost is exact, what an agent lacks is in the row of another.
        let sum = format!(
            "SELECT COALESCE(SUM(cost), 0), COUNT(DISTINCT CASE WHEN floor & {COST_FLOOR} \
                AND (json_extract(row, '$.cost_micro_usd') IS NULL OR json_extract(row, '$.cost_floor')) \
                THEN session_no END) \
             FROM quarters JOIN sessions ON no = session_no WHERE by = ?1 AND quarter BETWEEN ?2 AND ?3"
        );
        let read = |row: &Row<'_>| {
            Ok(DayCost { cost: row.get(0)?, floor_sessions: row.get::<_, i64>(1)?.cast_unsigned() })
        };
        Ok(match session {
            None => self.db.query_row(&sum, params![types, first, last], read)?,
            Some(session) => {
                let own = format!("{sum} AND id = ?4");
                self.db.query_row(&own, params![types, first, last, session.as_str()], read)?
            }
        })
    }

    fn is_forgotten(&self, session: &SessionId) -> StoreResult<bool> {
        let sql = "SELECT is_forgotten FROM sessions WHERE id = ?1";
        Ok(select_one(&self.db, sql, [session.as_str()], |row| row.get(0))?.unwrap_or(false))
    }

    fn remote_position(&self, machine: &str) -> StoreResult<Option<RemotePosition>> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        let json: Option<String> = select_one(&self.db, sql, [remote_key(machine)], |row| row.get(0))?;
        // One that cannot be read is none: all rows come again, which changes nothing.
        let read = json.and_then(|json| serde_json::from_str::<(Text, u64)>(&json).ok());
        Ok(read.map(|(store, rev)| RemotePosition { machine: machine.into(), store, rev }))
    }

    fn looks(&self) -> StoreResult<Looks> {
        if self.has_looks { looks::read_looks(&self.db) } else { Ok(Looks::default()) }
    }

    fn last_seq(&self) -> u64 {
        self.next_seq.saturating_sub(1)
    }

    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> StoreResult<Option<Vec<Event>>> {
        // After a repair older events may be missing.
        let sql =
            "SELECT max(min(seq), ifnull((SELECT value FROM meta WHERE key = 'log_from'), 0)) FROM changes";
        let first: Option<i64> = self.db.query_row(sql, [], |row| row.get(0))?;
        let first = first.map_or(self.next_seq, i64::cast_unsigned);
        if seq != 0 && seq.saturating_add(1) < first {
            return Ok(None);
        }
        let (seq, limit) = (clamp(seq), clamp(limit));
        let body = |row: &Row<'_>| row.get::<_, String>("body");
        let texts = match session {
            Some(session) => {
                let values = params![session.as_str(), seq, limit];
                self.select(deferred_index::EVENTS_OF_SESSION, values, body)
            }
            None => {
                let sql = "SELECT body FROM changes WHERE seq > ?1 ORDER BY seq LIMIT ?2";
                self.select(sql, params![seq, limit], body)
            }
        }?;
        Ok(Some(texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?))
    }

    fn latest_events(&self, session: &SessionId, limit: usize) -> StoreResult<Vec<(Text, Option<Millis>)>> {
        #[derive(Deserialize)]
        struct EventHead {
            id: Text,
            at_ms: Option<Millis>,
        }
        let values = params![session.as_str(), clamp(limit)];
        let texts: Vec<String> =
            self.select(deferred_index::LATEST_EVENTS_OF_SESSION, values, |row| row.get("body"))?;
        let heads = texts.iter().map(|text| serde_json::from_str(text));
        let heads = heads.map(|head| head.map(|EventHead { id, at_ms }| (id, at_ms)));
        Ok(heads.collect::<Result<_, _>>()?)
    }
}
