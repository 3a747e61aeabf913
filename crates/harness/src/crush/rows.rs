//! The rows of a database about a session and its agents, as one object: `messages` with their parts, `sessions`, and the
//! path of the `database`.
//!
//! Pitfalls: rows are rewritten while a response comes in. An agent is a session, whose id names the call that started it:
//! `MESSAGE$$CALL`, before 2026 `CALL` alone; another one below a session, `title-SESSION`, is no agent. The tokens of a
//! session are those of its last response. Its cost holds that of the agents whose calls have a result without an error. Times
//! are in seconds, whatever the schema says. Results hold whole files, twice, in metadata that are not read.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, LineDecoder, LineError,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Fact, MicroUsd, Millis,
    Outcome, Parent, PromptKind, RawJson, Sink, SourceKind, Spawn, SpawnMode, SpawnResult, TitleOrigin,
    ToolClass, Usage,
};

use super::{layout, tools};
use crate::{
    Bundle, HeadLine, SqlBundle,
    common::parts::{elements, string},
};

/// The database: one object of the rows of a session and those below it.
pub(super) static DATABASE: Bundle = Bundle::Sql(SqlBundle {
    sessions: "SELECT id, parent_session_id, 1000 * MAX(updated_at, COALESCE(
                 (SELECT MAX(updated_at) FROM messages WHERE session_id = sessions.id), 0)) FROM sessions",
    tree: "WITH RECURSIVE tree(id) AS (
             SELECT ?1
             UNION SELECT sessions.id FROM sessions JOIN tree ON parent_session_id = tree.id)
           SELECT id, 1000 * MAX(updated_at, COALESCE(
             (SELECT MAX(updated_at) FROM messages WHERE session_id = sessions.id), 0))
           FROM sessions JOIN tree USING (id)",
    // CrushRows change: none of them is a line that is only ever added.
    sizes: &["SELECT '', 0 WHERE ?1 IS NULL"],
    lengths: &["SELECT 0, 0, '' WHERE ?1 IS NULL"],
    line: &["SELECT '' WHERE ?1 IS NULL"],
    // Messages come first: what is found again by its place stays there while others are added.
    rows: "SELECT json_object('type', 'crush.rows',
             'messages', json((SELECT json_group_array(json(row)) FROM (
               SELECT json_object('id', id, 'session_id', session_id, 'role', role, 'model', model,
                 'created_at', created_at, 'parts', json((
                   SELECT json_group_array(json_remove(value, '$.data.metadata', '$.data.data', '$.data.Data'))
                   FROM json_each(CASE WHEN json_valid(parts) THEN parts ELSE '[]' END)))) AS row
               FROM messages WHERE session_id IN (SELECT value FROM json_each(?1)) ORDER BY created_at, rowid))),
             'sessions', json((SELECT json_group_array(json(row)) FROM (
               SELECT json_object('id', id, 'parent_session_id', parent_session_id, 'title', title, 'cost', cost,
                 'created_at', created_at, 'summary_message_id', summary_message_id) AS row
               FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY created_at, rowid))),
             'database', (SELECT file FROM pragma_database_list WHERE name = 'main'))",
    totals: "SELECT '' WHERE ?1 IS NULL",
    unread: &[],
});

/// The type of the object.
const OBJECT: &str = "crush.rows";
/// Titles that say nothing: of a session before it has one, and of an agent's.
const UNTITLED: [&str; 3] = ["Untitled Session", "New Session", "New Agent Session"];
/// What is between the message and the call in the id of an agent's session.
const SEPARATOR: &str = "$$";
/// Beginning of the id of a session in which a title is made.
const OF_TITLE: &str = "title-";
/// Beginning of what the program itself asks after it has summed up a long session.
const CONTINUED: &str = "The previous session was interrupted because it got too long";
/// Why a message ended that is followed by the results of its calls.
const CALLS_TOOLS: &str = "tool_use";

/// Decodes the rows of the session that the path names.
#[derive(Debug)]
pub(super) struct CrushRows(pub(super) Option<String>);

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RowsObject<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    messages: Option<&'a RawValue>,
    sessions: Option<&'a RawValue>,
    database: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CrushSession<'a> {
    id: Str<'a>,
    parent_session_id: Str<'a>,
    title: Str<'a>,
    cost: Option<&'a RawValue>,
    created_at: Num,
    summary_message_id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageRow<'a> {
    id: Str<'a>,
    session_id: Str<'a>,
    role: Str<'a>,
    model: Str<'a>,
    created_at: Num,
    parts: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    data: PartData<'a>,
}

