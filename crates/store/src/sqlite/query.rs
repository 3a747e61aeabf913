//! Queries: each is one statement over an index, or one row that is decompressed.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use subscope_model::{AgentId, Event, Millis, SessionId, SessionRow, Stats, StatsRow, Text, Tree, Usage};

use super::{deferred_index, pack, store_error};
use crate::{
    AgentLabel, FileIdentity, ListQuery, ReceivedInput, SessionPart, SourceFile, StoreError,
    days::{self, By},
};

fn session_id(text: &str) -> SessionId {
    SessionId(text.into())
}

const LIST_NEWEST: &str = "SELECT row, kept_ms FROM sessions
    WHERE last_ms <= ?1 AND is_forgotten = 0 AND (last_ms < ?1 OR id > ?2) AND (?3 = 0 OR is_live = 1) AND ?5 = 0
    ORDER BY last_ms DESC, id LIMIT ?4";
const LIST_RECENTLY_CHANGED: &str = "SELECT row, kept_ms FROM sessions INDEXED BY sessions_kept
    WHERE kept_ms >= ?5 AND is_forgotten = 0 AND last_ms <= ?1 AND (last_ms < ?1 OR id > ?2) AND (?3 = 0 OR is_live = 1)
    ORDER BY last_ms DESC, id LIMIT ?4";

pub(super) fn list(db: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<SessionRow>> {
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let (last_ms, id) = match &query.after {
        Some((at, id)) => (*at, id.as_str()),
        None => (i64::MAX, ""),
    };
    // Few of many changed recently: another index finds them.
    let mut statement = db.prepare_cached(match query.kept_since {
        Some(_) => LIST_RECENTLY_CHANGED,
        None => LIST_NEWEST,
    })?;
    let kept_since = query.kept_since.unwrap_or(0);
    let rows = statement.query_map(params![last_ms, id, query.only_live, limit, kept_since], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Millis>(1)?))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let (row, kept_ms) = row?;
        // A row of another version of the model has other rules: the next index run rebuilds it.
        let Ok(row) = serde_json::from_str::<SessionRow>(&row) else { continue };
        all.push(SessionRow { kept_at_ms: (kept_ms > 0).then_some(kept_ms), ..row });
    }
    Ok(all)
}

