//! Commits: one transaction each; the rows of a session are replaced as a whole.

use hashbrown::HashSet;
use rusqlite::{Statement, ToSql, Transaction, params, params_from_iter};
use subscope_model::{
    AgentId, Event, SessionId, SessionRow, SessionStatus, StatsRow, TopRow, TraceSpan, Tree,
};
use subscope_platform::path_bytes;

use super::{
    SqliteStore, deferred_index,
    layout::{
        AGENTS, AT_WORK, CHANGES, FACTS, INBOX_PARTS, QUARTERS, SLOW_CALLS, SOURCES, TOP_AGENTS, TREES,
        UNSETTLED,
    },
    pack::Packer,
    query::{clamp, select_one},
    schema::{COST_FLOOR, TOKENS_FLOOR},
    session_keys,
};
use crate::{
    Commit, ReceivedInput, RemotePosition, SessionPart, SourceFile, StoreResult, StoredFacts, days::quarters,
    stats,
};

/// Events kept in the event log, at some hundred bytes each; older ones are deleted.
const MAX_LOG_EVENTS: u64 = 1_000_000;
/// Excess events that start a deletion, so that it is done seldom.
const LOG_SLACK: u64 = 10_000;

/// Writes a commit in one transaction; `events` are its events with their numbers, `next_seq` the number after them.
pub(super) fn write(
    store: &mut SqliteStore,
    commit: &Commit,
    events: &[Event],
    next_seq: u64,
) -> StoreResult<()> {
    let SqliteStore { db, index, packer, rules, .. } = store;
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // What is moved is found by the secondary tables: bring them up to date.
    let mut indexed = None;
    if !commit.moved.is_empty() {
        indexed = Some(deferred_index::DeferredIndex::index_all(&transaction)?);
        for moved in &commit.moved {
            super::forget::move_input(&transaction, moved)?;
        }
    }
    // Before the trees: writing a session's rows marks its input as processed.
    let (mut keys, mut row_sessions) = (HashSet::new(), 0);
    for row in &commit.received {
        let is_new = !index.has_received(&transaction, &row.source, &row.key)?;
        if is_new && keys.insert((row.source.as_str(), row.key.as_str())) {
            write_received(&transaction, packer, row)?;
            row_sessions += row.sessions.len();
        }
    }
    for tree in &commit.trees {
        write_session(&transaction, packer, rules, tree, commit)?;
    }
    for session in &commit.removed {
        super::forget::remove_session(&transaction, session)?;
    }
    if let Some(RemotePosition { machine, store, rev }) = &commit.remote {
        let sql = "INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2";
        let json = serde_json::to_string(&(store, rev))?;
        transaction.prepare_cached(sql)?.execute(params![remote_key(machine), json])?;
    }
    for keys in &commit.session_keys {
        session_keys::write_keys(&transaction, keys)?;
    }
    for facts in &commit.facts {
        write_facts(&transaction, facts)?;
    }
    for file in &commit.sources {
        write_source(&transaction, file)?;
    }
    for session in &commit.frozen {
        let mut freeze = transaction.prepare_cached("UPDATE sessions SET is_frozen = 1 WHERE id = ?1")?;
        freeze.execute([session.as_str()])?;
    }
    if let Some(scan) = &commit.duplicate_scan {
        session_keys::write_scan(&transaction, scan)?;
    }
    if !events.is_empty() {
        write_events(&transaction, events, next_seq)?;
    }
    let update = index.write_due(&transaction, keys, row_sessions, events.len())?;
    transaction.commit()?;
    indexed.into_iter().for_each(|indexed| index.apply(indexed));
    index.apply(update);
    Ok(())
}

/// Returns the key in `meta` of how far the rows of another machine are read.
pub(super) fn remote_key(machine: &str) -> String {
    format!("remote/{machine}")
}

/// Returns the row number of a session.
pub(super) fn session_no(db: &Transaction<'_>, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    select_one(db, "SELECT no FROM sessions WHERE id = ?1", [session.as_str()], |row| row.get(0))
}

