//! Execution traces as lines (`subscope.execution/1`): the traces of a checkpoint, each with the id of its session.
//!
//! A trace has the total of an agent's tokens, not its responses, and neither times nor (from other programs) ids of
//! its calls. A line without an agent only names the session.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, ExecutionTrace, Fact,
    Outcome, Parent, Sink, SourceKind, Spawn, ToolClass, Usage,
};

use crate::{
    Emitter, Hint,
    lenient::{Flag, LineText, Num, Str},
    lines::{LineDecoder, LineError},
};

/// Decodes lines of execution traces.
#[derive(Debug)]
pub(crate) struct Executions {
    tool_class: fn(&str) -> ToolClass,
}

impl Executions {
    /// A decoder for the source that `hint` describes.
    pub(crate) fn new(hint: &Hint) -> Self {
        Self { tool_class: hint.tool_class }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    schema: Str<'a>,
    session_id: Str<'a>,
    subagent_id: Str<'a>,
    subagent_type: Str<'a>,
    parent_tool_call_id: Str<'a>,
    parent_subagent_id: Str<'a>,
    prompt: Option<&'a RawValue>,
    start_time: Option<i64>,
    end_time: Option<i64>,
    success: Flag,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    tool_executions: Vec<Call<'a>>,
    usage: Option<Tokens>,
    model: Str<'a>,
    cost_micro_usd: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Call<'a> {
    tool_name: Str<'a>,
    tool_call_id: Str<'a>,
    arguments: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    is_error: Flag,
    duration: Option<i64>,
}

/// Tokens of an agent. All input counts as fresh, because a trace does not distinguish cached input.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    input_tokens: Num,
    output_tokens: Num,
}

impl LineDecoder for Executions {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if !line.schema.is(ExecutionTrace::LINE_SCHEMA) {
            return Err(LineError::Foreign(
                format!("no {}, kept as text", ExecutionTrace::LINE_SCHEMA).into(),
            ));
        }
        let agent = line.subagent_id.filled();
        let claim = agent.map_or(Claim::Silent, |agent| Claim::Agent(agent, Basis::Link));
        let mut out = Emitter::new(SourceKind::Posted, Clock::Stream, claim, text, sink);
        out.head.session = line.session_id.filled();
        let Some(agent) = agent else {
            out.emit(Fact::Session { version: None, cwd: None, model: None, tells_starts: false });
            return Ok(());
        };
        out.head.time = line.start_time;
        out.emit(Fact::Spawn(spawn(agent, &line, text)));
        out.emit(Fact::Activity);
        // A trace has no times of its calls.
        out.head.time = None;
        for call in &line.tool_executions {
            // Calls have no times: increasing offsets keep their order.
            out.head.place.offset += 1;
            let (id, name) = (call.tool_call_id.filled(), call.tool_name.get().unwrap_or_default());
            let (class, input) = ((self.tool_class)(name), out.raw(call.arguments));
            let digest = crate::digest(name, call.arguments.map_or("", RawValue::get));
            out.emit(Fact::CallBegin(CallBegin { id, name, class, input, digest, ..CallBegin::default() }));
            let has_result = call.result.is_some_and(|result| result.get() != "\"\"");
            let outcome = match (call.is_error.0, !has_result && call.duration.is_none()) {
                (Some(true), _) => Outcome::Error,
                // A call that was open when its agent ended has neither result, error flag nor duration.
                (None, true) => continue,
                (Some(false), _) | (None, false) => Outcome::Ok,
            };
            out.emit(Fact::CallEnd(CallEnd {
                id,
                name: Some(name),
                digest,
                outcome,
                result: out.raw(call.result),
                duration_ms: call.duration,
                ..CallEnd::default()
            }));
        }
        if let Some(Tokens { input_tokens, output_tokens }) = &line.usage {
            let number = |field: &Num| field.0.unwrap_or(0);
            let usage = Usage::new(number(input_tokens), number(output_tokens), 0, 0);
            out.emit(Fact::Totals { usage, cost_micro_usd: line.cost_micro_usd });
        }
        out.head.time = line.end_time.max(line.start_time);
        out.emit(Fact::Activity);
        out.emit(Fact::AgentEnd(AgentEnd {
            agent: Some(agent),
            status: if line.success.is_true() { AgentStatus::Completed } else { AgentStatus::Failed },
            evidence: EndEvidence::Notification,
            time: out.head.time,
            report: out.raw(line.result),
            error: out.raw(line.error),
            ..AgentEnd::default()
        }));
        Ok(())
    }
}

