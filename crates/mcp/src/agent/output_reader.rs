//! Turns the output of an agent command into published events and an answer.
//!
//! The main thread of the output is the run itself. Its subagents (those of the harness, or runs that the command
//! reports on stdout) are published as runs below this one, under their own ids.

use std::collections::HashMap;

use serde_json::Value;
use subscope_client::publish::{Event as PublishEvent, EventKind as PublishKind, TokenUsage};
use subscope_decode::Dialect;
use subscope_harness::recognize;
use subscope_model::{
    Agent, AgentId, AgentStatus, Event, EventKind, Millis, PriceTable, SessionId, SourceId, Text, Tree, Usage,
};
use subscope_session::{
    EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter, SessionUpdate, SourceSpec,
};

use super::{
    final_answer::{FinalResult, NonJsonLines},
    tail::TextTail,
};

/// Most bytes buffered to recognize the dialect; output that is not recognized by then is text.
const HEAD_BYTES: usize = 64 << 10;
/// Longest answer: far more than a model can read.
const ANSWER_BYTES: usize = 1 << 20;
/// Longest published payload: listeners accept events of up to 4 MiB, and JSON escapes some characters with six bytes.
const PAYLOAD_BYTES: usize = 512 << 10;
/// Tool by which an agent returns a structured answer; harnesses prefix the names of MCP tools.
const FINAL_ANSWER: &str = "final_answer";

/// Identity of a published run.
#[derive(Clone, Debug)]
pub(super) struct RunIdentity {
    pub(super) name: String,
    pub(super) id: String,
    /// Session of the caller, if known.
    pub(super) session: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) depth: u32,
}

impl RunIdentity {
    /// Creates an event of this run.
    pub(super) fn event(&self, kind: PublishKind, at_ms: Millis) -> PublishEvent {
        PublishEvent {
            timestamp_ms: at_ms,
            depth: Some(self.depth),
            parent_run_id: self.parent.clone(),
            session_id: self.session.clone(),
            ..PublishEvent::new(self.name.clone(), self.id.clone(), kind)
        }
    }
}

/// Result of a run according to its output.
#[derive(Debug, Default)]
pub(super) struct OutputResult {
    /// The answer: final result, last message, or output that is not JSON.
    pub(super) text: String,
    /// The arguments of the last `final_answer` call.
    pub(super) final_answer: Option<Value>,
    /// Failure reported by the harness.
    pub(super) failure: Option<String>,
    /// Token usage of the main thread.
    pub(super) usage: Option<TokenUsage>,
    /// Time of the last event.
    pub(super) last_ms: Millis,
}

/// An event to publish, with a progress message for the client.
#[derive(Debug)]
pub(super) struct OutputEvent {
    pub(super) event: PublishEvent,
    pub(super) progress: Option<String>,
}

/// Decodes the output of one run.
pub(super) struct OutputReader {
    run: RunIdentity,
    format: OutputFormat,
    agents: HashMap<AgentId, RunIdentity>,
    final_answer: Option<Value>,
    /// Id and texts of the main thread's last message.
    last_message: (Option<String>, Vec<String>),
    last_ms: Millis,
    now_ms: fn() -> Millis,
    /// Rows are not derived before this time, so that deriving takes at most a fifth of the time.
    throttled_until: Millis,
}

/// Pause after deriving, as a multiple of its duration.
const PAUSE_FACTOR: Millis = 4;

/// Decoding state of the output.
enum OutputFormat {
    /// Dialect not recognized yet: buffered output, and the number of bytes already inspected.
    Head { head: Vec<u8>, seen: usize, dialect: Option<Dialect> },
    /// Plain text.
    Text(TextTail),
    /// A harness's stream.
    Stream(Box<StreamReader>),
}

struct StreamReader {
    router: SessionRouter,
    source: SourceId,
    final_result: FinalResult,
    non_json_lines: NonJsonLines,
    prices: PriceTable,
    root: Option<Agent>,
    /// Whether input arrived since rows were last derived.
    has_input: bool,
}

impl OutputReader {
    /// Creates a reader; without a dialect it is detected.
    pub(super) fn new(run: RunIdentity, dialect: Option<Dialect>, now_ms: fn() -> Millis) -> Self {
        Self {
            run,
            format: OutputFormat::Head { head: Vec::new(), seen: 0, dialect },
            agents: HashMap::new(),
            final_answer: None,
            last_message: (None, Vec::new()),
            last_ms: now_ms(),
            now_ms,
            throttled_until: Millis::MIN,
        }
    }

