//! What `codex exec --json` prints: the root's items. Its ids are of this process alone, and no line has a time. Of
//! children there are the spawns and waits of the first generation of agents, and nothing of the second.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, Parent, Sink,
    SourceKind, Spawn, SpawnMode,
};

use super::{lines::Tokens, tools};
use crate::common::turn_gap::{TurnBoundary, TurnGap};

/// Decodes the printed lines of one process.
#[derive(Debug)]
pub(super) struct Exec {
    session: Option<String>,
    /// Items whose begin was emitted.
    begun: HashSet<String>,
    /// Lines after the end of a turn are of that turn until another begins.
    gap: TurnGap,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) thread_id: Str<'a>,
    pub(super) item: Option<Item<'a>>,
    usage: Option<Tokens>,
    error: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

/// An item.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Item<'a> {
    id: Str<'a>,
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    text: Option<&'a RawValue>,
    status: Str<'a>,
    error: Option<&'a RawValue>,
    tool: Str<'a>,
    server: Str<'a>,
    command: Str<'a>,
    query: Str<'a>,
    aggregated_output: Option<&'a RawValue>,
    receiver_thread_ids: Option<Vec<Str<'a>>>,
    prompt: Option<&'a RawValue>,
    changes: Option<Vec<FileChange<'a>>>,
    agents_states: Option<BTreeMap<String, AgentState<'a>>>,
}

/// A file that a patch changes.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct FileChange<'a> {
    pub(super) path: Str<'a>,
}

/// State of an agent at the end of a call.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AgentState<'a> {
    status: Str<'a>,
    message: Option<&'a RawValue>,
}

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &["\"turn.", "\"collab_tool_call\""];
/// Type of the line that opens a session.
pub(super) const OPENS: &str = "\"thread.started\"";

impl Exec {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { session: hint.session.clone(), begun: HashSet::new(), gap: TurnGap::default() }
    }

    fn item(&mut self, item: &Item<'_>, is_over: bool, out: &mut Emitter<'_, '_>) {
        let line = out.line;
        match item.kind.get().unwrap_or_default() {
            "agent_message" => {
                if let Some(text) = item.text.map(|raw| line.raw(raw)) {
                    out.emit_made(Fact::Message { message_id: None, text });
                }
            }
            "reasoning" => {
                let text = item.text.map(|raw| line.raw(raw));
                out.emit_made(Fact::Thought { message_id: None, text });
            }
            "command_execution" | "file_change" | "mcp_tool_call" | "collab_tool_call" | "web_search" => {
                self.call(item, is_over, out);
                if is_over && item.kind.is("collab_tool_call") {
                    children(item, out);
                }
            }
            _ => out.emit(Fact::Activity),
        }
    }

    /// Emits a call. Its id is made here, and no other source has it.
    fn call(&mut self, item: &Item<'_>, is_over: bool, out: &mut Emitter<'_, '_>) {
        let id = item.id.get().unwrap_or_default();
        let kind = item.kind.get().unwrap_or_default();
        let name = item.tool.filled().unwrap_or(match kind {
            "command_execution" => "exec_command",
            "file_change" => "apply_patch",
            _ => kind,
        });
        let digest = digest(id, name);
        if self.begun.insert(id.to_owned()) {
            out.emit_made(Fact::CallBegin(CallBegin {
                name,
                digest,
                detail: [&item.command, &item.query, &item.server]
                    .into_iter()
                    .find_map(|text| text.0.clone()),
                writes: item.changes.iter().flatten().filter_map(|change| change.path.0.clone()).collect(),
                has_local_id: true,
                is_renumbered: true,
                ..CallBegin::default()
            }));
        }
        if !is_over {
            return;
        }
        self.begun.remove(id);
        let outcome = item
            .status
            .get()
            .and_then(|status| tools::item_outcome(status, item.error))
            .unwrap_or(Outcome::Ok);
        let result = item.aggregated_output.map(|raw| out.line.raw(raw));
        let (name, digest) = (Some(name), digest);
        out.emit_made(Fact::CallEnd(CallEnd { name, digest, outcome, result, ..CallEnd::default() }));
    }
}