pub(super) fn tree(db: &Connection, session: &SessionId) -> Result<Option<Tree>, StoreError> {
    let body: Option<Vec<u8>> = db
        .prepare_cached("SELECT body FROM trees JOIN sessions ON no = session_no WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([session.as_str()], |row| row.get(0)).optional())
        .map_err(store_error)?;
    let Some(body) = body else { return Ok(None) };
    let json = pack::unpack(body).map_err(|error| StoreError::Storage(Box::new(error)))?;
    serde_json::from_slice(&json).map(Some).map_err(|error| StoreError::Storage(Box::new(error)))
}

pub(super) fn sessions_with_prefix(
    db: &Connection,
    prefix: &str,
    limit: usize,
) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = db.prepare_cached(
        "SELECT id FROM sessions
         WHERE is_forgotten = 0 AND id >= ?1 AND substr(id, 1, length(?1)) = ?1 AND id < ?1 || char(1114111)
         ORDER BY last_ms DESC, id LIMIT ?2",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![prefix, limit], |row| row.get::<_, String>(0))?;
    rows.map(|row| row.map(|id| session_id(&id))).collect()
}

pub(super) fn agents_with_prefix(
    db: &Connection,
    prefix: &str,
    limit: usize,
) -> rusqlite::Result<Vec<(SessionId, AgentId)>> {
    let mut statement = db.prepare_cached(
        "SELECT s.id, a.id FROM agents a JOIN sessions s ON s.no = a.session_no
         WHERE a.id >= ?1 AND substr(a.id, 1, length(?1)) = ?1 AND a.id < ?1 || char(1114111)
         ORDER BY s.last_ms DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(params![prefix, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let (session, agent): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((session_id(&session), AgentId::from(agent.as_str())))
    })?;
    rows.collect()
}

pub(super) fn agent_label(
    db: &Connection,
    session: &SessionId,
    agent: &str,
) -> rusqlite::Result<Option<AgentLabel>> {
    let no: Option<i64> = db
        .prepare_cached("SELECT no FROM sessions WHERE id = ?1 AND is_forgotten = 0")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    let Some(no) = no else { return Ok(None) };
    if AgentId::from(agent).is_root() {
        return Ok(Some(AgentLabel { id: agent.into(), agent_type: None, description: None }));
    }
    let find_by = |column: &str| {
        let query =
            format!("SELECT id, type, description FROM agents WHERE session_no = ?1 AND {column} = ?2");
        db.prepare_cached(&query)?
            .query_row(params![no, agent], |row| {
                let text =
                    |at: usize| row.get::<_, Option<String>>(at).map(|it| it.map(|it| it.as_str().into()));
                let id: String = row.get(0)?;
                Ok(AgentLabel { id: id.as_str().into(), agent_type: text(1)?, description: text(2)? })
            })
            .optional()
    };
    match find_by("id")? {
        Some(label) => Ok(Some(label)),
        None => find_by("spawned_by"),
    }
}

/// Aggregated columns of `days`, in the order in which [`sum_row`] reads them.
const SUMS: &str =
    "count(DISTINCT session_no), sum(agents), sum(calls), sum(errors), sum(denied), sum(busy_ms),
    sum(input), sum(output), sum(cache_read), sum(cache_write), max(floor), sum(cost)";

fn sum_row(row: &rusqlite::Row<'_>, name: &str, from: usize) -> rusqlite::Result<StatsRow> {
    let number = |at: usize| row.get::<_, Option<i64>>(from + at).map(|it| it.unwrap_or(0).unsigned_abs());
    let usage = Usage::new(number(6)?, number(7)?, number(8)?, number(9)?);
    Ok(StatsRow {
        name: name.into(),
        sessions: number(0)?,
        agents: number(1)?,
        tool_calls: number(2)?,
        tool_errors: number(3)?,
        tools_denied: number(4)?,
        busy_ms: number(5)?,
        usage: Usage { floor: number(10)? > 0, ..usage },
        cost_micro_usd: number(11)?,
    })
}

pub(super) fn stats(db: &Connection) -> rusqlite::Result<Stats> {
    let types = By::Type as u8;
    // Each agent has one type: sums by type are totals.
    let total = db.query_row(&format!("SELECT {SUMS} FROM days WHERE by = ?1"), [types], |row| {
        sum_row(row, "all", 0)
    })?;
    let mut by_name: Vec<(u8, StatsRow)> = Vec::new();
    let mut statement = db.prepare_cached(&format!("SELECT by, name, {SUMS} FROM days GROUP BY by, name"))?;
    let rows = statement.query_map([], |row| {
        let (by, name): (u8, String) = (row.get(0)?, row.get(1)?);
        Ok((by, sum_row(row, &name, 2)?))
    })?;
    for row in rows {
        by_name.push(row?);
    }
    let mut statement =
        db.prepare_cached(&format!("SELECT day, {SUMS} FROM days WHERE by = ?1 GROUP BY day"))?;
    let by_day = statement.query_map([types], |row| Ok((row.get(0)?, sum_row(row, "", 1)?)))?;
    let by_day: Vec<(i64, StatsRow)> = by_day.collect::<rusqlite::Result<_>>()?;
    let of =
        |by: By| by_name.iter().filter(|(known, _)| *known == by as u8).map(|(_, row)| row.clone()).collect();
    Ok(days::stats(total, of, by_day))
}

pub(super) fn sources(db: &Connection) -> rusqlite::Result<Vec<SourceFile>> {
    let mut statement = db.prepare_cached(
        "SELECT path, id, inode, bytes, modified_ns FROM sources JOIN sessions ON no = session_no",
    )?;
    let rows = statement.query_map([], |row| {
        let (path, session): (Vec<u8>, String) = (row.get(0)?, row.get(1)?);
        Ok(SourceFile {
            path: Path::new(OsStr::from_bytes(&path)).to_owned(),
            session: session_id(&session),
            identity: FileIdentity {
                inode: row.get::<_, i64>(2)?.cast_unsigned(),
                bytes: row.get::<_, i64>(3)?.cast_unsigned(),
                modified_ns: row.get(4)?,
            },
        })
    })?;
    rows.collect()
}

pub(super) fn files_of(db: &Connection, session: &SessionId) -> rusqlite::Result<Vec<PathBuf>> {
    let mut statement = db.prepare_cached(
        "SELECT path FROM sources WHERE session_no = (SELECT no FROM sessions WHERE id = ?1) ORDER BY path",
    )?;
    let rows = statement.query_map([session.as_str()], |row| row.get::<_, Vec<u8>>(0))?;
    rows.map(|row| row.map(|path| PathBuf::from(OsStr::from_bytes(&path)))).collect()
}

pub(super) fn due_sessions(db: &Connection, rules: &str, now_ms: Millis) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = db.prepare_cached(
        "SELECT id FROM sessions WHERE is_frozen = 0 AND is_forgotten = 0
             AND (rules <> ?1 OR deadline_ms <= ?2 OR id IN (SELECT session FROM unsettled))",
    )?;
    let rows = statement.query_map(params![rules, now_ms], |row| row.get::<_, String>(0))?;
    rows.map(|row| row.map(|id| session_id(&id))).collect()
}

pub(super) fn events_after(
    db: &Connection,
    seq: u64,
    session: Option<&SessionId>,
    limit: usize,
    next_seq: u64,
) -> Result<Option<Vec<Event>>, StoreError> {
    let first: Option<i64> =
        db.query_row("SELECT min(seq) FROM changes", [], |row| row.get(0)).map_err(store_error)?;
    let first = first.map_or(next_seq, i64::cast_unsigned);
    if seq != 0 && seq.saturating_add(1) < first {
        return Ok(None);
    }
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut texts = Vec::new();
        let mut take = |mut rows: rusqlite::Rows<'_>| -> rusqlite::Result<()> {
            while let Some(row) = rows.next()? {
                texts.push(row.get("body")?);
            }
            Ok(())
        };
        match session {
            Some(session) => {
                take(db.prepare_cached(deferred_index::EVENTS_OF_SESSION)?.query(params![
                    session.as_str(),
                    seq,
                    limit
                ])?)?;
            }
            None => take(
                db.prepare_cached("SELECT body FROM changes WHERE seq > ?1 ORDER BY seq LIMIT ?2")?
                    .query(params![seq, limit])?,
            )?,
        }
        Ok(texts)
    };
    let texts = read().map_err(store_error)?;
    let events = texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>();
    events.map(Some).map_err(|error| StoreError::Storage(Box::new(error)))
}