    /// Decodes the next bytes, split anywhere; returns new events in order.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<OutputEvent> {
        let now = (self.now_ms)();
        match &mut self.format {
            OutputFormat::Text(text) => text.push(bytes),
            OutputFormat::Stream(stream) => stream.push(bytes, now),
            OutputFormat::Head { head, seen, dialect } => {
                head.extend_from_slice(bytes);
                let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                let lines = head.get(*seen..whole).unwrap_or_default();
                let found = dialect.or_else(|| recognize(lines));
                *seen = whole.max(*seen);
                if found.is_some() || head.len() > HEAD_BYTES {
                    let head = std::mem::take(head);
                    self.start_decoding(found, &head, now);
                }
            }
        }
        self.idle()
    }

    /// Returns events caused by pending input or by time alone, unless throttled.
    pub(super) fn idle(&mut self) -> Vec<OutputEvent> {
        let now = (self.now_ms)();
        let OutputFormat::Stream(stream) = &self.format else { return Vec::new() };
        if now < self.throttled_until || !(stream.has_input || stream.is_due(now)) {
            return Vec::new();
        }
        let events = self.advance(now, false);
        let done = (self.now_ms)();
        self.throttled_until = done + PAUSE_FACTOR * (done - now).max(0);
        events
    }

    /// Ends the output; returns the remaining events and the result.
    pub(super) fn end(mut self) -> (Vec<OutputEvent>, OutputResult) {
        let now = (self.now_ms)();
        if let OutputFormat::Head { head, dialect, .. } = &mut self.format {
            let (head, found) = (std::mem::take(head), *dialect);
            self.start_decoding(found.or_else(|| recognize(&head)), &head, now);
        }
        if let OutputFormat::Stream(stream) = &mut self.format {
            stream.router.receive_at(Some(now));
            stream.router.flush(stream.source);
        }
        let events = self.advance(now, true);
        let Self { format, final_answer, last_message, last_ms, .. } = self;
        let seen = OutputResult { final_answer, last_ms, ..OutputResult::default() };
        let seen = match format {
            OutputFormat::Head { .. } => seen,
            OutputFormat::Text(text) => OutputResult { text: text.text(), ..seen },
            OutputFormat::Stream(stream) => stream.into_result(last_message.1, seen),
        };
        (events, seen)
    }

    fn start_decoding(&mut self, dialect: Option<Dialect>, head: &[u8], now: Millis) {
        self.format = match dialect {
            Some(dialect) => {
                let mut stream = Box::new(StreamReader::new(dialect));
                stream.push(head, now);
                OutputFormat::Stream(stream)
            }
            None => {
                let mut text = TextTail::new(ANSWER_BYTES);
                text.push(head);
                OutputFormat::Text(text)
            }
        };
    }

    fn advance(&mut self, now: Millis, has_ended: bool) -> Vec<OutputEvent> {
        let OutputFormat::Stream(stream) = &mut self.format else { return Vec::new() };
        let updates = stream.advance(now, has_ended);
        let mut published = Vec::new();
        for (tree, events) in updates {
            for event in events {
                published.extend(self.publish_form(&event, &tree, now));
            }
        }
        published
    }

    /// Converts an event for publishing; `None` for kinds that subagent events do not have.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the wire format has these five kinds and no other")]
    fn publish_form(&mut self, event: &Event, tree: &Tree, now: Millis) -> Option<OutputEvent> {
        let actor = &event.actor_id.0;
        let kind = match event.kind {
            EventKind::AgentRenamed => {
                // Keeps the id under which it was first published.
                let from = AgentId::from(event.text("from")?);
                let run = self.identity_of(&from, tree);
                self.agents.insert(AgentId::from(event.text("to")?), run);
                return None;
            }
            EventKind::AgentMessage => {
                if actor.is_root() {
                    self.store_message(event);
                }
                return None;
            }
            EventKind::SubagentStart => PublishKind::SubagentStart,
            EventKind::SubagentStop => PublishKind::SubagentEnd,
            EventKind::ToolPre => PublishKind::ToolCall,
            EventKind::ToolPost | EventKind::ToolFailure | EventKind::PermissionDenied => {
                PublishKind::ToolResult
            }
            EventKind::Reasoning => PublishKind::ThoughtTrace,
            _ => return None,
        };
        let run = self.identity_of(actor, tree);
        let at_ms = event.at_ms.map_or(now, |at| at.min(now)).max(self.last_ms);
        self.last_ms = at_ms;
        let mut published = run.event(kind, at_ms);
        let row = tree.agents.iter().find(|row| row.id == *actor);
        match kind {
            PublishKind::SubagentStart => {
                published.payload = event.text("prompt").map(|text| truncate_payload(text.to_owned()));
                published.parent_tool_call_id = event.text("spawned_by").map(str::to_owned);
            }
            PublishKind::SubagentEnd => {
                published.payload = failure_text(event);
                published.result = event.text("result").map(|text| truncate_payload(text.to_owned()));
                if event.text("status") == Some(AgentStatus::Stopped.as_str()) {
                    published = published.with_stopped();
                }
                published.token_usage = row.and_then(|row| row.usage).map(tokens);
            }
            PublishKind::ToolCall => {
                let name = event.text("tool_name").unwrap_or_default();
                if actor.is_root() && is_final_answer(name) {
                    self.final_answer = event.data.get("input").filter(|input| !input.is_null()).cloned();
                }
                published.payload = payload(event.data.get("input"));
                published.execution_timeout_seconds =
                    event.data.get("timeout_seconds").and_then(Value::as_u64);
            }
            PublishKind::ToolResult => {
                published.payload = payload(event.data.get("result").or_else(|| event.data.get("error")));
                published.is_error = event.kind != EventKind::ToolPost;
            }
            PublishKind::ThoughtTrace => match event.text("text") {
                Some(text) => published.payload = Some(truncate_payload(text.to_owned())),
                None => published.reasoning_type = Some("encrypted".to_owned()),
            },
        }
        if matches!(kind, PublishKind::ToolCall | PublishKind::ToolResult) {
            published.tool_name = event.text("tool_name").map(str::to_owned);
            published.tool_call_id = event.text("tool_use_id").map(str::to_owned);
        }
        let progress = progress_message(event, kind, (!actor.is_root()).then_some(run.name.as_str()));
        Some(OutputEvent { event: published, progress })
    }

    /// Stores the main thread's last message, the fallback answer.
    fn store_message(&mut self, event: &Event) {
        let message = event.text("message_id").map(str::to_owned);
        if message.is_none() || message != self.last_message.0 {
            self.last_message = (message, Vec::new());
        }
        self.last_message.1.extend(event.text("text").map(str::to_owned));
    }

    /// Returns the run identity of an agent: this run for the main thread, else a run below it.
    fn identity_of(&mut self, agent: &AgentId, tree: &Tree) -> RunIdentity {
        if agent.is_root() || agent.as_str() == self.run.id {
            return self.run.clone();
        }
        if let Some(known) = self.agents.get(agent) {
            return known.clone();
        }
        let row_of = |id: &AgentId| tree.agents.iter().find(|row| row.id == *id);
        let parent_of = |id: &AgentId| row_of(id)?.parent_id.clone().filter(|parent| !parent.is_root());
        // Iterative, since a chain of parents may be of any length: up to the first known run, then down again.
        let mut chain = vec![agent.clone()];
        let mut above = loop {
            match chain.last().and_then(parent_of).filter(|parent| !chain.contains(parent)) {
                Some(parent) if !self.agents.contains_key(&parent) => chain.push(parent),
                parent => {
                    break parent.and_then(|parent| self.agents.get(&parent)).unwrap_or(&self.run).clone();
                }
            }
        };
        for id in chain.into_iter().rev() {
            let run = RunIdentity {
                name: row_of(&id).map_or_else(|| id.to_string(), Agent::title),
                id: id.to_string(),
                session: above.session,
                parent: Some(above.id),
                depth: above.depth + 1,
            };
            above = self.agents.entry(id).or_insert(run).clone();
        }
        above
    }
}