/// Replaces the rows of a session.
pub(super) fn write_session(
    db: &Transaction<'_>,
    packer: &mut Packer,
    rules: &str,
    tree: &Tree,
    commit: &Commit,
) -> StoreResult<()> {
    let kept = known_with_project(db, tree)?.and_then(|known| stats::with_known_project(tree, known));
    let tree = kept.as_ref().unwrap_or(tree);
    // No program has these rules: the rows are due.
    let rules = if commit.is_provisional { "" } else { rules };
    let due = commit.deadlines.iter().find(|(session, _)| *session == tree.session.id);
    let deadline = due.map(|(_, deadline)| *deadline);
    let row = SessionRow::of(tree);
    let last = row.last_event_at_ms.unwrap_or(0);
    let is_live = row.status == SessionStatus::Live;
    let json = serde_json::to_string(&row)?;
    let no: i64 = db
        .prepare_cached(
            "INSERT INTO sessions(id, last_ms, is_live, deadline_ms, rules, row, kept_ms, rev, sum)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, row_sum('sessions', ?1, ?2, ?3, 0, ?5, ?6))
             ON CONFLICT(id) DO UPDATE SET last_ms = ?2, is_live = ?3, deadline_ms = ?4, rules = ?5, row = ?6,
                 rev = max(rev, ?8), is_forgotten = 0, is_frozen = 0, sum = excluded.sum,
                 kept_ms = CASE WHEN row = ?6 THEN kept_ms ELSE ?7 END
             RETURNING no",
        )?
        .query_row(
            params![row.id.as_str(), last, is_live, deadline, rules, json, commit.at_ms, clamp(tree.rev())],
            |row| row.get(0),
        )?;
    let body = serde_json::to_vec(tree)?;
    db.prepare_cached(TREES.insert())?.execute(params![no, packer.pack(&body)?])?;
    db.prepare_cached("DELETE FROM unsettled WHERE session = ?1")?.execute([row.id.as_str()])?;
    db.prepare_cached("DELETE FROM agents WHERE session_no = ?1")?.execute([no])?;
    let mut add = db.prepare_cached(AGENTS.insert())?;
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
    write_quarters(db, no, tree)?;
    write_top_agents(db, no, tree)?;
    Ok(write_work(db, no, tree)?)
}

/// Returns the stored row of a session, if that has a project and the tree has none.
fn known_with_project(db: &Transaction<'_>, tree: &Tree) -> StoreResult<Option<SessionRow>> {
    if tree.session.project.is_some() {
        return Ok(None);
    }
    let find =
        "SELECT row FROM sessions WHERE id = ?1 AND is_forgotten = 0 AND instr(row, '\"project\":') > 0";
    let row: Option<String> = select_one(db, find, [tree.session.id.as_str()], |row| row.get(0))?;
    // A damaged row is replaced.
    Ok(row.and_then(|row| serde_json::from_str(&row).ok()))
}

/// Replaces a session's figures by quarter-hour.
pub(super) fn write_quarters(db: &Transaction<'_>, no: i64, tree: &Tree) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM quarters WHERE session_no = ?1")?.execute([no])?;
    let mut add = db.prepare_cached(QUARTERS.insert())?;
    for ((quarter, by, name), row) in quarters(tree) {
        write_figures(&mut add, params![no, quarter, by as u8, name], &row)?;
    }
    Ok(())
}

/// Replaces a session's subagents with the greatest figures.
pub(super) fn write_top_agents(db: &Transaction<'_>, no: i64, tree: &Tree) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM top_agents WHERE session_no = ?1")?.execute([no])?;
    let mut add = db.prepare_cached(TOP_AGENTS.insert())?;
    for TopRow { agent_id, started_at_ms, row, .. } in stats::top_agents(tree) {
        let agent = agent_id.as_ref().map_or(AgentId::ROOT, |agent| agent.as_str());
        write_figures(&mut add, params![no, agent, started_at_ms, &*row.name], &row)?;
    }
    Ok(())
}

