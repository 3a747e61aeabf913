//! What is known of the processes of sessions, one statement per line: how they ended (`subscope.process/1`), and what
//! their notes say that they do (`subscope.process-activity/1`).

use serde::Deserialize;
use subscope_model::{Claim, Clock, Fact, ProcessEnd, ProcessNoteLine, Sink, SourceKind};

use crate::{
    Emitter,
    lenient::{LineText, Str},
    lines::{LineDecoder, LineError},
};

/// The field by which the two kinds of lines differ.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    schema: Str<'a>,
}

/// Decodes one log of ends and states. Every line names its session.
#[derive(Debug)]
pub(crate) struct ProcessEnds;

impl LineDecoder for ProcessEnds {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let marks: Marks<'_> = serde_json::from_str(line.text)?;
        let (at, session, fact) = if marks.schema.is(ProcessEnd::SCHEMA) {
            let end: ProcessEnd = serde_json::from_str(line.text)?;
            (end.at_ms, end.session_id, Fact::ProcessEnd(end.exit))
        } else if marks.schema.is(ProcessNoteLine::SCHEMA) {
            let ProcessNoteLine { at_ms, session_id, activity, since_ms, .. } =
                serde_json::from_str(line.text)?;
            (at_ms, session_id, Fact::ProcessActivity { activity, since: since_ms })
        } else {
            return Err(LineError::Foreign(format!("no {}, kept as text", ProcessEnd::SCHEMA).into()));
        };
        let mut out = Emitter::new(SourceKind::Posted, Clock::Receiver, Claim::Silent, line, sink);
        out.head.time = Some(at);
        out.head.session = Some(&session);
        out.emit_made(fact);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Decoded, ProcessActivity, ProcessExit, SourceId};

    use super::*;
    use crate::{Decoder, LinesDecoder};

    #[test]
    fn lines_name_session_and_exit_and_damaged_ones_are_problems() {
        let lines = concat!(
            r#"{"schema":"subscope.process/1","at_ms":5,"session_id":"s","code":0}"#,
            "\n",
            r#"{"schema":"subscope.process/1","at_ms":6,"session_id":"t","signal":9}"#,
            "\n",
            r#"{"schema":"subscope.process-activity/1","at_ms":7,"session_id":"s","activity":"permission","since_ms":5}"#,
            "\n",
            r#"{"schema":"subscope.process/1","at_ms":7,"session_id":"s"}"#,
            "\n",
            r#"{"schema":"subscope.process/2","at_ms":8,"session_id":"s","code":0}"#,
            "\n",
        );
        let (mut ends, mut states, mut problems) = (Vec::new(), Vec::new(), 0);
        LinesDecoder::new(SourceId(0), ProcessEnds).push(lines.as_bytes(), &mut |decoded| match decoded {
            Decoded::Observation(seen) => {
                let session = seen.session.map(str::to_owned);
                if let Fact::ProcessEnd(exit) = &seen.fact {
                    ends.push((session, seen.time, *exit));
                } else if let Fact::ProcessActivity { activity, since } = &seen.fact {
                    states.push((session, seen.time, *activity, *since));
                }
            }
            Decoded::Problem { .. } => problems += 1,
        });
        let expected = [("s", 5, ProcessExit::Code(0)), ("t", 6, ProcessExit::Signal(9))];
        assert_eq!(ends, expected.map(|(session, at, exit)| (Some(session.to_owned()), Some(at), exit)));
        assert_eq!(states, [(Some("s".to_owned()), Some(7), ProcessActivity::Permission, 5)]);
        assert_eq!(problems, 2);
    }
}