impl StreamReader {
    fn new(dialect: Dialect) -> Self {
        let mut router = SessionRouter::new(RouterOptions {
            keep: FactDetail::Rows,
            cutoff: None,
            events: EventScope::All,
        });
        let spec = SourceSpec { label: "stdout".to_owned(), dialect: Some(dialect), ..SourceSpec::default() };
        let source = router.open(spec);
        Self {
            router,
            source,
            final_result: FinalResult::new(dialect),
            non_json_lines: NonJsonLines::new(ANSWER_BYTES),
            prices: PriceTable::default(),
            root: None,
            has_input: false,
        }
    }

    fn push(&mut self, bytes: &[u8], now: Millis) {
        self.has_input = true;
        self.router.receive_at(Some(now));
        self.router.push(self.source, bytes);
        self.final_result.push(bytes);
        self.non_json_lines.push(bytes);
    }

    fn is_due(&self, now: Millis) -> bool {
        self.router.sessions().any(|session| self.router.next_event_at(session).is_some_and(|due| due <= now))
    }

    /// Derives each session; returns its tree and new events.
    fn advance(&mut self, at: Millis, has_ended: bool) -> Vec<(Tree, Vec<Event>)> {
        self.has_input = false;
        let sessions: Vec<SessionId> = self.router.sessions().cloned().collect();
        let mut updates = Vec::new();
        for session in sessions {
            let limits = Limits::default();
            let now = Now { at, has_ended, is_growing: !has_ended, prices: &self.prices, limits };
            let Some(SessionUpdate { tree, events, .. }) = self.router.update(&session, &now) else {
                continue;
            };
            if self.router.has_root(&session) {
                self.root = tree.agents.iter().find(|row| row.id.is_root()).cloned();
            }
            updates.push((tree, events));
        }
        updates
    }

