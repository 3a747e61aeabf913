//! The small files beside Claude Code's transcripts: `agent-<id>.meta.json` and a workflow's `journal.jsonl`.
//!
//! `meta.json` is the only link between an agent and its spawn call that works at every depth and survives
//! interrupts. Observed: 2.1.110 (type and description), 2.1.197 (`toolUseId`, `spawnDepth`), 2.1.330
//! (`parentAgentId`, `finished`, `requestShape`, `model`), fixtures `claude-code/`.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Decoder, Hint,
    lenient::{Flag, LineText, Num, Str},
    lines::{Cut, LineCutter, read_line},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, Decoded, EndEvidence, Fact, Observation, Parent, Sink,
    SourceKind, SourcePosition, Spawn, SpawnBatch, SpawnMode,
};

/// No meta file is larger; more is a problem and not read.
const MAX_META_BYTES: usize = 1 << 20;

/// Decodes one `agent-<id>.meta.json`: one object, over as many lines as it likes.
#[derive(Debug)]
pub(super) struct Meta {
    hint: Hint,
    bytes: Vec<u8>,
}

impl Meta {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), bytes: Vec::new() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaFile<'a> {
    #[serde(borrow, default)]
    agent_type: Str<'a>,
    #[serde(borrow, default)]
    description: Str<'a>,
    #[serde(borrow, default)]
    label: Str<'a>,
    #[serde(borrow, default)]
    name: Str<'a>,
    #[serde(borrow, default)]
    tool_use_id: Str<'a>,
    #[serde(borrow, default)]
    parent_agent_id: Str<'a>,
    #[serde(borrow, default)]
    model: Str<'a>,
    #[serde(borrow, default)]
    request_shape: Str<'a>,
    #[serde(default)]
    spawn_depth: Num,
    #[serde(default)]
    finished: Flag,
}

impl Decoder for Meta {
    fn push(&mut self, chunk: &[u8], _: &mut Sink<'_>) {
        let room = MAX_META_BYTES.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let place = SourcePosition { source: self.hint.source, offset: 0, line: 1 };
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return;
        }
        read_line(place, Cut::Line(&bytes), sink, &mut |line, sink| {
            let file: MetaFile<'_> = serde_json::from_str(line.text)?;
            let agent = self.hint.agent.as_deref().ok_or("a meta file without an agent's id in its name")?;
            emit_meta(&self.hint, place, agent, &file, sink);
            Ok(())
        });
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
    cutter: LineCutter,
}

impl Journal {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), cutter: LineCutter::new(hint.source) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JournalLine<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Str<'a>,
    #[serde(borrow, default)]
    agent_id: Str<'a>,
    #[serde(borrow, default)]
    label: Str<'a>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

impl Decoder for Journal {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let Self { hint, cutter } = self;
        cutter.push(chunk, &mut |place, cut| emit_journal(hint, place, cut, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let Self { hint, cutter } = self;
        cutter.flush(&mut |place, cut| emit_journal(hint, place, cut, sink));
    }
}

fn emit_journal(hint: &Hint, place: SourcePosition, cut: Cut<'_>, sink: &mut Sink<'_>) {
    read_line(place, cut, sink, &mut |text: LineText<'_>, sink| {
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
    });
}
