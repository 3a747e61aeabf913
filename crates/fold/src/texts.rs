//! What was said in a source, passage by passage, for the full text.
//!
//! Whose passage it is rests on the wire alone; a source that tells only by a chain of lines leaves it open.

use std::borrow::Cow;

use subscope_decode::{Decoder, Dialect, Hint, decoder};
use subscope_model::{Claim, Decoded, Fact, Millis, Observation, PromptKind, Raw, SourceId};

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
    agent: Option<String>,
}

impl Texts {
    /// A reader of a source in a known dialect, of one agent where its path names it.
    pub fn new(dialect: Dialect, agent: Option<String>) -> Self {
        let hint = Hint { source: SourceId(0), session: None, agent: agent.clone(), workflow: None };
        Self { decoder: decoder(dialect, &hint), agent }
    }

    /// Takes the next bytes, cut anywhere, and gives their passages.
    pub fn push(&mut self, bytes: &[u8], found: &mut dyn FnMut(Passage<'_>)) {
        let Self { decoder, agent } = self;
        decoder.push(bytes, &mut |decoded| tell(agent.as_deref(), decoded, found));
    }

    /// Says that no bytes will follow.
    pub fn flush(&mut self, found: &mut dyn FnMut(Passage<'_>)) {
        let Self { decoder, agent } = self;
        decoder.flush(&mut |decoded| tell(agent.as_deref(), decoded, found));
    }
}

fn tell(file: Option<&str>, decoded: Decoded<'_, '_>, found: &mut dyn FnMut(Passage<'_>)) {
    let Decoded::Observation(seen) = decoded else { return };
    let mut say = |said: Said, raw: Raw<'_>| {
        // What stands in no source cannot be shown again.
        if raw.offset != u64::MAX {
            found(Passage {
                agent: file.unwrap_or_else(|| whose(seen)),
                said,
                at_ms: seen.time,
                offset: raw.offset,
                bytes: raw.json.len() as u64,
                text: raw.text(),
            });
        }
    };
    match &seen.fact {
        Fact::Prompt { text, what: PromptKind::Asked, .. } => say(Said::Prompt, *text),
        Fact::Message { text, .. } => say(Said::Message, *text),
        Fact::Thought { text: Some(text), .. } => say(Said::Thought, *text),
        Fact::CallBegin(begin) => {
            if let Some(input) = begin.input {
                say(Said::ToolInput, input);
            }
        }
        Fact::CallEnd(end) => {
            if let Some(result) = end.result {
                say(Said::ToolResult, result);
            }
        }
        _ => {}
    }
}

fn whose<'a>(seen: &Observation<'a>) -> &'a str {
    match seen.claim {
        Claim::Root(_) => "root",
        Claim::Agent(agent, _) => agent,
        Claim::SpawnedBy(call) => call,
        _ => "",
    }
}
