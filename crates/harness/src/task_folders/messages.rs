//! What the editor showed of a task: the source of prompts, responses with their tokens, texts and ends.
//!
//! Pitfalls: a message that is being written is `partial`. A request gets its tokens when it has ended, in the same message.
//! A task that is opened again asks whether to resume: it had been interrupted, unless it was completed. Where the API's own
//! protocol is named, the tokens of the input hold those of the cache.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, digest,
    lenient::{Flag, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, EndEvidence, Fact, Parent, PromptKind, RawJson, Response, Spawn,
    SpawnMode, ToolClass, Usage,
};

use super::{
    lines::made,
    waits::{Ask, CallQuestion},
};
use crate::common::{
    emit_failure,
    parts::{elements, string},
};

/// Questions whether and how a task goes on after many errors or requests.
const GUIDANCE: [&str; 2] = ["mistake_limit_reached", "auto_approval_max_req_reached"];

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct EditorMessage<'a> {
    ts: Num,
    #[serde(rename = "type")]
    kind: Str<'a>,
    say: Str<'a>,
    ask: Str<'a>,
    text: Option<&'a RawValue>,
    partial: Flag,
    /// Of a question about a tool, and of one of the model.
    is_answered: Flag,
    model_info: EditorModel<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct EditorModel<'a> {
    model_id: Str<'a>,
}

/// The JSON in the text of a request.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct RequestText<'a> {
    tokens_in: Num,
    tokens_out: Num,
    cache_writes: Num,
    cache_reads: Num,
    cost: Option<&'a RawValue>,
    cancel_reason: Str<'a>,
    streaming_failed_message: Option<&'a RawValue>,
    api_protocol: Str<'a>,
}

/// The JSON in the text that shows the agents of one call (Cline).
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ShownAgents<'a> {
    items: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct AgentCounters<'a> {
    index: Num,
    prompt: Option<&'a RawValue>,
    status: Str<'a>,
    input_tokens: Num,
    output_tokens: Num,
    total_cost: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// A turn of one task.
struct TaskTurn<'t> {
    task: &'t str,
    is_root: bool,
    is_over: bool,
}

/// Emits what a task has shown. Returns the question about a call that it shows last.
pub(super) fn decode<'a>(
    task: &str,
    content: Option<&'a RawValue>,
    out: &mut Emitter<'a, '_>,
) -> Option<CallQuestion> {
    let all: Vec<EditorMessage<'a>> = elements(content);
    let is_root = matches!(out.head.claim, Claim::Root(_));
    let mut turn = TaskTurn { task, is_root, is_over: true };
    for (at, message) in all.iter().enumerate() {
        out.head.time = message.ts.signed();
        if message.partial.is_true() {
            out.emit(Fact::Activity);
            continue;
        }
        if message.kind.is("ask") {
            turn.asked(message, out);
        } else if message.say.is("subagent") {
            let next = all.get(at + 1).and_then(|next| next.ts.signed());
            turn.agents(message, next, out);
        } else {
            turn.said(message, at == 0, out);
        }
    }
    let last = all.last().filter(|last| last.kind.is("ask") && !last.partial.is_true())?;
    let text = string(last.text).unwrap_or_default();
    let ask = Ask { word: last.ask.get()?, text: &text, is_answered: last.is_answered };
    if GUIDANCE.contains(&ask.word) {
        // It is asked between two requests, about no call: any next one is its answer.
        let digest = digest(ask.word, &turn.id_of(last));
        out.emit_made(Fact::Permission { name: ask.word, class: ToolClass::Question, digest, input: None });
    }
    CallQuestion::of(&ask, turn.id_of(last), last.ts.signed())
}