/// The fields of all kinds of parts.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PartData<'a> {
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    id: Str<'a>,
    name: Str<'a>,
    input: Option<&'a RawValue>,
    finished: Flag,
    tool_call_id: Str<'a>,
    content: Option<&'a RawValue>,
    is_error: Flag,
    reason: Str<'a>,
    time: Num,
    message: Option<&'a RawValue>,
    details: Option<&'a RawValue>,
}

/// Whether a line is the object, also where it is cut.
pub(super) fn is_object_of(line: HeadLine<'_>) -> bool {
    let object: RowsObject<'_> = serde_json::from_str(line.object).unwrap_or_default();
    object.kind.is(OBJECT) && (object.messages.is_some() || line.is_cut)
}

/// Returns milliseconds of a number of seconds.
fn millis(seconds: Num) -> Option<Millis> {
    seconds.signed().filter(|seconds| *seconds > 0)?.checked_mul(1000)
}

/// Returns a cost in millionths of a dollar; `None` where it is no price.
fn cost_of(row: &CrushSession<'_>) -> Option<MicroUsd> {
    let dollars: f64 = row.cost?.get().parse().ok()?;
    // `as` saturates.
    (dollars.is_finite() && dollars >= 0.0).then(|| (dollars * 1e6).round() as MicroUsd)
}

impl<'a> CrushSession<'a> {
    fn is_agent(&self) -> bool {
        self.parent_session_id.filled().is_some() && !self.id.get().unwrap_or_default().starts_with(OF_TITLE)
    }

    /// Returns the call that started an agent.
    fn call(&self) -> Option<&str> {
        self.id.filled().map(|id| id.split_once(SEPARATOR).map_or(id, |(_, call)| call))
    }

    fn own_title(&self) -> Option<std::borrow::Cow<'a, str>> {
        self.title.0.clone().filter(|title| !title.is_empty() && !UNTITLED.contains(&title.as_ref()))
    }
}

/// A call that has begun.
#[derive(Debug)]
struct KnownCall<'r> {
    name: String,
    is_spawn: bool,
    /// The session of the agent that it started.
    agent: Option<&'r str>,
    outcome: Option<Outcome>,
}

/// The rows of one session, while they are read.
struct RowReader<'r> {
    sessions: &'r [CrushSession<'r>],
    /// Calls, by their session and id.
    calls: HashMap<(&'r str, &'r str), KnownCall<'r>>,
}

impl LineDecoder for CrushRows {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let object: RowsObject<'_> = serde_json::from_str(text.text)?;
        let sessions: Vec<CrushSession<'_>> = elements(object.sessions);
        let messages: Vec<MessageRow<'_>> = elements(object.messages);
        let parts: Vec<Vec<Part<'_>>> = messages.iter().map(|message| elements(message.parts)).collect();
        let by_row = || sessions.iter().find(|row| row.parent_session_id.filled().is_none())?.id.filled();
        let by_message = || messages.iter().find_map(|message| message.session_id.filled());
        let Some(root) = self.0.as_deref().or_else(by_row).or_else(by_message) else {
            return Err(LineError::MissingField { item: "the rows of a session", field: "sessions" });
        };
        let of_root = Claim::Root(Basis::Wire);
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, of_root, text, sink);
        out.head.session = Some(root);
        let model_of = |session: &str| {
            let own = messages.iter().rev().filter(|message| message.session_id.is(session));
            own.into_iter().find_map(|message| message.model.filled())
        };
        let project = object.database.get().and_then(layout::project_of);
        about_root(sessions.iter().find(|row| row.id.is(root)), project, model_of(root), &mut out);
        for row in sessions.iter().filter(|row| row.is_agent() && !row.id.is(root)) {
            start(row, root, model_of(row.id.get().unwrap_or_default()), &mut out);
        }
        let mut reader = RowReader { sessions: &sessions, calls: HashMap::new() };
        let of = |message: &MessageRow<'_>, session: &str| message.session_id.is(session);
        for (at, (message, parts)) in messages.iter().zip(&parts).enumerate() {
            let Some(session) = message.session_id.filled() else { continue };
            out.head.claim = if session == root { of_root } else { Claim::Agent(session, Basis::Wire) };
            out.head.time = millis(message.created_at);
            let sums_up = |row: &CrushSession<'_>| {
                row.summary_message_id.filled().is_some_and(|summary| message.id.is(summary))
            };
            let is_summary = sessions.iter().any(sums_up);
            match message.role.get().unwrap_or_default() {
                "user" => prompt(message, parts, &mut out),
                "tool" => parts.iter().for_each(|part| reader.result(&part.data, session, &mut out)),
                "assistant" if !is_summary => {
                    let is_last = messages.iter().skip(at + 1).all(|later| !of(later, session));
                    reader.answer(message, parts, session, is_last, &mut out);
                }
                _ => out.emit(Fact::Activity),
            }
        }
        for row in &sessions {
            reader.cost(row, root, &mut out);
        }
        Ok(())
    }
}

