//! The dialects of subscope itself: what programs publish, and what subscope writes and reads again.

use serde::Deserialize;
use subscope_model::{Event, ExecutionTrace, ProcessEnd, ProcessNoteLine, StopOrder, TrajectoryLine, own_id};

use crate::{
    Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, executions::Executions, feed::FeedLines,
    lenient::Str, otlp::OTEL_GENAI, process_ends::ProcessEnds, session_of, stop_orders::StopOrders,
    subagent_events, subagent_events::SubagentEvents, trajectories::Trajectories,
};

/// Events that a program publishes about its own subagents.
pub const SUBAGENT_EVENTS: Dialect = Dialect::new(&DialectSpec {
    line_session: subagent_events::line_session,
    lifecycle: Lifecycle { changes: &["subagent_start", "subagent_end"], opens: None, spawns: None },
    ..DialectSpec::new("subagent-events", |hint| {
        Box::new(LinesDecoder::new(hint.source, SubagentEvents::new(hint)))
    })
});

/// Our own `subscope.event/1`: what exports and `watch --json` write.
pub const FEED: Dialect = Dialect::new(&DialectSpec {
    safe_id: own_id,
    line_session: |line| session_of(line).map_or(LineSession::Same, LineSession::Named),
    lifecycle: Lifecycle {
        changes: &["subagent.st", "session.", "agent.renamed"],
        opens: None,
        spawns: None,
    },
    ..DialectSpec::new("feed", |hint| Box::new(LinesDecoder::new(hint.source, FeedLines::new(hint))))
});

/// Our own `subscope.stop/1`: what a person ordered. Orders have a route of their own.
pub const STOP_ORDERS: Dialect = Dialect::new(&DialectSpec {
    safe_id: own_id,
    is_ingestible: false,
    ..DialectSpec::new("stop-orders", |hint| Box::new(LinesDecoder::new(hint.source, StopOrders)))
});

/// Our own `subscope.process/1` and `subscope.process-activity/1`: how the processes of sessions ended, and what they do.
pub const PROCESS_ENDS: Dialect = Dialect::new(&DialectSpec {
    safe_id: own_id,
    line_session: |line| session_of(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("process-ends", |hint| Box::new(LinesDecoder::new(hint.source, ProcessEnds)))
});

/// Our own `subscope.execution/1`: the execution traces of a checkpoint.
pub const EXECUTIONS: Dialect = Dialect::new(&DialectSpec {
    safe_id: own_id,
    line_session: |line| session_of(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("executions", |hint| Box::new(LinesDecoder::new(hint.source, Executions::new(hint))))
});

/// Our own `subscope.trajectory/1`: the steps of an ATIF document.
pub const TRAJECTORIES: Dialect = Dialect::new(&DialectSpec {
    line_session: |line| session_of(line).map_or(LineSession::Same, LineSession::Named),
    lifecycle: Lifecycle {
        changes: &["\"type\":\"session\"", "\"type\":\"start\"", "\"type\":\"end\""],
        opens: None,
        spawns: None,
    },
    ..DialectSpec::new("trajectories", |hint| Box::new(LinesDecoder::new(hint.source, Trajectories)))
});

/// All dialects of ours.
pub const OWN: &[Dialect] =
    &[SUBAGENT_EVENTS, FEED, STOP_ORDERS, PROCESS_ENDS, EXECUTIONS, TRAJECTORIES, OTEL_GENAI];

/// The fields by which our dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    schema: Str<'a>,
    #[serde(rename = "subagentRunId", alias = "subagentRunID")]
    run_id: Str<'a>,
    #[serde(rename = "subagentName")]
    subagent_name: Str<'a>,
}

/// Returns the dialect of ours that a JSON object is written in.
pub fn recognize(object: &str) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(object).ok()?;
    if marks.schema.is(Event::SCHEMA) {
        Some(FEED)
    } else if marks.schema.is(StopOrder::SCHEMA) {
        Some(STOP_ORDERS)
    } else if marks.schema.is(ProcessEnd::SCHEMA) || marks.schema.is(ProcessNoteLine::SCHEMA) {
        Some(PROCESS_ENDS)
    } else if marks.schema.is(ExecutionTrace::LINE_SCHEMA) {
        Some(EXECUTIONS)
    } else if marks.schema.is(TrajectoryLine::SCHEMA) {
        Some(TRAJECTORIES)
    } else if marks.run_id.filled().or(marks.subagent_name.filled()).is_some() {
        Some(SUBAGENT_EVENTS)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognize_own_dialects_by_their_fields() {
        for (object, dialect) in [
            (r#"{"subagentName":"a","subagentRunID":"r","type":"tool_call"}"#, Some(SUBAGENT_EVENTS)),
            (r#"{"schema":"subscope.event/1","id":"x","kind":"usage"}"#, Some(FEED)),
            (r#"{"schema":"subscope.stop/1","step":"asked"}"#, Some(STOP_ORDERS)),
            (r#"{"schema":"subscope.process/1","code":0}"#, Some(PROCESS_ENDS)),
            (r#"{"schema":"subscope.process-activity/1","activity":"busy"}"#, Some(PROCESS_ENDS)),
            (r#"{"schema":"subscope.execution/1","sessionId":"s"}"#, Some(EXECUTIONS)),
            (r#"{"schema":"subscope.trajectory/1","session_id":"s"}"#, Some(TRAJECTORIES)),
            (r#"{"schema":"subscope.event/9"}"#, None),
            (r#"{"subagentName":""}"#, None),
            ("text", None),
        ] {
            assert_eq!(recognize(object), dialect, "{object}");
        }
    }
}