impl TaskTurn<'_> {
    fn id_of(&self, message: &EditorMessage<'_>) -> String {
        format!("{}:{}", self.task, message.ts.0.unwrap_or(0))
    }

    fn said<'a>(&mut self, message: &EditorMessage<'a>, is_first: bool, out: &mut Emitter<'a, '_>) {
        let text = out.raw(message.text).filter(|text| text.json.len() > 2);
        match message.say.get().unwrap_or_default() {
            "task" | "user_feedback" => self.prompt(message, out),
            "text" if is_first => self.prompt(message, out),
            "text" => {
                if let Some(text) = text {
                    out.emit_made(Fact::Message { message_id: None, text });
                }
            }
            "reasoning" => out.emit_made(Fact::Thought { message_id: None, text }),
            "api_req_started" => self.request(message, false, out),
            "deleted_api_reqs" => self.request(message, true, out),
            "completion_result" => {
                let Some(text) = text else { return out.emit(Fact::Activity) };
                out.emit_made(Fact::Message { message_id: None, text });
                self.end(AgentStatus::Completed, EndEvidence::Notification, Some(text), None, out);
            }
            _ => out.emit(Fact::Activity),
        }
    }

    fn asked<'a>(&mut self, message: &EditorMessage<'a>, out: &mut Emitter<'a, '_>) {
        let text = out.raw(message.text).filter(|text| text.json.len() > 2);
        match message.ask.get().unwrap_or_default() {
            "completion_result" if !self.is_over => {
                self.end(AgentStatus::Completed, EndEvidence::Notification, text, None, out);
            }
            // It was opened again: nothing is known of when it ended.
            "resume_task" if !self.is_over => {
                out.head.time = None;
                self.end(AgentStatus::Stopped, EndEvidence::LastLine, None, None, out);
            }
            "resume_task" | "resume_completed_task" => {}
            "api_req_failed" if !self.is_over => {
                emit_failure(text, out);
                self.end(AgentStatus::Failed, EndEvidence::Notification, None, text, out);
            }
            _ => out.emit(Fact::Activity),
        }
    }

    fn prompt<'a>(&mut self, message: &EditorMessage<'a>, out: &mut Emitter<'a, '_>) {
        self.begin(out);
        let id = message.ts.0.map(|ts| ts.to_string());
        let text = out.raw(message.text).unwrap_or(made("\"\""));
        out.emit_made(Fact::Prompt { prompt_id: id.as_deref(), text, what: PromptKind::Asked });
    }

    /// Emits the begin of a turn, if the last one has ended.
    fn begin(&mut self, out: &mut Emitter<'_, '_>) {
        if std::mem::take(&mut self.is_over) {
            out.emit_made(Fact::TurnStart);
        }
    }

    /// Emits a request to the model, with its tokens where it has ended.
    fn request<'a>(&mut self, message: &EditorMessage<'a>, is_only_counted: bool, out: &mut Emitter<'a, '_>) {
        let json = string(message.text).unwrap_or_default();
        let request: RequestText<'_> = serde_json::from_str(&json).unwrap_or_default();
        if !is_only_counted {
            self.begin(out);
        }
        let id = self.id_of(message);
        out.emit_made(Fact::Response(Response {
            message_id: &id,
            model: message.model_info.model_id.filled(),
            usage: request.usage(),
            cost_pico_usd: dollars(request.cost, 1e12),
            has_stop_reason: true,
            // A task ends by its completion alone.
            has_call: true,
            accounts_only: is_only_counted,
            ..Response::default()
        }));
        let error = request.streaming_failed_message.map(|raw| made(raw.get()));
        match request.cancel_reason.get() {
            Some("user_cancelled") => {
                self.end(AgentStatus::Stopped, EndEvidence::Interruption, None, None, out);
            }
            Some("streaming_failed" | "retries_exhausted") => {
                emit_failure(error, out);
                self.end(AgentStatus::Failed, EndEvidence::Notification, None, error, out);
            }
            Some(_) | None => {}
        }
    }

    fn end(
        &mut self,
        status: AgentStatus,
        evidence: EndEvidence,
        report: Option<RawJson<'_>>,
        error: Option<RawJson<'_>>,
        out: &mut Emitter<'_, '_>,
    ) {
        self.is_over = true;
        if self.is_root {
            out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text: error.or(report) });
        } else {
            out.emit_made(Fact::AgentEnd(AgentEnd {
                status,
                evidence,
                report,
                error,
                ..AgentEnd::default()
            }));
        }
    }

    /// Emits the agents of one call. Only their tasks, counters and results are known.
    fn agents<'a>(&mut self, message: &EditorMessage<'a>, next: Option<i64>, out: &mut Emitter<'a, '_>) {
        self.begin(out);
        let json = string(message.text).unwrap_or_default();
        let agents: ShownAgents<'_> = serde_json::from_str(&json).unwrap_or_default();
        let time = out.head.time;
        out.emit_made(Fact::Activity);
        for item in elements::<AgentCounters<'_>>(agents.items) {
            let id = format!("{}-{}-{}", self.task, message.ts.0.unwrap_or(0), item.index.0.unwrap_or(0));
            let parent = if self.is_root { Parent::Root } else { Parent::Agent(self.task) };
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(&id),
                parent: Some(parent),
                prompt: item.prompt.map(|raw| made(raw.get())),
                mode: Some(SpawnMode::Foreground),
                starts: true,
                ..Spawn::default()
            }));
            let claim = Claim::Agent(&id, Basis::Wire);
            out.emit_of(claim, time, Fact::TurnStart);
            let usage = Usage::of_parts([item.input_tokens.0, item.output_tokens.0, None, None], None);
            let cost_micro_usd = dollars(item.total_cost, 1e6).and_then(|cost| i64::try_from(cost).ok());
            out.emit_of(claim, time, Fact::Totals { usage, cost_micro_usd });
            let status = match item.status.get() {
                Some("completed") => AgentStatus::Completed,
                Some("failed") => AgentStatus::Failed,
                Some(_) | None => continue,
            };
            out.emit_of(claim, next, Fact::Activity);
            let evidence = EndEvidence::SpawnResult;
            let [report, error] = [item.result, item.error].map(|raw| raw.map(|raw| made(raw.get())));
            out.emit_of(
                claim,
                next,
                Fact::AgentEnd(AgentEnd { status, evidence, report, error, ..AgentEnd::default() }),
            );
        }
    }
}

impl RequestText<'_> {
    /// Returns its tokens; `None` where it has not ended.
    fn usage(&self) -> Option<Usage> {
        if self.tokens_in.0.is_none() && self.tokens_out.0.is_none() {
            return None;
        }
        let [read, write] = [self.cache_reads, self.cache_writes].map(|kind| kind.0.unwrap_or(0));
        let holds_cached = self.api_protocol.filled().is_some();
        let fresh = |input: u64| {
            if holds_cached { input.checked_sub(read.saturating_add(write)).unwrap_or(input) } else { input }
        };
        Some(Usage::of_parts([self.tokens_in.0.map(fresh), self.tokens_out.0, Some(read), Some(write)], None))
    }
}

/// Returns a number of dollars in parts of one; `None` where there is none, or nothing: the price of the model is not known.
fn dollars(raw: Option<&RawValue>, parts: f64) -> Option<u64> {
    let dollars: f64 = raw?.get().parse().ok()?;
    // `as` saturates.
    (dollars.is_finite() && dollars > 0.0).then(|| (dollars * parts).round() as u64)
}
