//! The small files next to Claude Code's transcripts: `agent-<id>.meta.json` and a workflow's `journal.jsonl`.
//!
//! `meta.json` is the only link between an agent and its spawn call that works at every depth and survives
//! interrupts. Observed: 2.1.110 (type and description), 2.1.197 (`toolUseId`, `spawnDepth`), 2.1.330
//! (`parentAgentId`, `finished`, `requestShape`, `model`), fixtures `claude-code/`.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, Parent, RawJson, Sink, SourceKind, Spawn,
    SpawnBatch, SpawnMode,
};

/// Decodes one `agent-<id>.meta.json`: one object, over as many lines as it likes.
#[derive(Debug)]
pub(super) struct Meta(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct MetaFile<'a> {
    agent_type: Str<'a>,
    /// The type of a teammate; `agent_type` is its name (2.1.332).
    spawned_agent_type: Str<'a>,
    team_name: Str<'a>,
    description: Str<'a>,
    label: Str<'a>,
    name: Str<'a>,
    tool_use_id: Str<'a>,
    parent_agent_id: Str<'a>,
    model: Str<'a>,
    request_shape: Str<'a>,
    spawn_depth: Num,
    finished: Flag,
}

impl LineDecoder for Meta {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let file: MetaFile<'_> = serde_json::from_str(line.text)?;
        let hint = &self.0;
        let agent = hint.agent.as_deref().ok_or("a meta file without an agent's id in its name")?;
        let parent = match (file.parent_agent_id.filled(), file.spawn_depth.0) {
            (Some(parent), _) => Some(Parent::Agent(parent)),
            // Versions that write the request's shape name every parent but the root (2.1.330: an agent that a command
            // of the user's started has neither depth nor call, fixture `unseen/2.1.330/v16-skill`).
            (None, depth)
                if hint.workflow.is_none() && (depth == Some(1) || file.request_shape.filled().is_some()) =>
            {
                Some(Parent::Root)
            }
            (None, _) => None,
        };
        let mode = match file.request_shape.get() {
            Some("foreground") => Some(SpawnMode::Foreground),
            Some("background") => Some(SpawnMode::Background),
            _ => None,
        };
        let description = if file.description.filled().is_some() { &file.description } else { &file.label };
        let is_teammate = file.team_name.filled().is_some();
        let is_name = is_teammate && file.agent_type.get() == file.name.get();
        let own_type = file.agent_type.0.clone().filter(|_| !is_name);
        let mut out = emitter(hint, agent, line, sink);
        out.emit(Fact::Spawn(Spawn {
            agent: Some(agent),
            call: file.tool_use_id.filled(),
            parent,
            agent_type: file.spawned_agent_type.0.clone().or(own_type),
            description: description.0.clone(),
            name: file.name.0.clone(),
            model: file.model.0.clone().filter(|model| model != "inherit"),
            mode,
            is_origin: file.tool_use_id.filled().is_some(),
            detached: hint.workflow.is_some(),
            // `/clear` copies these files into the session that it begins (2.1.330, fixture `interactive-clear`).
            is_note: true,
            is_teammate,
            batch: hint.workflow.as_deref().map(SpawnBatch::Run),
            ..Spawn::default()
        }));
        if file.finished.is_true() {
            out.emit(Fact::AgentEnd(end(agent, None)));
        }
        Ok(())
    }
}

fn emitter<'a, 's>(
    hint: &'a Hint,
    agent: &'a str,
    line: LineText<'a>,
    sink: &'s mut Sink<'_>,
) -> Emitter<'a, 's> {
    let claim = Claim::Agent(agent, Basis::Link);
    let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, line, sink);
    out.head.session = hint.session.as_deref();
    out
}

fn end<'a>(agent: &'a str, report: Option<RawJson<'a>>) -> AgentEnd<'a> {
    let (status, evidence) = (AgentStatus::Completed, EndEvidence::Finished);
    AgentEnd { agent: Some(agent), status, evidence, report, ..AgentEnd::default() }
}

/// Decodes a workflow's `journal.jsonl`: a `started` and a `result` line for each agent.
/// Observed: public reports on Claude Code 2.1.206: `{type, key, agentId, result}`, later also `label` and `phase`.
#[derive(Debug)]
pub(super) struct Journal(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct JournalLine<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    agent_id: Str<'a>,
    label: Str<'a>,
    result: Option<&'a RawValue>,
}

impl LineDecoder for Journal {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: JournalLine<'_> = serde_json::from_str(text.text)?;
        let Some(agent) = line.agent_id.filled() else { return Ok(()) };
        let mut out = emitter(&self.0, agent, text, sink);
        match line.kind.get() {
            Some("started") => out.emit(Fact::Spawn(Spawn {
                agent: Some(agent),
                description: line.label.0.clone(),
                detached: true,
                batch: self.0.workflow.as_deref().map(SpawnBatch::Run),
                ..Spawn::default()
            })),
            Some("result") => out.emit(Fact::AgentEnd(end(agent, out.raw(line.result)))),
            _ => {}
        }
        Ok(())
    }
}