    fn into_result(self, last_message: Vec<String>, partial: OutputResult) -> OutputResult {
        let root = self.root.as_ref();
        let result = root.and_then(|root| root.result.as_ref()).map(Text::to_string);
        let spoken = Some(last_message.join("\n")).filter(|text| !text.trim().is_empty());
        let mut text = TextTail::new(ANSWER_BYTES);
        let answer =
            self.final_result.end().or(result).or(spoken).unwrap_or_else(|| self.non_json_lines.text());
        text.push(answer.as_bytes());
        let failed = root.filter(|root| matches!(root.status, AgentStatus::Failed | AgentStatus::Stopped));
        let failure = failed.map(|root| {
            root.error
                .as_ref()
                .map_or_else(|| format!("it ended as {}", root.status.as_str()), Text::to_string)
        });
        OutputResult {
            text: text.text(),
            failure,
            usage: root.and_then(|root| root.usage).map(tokens),
            ..partial
        }
    }
}

/// Status and error of an ended subagent; `None` if it completed.
fn failure_text(event: &Event) -> Option<String> {
    let status = event.text("status").unwrap_or_default();
    if status == AgentStatus::Completed.as_str() {
        return None;
    }
    let why = event.text("error").or_else(|| event.text("evidence"));
    Some(truncate_payload(why.map_or_else(|| status.to_owned(), |why| format!("{status}: {why}"))))
}

fn is_final_answer(tool: &str) -> bool {
    tool == FINAL_ANSWER || tool.strip_suffix(FINAL_ANSWER).is_some_and(|server| server.ends_with("__"))
}

fn tokens(usage: Usage) -> TokenUsage {
    TokenUsage {
        input_tokens: Some(usage.input_tokens),
        output_tokens: Some(usage.output_tokens),
        total_tokens: Some(usage.total_tokens),
        cache_read_tokens: Some(usage.cache_read_tokens),
        cache_write_tokens: Some(usage.cache_write_tokens),
    }
}

/// A string verbatim, other JSON in compact form, `None` for `null`.
fn payload(value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    Some(truncate_payload(value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}

/// Truncates a text to [`PAYLOAD_BYTES`], which listeners accept, and appends the number of bytes left out.
pub(super) fn truncate_payload(mut text: String) -> String {
    if text.len() <= PAYLOAD_BYTES {
        return text;
    }
    let end = (0..=PAYLOAD_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let left_out = text.len() - end;
    text.truncate(end);
    text + &format!("… ({left_out} bytes left out)")
}

/// Progress message of an event.
fn progress_message(event: &Event, kind: PublishKind, who: Option<&str>) -> Option<String> {
    let what = match kind {
        PublishKind::SubagentStart => "starts".to_owned(),
        PublishKind::SubagentEnd => "ends".to_owned(),
        PublishKind::ThoughtTrace => "thinks".to_owned(),
        PublishKind::ToolCall => {
            let name = event.text("tool_name").unwrap_or("a tool");
            event.text("detail").map_or_else(|| name.to_owned(), |detail| format!("{name} {detail}"))
        }
        PublishKind::ToolResult => return None,
    };
    Some(who.map_or_else(|| what.clone(), |who| format!("{who}: {what}")))
}

#[cfg(test)]
mod tests;
