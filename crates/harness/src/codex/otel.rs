//! `codex.otel`: the log events of Codex as OpenTelemetry records.
//!
//! A thread is a conversation of its own, also that of a subagent: only the rollout names its parent, so each is a
//! session here. Responses have no ids: their tokens are summed up, and counted where no rollout has them. Spans are
//! internals of the program without tokens, and skipped.

use std::collections::HashSet;

use serde_json::{json, value::RawValue};
use subscope_decode::{
    Emitter, digest,
    otlp::{LogEvent, OtelSource, Record, RecordDecoder, Scope, made_json},
};
use subscope_model::{Basis, CallBegin, CallEnd, Claim, Fact, Outcome, PromptKind, Usage, parse_rfc3339};

use super::{OTEL, tools};

/// How its records are known.
pub(crate) static RECORDS: OtelSource = OtelSource {
    dialect: OTEL,
    has_scope: |name| name == "codex" || name.starts_with("codex_") || name.starts_with("codex."),
    has_service: |name| name.starts_with("codex"),
    session: |record| record.attributes()?.text("conversation.id"),
};

/// Placeholder of a prompt whose recording is turned off.
const REDACTED: &str = "[REDACTED]";
/// Most records of tokens that are remembered, so that one that is sent again is not added twice.
const MAX_COUNTED: usize = 100_000;

/// Decodes the records of one source.
#[derive(Default)]
pub(super) struct Records {
    total: Usage,
    counted: HashSet<String>,
}

impl Records {
    fn response(&mut self, log: &LogEvent, out: &mut Emitter<'_, '_>) {
        let attributes = &log.attributes;
        if attributes.text("event.kind") != Some("response.completed") {
            return;
        }
        let tokens = |name: &str| attributes.number(name).unwrap_or(0);
        if !self.counted.insert(log.identity()) || self.counted.len() > MAX_COUNTED {
            return;
        }
        let cached = tokens("cached_token_count");
        let input = tokens("input_token_count").saturating_sub(cached);
        self.total += Usage::new(input, tokens("output_token_count"), cached, 0);
        out.emit(Fact::Activity);
        out.emit_made(Fact::Totals { usage: self.total, cost_micro_usd: None });
    }
}

fn call(log: &LogEvent, out: &mut Emitter<'_, '_>) {
    let attributes = &log.attributes;
    let (Some(id), Some(name)) = (attributes.text("call_id"), attributes.text("tool_name")) else { return };
    let arguments = attributes.text("arguments");
    let input: Option<&RawValue> = arguments.and_then(|arguments| serde_json::from_str(arguments).ok());
    let duration_ms = attributes.number("duration_ms").and_then(|duration| i64::try_from(duration).ok());
    let is_result = log.name.ends_with("tool_result");
    let begun = out.head.time.map(|time| time - duration_ms.filter(|_| is_result).unwrap_or(0));
    let begin = CallBegin {
        id: Some(id),
        name,
        class: tools::class(name),
        input: input.map(|raw| made_json(raw.get())),
        digest: digest(name, input.map_or("", RawValue::get)),
        ..CallBegin::default()
    };
    out.emit_of(out.head.claim, begun, Fact::CallBegin(begin));
    let outcome = match (is_result, attributes.text("decision"), attributes.flag("success")) {
        (false, Some("denied"), _) => Outcome::Denied,
        (false, Some("abort"), _) => Outcome::Interrupted,
        (false, ..) => return,
        (true, _, Some(false)) if attributes.text("output").is_some_and(tools::is_refusal) => Outcome::Denied,
        (true, _, Some(false)) => Outcome::Error,
        (true, ..) => Outcome::Ok,
    };
    let result = attributes.text("output").map(|output| json!(output).to_string());
    out.emit_made(Fact::CallEnd(CallEnd {
        id: Some(id),
        name: Some(name),
        outcome,
        duration_ms,
        result: result.as_deref().map(made_json),
        ..CallEnd::default()
    }));
}

impl RecordDecoder for Records {
    fn source(&self) -> &'static OtelSource {
        &RECORDS
    }

    fn decode(&mut self, scope: &Scope, record: &Record, out: &mut Emitter<'_, '_>) {
        let Record::Log(log) = record else { return };
        let attributes = &log.attributes;
        let time = attributes.text("event.timestamp").and_then(parse_rfc3339).or(log.time);
        let identity = log.identity();
        let mut out = out.with(Claim::Root(Basis::Wire), time, Some(&identity));
        match log.name.as_str() {
            "codex.conversation_starts" => {
                let version = attributes.text("app.version").or(scope.version.as_deref());
                let model = attributes.text("model");
                out.emit_made(Fact::Session { version, cwd: None, model, tells_starts: false });
            }
            "codex.user_prompt" => {
                let text = attributes.text("prompt").filter(|text| *text != REDACTED).unwrap_or_default();
                let json = json!(text).to_string();
                let text = made_json(&json);
                out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
            }
            "codex.sse_event" => self.response(log, &mut out),
            "codex.tool_decision" | "codex.tool_result" => call(log, &mut out),
            _ => {}
        }
    }
}
