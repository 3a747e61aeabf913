//! The dialect of the made-up harness.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Decoder, Hint,
    lenient::{LineText, Str},
    lines::{Cut, LineCutter, read_line},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, Decoded, EndEvidence, Fact, Observation, Parent, PromptKind,
    Sink, SourceKind, SourcePosition, Spawn, parse_rfc3339,
};

/// Decodes one log.
#[derive(Debug)]
pub(super) struct Log {
    hint: Hint,
    cutter: LineCutter,
}

impl Log {
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), cutter: LineCutter::new(hint.source) }
    }
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    say: Str<'a>,
    #[serde(borrow, default)]
    session: Str<'a>,
    #[serde(borrow, default)]
    at: Str<'a>,
    #[serde(borrow, default)]
    agent: Str<'a>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

/// Whether an object is an entry.
pub(super) fn is_entry(object: &str) -> bool {
    serde_json::from_str::<Entry<'_>>(object).is_ok_and(|entry| entry.say.filled().is_some())
}

impl Decoder for Log {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let Self { hint, cutter } = self;
        cutter.push(chunk, &mut |place, cut| take(hint, place, cut, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let Self { hint, cutter } = self;
        cutter.flush(&mut |place, cut| take(hint, place, cut, sink));
    }
}

fn take(hint: &Hint, place: SourcePosition, cut: Cut<'_>, sink: &mut Sink<'_>) {
    read_line(place, cut, sink, &mut |line, sink| {
        let entry: Entry<'_> = serde_json::from_str(line.text)?;
        read(hint, place, line, &entry, sink);
        Ok(())
    });
}

fn read(hint: &Hint, place: SourcePosition, line: LineText<'_>, entry: &Entry<'_>, sink: &mut Sink<'_>) {
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
            call: None,
            run_id: None,
            status: AgentStatus::Completed,
            evidence: EndEvidence::Notification,
            time: None,
            report,
            error: None,
            agent_type: None,
        }),
        _ => Fact::Activity,
    };
    sink(Decoded::Observation(&Observation {
        place,
        kind: SourceKind::Transcript,
        time: entry.at.get().and_then(parse_rfc3339),
        clock: Clock::Transcript,
        session: entry.session.filled().or(hint.session.as_deref()),
        line_id: None,
        claim: own.map_or(Claim::Root(Basis::Link), |agent| Claim::Agent(agent, Basis::Link)),
        fact,
    }));
}
