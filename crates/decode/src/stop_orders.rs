//! Orders that agents stop (`subscope.stop/1`), as the hub stores them: one per line.

use subscope_model::{Basis, Claim, Clock, Fact, Sink, SourceKind, StopOrder};

use crate::{
    Emitter,
    lenient::LineText,
    lines::{LineDecoder, LineError},
};

/// Decodes one log of orders. Every line names its session.
#[derive(Debug)]
pub(crate) struct StopOrders;

impl LineDecoder for StopOrders {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let order: StopOrder = serde_json::from_str(line.text)?;
        if order.schema.as_ref() != StopOrder::SCHEMA {
            return Err(LineError::Foreign(format!("no {}, kept as text", StopOrder::SCHEMA).into()));
        }
        let claim = Claim::Agent(&order.agent_id, Basis::Wire);
        let mut out = Emitter::new(SourceKind::Posted, Clock::Receiver, claim, line, sink);
        out.head.time = Some(order.at_ms);
        out.head.session = Some(&order.session_id);
        let (step, call, is_refused) = (order.step, order.tool_use_id.as_deref(), order.is_refused);
        out.emit(Fact::Stop { step, call, is_refused });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Decoded, SourceId, StopStep};

    use super::*;
    use crate::{Decoder, LinesDecoder};

    #[test]
    fn lines_name_session_agent_and_call_and_damaged_ones_are_problems() {
        let lines = concat!(
            r#"{"schema":"subscope.stop/1","step":"asked","at_ms":5,"session_id":"s","agent_id":"a1"}"#,
            "\n",
            r#"{"schema":"subscope.stop/1","step":"given","at_ms":6,"session_id":"s","agent_id":"a1","tool_use_id":"t","is_refused":true}"#,
            "\n",
            r#"{"schema":"subscope.stop/1","step":"obeyed","at_ms":7,"session_id":"s","agent_id":"a1"}"#,
            "\n",
            r#"{"schema":"subscope.stop/2","step":"asked","at_ms":8,"session_id":"s","agent_id":"a1"}"#,
            "\n",
        );
        let mut told = Vec::new();
        let mut problems = 0;
        LinesDecoder::new(SourceId(0), StopOrders).push(lines.as_bytes(), &mut |decoded| match decoded {
            Decoded::Observation(seen) => {
                let (Claim::Agent(agent, Basis::Wire), Fact::Stop { step, call, is_refused }) =
                    (&seen.claim, &seen.fact)
                else {
                    panic!("{seen:?}")
                };
                assert_eq!((seen.session, *agent), (Some("s"), "a1"));
                told.push((seen.time, *step, call.map(str::to_owned), *is_refused));
            }
            Decoded::Problem { .. } => problems += 1,
        });
        let given = (Some(6), StopStep::Given, Some("t".to_owned()), true);
        assert_eq!(told, [(Some(5), StopStep::Asked, None, false), given]);
        assert_eq!(problems, 2);
    }
}