pub(super) fn latest_events(
    db: &Connection,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<(Text, Option<Millis>)>, StoreError> {
    #[derive(Deserialize)]
    struct EventHead {
        id: Text,
        at_ms: Option<Millis>,
    }
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement = db.prepare_cached(deferred_index::LATEST_EVENTS_OF_SESSION)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        statement.query_map(params![session.as_str(), limit], |row| row.get("body"))?.collect()
    };
    let texts = read().map_err(store_error)?;
    let heads = texts
        .iter()
        .map(|text| serde_json::from_str(text).map(|EventHead { id, at_ms }| (id, at_ms)))
        .collect::<Result<_, _>>();
    heads.map_err(|error| StoreError::Storage(Box::new(error)))
}

pub(super) fn sessions_with_unprocessed_input(db: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = db.prepare_cached("SELECT session FROM unsettled")?;
    let rows = statement.query_map([], |row| Ok(session_id(&row.get::<_, String>(0)?)))?;
    rows.collect()
}

/// Returns the compressed size of a session's received input in bytes.
pub(super) fn received_bytes(db: &Connection, session: &SessionId) -> rusqlite::Result<u64> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT coalesce(sum(length(coalesce(part.body, inbox.body))), 0) FROM inbox {JOIN_PARTS} WHERE inbox.no IN ({})",
        deferred_index::INBOX_ROWS_OF_SESSION
    ))?;
    statement.query_row([session.as_str()], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Joins the parts of inbox rows that belong to a session, `?1`.
const JOIN_PARTS: &str = "LEFT JOIN inbox_parts part ON part.no = inbox.no AND part.session = ?1";

/// Columns that [`received_input`] reads.
const RECEIVED_COLUMNS: &str = "source, inbox.session, key, dialect, received_ms, inbox.body";

/// Passes a session's received input to `each`, in order of arrival.
pub(super) fn read_received(
    db: &Connection,
    session: &SessionId,
    each: &mut dyn FnMut(ReceivedInput),
) -> Result<(), StoreError> {
    let query = format!(
        "SELECT {RECEIVED_COLUMNS}, part.line, part.offset, part.body FROM inbox {JOIN_PARTS} WHERE inbox.no IN ({})
         ORDER BY inbox.no, part.line",
        deferred_index::INBOX_ROWS_OF_SESSION
    );
    let mut statement = db.prepare_cached(&query).map_err(store_error)?;
    let mut rows = statement.query([session.as_str()]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let mut received = received_input(row)?;
        let line: Option<i64> = row.get("line").map_err(store_error)?;
        if let Some(line) = line {
            let offset: i64 = row.get("offset").map_err(store_error)?;
            let body = decompress(row.get(8).map_err(store_error)?)?;
            let (line, offset) = (line.unsigned_abs(), offset.unsigned_abs());
            received.parts.push(SessionPart { session: session.clone(), line, offset, body });
        }
        each(received);
    }
    Ok(())
}

fn received_input(row: &rusqlite::Row<'_>) -> Result<ReceivedInput, StoreError> {
    let read = || -> rusqlite::Result<(ReceivedInput, Vec<u8>)> {
        let received = ReceivedInput {
            source: row.get(0)?,
            session: row.get(1)?,
            key: row.get(2)?,
            dialect: row.get(3)?,
            received_ms: row.get(4)?,
            body: Vec::new(),
            parts: Vec::new(),
            sessions: Vec::new(),
        };
        Ok((received, row.get(5)?))
    };
    let (received, packed) = read().map_err(store_error)?;
    Ok(ReceivedInput { body: decompress(packed)?, ..received })
}

/// Returns inbox rows after number `row` with their numbers, of about `bytes` compressed bytes. Bodies split by session are joined.
pub(super) fn received_after(
    db: &Connection,
    row: u64,
    bytes: u64,
) -> Result<Vec<(u64, ReceivedInput)>, StoreError> {
    let query = format!("SELECT {RECEIVED_COLUMNS}, no, sessions FROM inbox WHERE no > ?1 ORDER BY no");
    let mut statement = db.prepare_cached(&query).map_err(store_error)?;
    let mut rows = statement.query([i64::try_from(row).unwrap_or(i64::MAX)]).map_err(store_error)?;
    let (mut all, mut taken) = (Vec::new(), 0);
    while taken < bytes
        && let Some(row) = rows.next().map_err(store_error)?
    {
        let no: i64 = row.get(6).map_err(store_error)?;
        let sessions: Option<String> = row.get(7).map_err(store_error)?;
        let received = received_input(row)?;
        let body = joined_body(db, no, received.body)?;
        let sessions = match sessions {
            Some(json) => serde_json::from_str::<Vec<SessionId>>(&json)
                .map_err(|error| StoreError::Storage(Box::new(error)))?,
            None => received.session.as_deref().map(session_id).into_iter().collect(),
        };
        taken += body.len() as u64 / COMPRESSION_RATIO + ROW_BYTES;
        all.push((no.unsigned_abs(), ReceivedInput { body, sessions, ..received }));
    }
    Ok(all)
}

/// Returns the body of an inbox row, joined if it is split by session.
pub(super) fn received_body(db: &Connection, row: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let no = i64::try_from(row).unwrap_or(i64::MAX);
    let packed: Option<Vec<u8>> = db
        .prepare_cached("SELECT body FROM inbox WHERE no = ?1")
        .and_then(|mut statement| statement.query_row([no], |row| row.get(0)).optional())
        .map_err(store_error)?;
    packed.map(|packed| joined_body(db, no, decompress(packed)?)).transpose()
}

/// Returns a row's own body, or its joined parts in line order.
fn joined_body(db: &Connection, no: i64, mut body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    if !body.is_empty() {
        return Ok(body);
    }
    let mut parts =
        db.prepare_cached("SELECT body FROM inbox_parts WHERE no = ?1 ORDER BY line").map_err(store_error)?;
    let mut rows = parts.query([no]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        body.extend(decompress(row.get(0).map_err(store_error)?)?);
    }
    Ok(body)
}

/// Memory of an inbox row without its body, in bytes.
const ROW_BYTES: u64 = 256;

/// Approximate compression ratio of bodies.
const COMPRESSION_RATIO: u64 = 4;

fn decompress(packed: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    pack::unpack(packed).map_err(|error| StoreError::Storage(Box::new(error)))
}
