//! What `opencode run --format json` prints: the root's parts as they end. There is no line for the prompt, none for a
//! task under way and nothing of a subagent but its task's end; nothing at all follows a signal.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Num, Str},
};
use subscope_model::{AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, Sink, SourceKind};

use super::objects::{Objects, Part, end};

/// Decodes the printed lines of one process.
#[derive(Debug)]
pub(super) struct Stdout {
    objects: Objects,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    timestamp: Num,
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    pub(super) part: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// Words of lines that end a task, the turn, or the process in an error.
pub(super) const CHANGES: &[&str] = &["\"task\"", "\"step_finish\"", "\"type\":\"error\""];

impl Stdout {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { objects: Objects::new(hint) }
    }
}

impl LineDecoder for Stdout {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        // Every line names its session; other lines are not the harness's.
        if line.session_id.filled().is_none() {
            return Ok(());
        }
        let part: Part<'_> =
            line.part.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, Claim::Root(Basis::Wire), text, sink);
        out.head.time = line.timestamp.signed();
        out.head.session = line.session_id.filled();
        self.objects.name_fork(&part, &mut out);
        match line.kind.get().unwrap_or_default() {
            "error" => end(Some(line.error.unwrap_or(RawValue::NULL)), true, &mut out),
            // There is no line for the prompt: the first step begins the turn.
            "step_start" => out.emit(Fact::TurnStart),
            _ if line.part.is_some() => {
                self.objects.part(&part, true, &mut out);
                if part.ends_turn() {
                    out.emit(Fact::TurnEnd {
                        status: AgentStatus::Completed,
                        evidence: EndEvidence::LastLine,
                        counts_run: true,
                        text: None,
                    });
                }
            }
            _ => out.emit(Fact::Activity),
        }
        Ok(())
    }
}

/// Most lines searched for one that names its session: every line does.
const LINES: usize = 8;

/// Returns the session that the first of these lines names.
pub(super) fn session_of(lines: &[u8]) -> Option<String> {
    lines.split(|byte| *byte == b'\n').take(LINES).find_map(|line| {
        let line: Line<'_> = serde_json::from_str(std::str::from_utf8(line).ok()?).ok()?;
        line.session_id.filled().map(str::to_owned)
    })
}
