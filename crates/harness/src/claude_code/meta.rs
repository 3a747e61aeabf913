//! The small files beside Claude Code's transcripts: `agent-<id>.meta.json` and a workflow's `journal.jsonl`.
//!
//! `meta.json` is the only link between an agent and its spawn call that works at every depth and survives
//! interrupts. Observed: 2.1.110 (type and description), 2.1.197 (`toolUseId`, `spawnDepth`), 2.1.330
//! (`parentAgentId`, `finished`, `requestShape`, `model`), fixtures `claude-code/`.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, Decoded, EndEvidence, Fact, Observation, Parent, Sink,
    SourceKind, SourcePosition, Spawn, SpawnBatch, SpawnMode,
};

/// Decodes one `agent-<id>.meta.json`: one object, over as many lines as it likes.
#[derive(Debug)]
pub(super) struct Meta {
    hint: Hint,
}

impl Meta {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct MetaFile<'a> {
    agent_type: Str<'a>,
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
    fn decode_line(
        &mut self,
        place: SourcePosition,
        line: LineText<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LineError> {
        let file: MetaFile<'_> = serde_json::from_str(line.text)?;
        let agent = self.hint.agent.as_deref().ok_or("a meta file without an agent's id in its name")?;
        emit_meta(&self.hint, place, agent, &file, sink);
        Ok(())
    }
}

fn observation<'a>(hint: &'a Hint, place: SourcePosition, agent: &'a str) -> Observation<'a> {
    Observation {
        place,
        kind: SourceKind::Transcript,
        time: None,
        clock: Clock::Transcript,
        session: hint.session.as_deref(),
        line_id: None,
        claim: Claim::Agent(agent, Basis::Link),
        fact: Fact::Activity,
    }
}

fn emit_meta(hint: &Hint, place: SourcePosition, agent: &str, file: &MetaFile<'_>, sink: &mut Sink<'_>) {
    let parent = match (file.parent_agent_id.filled(), file.spawn_depth.0) {
        (Some(parent), _) => Some(Parent::Agent(parent)),
        // Versions that write the request's shape name every parent but the root (2.1.330: an agent that a command of
        // the user's started has neither depth nor call, fixture `unseen/2.1.330/v16-skill`).
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
    let mut out = observation(hint, place, agent);
    out.fact = Fact::Spawn(Spawn {
        agent: Some(agent),
        call: file.tool_use_id.filled(),
        parent,
        agent_type: file.agent_type.0.clone(),
        description: description.0.clone(),
        name: file.name.0.clone(),
        model: file.model.0.clone().filter(|model| model != "inherit"),
        mode,
        is_origin: file.tool_use_id.filled().is_some(),
        detached: hint.workflow.is_some(),
        // `/clear` copies these files into the session that it begins (2.1.330, fixture `interactive-clear`).
        is_note: true,
        batch: hint.workflow.as_deref().map(SpawnBatch::Run),
        ..Spawn::default()
    });
    sink(Decoded::Observation(&out));
    if file.finished.is_true() {
        out.fact = Fact::AgentEnd(end(agent, EndEvidence::Finished));
        sink(Decoded::Observation(&out));
    }
}

fn end(agent: &str, evidence: EndEvidence) -> AgentEnd<'_> {
    AgentEnd {
        agent: Some(agent),
        call: None,
        run_id: None,
        status: AgentStatus::Completed,
        evidence,
        time: None,
        report: None,
        error: None,
        agent_type: None,
    }
}

/// Decodes a workflow's `journal.jsonl`: a `started` and a `result` line for each agent.
/// Observed: public reports on Claude Code 2.1.206: `{type, key, agentId, result}`, later also `label` and `phase`.
#[derive(Debug)]
pub(super) struct Journal {
    hint: Hint,
}

impl Journal {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone() }
    }
}

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
    fn decode_line(
        &mut self,
        place: SourcePosition,
        text: LineText<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LineError> {
        let hint = &self.hint;
        let line: JournalLine<'_> = serde_json::from_str(text.text)?;
        let Some(agent) = line.agent_id.filled() else { return Ok(()) };
        let mut out = observation(hint, place, agent);
        match line.kind.get() {
            Some("started") => {
                out.fact = Fact::Spawn(Spawn {
                    agent: Some(agent),
                    description: line.label.0.clone(),
                    detached: true,
                    batch: hint.workflow.as_deref().map(SpawnBatch::Run),
                    ..Spawn::default()
                });
                sink(Decoded::Observation(&out));
            }
            Some("result") => {
                let report = line.result.map(|raw| text.raw(raw));
                out.fact = Fact::AgentEnd(AgentEnd { report, ..end(agent, EndEvidence::Finished) });
                sink(Decoded::Observation(&out));
            }
            _ => {}
        }
        Ok(())
    }
}