/// Adds a row of figures: four columns of its table, then those of the figures, as [`super::query`] reads them.
fn write_figures(add: &mut Statement<'_>, of: &[&dyn ToSql], row: &StatsRow) -> rusqlite::Result<()> {
    let figures: [i64; 11] = [
        clamp(row.agents),
        clamp(row.tool_calls),
        clamp(row.tool_errors),
        clamp(row.tools_denied),
        clamp(row.busy_ms),
        clamp(row.usage.input_tokens),
        clamp(row.usage.output_tokens),
        clamp(row.usage.cache_read_tokens),
        clamp(row.usage.cache_write_tokens),
        (u8::from(row.usage.floor) * TOKENS_FLOOR + u8::from(row.cost_floor) * COST_FLOOR).into(),
        clamp(row.cost_micro_usd),
    ];
    let figures = figures.iter().map(|figure| figure as &dyn ToSql);
    add.execute(params_from_iter(of.iter().copied().chain(figures)))?;
    Ok(())
}

/// Replaces a session's data for statistics other than [`write_quarters`].
pub(super) fn write_work(db: &Transaction<'_>, no: i64, tree: &Tree) -> rusqlite::Result<()> {
    let json_error = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let intervals = serde_json::to_string(&stats::at_work(tree)).map_err(json_error)?;
    db.prepare_cached(AT_WORK.insert())?.execute(params![no, intervals])?;
    db.prepare_cached("DELETE FROM slow_calls WHERE session_no = ?1")?.execute([no])?;
    let mut add = db.prepare_cached(SLOW_CALLS.insert())?;
    for (place, call) in (0_i64..).zip(stats::slow_calls(tree)) {
        let json = serde_json::to_string(&call).map_err(json_error)?;
        add.execute(params![no, place, json])?;
    }
    Ok(())
}

fn write_facts(db: &Transaction<'_>, facts: &StoredFacts) -> rusqlite::Result<()> {
    let Some(session) = session_no(db, &facts.session)? else { return Ok(()) };
    db.prepare_cached(FACTS.insert())?.execute(params![session, facts.is_needed, facts.body])?;
    Ok(())
}

fn write_source(db: &Transaction<'_>, file: &SourceFile) -> rusqlite::Result<()> {
    let Some(session) = session_no(db, &file.session)? else { return Ok(()) };
    db.prepare_cached(SOURCES.insert())?.execute(params![
        path_bytes(&file.path),
        session,
        file.identity.inode.cast_signed(),
        file.identity.bytes.cast_signed(),
        file.identity.modified_ns,
    ])?;
    Ok(())
}

fn write_received(db: &Transaction<'_>, packer: &mut Packer, row: &ReceivedInput) -> StoreResult<()> {
    let no = deferred_index::append(db, row, &packer.pack(&row.body)?)?;
    let mut add = db.prepare_cached(INBOX_PARTS.insert())?;
    for SessionPart { session, line, offset, body } in &row.parts {
        let body = packer.pack(body)?;
        add.execute(params![no, session.as_str(), line.cast_signed(), offset.cast_signed(), body])?;
    }
    let mut mark = db.prepare_cached(UNSETTLED.insert())?;
    for session in &row.sessions {
        // The id of a trace is that of no session, if the trace belongs to another.
        if row.sessions.len() == 1 || TraceSpan::trace_of_session(session).is_none() {
            mark.execute([session.as_str()])?;
        }
    }
    Ok(())
}

fn write_events(db: &Transaction<'_>, events: &[Event], next_seq: u64) -> StoreResult<()> {
    let mut add = db.prepare_cached(CHANGES.insert())?;
    for event in events {
        let body = serde_json::to_string(event)?;
        add.execute(params![event.seq.cast_signed(), event.session_id.as_str(), body])?;
    }
    db.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'next_seq'")?
        .execute([next_seq.cast_signed()])?;
    let first: Option<i64> =
        db.prepare_cached("SELECT min(seq) FROM changes")?.query_row([], |row| row.get(0))?;
    let first = first.map_or(next_seq, i64::cast_unsigned);
    if next_seq.saturating_sub(first) > MAX_LOG_EVENTS + LOG_SLACK {
        let first_kept = [(next_seq - MAX_LOG_EVENTS).cast_signed()];
        db.execute(
            "DELETE FROM changes_of WHERE (session, seq) IN (SELECT session, seq FROM changes WHERE seq < ?1)",
            first_kept,
        )?;
        db.execute("DELETE FROM changes WHERE seq < ?1", first_kept)?;
    }
    Ok(())
}