fn about_root<'r>(
    row: Option<&CrushSession<'r>>,
    project: Option<&'r str>,
    model: Option<&'r str>,
    out: &mut Emitter<'r, '_>,
) {
    out.head.time = row.and_then(|row| millis(row.created_at));
    let cwd = project.map(Into::into);
    out.emit_made(Fact::Session { version: None, cwd, model, tells_starts: true });
    if let Some(text) = row.and_then(CrushSession::own_title) {
        out.emit_made(Fact::Title { text, origin: TitleOrigin::Harness });
    }
}

/// Emits the start of an agent.
fn start<'r>(row: &'r CrushSession<'r>, root: &str, model: Option<&'r str>, out: &mut Emitter<'r, '_>) {
    let parent = row.parent_session_id.filled().filter(|parent| *parent != root);
    out.head.time = millis(row.created_at);
    out.emit(Fact::Spawn(Spawn {
        agent: row.id.filled(),
        call: row.call(),
        parent: Some(parent.map_or(Parent::Root, Parent::Agent)),
        description: row.own_title(),
        model: model.map(Into::into),
        mode: Some(SpawnMode::Foreground),
        starts: true,
        is_origin: true,
        ..Spawn::default()
    }));
}

/// Emits what a person asked, or the parent of an agent.
fn prompt<'r>(message: &'r MessageRow<'r>, parts: &'r [Part<'r>], out: &mut Emitter<'r, '_>) {
    let texts = parts.iter().filter(|part| part.kind.is("text")).filter_map(|part| part.data.text);
    let mut is_first = true;
    for raw in texts.filter(|text| text.get().len() > 2) {
        let is_own = string(Some(raw)).is_some_and(|text| text.starts_with(CONTINUED));
        if std::mem::take(&mut is_first) {
            out.emit(Fact::TurnStart);
        }
        let what = if is_own { PromptKind::Meta } else { PromptKind::Asked };
        let text = out.line.raw(raw);
        out.emit_as(message.id.filled(), Fact::Prompt { prompt_id: None, text, what });
    }
    if is_first {
        // A command that the person ran, or images alone.
        out.emit(Fact::Activity);
    }
}

