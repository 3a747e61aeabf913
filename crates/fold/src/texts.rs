//! What was said in a source, passage by passage, for the full text.
//!
//! Whose passage it is rests on the wire alone; a source that tells only by a chain of lines leaves it open.

use std::borrow::Cow;

use subscope_decode::{Decoder, Dialect, Hint};
use subscope_model::{Claim, Decoded, Fact, Millis, Observation, PromptKind, Raw, SourceKind, Spawn};

/// What a passage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// What was asked.
    Prompt,
    /// What the model said.
    Message,
    /// What the model thought.
    Thought,
    /// The arguments of a tool call.
    ToolInput,
    /// The result of a tool call.
    ToolResult,
}

/// A passage.
#[derive(Clone, Debug)]
pub struct Passage<'a> {
    /// `root`, an agent's id, the spawn call that stands for one, or empty where the wire does not tell.
    pub agent: &'a str,
    /// The session, where the line names it.
    pub session: Option<&'a str>,
    /// What it is.
    pub said: Said,
    /// When, where the line tells.
    pub at_ms: Option<Millis>,
    /// The byte at which its JSON begins.
    pub offset: u64,
    /// The length of its JSON in bytes.
    pub bytes: u64,
    /// Its text.
    pub text: Cow<'a, str>,
}

/// Reads the passages of one source.
pub struct Texts {
    decoder: Box<dyn Decoder>,
    whose: Whose,
}

/// Tells whose a passage is.
struct Whose {
    /// The agent whose file it is.
    file: Option<String>,
    /// The session in which a hook that names no agent is the root's: see [`Fact::WireHasIdentity`].
    identified: Option<String>,
}

impl Texts {
    /// A reader of a source in a known dialect, of one agent where its path names it.
    pub fn new(dialect: Dialect, agent: Option<String>) -> Self {
        let hint = Hint { agent: agent.clone(), ..Hint::default() };
        Self { decoder: dialect.decoder(&hint), whose: Whose { file: agent, identified: None } }
    }

    /// Takes the next bytes, cut anywhere, and gives their passages.
    pub fn push(&mut self, bytes: &[u8], found: &mut dyn FnMut(Passage<'_>)) {
        let Self { decoder, whose } = self;
        decoder.push(bytes, &mut |decoded| tell(whose, decoded, found));
    }

    /// Says that no bytes will follow.
    pub fn flush(&mut self, found: &mut dyn FnMut(Passage<'_>)) {
        let Self { decoder, whose } = self;
        decoder.flush(&mut |decoded| tell(whose, decoded, found));
    }
}

fn tell(whose: &mut Whose, decoded: Decoded<'_, '_>, found: &mut dyn FnMut(Passage<'_>)) {
    let Decoded::Observation(seen) = decoded else { return };
    if matches!(seen.fact, Fact::WireHasIdentity) {
        whose.identified = seen.session.map(str::to_owned);
    }
    let mut say = |agent: Option<&str>, said: Said, raw: Raw<'_>| {
        // What stands in no source cannot be shown again.
        if raw.offset != u64::MAX {
            found(Passage {
                agent: agent.unwrap_or_else(|| whose.of(seen)),
                session: seen.session,
                said,
                at_ms: seen.time,
                offset: raw.offset,
                bytes: raw.json.len() as u64,
                text: raw.text(),
            });
        }
    };
    // A transcript and a stream have a line of its own for what these repeat.
    let is_alone = matches!(seen.kind, SourceKind::Posted | SourceKind::Hook);
    match &seen.fact {
        Fact::Prompt { text, what: PromptKind::Asked, .. } => say(None, Said::Prompt, *text),
        Fact::Message { text, .. } => say(None, Said::Message, *text),
        Fact::Thought { text: Some(text), .. } => say(None, Said::Thought, *text),
        Fact::CallBegin(begin) => {
            // A batch that is over lists again what was told when its calls began. A call that nothing else told of is not found by
            // its input.
            if let Some(input) = begin.input.filter(|_| !begin.hindsight) {
                say(None, Said::ToolInput, input);
            }
        }
        Fact::CallEnd(end) => {
            if let Some(result) = end.result {
                say(None, Said::ToolResult, result);
            }
        }
        Fact::Spawn(Spawn { agent, prompt: Some(prompt), .. }) if is_alone => {
            say(*agent, Said::Prompt, *prompt);
        }
        Fact::AgentEnd(end) if is_alone => {
            for words in [end.report, end.error].into_iter().flatten() {
                say(end.agent, Said::Message, words);
            }
        }
        Fact::TurnEnd { text: Some(text), .. } if is_alone => say(None, Said::Message, *text),
        _ => {}
    }
}

impl Whose {
    fn of<'a>(&'a self, seen: &Observation<'a>) -> &'a str {
        if let Some(file) = &self.file {
            return file;
        }
        match seen.claim {
            Claim::Root(_) => "root",
            Claim::Agent(agent, _) => agent,
            Claim::SpawnedBy(call) => call,
            Claim::Silent if seen.session.is_some() && self.identified.as_deref() == seen.session => "root",
            _ => "",
        }
    }
}
