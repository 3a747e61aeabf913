//! Writing: one transaction for each commit, rows of a session replaced whole.

use std::os::unix::ffi::OsStrExt;

use hashbrown::HashSet;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use subscope_model::{Event, Millis, SessionId, SessionRow, SessionStatus, Tree};

use super::{
    deferred_index::{self, Filing},
    pack::Packer,
    session_keys,
};
use crate::{Commit, Part, ReceivedInput, Source, days::days};

/// How many events the change log holds; older ones are cut off. At some hundred bytes each this bounds the log to some
/// hundred megabytes.
const LOG_EVENTS: u64 = 1_000_000;
/// How many events are cut off at once, so that it is done seldom.
const LOG_SLACK: u64 = 10_000;

/// Writes a commit, with its events numbered.
pub(super) fn commit(
    db: &mut Connection,
    filing: &mut Filing,
    packer: &mut Packer,
    rules: &str,
    commit: &Commit,
    events: &[Event],
    next_seq: u64,
) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Rows that come with it know of it.
    let (mut keys, mut told_of) = (HashSet::new(), 0);
    for row in &commit.received {
        let is_new = !filing.has_received(&transaction, &row.source, &row.key)?;
        if is_new && keys.insert((row.source.as_str(), row.key.as_str())) {
            received(&transaction, packer, row)?;
            told_of += row.sessions.len();
        }
    }
    // Rules that nobody has make rows due.
    let rules = if commit.is_provisional { "" } else { rules };
    for tree in &commit.trees {
        let due = commit.deadlines.iter().find(|(session, _)| *session == tree.session.id);
        session(&transaction, packer, rules, tree, due.map(|(_, deadline)| *deadline), commit.at_ms)?;
    }
    for row in &commit.held {
        session_keys::write(&transaction, row)?;
    }
    for row in &commit.sources {
        source(&transaction, row)?;
    }
    for session in &commit.gone {
        let mut freeze = transaction.prepare_cached("UPDATE sessions SET is_frozen = 1 WHERE id = ?1")?;
        freeze.execute([session.as_str()])?;
    }
    if let Some(compared) = &commit.compared {
        session_keys::compared(&transaction, compared)?;
    }
    if !events.is_empty() {
        log(&transaction, events, next_seq)?;
    }
    let taken = filing.take(&transaction, keys, told_of, events.len())?;
    transaction.commit()?;
    filing.settle(taken);
    Ok(())
}

/// Writes down that all revs before this one are given.
pub(super) fn next_rev(db: &Connection, next: u64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'next_rev'")?.execute([next.cast_signed()])?;
    Ok(())
}

pub(super) fn number(db: &Transaction<'_>, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT no FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()
}

