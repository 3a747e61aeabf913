//! Ends of the processes of sessions (`subscope.process/1`), as `run` reports them: one per line.

use subscope_model::{Claim, Clock, Fact, ProcessEnd, Sink, SourceKind};

use crate::{
    Emitter,
    lenient::LineText,
    lines::{LineDecoder, LineError},
};

/// Decodes one log of ends. Every line names its session.
#[derive(Debug)]
pub(crate) struct ProcessEnds;

impl LineDecoder for ProcessEnds {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let end: ProcessEnd = serde_json::from_str(line.text)?;
        if end.schema.as_ref() != ProcessEnd::SCHEMA {
            return Err(LineError::Foreign(format!("no {}, kept as text", ProcessEnd::SCHEMA).into()));
        }
        let mut out = Emitter::new(SourceKind::Posted, Clock::Receiver, Claim::Silent, line, sink);
        out.head.time = Some(end.at_ms);
        out.head.session = Some(&end.session_id);
        out.emit(Fact::ProcessEnd(end.exit));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Decoded, ProcessExit, SourceId};

    use super::*;
    use crate::{Decoder, LinesDecoder};

    #[test]
    fn lines_name_session_and_exit_and_damaged_ones_are_problems() {
        let lines = concat!(
            r#"{"schema":"subscope.process/1","at_ms":5,"session_id":"s","code":0}"#,
            "\n",
            r#"{"schema":"subscope.process/1","at_ms":6,"session_id":"t","signal":9}"#,
            "\n",
            r#"{"schema":"subscope.process/1","at_ms":7,"session_id":"s"}"#,
            "\n",
            r#"{"schema":"subscope.process/2","at_ms":8,"session_id":"s","code":0}"#,
            "\n",
        );
        let (mut ends, mut problems) = (Vec::new(), 0);
        LinesDecoder::new(SourceId(0), ProcessEnds).push(lines.as_bytes(), &mut |decoded| match decoded {
            Decoded::Observation(seen) => {
                let Fact::ProcessEnd(exit) = seen.fact else { panic!("{seen:?}") };
                ends.push((seen.session.map(str::to_owned), seen.time, exit));
            }
            Decoded::Problem { .. } => problems += 1,
        });
        let expected = [("s", 5, ProcessExit::Code(0)), ("t", 6, ProcessExit::Signal(9))];
        assert_eq!(ends, expected.map(|(session, at, exit)| (Some(session.to_owned()), Some(at), exit)));
        assert_eq!(problems, 2);
    }
}
