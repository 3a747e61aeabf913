//! Reads what the lines of a source state about their session, beside the decoders; and counts the lines that decoders
//! understand.

use std::{collections::BTreeSet, io, path::Path};

use serde::de::IgnoredAny;
use serde_json::Value;
use subscope_collect::{Found, read::read_file, stated_totals};
use subscope_decode::{Decoder, Dialect, Hint, JsonLines, MAX_LINE_BYTES, Parsed};
use subscope_harness::{
    Role, SelfReport, StatedTotal, Statement, harness_of, harness_of_service, otel_sources, recognize,
    tool_class,
};
use subscope_model::{Decoded, SessionId};

use crate::command::target::read_head;

/// What the lines of one source state.
#[derive(Default)]
pub(super) struct SourceStatements {
    /// Totals with the place that states them, in order.
    pub(super) totals: Vec<(&'static StatedTotal, Statement)>,
    /// Places of totals behind whose last one more work was done.
    pub(super) outdated: BTreeSet<&'static str>,
    /// Whether a line shows that the harness makes requests of its own, which are in no transcript.
    pub(super) has_own_requests: bool,
    /// Whether the last line about it ends the turn of the agent whose source it is.
    pub(super) has_ended: bool,
    /// The agent, where the source is a subagent's.
    pub(super) agent: Option<String>,
    pub(super) lines: LineCounts,
}

/// Numbers of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    /// All that are not blank.
    pub(super) all: u64,
    /// Those that are no JSON: a writer or a disk has damaged them.
    pub(super) damaged: u64,
    /// Those that a decoder has made an observation of.
    pub(super) observed: u64,
}

/// Reads a source; `None` where it is no harness's, or cannot be read: the rows have that problem.
pub(super) fn read(found: &Found, session: &SessionId) -> Option<SourceStatements> {
    let dialect = dialect(found)?;
    let report = harness_of(dialect).and_then(|harness| harness.self_report());
    let agent = found.agent.clone().filter(|_| found.role == Role::Agent);
    let mut reader = Reader {
        dialect,
        report,
        session,
        decoder: dialect.decoder(&hint(found)),
        read: SourceStatements { agent, ..SourceStatements::default() },
        last_observed: 0,
        lines: JsonLines::default(),
        object: Vec::new(),
    };
    reader.read_all(found.place()).ok()?;
    Some(reader.read)
}

/// Returns the dialect of a source: of a note by its path, of any other by its content.
fn dialect(found: &Found) -> Option<Dialect> {
    let by_path = found.dialect.filter(|_| found.role == Role::Note);
    by_path.or_else(|| read_head(found.place()).ok().and_then(|head| recognize(&head))).or(found.dialect)
}

fn hint(found: &Found) -> Hint {
    Hint {
        session: found.session.clone(),
        agent: found.agent.clone(),
        workflow: found.workflow.clone(),
        tool_class,
        harness_of_service,
        otel_sources,
        ..Hint::default()
    }
}

struct Reader<'r> {
    dialect: Dialect,
    report: Option<&'static SelfReport>,
    session: &'r SessionId,
    decoder: Box<dyn Decoder>,
    read: SourceStatements,
    /// Number of the last line of which there is an observation.
    last_observed: u64,
    lines: JsonLines,
    object: Vec<u8>,
}

impl Reader<'_> {
    fn read_all(&mut self, path: &Path) -> io::Result<()> {
        read_file(path, 0, &mut Vec::new(), &mut |_, bytes| {
            self.decode(bytes);
            self.cut(bytes);
        })?;
        self.decode(&[]);
        self.end_part();
        self.cut(&stated_totals(path)?);
        self.end_part();
        Ok(())
    }

    /// Counts what the decoder says; of no bytes, at the end.
    fn decode(&mut self, bytes: &[u8]) {
        let (counts, last) = (&mut self.read.lines, &mut self.last_observed);
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(observation) if observation.place.line > *last => {
                *last = observation.place.line;
                counts.observed += 1;
            }
            // Problems are those of the rows.
            Decoded::Observation(_) | Decoded::Problem { .. } => {}
        };
        match bytes {
            [] => self.decoder.flush(&mut sink),
            bytes => self.decoder.push(bytes, &mut sink),
        }
    }

    /// Divides bytes as the decoder of lines does; an object is one line.
    fn cut(&mut self, bytes: &[u8]) {
        if self.dialect.is_object() {
            let room = MAX_LINE_BYTES.saturating_sub(self.object.len());
            return self.object.extend(bytes.iter().take(room));
        }
        for line in self.lines.push(bytes) {
            self.count(line);
        }
    }

    /// Takes the unfinished line, or the object.
    fn end_part(&mut self) {
        let object = std::mem::take(&mut self.object);
        let object = String::from_utf8_lossy(object.trim_ascii());
        let last = match object.is_empty() {
            true => self.lines.flush(),
            false => Some(Parsed::Fallback(object.into_owned())),
        };
        last.into_iter().for_each(|line| self.count(line));
    }

    fn count(&mut self, line: Parsed) {
        self.read.lines.all += 1;
        match line {
            Parsed::Message(value) => self.state(&value),
            Parsed::Fallback(text) => {
                let text = text.trim_start().strip_prefix("data:").unwrap_or(&text);
                match serde_json::from_str::<Value>(text) {
                    Ok(value) => self.state(&value),
                    // Some JSON is no value of this parser: a lone surrogate, a number out of range.
                    Err(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {}
                    Err(_) => self.read.lines.damaged += 1,
                }
            }
            Parsed::TooLong => self.read.lines.damaged += 1,
        }
    }

    /// Takes what a line states.
    fn state(&mut self, line: &Value) {
        let Some(report) = self.report else { return };
        let dialect = self.dialect;
        if (report.is_work)(line) {
            self.read.outdated.extend(self.read.totals.iter().map(|(total, _)| total.name));
        }
        for total in report.totals.iter().filter(|total| total.dialects.contains(&dialect)) {
            let own = (total.read)(line).into_iter().filter(|statement| {
                let named = statement.session.as_deref().map(SessionId::from_outside);
                named.is_none_or(|named| named == *self.session)
            });
            let before = self.read.totals.len();
            self.read.totals.extend(own.map(|statement| (total, statement)));
            if self.read.totals.len() > before {
                self.read.outdated.remove(total.name);
            }
        }
        self.read.has_own_requests |= (report.shows_own_requests)(line);
        self.read.has_ended = (report.ends_turn)(line).unwrap_or(self.read.has_ended);
    }
}