/// Emits the agents of a call.
fn children(item: &Item<'_>, out: &mut Emitter<'_, '_>) {
    let line = out.line;
    if item.tool.is("spawn_agent")
        && let Some(agent) = item.receiver_thread_ids.iter().flatten().find_map(Str::filled)
    {
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(agent),
            parent: Some(Parent::Root),
            prompt: item.prompt.map(|raw| line.raw(raw)),
            mode: Some(SpawnMode::Foreground),
            starts: true,
            ..Spawn::default()
        }));
    }
    for (agent, state) in item.agents_states.iter().flatten() {
        let status = match state.status.get() {
            // An agent without a last message may have failed.
            Some("completed") if state.message.is_some() => AgentStatus::Completed,
            Some("errored") => AgentStatus::Failed,
            Some("interrupted") => AgentStatus::Stopped,
            _ => continue,
        };
        let words = state.message.map(|raw| line.raw(raw));
        let is_failed = status == AgentStatus::Failed;
        out.emit_made(Fact::AgentEnd(AgentEnd {
            agent: Some(agent),
            status,
            evidence: EndEvidence::SpawnResult,
            report: words.filter(|_| !is_failed),
            error: words.filter(|_| is_failed),
            ..AgentEnd::default()
        }));
    }
}

impl LineDecoder for Exec {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if let Some(thread) = line.thread_id.filled() {
            self.session = Some(thread.to_owned());
        }
        let session = self.session.clone();
        let boundary = match line.kind.get().unwrap_or_default() {
            "turn.started" => TurnBoundary::Begin,
            "turn.completed" | "turn.failed" => TurnBoundary::End,
            _ => TurnBoundary::Inside,
        };
        let gap = self.gap.note(boundary, None);
        let mut sink = gap.sink(sink);
        let mut out =
            Emitter::new(SourceKind::Stream, Clock::Stream, Claim::Root(Basis::Wire), text, &mut sink);
        out.head.session = session.as_deref();
        let (evidence, counts_run) = (EndEvidence::Notification, true);
        match line.kind.get().unwrap_or_default() {
            "thread.started" => {
                out.emit(Fact::Session { version: None, cwd: None, model: None, tells_starts: true });
            }
            "turn.completed" => {
                if let Some(tokens) = line.usage {
                    out.emit(Fact::Totals { usage: tokens.usage(), cost_micro_usd: None });
                }
                let status = AgentStatus::Completed;
                out.emit(Fact::TurnEnd { status, evidence, counts_run, text: None });
            }
            "turn.failed" => {
                let text = tools::error_message(line.error).map(|raw| text.raw(raw));
                if let Some(text) = text {
                    out.emit_made(Fact::Message { message_id: None, text });
                }
                out.emit_made(Fact::TurnEnd { status: AgentStatus::Failed, evidence, counts_run, text });
            }
            kind @ ("item.started" | "item.updated" | "item.completed") => {
                if let Some(item) = &line.item {
                    self.item(item, kind == "item.completed", &mut out);
                }
            }
            "turn.started" => out.emit(Fact::TurnStart),
            _ => {}
        }
        Ok(())
    }
}

/// Most lines searched for the first one, which names the session.
const LINES: usize = 8;

/// Returns the session that the first of these lines names.
pub(super) fn session_of(lines: &[u8]) -> Option<String> {
    lines.split(|byte| *byte == b'\n').take(LINES).find_map(|line| {
        let line: Line<'_> = serde_json::from_str(std::str::from_utf8(line).ok()?).ok()?;
        line.thread_id.filled().filter(|_| line.kind.is("thread.started")).map(str::to_owned)
    })
}
