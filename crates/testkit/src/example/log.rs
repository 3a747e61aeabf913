//! The dialect of the made-up harness.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Hint, LineDecoder, LineError,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, Decoded, EndEvidence, Fact, Observation, Parent, PromptKind,
    Sink, SourceKind, Spawn, parse_rfc3339,
};

/// Decodes one log.
#[derive(Debug)]
pub(super) struct Log {
    hint: Hint,
}

impl Log {
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Entry<'a> {
    say: Str<'a>,
    session: Str<'a>,
    at: Str<'a>,
    agent: Str<'a>,
    text: Option<&'a RawValue>,
}

/// Whether an object is an entry.
pub(super) fn is_entry(object: &str) -> bool {
    serde_json::from_str::<Entry<'_>>(object).is_ok_and(|entry| entry.say.filled().is_some())
}

impl LineDecoder for Log {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        read(&self.hint, line, &serde_json::from_str(line.text)?, sink);
        Ok(())
    }
}

fn read(hint: &Hint, line: LineText<'_>, entry: &Entry<'_>, sink: &mut Sink<'_>) {
    let own = hint.agent.as_deref();
    let text = entry.text.map(|raw| line.raw(raw));
    let fact = match (entry.say.get(), text) {
        (Some("prompt"), Some(text)) => Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked },
        (Some("message"), Some(text)) => Fact::Message { message_id: None, text },
        (Some("spawn"), prompt) => Fact::Spawn(Spawn {
            agent: entry.agent.filled(),
            parent: Some(Parent::Root),
            prompt,
            starts: true,
            detached: true,
            ..Spawn::default()
        }),
        (Some("end"), report) => Fact::AgentEnd(AgentEnd {
            agent: entry.agent.filled(),
            status: AgentStatus::Completed,
            evidence: EndEvidence::Notification,
            report,
            ..AgentEnd::default()
        }),
        _ => Fact::Activity,
    };
    sink(Decoded::Observation(&Observation {
        place: line.place,
        kind: SourceKind::Transcript,
        time: entry.at.get().and_then(parse_rfc3339),
        clock: Clock::Transcript,
        session: entry.session.filled().or(hint.session.as_deref()),
        line_id: None,
        claim: own.map_or(Claim::Root(Basis::Link), |agent| Claim::Agent(agent, Basis::Link)),
        fact,
    }));
}
