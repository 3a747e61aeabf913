//! `agent-<id>.meta.json`: what the harness notes of one agent. It is rewritten when the agent ends.

use serde::Deserialize;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Str},
};
use subscope_model::{
    AgentEnd, Basis, Claim, Clock, EndEvidence, Fact, Parent, Sink, SourceKind, Spawn, parse_rfc3339,
};

use super::tools;

/// Decodes one such file.
#[derive(Debug)]
pub(super) struct Meta(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Note<'a> {
    agent_id: Str<'a>,
    agent_type: Str<'a>,
    description: Str<'a>,
    parent_session_id: Str<'a>,
    tool_use_id: Str<'a>,
    parent_agent_id: Str<'a>,
    status: Str<'a>,
    is_backgrounded: Flag,
    last_updated_at: Str<'a>,
    model: Str<'a>,
}

impl LineDecoder for Meta {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let note: Note<'_> = serde_json::from_str(text.text)?;
        let Some(agent) = note.agent_id.filled().or(self.0.agent.as_deref()) else {
            return Err(LineError::MissingField { item: "a note of an agent", field: "agentId" });
        };
        let claim = Claim::Agent(agent, Basis::Link);
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = self.0.session.as_deref().or(note.parent_session_id.filled());
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(agent),
            call: note.tool_use_id.filled(),
            parent: Some(note.parent_agent_id.filled().map_or(Parent::Root, Parent::Agent)),
            agent_type: note.agent_type.0.clone(),
            description: note.description.0.clone(),
            model: note.model.0.clone(),
            mode: note.is_backgrounded.0.map(tools::mode),
            is_origin: true,
            ..Spawn::default()
        }));
        if let Some(status) = note.status.get().and_then(tools::status) {
            out.head.time = note.last_updated_at.get().and_then(parse_rfc3339);
            let evidence = EndEvidence::Finished;
            out.emit_made(Fact::AgentEnd(AgentEnd { status, evidence, ..AgentEnd::default() }));
        }
        Ok(())
    }
}
