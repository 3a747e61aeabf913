//! Gemini's local telemetry file (`telemetry.outfile`): OpenTelemetry records of all agents, with their starts and
//! ends.
//!
//! `prompt_id` names the owner of a record: `<agent>#<turn>` for agents. Calls and responses have no ids, so calls that
//! other sources name are not counted again, and tokens are summed up for each agent.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, canonical_digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, Basis, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, Parent, PromptKind, RawJson, Sink,
    SourceKind, Spawn, SpawnResult, ToolClass, Usage, parse_rfc3339,
};

use super::{record::Tokens, tools};

/// Decodes one file.
#[derive(Debug)]
pub(super) struct Telemetry {
    hint: Hint,
    /// The tokens of each agent so far; the root's name is empty.
    totals: BTreeMap<String, Usage>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Record<'a> {
    attributes: Option<Attributes<'a>>,
}

/// The attributes of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Attributes<'a> {
    #[serde(rename = "event.name")]
    event: Str<'a>,
    #[serde(rename = "event.timestamp")]
    timestamp: Str<'a>,
    #[serde(rename = "session.id")]
    session: Str<'a>,
    prompt_id: Str<'a>,
    prompt: Option<&'a RawValue>,
    role: Str<'a>,
    model: Str<'a>,
    agent_id: Str<'a>,
    agent_name: Str<'a>,
    terminate_reason: Str<'a>,
    function_name: Str<'a>,
    function_args: Str<'a>,
    metadata: Str<'a>,
    success: Flag,
    duration_ms: Num,
    error: Str<'a>,
    input_token_count: Num,
    output_token_count: Num,
    cached_content_token_count: Num,
    thoughts_token_count: Num,
    tool_token_count: Num,
    total_token_count: Num,
}

/// Data that a tool adds to its call.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct CallNotes<'a> {
    agent_id: Str<'a>,
}

/// What the names of its events begin with.
const EVENTS: &str = "gemini_cli.";
/// The role of responses to agents.
const AGENT_ROLE: &str = "subagent";

impl Telemetry {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), totals: BTreeMap::new() }
    }

    fn response(&mut self, attributes: &Attributes<'_>, agent: Option<&str>, out: &mut Emitter<'_, '_>) {
        // Responses to the program itself are in no conversation.
        if agent.is_none() && !attributes.role.is("main") {
            return;
        }
        let tokens = Tokens {
            input: attributes.input_token_count,
            output: attributes.output_token_count,
            cached: attributes.cached_content_token_count,
            thoughts: attributes.thoughts_token_count,
            tool: attributes.tool_token_count,
            total: attributes.total_token_count,
        };
        let total = self.totals.entry(agent.unwrap_or_default().to_owned()).or_default();
        *total += tokens.usage();
        if agent.is_none() {
            let model = attributes.model.filled();
            out.emit_made(Fact::Session { version: None, cwd: None, model, tells_starts: true });
        } else {
            let model = attributes.model.0.clone();
            out.emit_made(Fact::Spawn(Spawn { agent, model, ..Spawn::default() }));
        }
        out.emit(Fact::Activity);
        out.emit_made(Fact::Totals { usage: *total, cost_micro_usd: None });
    }
}

impl LineDecoder for Telemetry {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let record: Record<'_> = serde_json::from_str(text.text)?;
        let hinted = self.hint.session.clone();
        let attributes = record.attributes.unwrap_or_default();
        let Some(event) = attributes.event.get().and_then(|event| event.strip_prefix(EVENTS)) else {
            return Ok(());
        };
        let owner = attributes.prompt_id.get().and_then(|prompt| prompt.split_once('#'));
        // The root's own prompts have a number after several of these.
        let agent = owner.filter(|(_, turn)| !turn.starts_with('#')).map(|(agent, _)| agent);
        let agent = agent.or(attributes.agent_id.filled()).filter(|agent| !agent.is_empty());
        let is_root = agent.is_none() || (event == "api_response" && !attributes.role.is(AGENT_ROLE));
        let agent = agent.filter(|_| !is_root);
        let claim = agent.map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
        let mut out = Emitter::new(SourceKind::Otel, Clock::Otel, claim, text, sink);
        out.head.time = attributes.timestamp.get().and_then(parse_rfc3339);
        out.head.session = attributes.session.filled().or(hinted.as_deref());
        match event {
            "user_prompt" if is_root => {
                if let Some(text) = out.raw(attributes.prompt) {
                    out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
                }
            }
            "agent.start" => out.emit_made(Fact::Spawn(Spawn {
                agent,
                parent: Some(Parent::Root),
                agent_type: attributes.agent_name.0.clone(),
                starts: true,
                ..Spawn::default()
            })),
            "agent.finish" => {
                if let Some(reason) = attributes.terminate_reason.filled() {
                    let (status, evidence) = (tools::status(reason), EndEvidence::Notification);
                    out.emit_made(Fact::AgentEnd(AgentEnd {
                        agent,
                        status,
                        evidence,
                        ..AgentEnd::default()
                    }));
                }
            }
            "api_response" => self.response(&attributes, agent, &mut out),
            "tool_call" => tool_call(&attributes, &mut out),
            _ => {}
        }
        Ok(())
    }
}

/// Emits begin and end of a call, which is reported only once it has ended.
fn tool_call(attributes: &Attributes<'_>, out: &mut Emitter<'_, '_>) {
    let name = attributes.function_name.get().unwrap_or_default();
    let input = attributes.function_args.get().unwrap_or_default();
    let digest = canonical_digest(name, input);
    let notes: CallNotes<'_> =
        serde_json::from_str(attributes.metadata.get().unwrap_or_default()).unwrap_or_default();
    let input: Option<&RawValue> = serde_json::from_str(input).ok();
    let mut begin = tools::begin(None, name, input, out.line, digest);
    // The arguments are a text inside the record.
    begin.input = input.map(|raw| RawJson { json: raw.get(), offset: u64::MAX });
    let is_spawn = begin.class == ToolClass::Spawn;
    let agent = notes.agent_id.filled();
    let (claim, ended_at) = (out.head.claim, out.head.time);
    let begun_at = ended_at.map(|at| at - attributes.duration_ms.signed().unwrap_or(0));
    out.emit_of(claim, begun_at, Fact::CallBegin(begin));
    let error = attributes.error.filled();
    let word = match attributes.success.0 {
        Some(true) => Some("success"),
        Some(false) => Some("error"),
        None => None,
    };
    let outcome = tools::outcome(word, error);
    out.emit_made(Fact::CallEnd(CallEnd {
        name: Some(name),
        digest,
        outcome,
        duration_ms: attributes.duration_ms.signed(),
        refused: is_spawn && agent.is_none() && outcome != Outcome::Ok,
        spawn: agent.filter(|_| is_spawn).map(|agent| SpawnResult {
            agent: Some(agent),
            proves_agent: true,
            ..SpawnResult::default()
        }),
        ..CallEnd::default()
    }));
}