fn spawn<'a>(agent: &'a str, line: &'a Line<'_>, text: LineText<'a>) -> Spawn<'a> {
    let call = line.parent_tool_call_id.filled();
    Spawn {
        agent: Some(agent),
        call,
        parent: Some(line.parent_subagent_id.filled().map_or(Parent::Root, Parent::Agent)),
        agent_type: line.subagent_type.0.clone(),
        prompt: line.prompt.map(|raw| text.raw(raw)),
        model: line.model.0.clone(),
        starts: true,
        is_origin: call.is_some(),
        detached: call.is_none(),
        ..Spawn::default()
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Decoded, SourceId};

    use super::*;
    use crate::{Decoder, LinesDecoder};

    #[test]
    fn trace_gives_start_calls_total_and_end() {
        let lines = concat!(
            r#"{"schema":"subscope.execution/1","sessionId":"s"}"#,
            "\n",
            r#"{"schema":"subscope.execution/1","sessionId":"s","subagentId":"a","subagentType":"Explore","#,
            r#""parentToolCallId":"","prompt":"look","startTime":5,"endTime":9,"success":false,"error":"no","#,
            r#""toolExecutions":[{"toolName":"Read","toolCallId":"t","arguments":{"p":1},"result":null},"#,
            r#"{"toolName":"Bash","arguments":null,"result":"x","isError":true,"duration":3}],"#,
            r#""usage":{"inputTokens":7,"outputTokens":2,"totalTokens":9},"costMicroUsd":4}"#,
            "\n",
            r#"{"schema":"subscope.execution/2","sessionId":"s","subagentId":"b"}"#,
            "\n",
        );
        let (mut seen, mut problems) = (Vec::new(), 0);
        let decoder = Executions::new(&Hint::default());
        LinesDecoder::new(SourceId(0), decoder).push(lines.as_bytes(), &mut |decoded| match decoded {
            #[expect(clippy::wildcard_enum_match_arm, reason = "a trace gives no other fact")]
            Decoded::Observation(observation) => {
                assert_eq!(observation.session, Some("s"));
                seen.push(match &observation.fact {
                    Fact::Session { .. } => "session".to_owned(),
                    Fact::Spawn(spawn) => format!("{:?} {:?}", spawn.parent, observation.time),
                    Fact::Activity => format!("at {:?}", observation.time),
                    Fact::CallBegin(call) => format!("{:?} {}", call.id, call.name),
                    Fact::CallEnd(call) => format!("{:?} {:?}", call.outcome, call.duration_ms),
                    Fact::Totals { usage, cost_micro_usd } => {
                        format!("{} {cost_micro_usd:?}", usage.total_tokens)
                    }
                    Fact::AgentEnd(end) => format!("{:?} {:?}", end.status, end.error.map(|raw| raw.json)),
                    other => panic!("{other:?}"),
                });
            }
            Decoded::Problem { .. } => problems += 1,
        });
        assert_eq!(
            seen,
            [
                "session",
                "Some(Root) Some(5)",
                "at Some(5)",
                "Some(\"t\") Read",
                "None Bash",
                "Error Some(3)",
                "9 Some(4)",
                "at Some(9)",
                "Failed Some(\"\\\"no\\\"\")",
            ]
        );
        assert_eq!(problems, 1);
    }
}