fn session(
    db: &Transaction<'_>,
    packer: &mut Packer,
    rules: &str,
    tree: &Tree,
    deadline: Option<Millis>,
    at_ms: Millis,
) -> rusqlite::Result<()> {
    let line = SessionRow::of(tree);
    let json = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let last = line.last_event_at_ms.unwrap_or(0);
    let is_live = line.status == SessionStatus::Live;
    let text = serde_json::to_string(&line).map_err(json)?;
    let no: i64 = db
        .prepare_cached(
            "INSERT INTO sessions(id, last_ms, is_live, deadline_ms, rules, row, kept_ms)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT(id) DO UPDATE SET last_ms = ?2, is_live = ?3, deadline_ms = ?4, rules = ?5, row = ?6,
                 is_forgotten = 0, is_frozen = 0, kept_ms = CASE WHEN row = ?6 THEN kept_ms ELSE ?7 END
             RETURNING no",
        )?
        .query_row(params![line.id.as_str(), last, is_live, deadline, rules, text, at_ms], |row| {
            row.get(0)
        })?;
    let body = serde_json::to_vec(tree).map_err(json)?;
    db.prepare_cached("INSERT OR REPLACE INTO trees(session_no, body) VALUES(?1, ?2)")?
        .execute(params![no, packer.pack(&body)?])?;
    db.prepare_cached("DELETE FROM unsettled WHERE session = ?1")?.execute([line.id.as_str()])?;
    db.prepare_cached("DELETE FROM agents WHERE session_no = ?1")?.execute([no])?;
    let mut add = db.prepare_cached(
        "INSERT OR IGNORE INTO agents(id, session_no, spawned_by, type, description) VALUES(?1, ?2, ?3, ?4, ?5)",
    )?;
    for agent in tree.agents.iter().filter(|agent| !agent.id.is_root()) {
        let spawn = agent.spawned_by.as_ref().map(|call| call.as_str());
        add.execute(params![
            agent.id.as_str(),
            no,
            spawn,
            agent.agent_type.as_deref(),
            agent.description.as_deref()
        ])?;
    }
    db.prepare_cached("DELETE FROM days WHERE session_no = ?1")?.execute([no])?;
    let mut add = db.prepare_cached(
        "INSERT INTO days VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    for ((day, by, name), row) in days(tree) {
        let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        add.execute(params![
            no,
            day,
            by as u8,
            name,
            count(row.agents),
            count(row.tool_calls),
            count(row.tool_errors),
            count(row.tools_denied),
            count(row.busy_ms),
            count(row.usage.input_tokens),
            count(row.usage.output_tokens),
            count(row.usage.cache_read_tokens),
            count(row.usage.cache_write_tokens),
            row.usage.floor,
            count(row.cost_micro_usd),
        ])?;
    }
    Ok(())
}

fn source(db: &Transaction<'_>, row: &Source) -> rusqlite::Result<()> {
    let Some(session) = number(db, &row.session)? else { return Ok(()) };
    db.prepare_cached("INSERT OR REPLACE INTO sources VALUES(?1, ?2, ?3, ?4, ?5)")?.execute(params![
        row.path.as_os_str().as_bytes(),
        session,
        row.identity.inode.cast_signed(),
        row.identity.bytes.cast_signed(),
        row.identity.modified_ns,
    ])?;
    Ok(())
}

fn received(db: &Transaction<'_>, packer: &mut Packer, row: &ReceivedInput) -> rusqlite::Result<()> {
    let no = deferred_index::append(db, row, &packer.pack(&row.body)?)?;
    let mut add = db.prepare_cached(
        "INSERT INTO inbox_parts(no, session, line, offset, body) VALUES(?1, ?2, ?3, ?4, ?5)",
    )?;
    for Part { session, line, offset, body } in &row.parts {
        let body = packer.pack(body)?;
        add.execute(params![no, session.as_str(), line.cast_signed(), offset.cast_signed(), body])?;
    }
    let mut behind = db.prepare_cached("INSERT OR IGNORE INTO unsettled(session) VALUES(?1)")?;
    for session in &row.sessions {
        behind.execute([session.as_str()])?;
    }
    Ok(())
}

fn log(db: &Transaction<'_>, events: &[Event], next_seq: u64) -> rusqlite::Result<()> {
    let mut add = db.prepare_cached("INSERT INTO changes(seq, session, body) VALUES(?1, ?2, ?3)")?;
    for event in events {
        let text = serde_json::to_string(event);
        let text = text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        add.execute(params![event.seq.cast_signed(), event.session_id.as_str(), text])?;
    }
    db.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'next_seq'")?
        .execute([next_seq.cast_signed()])?;
    let first: Option<i64> =
        db.prepare_cached("SELECT min(seq) FROM changes")?.query_row([], |row| row.get(0))?;
    let first = first.map_or(next_seq, i64::cast_unsigned);
    if next_seq.saturating_sub(first) > LOG_EVENTS + LOG_SLACK {
        let kept = [(next_seq - LOG_EVENTS).cast_signed()];
        db.execute(
            "DELETE FROM changes_of WHERE (session, seq) IN (SELECT session, seq FROM changes WHERE seq < ?1)",
            kept,
        )?;
        db.execute("DELETE FROM changes WHERE seq < ?1", kept)?;
    }
    Ok(())
}