impl<'r> RowReader<'r> {
    fn answer(
        &mut self,
        message: &'r MessageRow<'r>,
        parts: &'r [Part<'r>],
        session: &'r str,
        is_last: bool,
        out: &mut Emitter<'r, '_>,
    ) {
        let message_id = message.id.filled();
        let finish = parts.iter().find(|part| part.kind.is("finish")).map(|part| &part.data);
        // What is still being written is emitted once it is whole.
        let is_whole = finish.is_some() || !is_last;
        out.emit(Fact::Activity);
        let mut said = None;
        for Part { kind, data } in parts {
            let text = |raw| out.raw(raw).filter(|text: &RawJson<'_>| text.json.len() > 2 && is_whole);
            match kind.get().unwrap_or_default() {
                "text" => {
                    if let Some(text) = text(data.text) {
                        said = Some(text);
                        out.emit(Fact::Message { message_id, text });
                    }
                }
                "reasoning" => {
                    if let Some(text) = text(data.thinking) {
                        out.emit(Fact::Thought { message_id, text: Some(text) });
                    }
                }
                "tool_call" if data.finished.is_true() || is_whole => self.call(data, session, out),
                _ => {}
            }
        }
        if let Some(finish) = finish {
            let has_call = parts.iter().any(|part| part.kind.is("tool_call"));
            end(finish, has_call, said, matches!(out.head.claim, Claim::Root(_)), out);
        }
    }

    fn call(&mut self, data: &'r PartData<'r>, session: &'r str, out: &mut Emitter<'r, '_>) {
        let (Some(id), Some(name)) = (data.id.filled(), data.name.filled()) else { return };
        let arguments = string(data.input).and_then(|json| RawValue::from_string(json).ok());
        let begin = tools::begin(id, name, arguments.as_deref(), out.line);
        let is_spawn = begin.class == ToolClass::Spawn;
        let is_of = |row: &&CrushSession<'_>| row.parent_session_id.is(session) && row.call() == Some(id);
        let agent =
            self.sessions.iter().filter(|row| row.is_agent()).find(is_of).and_then(|row| row.id.filled());
        // The arguments are found again where the line has them, in a string.
        let input = out.raw(data.input);
        out.emit_made(Fact::CallBegin(CallBegin { input, ..begin }));
        let call =
            KnownCall { name: name.to_owned(), is_spawn, agent: agent.filter(|_| is_spawn), outcome: None };
        self.calls.insert((session, id), call);
    }

    fn result(&mut self, data: &'r PartData<'r>, session: &'r str, out: &mut Emitter<'r, '_>) {
        let Some(id) = data.tool_call_id.filled() else { return };
        let text = string(data.content).unwrap_or_default();
        let call = self.calls.get_mut(&(session, id));
        let name = call.as_ref().map(|call| call.name.as_str()).or(data.name.filled());
        let outcome = tools::outcome(name, &text, data.is_error.is_true());
        let (mut agent, mut is_spawn) = (None, false);
        if let Some(call) = call {
            (agent, is_spawn) = (call.agent, call.is_spawn);
            call.outcome = Some(outcome);
        }
        let finished = (outcome == Outcome::Ok).then_some(true);
        out.emit(Fact::CallEnd(CallEnd {
            id: Some(id),
            outcome,
            result: out.raw(data.content),
            spawn: agent.map(|agent| SpawnResult {
                agent: Some(agent),
                finished,
                proves_agent: true,
                ..SpawnResult::default()
            }),
            refused: is_spawn && agent.is_none() && outcome != Outcome::Ok,
            ..CallEnd::default()
        }));
    }

    /// Emits what a session has cost without its agents, where that is known.
    fn cost(&self, row: &'r CrushSession<'r>, root: &str, out: &mut Emitter<'r, '_>) {
        let Some(session) = row.id.filled().filter(|session| *session == root || row.is_agent()) else {
            return;
        };
        let mut own = cost_of(row);
        for agent in self.sessions.iter().filter(|row| row.is_agent() && row.parent_session_id.is(session)) {
            let call = agent.call().and_then(|call| self.calls.get(&(session, call)));
            own = match call.and_then(|call| call.outcome) {
                Some(Outcome::Ok) => own.zip(cost_of(agent)).map(|(own, its)| own - its),
                Some(_) => own,
                // It may be in the sum, or not.
                None => None,
            };
        }
        // Nor is that of an agent known whose row is gone.
        let is_gone =
            |call: &KnownCall<'_>| call.is_spawn && call.agent.is_none() && call.outcome == Some(Outcome::Ok);
        let has_gone = self.calls.iter().any(|((owner, _), call)| *owner == session && is_gone(call));
        let own = own.filter(|_| !has_gone);
        let Some(cost) = own.filter(|cost| *cost > 0) else { return };
        // Its tokens are more than nothing: no row has them.
        let usage = Usage { floor: true, ..Usage::default() };
        let claim =
            if session == root { Claim::Root(Basis::Wire) } else { Claim::Agent(session, Basis::Wire) };
        out.emit_of(claim, None, Fact::Totals { usage, cost_micro_usd: Some(cost) });
    }
}

/// Emits how a turn ended, unless the results of calls follow.
fn end<'r>(
    finish: &'r PartData<'r>,
    has_call: bool,
    said: Option<RawJson<'r>>,
    is_root: bool,
    out: &mut Emitter<'r, '_>,
) {
    let status = match finish.reason.get().unwrap_or_default() {
        CALLS_TOOLS => return,
        "end_turn" | "max_tokens" => AgentStatus::Completed,
        "error" | "content_filter" => AgentStatus::Failed,
        "canceled" | "permission_denied" => AgentStatus::Stopped,
        _ if has_call => return,
        _ => AgentStatus::Completed,
    };
    let evidence = EndEvidence::Notification;
    out.head.time = millis(finish.time).or(out.head.time);
    let words = [finish.details, finish.message].into_iter().filter_map(|raw| out.raw(raw));
    let error = words.into_iter().find(|text| text.json.len() > 2).filter(|_| status == AgentStatus::Failed);
    if !is_root {
        let report = said.filter(|_| status == AgentStatus::Completed);
        return out.emit(Fact::AgentEnd(AgentEnd { status, evidence, report, error, ..AgentEnd::default() }));
    }
    if let Some(text) = error {
        out.emit(Fact::Message { message_id: None, text });
    }
    let text = if status == AgentStatus::Completed { said } else { error };
    out.emit(Fact::TurnEnd { status, evidence, counts_run: true, text });
}
