//! What Cline keeps about a session and its agents: the rows of its database, and `<session>.json`, which is the row of the
//! session alone.
//!
//! Pitfalls: only a row names the parent of an agent, and calls the root by an id that is in no row. The row of an agent
//! that failed says completed: every other source of its end counts more. A process that is killed leaves its rows running.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, Basis, Claim, Clock, EndEvidence, Fact, Parent, Sink, SourceKind, Spawn, TitleOrigin,
    parse_rfc3339,
};

use super::tools;
use crate::{Bundle, SqlBundle, common::parts::elements};

/// The database: one object of the rows of a session and those below it.
pub(super) static DATABASE: Bundle = Bundle::Sql(SqlBundle {
    sessions: "SELECT session_id, parent_session_id,
                 CAST((julianday(updated_at) - 2440587.5) * 86400000 AS INTEGER) FROM sessions",
    tree: "WITH RECURSIVE tree(id) AS (
             SELECT ?1
             UNION SELECT session_id FROM sessions JOIN tree ON parent_session_id = tree.id)
           SELECT id, CAST((julianday(updated_at) - 2440587.5) * 86400000 AS INTEGER)
           FROM sessions JOIN tree ON session_id = id",
    // Rows change: none of them is a line that is only ever added.
    sizes: &["SELECT '', 0 WHERE ?1 IS NULL"],
    lengths: &["SELECT 0, 0, '' WHERE ?1 IS NULL"],
    line: &["SELECT '' WHERE ?1 IS NULL"],
    rows: "SELECT json_object('type', 'cline.rows', 'rows', json_group_array(json(row))) FROM (
             SELECT json_object('session_id', session_id, 'parent_session_id', parent_session_id,
               'parent_agent_id', parent_agent_id, 'agent_id', agent_id, 'prompt', prompt, 'status', status,
               'started_at', started_at, 'ended_at', ended_at, 'model', model, 'cwd', cwd,
               'metadata', json(metadata_json)) AS row
             FROM sessions WHERE session_id IN (SELECT value FROM json_each(?1)) ORDER BY started_at, session_id)",
    totals: "SELECT json_object('session_id', session_id, 'metadata', json(metadata_json))
             FROM sessions WHERE session_id IN (SELECT value FROM json_each(?1)) AND parent_session_id IS NULL",
    unread: &[],
});

/// Decodes the rows of one session.
#[derive(Debug)]
pub(super) struct Rows(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Table<'a> {
    rows: Option<&'a RawValue>,
}

/// One row.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Row<'a> {
    session_id: Str<'a>,
    parent_session_id: Str<'a>,
    parent_agent_id: Str<'a>,
    agent_id: Str<'a>,
    prompt: Option<&'a RawValue>,
    status: Str<'a>,
    started_at: Str<'a>,
    ended_at: Str<'a>,
    model: Str<'a>,
    cwd: Str<'a>,
    metadata: RowMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct RowMetadata<'a> {
    title: Str<'a>,
    session_history_origin: Origin<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Origin<'a> {
    mode: Str<'a>,
    version: Str<'a>,
}

impl LineDecoder for Rows {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let table: Table<'_> = serde_json::from_str(text.text)?;
        let rows: Vec<Row<'_>> = match table.rows {
            Some(_) => elements(table.rows),
            None => vec![serde_json::from_str(text.text)?],
        };
        let is_root =
            |row: &&Row<'_>| row.parent_session_id.filled().is_none() && row.agent_id.filled().is_none();
        let root = rows.iter().find(is_root);
        let by_child = || rows.iter().find_map(|row| row.parent_session_id.filled());
        let named = root.and_then(|row| row.session_id.filled()).or_else(by_child);
        let Some(session) = self.0.session.as_deref().or(named) else {
            return Err(LineError::MissingField { item: "a row about a session", field: "session_id" });
        };
        let claim = Claim::Root(Basis::Link);
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = Some(session);
        if let Some(root) = root {
            about_session(root, &mut out);
        }
        for (number, row) in rows.iter().enumerate() {
            let Some(agent) = row.agent_id.filled() else { continue };
            let known = |id: &str| rows.iter().any(|other| other.agent_id.is(id));
            // What no row is of is the root.
            let parent = row.parent_agent_id.filled().map(|id| match known(id) {
                true => Parent::Agent(id),
                false => Parent::Root,
            });
            let is_mate = row.metadata.session_history_origin.mode.is("team");
            out.head.time = row.started_at.get().and_then(parse_rfc3339);
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(agent),
                parent,
                name: is_mate.then(|| agent.into()),
                prompt: out.raw(row.prompt),
                model: row.model.0.clone().filter(|model| !model.is_empty()),
                starts: true,
                ..Spawn::default()
            }));
            // One that is killed has no other line.
            out.emit_of(Claim::Agent(agent, Basis::Link), out.head.time, Fact::Activity);
            // Of the runs of a teammate the last says how it ended.
            let is_last = rows.iter().skip(number + 1).all(|later| !later.agent_id.is(agent));
            if let Some(status) = row.status.get().and_then(tools::status).filter(|_| is_last) {
                out.head.time = row.ended_at.get().and_then(parse_rfc3339);
                let evidence = EndEvidence::Finished;
                out.emit_made(Fact::AgentEnd(AgentEnd {
                    agent: Some(agent),
                    status,
                    evidence,
                    time: out.head.time,
                    ..AgentEnd::default()
                }));
            }
        }
        Ok(())
    }
}

fn about_session<'a>(row: &Row<'a>, out: &mut Emitter<'a, '_>) {
    out.head.time = row.started_at.get().and_then(parse_rfc3339);
    let cwd = row.cwd.0.clone().filter(|cwd| !cwd.is_empty());
    let version = row.metadata.session_history_origin.version.filled();
    out.emit_made(Fact::Session { version, cwd, model: row.model.filled(), tells_starts: false });
    if let Some(text) = row.metadata.title.0.clone().filter(|title| !title.is_empty()) {
        out.emit_made(Fact::Title { text, origin: TitleOrigin::Harness });
    }
    let ended = row.ended_at.filled().and_then(|at| Some((at, parse_rfc3339(at)?)));
    let status = row.status.get().and_then(tools::status);
    if let Some(((at, time), status)) = ended.zip(status) {
        out.head.time = Some(time);
        let line_id = format!("ended/{at}");
        let evidence = EndEvidence::Finished;
        out.emit_as(Some(&line_id), Fact::TurnEnd { status, evidence, counts_run: true, text: None });
    }
}
