//! Renders events as text blocks, the live output of `watch` and `run`.
//!
//! Flow: [`Blocks::block`] returns the whole text of an event, to be written in one write, so that concurrent agents
//! interleave by block. `concise` prints a line per event, `verbose` a header and a fenced payload.
//!
//! A subagent's final message is its result, which its parent's tool result shows. A message is known to be final only
//! when the agent stops, so the last message of each subagent is delayed until its next event. The result of a
//! background agent is in no tool result: its message is printed. Pitfall: after the last event, [`Blocks::finish`]
//! returns the delayed messages.

mod concise;
mod payload;
mod verbose;

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;
use subscope_model::{AgentId, Event, EventKind, Millis, SessionId, Text};

use crate::style::Style;
pub use payload::{detail, fence, first_line, full_text, pretty_json, request_words, truncate_lines};

/// Most open calls stored, to compute their durations. The oldest is dropped first; its end is then printed without a
/// duration, unless the event has one.
const MAX_OPEN_CALLS: usize = 4096;

/// Tool by which a subagent returns its final output.
const FINAL_ANSWER: &str = "final_answer";

/// Options of event blocks.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// Print whole payloads in fences instead of one line per event.
    pub verbose: bool,
    /// Do not truncate results to 20 lines.
    pub full: bool,
    /// Style of the output.
    pub style: Style,
    /// Further tools like `execute_go_code`, whose argument is code and whose result is its output.
    pub code_tools: Vec<String>,
    /// Time zone of displayed times, in minutes east of UTC.
    pub offset_minutes: i32,
}

/// Renders events; stores open calls and delayed messages between them.
#[derive(Debug)]
pub struct Blocks {
    options: BlockOptions,
    calls: HashMap<(SessionId, Text), OpenCall>,
    order: VecDeque<(SessionId, Text)>,
    agents: HashMap<(SessionId, AgentId), MessageState>,
}

/// Message state of a subagent.
#[derive(Debug, Default)]
struct MessageState {
    /// Its last message, until its next event.
    delayed: Option<DelayedMessage>,
    /// Hash of its result when it stopped: the same message may arrive after the stop.
    reported: Option<u64>,
    /// Whether it runs in the background, so that no tool result shows its result.
    is_background: bool,
}

/// A call that has not ended.
#[derive(Clone, Debug, Default)]
struct OpenCall {
    at_ms: Option<Millis>,
    tool: String,
    /// Whether it started a subagent.
    is_spawn: bool,
}

#[derive(Debug)]
struct DelayedMessage {
    text_hash: u64,
    block: String,
    /// Sequence number of the event, the order of delayed messages.
    seq: u64,
}

/// Context for rendering one event.
struct RenderContext<'a> {
    options: &'a BlockOptions,
    names: &'a dyn Fn(&AgentId) -> Option<String>,
    /// Prefix of the names of a session's agents, where events of several sessions are printed.
    place: Option<&'a str>,
    /// The call that the event ends.
    call: Option<OpenCall>,
}

impl Blocks {
    /// Creates a renderer.
    pub fn new(options: BlockOptions) -> Self {
        Self { options, calls: HashMap::new(), order: VecDeque::new(), agents: HashMap::new() }
    }

    /// Returns the text of an event, ending in a newline, to be written in one write; `None` if it prints nothing. A
    /// delayed message may precede it. `names` returns the display name of a subagent; without one its id is shown. `place`
    /// is shown before names: that of the session, where events of several are printed.
    pub fn block(
        &mut self,
        event: &Event,
        names: &dyn Fn(&AgentId) -> Option<String>,
        place: Option<&str>,
    ) -> Option<String> {
        let actor = self.subject(event);
        let mut out = String::new();
        if event.kind == EventKind::AgentRenamed {
            self.rename(event);
        } else if let Some(delayed) = self.agents.get_mut(&actor).and_then(|agent| agent.take_delayed(event))
        {
            out.push_str(&delayed.block);
        }
        if event.kind == EventKind::SubagentStart {
            let is_background = event.data.get("background").and_then(Value::as_bool) == Some(true);
            self.agents.insert(actor.clone(), MessageState { is_background, ..MessageState::default() });
        } else if event.kind == EventKind::SubagentStop {
            let report = event.text("result").map(|report| hash(report.trim()));
            let agent = self.agents.entry(actor.clone()).or_default();
            agent.reported = report.filter(|_| !agent.is_background);
        }
        let call = self.track_call(event);
        let block = self.print(event, RenderContext { options: &self.options, names, place, call });
        if event.kind == EventKind::AgentMessage && !actor.1.is_root() {
            let text_hash = hash(event.text("text").unwrap_or_default().trim());
            let agent = self.agents.entry(actor).or_default();
            if agent.reported != Some(text_hash) {
                agent.delayed = block.map(|block| DelayedMessage { text_hash, block, seq: event.seq });
            }
        } else {
            out.extend(block);
        }
        (!out.is_empty()).then_some(out)
    }

    /// Returns the delayed messages in order of arrival, after the last event.
    pub fn finish(&mut self) -> Option<String> {
        let mut delayed: Vec<DelayedMessage> =
            self.agents.values_mut().filter_map(|agent| agent.delayed.take()).collect();
        delayed.sort_by_key(|delayed| delayed.seq);
        let out: String = delayed.into_iter().map(|delayed| delayed.block).collect();
        (!out.is_empty()).then_some(out)
    }

    /// Returns the agent that an event is about: starts and stops name it in their data.
    fn subject(&self, event: &Event) -> (SessionId, AgentId) {
        let is_named = matches!(event.kind, EventKind::SubagentStart | EventKind::SubagentStop);
        let agent = event.text("agent_id").filter(|_| is_named);
        (event.session_id.clone(), agent.map_or_else(|| event.actor_id.0.clone(), AgentId::from))
    }

    fn rename(&mut self, event: &Event) {
        let (Some(from), Some(to)) = (event.text("from"), event.text("to")) else { return };
        let key = |id: &str| (event.session_id.clone(), AgentId::from(id));
        if let Some(agent) = self.agents.remove(&key(from)) {
            self.agents.insert(key(to), agent);
        }
    }

    /// Stores a starting call, or removes and returns the call that this event ends.
    fn track_call(&mut self, event: &Event) -> Option<OpenCall> {
        let key = |field: &str| event.text(field).map(|id| (event.session_id.clone(), Text::from(id)));
        match event.kind {
            EventKind::ToolPre => {
                let key = key("tool_use_id")?;
                let tool = event.text("tool_name").unwrap_or_default().to_owned();
                let call = OpenCall { at_ms: event.at_ms, tool, is_spawn: false };
                if self.calls.insert(key.clone(), call).is_none() {
                    self.order.push_back(key);
                }
                self.forget_old_calls();
                None
            }
            EventKind::SubagentStart => {
                if let Some(call) = key("spawned_by").and_then(|key| self.calls.get_mut(&key)) {
                    call.is_spawn = true;
                }
                None
            }
            EventKind::ToolPost | EventKind::ToolFailure | EventKind::PermissionDenied => {
                key("tool_use_id").and_then(|key| self.calls.remove(&key))
            }
            EventKind::SessionStart
            | EventKind::SessionEnd
            | EventKind::RunStart
            | EventKind::RunEnd
            | EventKind::UserPrompt
            | EventKind::PermissionRequest
            | EventKind::SubagentProgress
            | EventKind::SubagentStop
            | EventKind::AgentMessage
            | EventKind::Reasoning
            | EventKind::Usage
            | EventKind::Stall
            | EventKind::Budget
            | EventKind::Heartbeat
            | EventKind::Retry
            | EventKind::Notification
            | EventKind::CompactPre
            | EventKind::CompactPost
            | EventKind::TodoCreated
            | EventKind::TodoCompleted
            | EventKind::UnknownHook
            | EventKind::Attribution
            | EventKind::AgentRenamed
            | EventKind::Problem => None,
        }
    }

    fn forget_old_calls(&mut self) {
        while self.calls.len() > MAX_OPEN_CALLS {
            let Some(oldest) = self.order.pop_front() else { return };
            self.calls.remove(&oldest);
        }
        // Ended calls stay in the queue until most of it is stale.
        if self.order.len() > MAX_OPEN_CALLS * 2 {
            self.order.retain(|key| self.calls.contains_key(key));
        }
    }

    fn print(&self, event: &Event, context: RenderContext<'_>) -> Option<String> {
        // A failed call of it is shown.
        if matches!(event.kind, EventKind::ToolPre | EventKind::ToolPost)
            && is_final_answer(context.tool(event))
        {
            return None;
        }
        if self.options.verbose { verbose::block(event, &context) } else { concise::block(event, &context) }
    }
}

impl MessageState {
    /// Takes the delayed message if this event shows that it is not final; drops it if it is the agent's result.
    fn take_delayed(&mut self, event: &Event) -> Option<DelayedMessage> {
        if event.kind == EventKind::SubagentStop {
            let report = event.text("result").map(|report| hash(report.trim()));
            return self
                .delayed
                .take()
                .filter(|delayed| self.is_background || report != Some(delayed.text_hash));
        }
        if is_own_step(event.kind) { self.delayed.take() } else { None }
    }
}

impl RenderContext<'_> {
    fn style(&self) -> &Style {
        &self.options.style
    }

    /// Returns an agent's name, sanitized and truncated; empty for the root.
    fn name_of(&self, agent: &AgentId, width: usize) -> String {
        if agent.is_root() {
            return String::new();
        }
        match (self.names)(agent).filter(|name| !name.is_empty()) {
            Some(name) => self.style().one_line(&name, width),
            None => self.style().one_line(agent, width),
        }
    }

    /// Returns the actor's name, with `~` if the attribution is a guess.
    fn actor(&self, event: &Event, width: usize) -> String {
        let name = self.placed(self.name_of(&event.actor_id.0, width), width);
        if event.basis.is_guess() { format!("~{name}") } else { name }
    }

    /// Returns the name of the agent that a start or stop is about, from the event's data if it has no display name
    /// yet.
    fn subject(&self, event: &Event, width: usize) -> String {
        let id = event.text("agent_id").map_or_else(|| event.actor_id.0.clone(), AgentId::from);
        if let Some(name) = (self.names)(&id).filter(|name| !name.is_empty()) {
            return self.placed(self.style().one_line(&name, width), width);
        }
        let known = event.agent_title().unwrap_or_else(|| id.to_string());
        self.placed(self.style().one_line(&known, width), width)
    }

    /// Puts the session's name before an agent's; the root has none of its own.
    fn placed(&self, name: String, width: usize) -> String {
        let Some(place) = self.place else { return name };
        let style = self.style();
        let place = style.one_line(place, width / 2);
        if name.is_empty() {
            place
        } else {
            style.one_line(&format!("{place} {} {name}", style.glyphs().current), width)
        }
    }

    /// Returns the event's tool name, else that of the call it ends.
    fn tool<'e>(&'e self, event: &'e Event) -> &'e str {
        let of_call = || self.call.as_ref().map(|call| call.tool.as_str()).filter(|tool| !tool.is_empty());
        event.text("tool_name").or_else(of_call).unwrap_or("tool")
    }

    /// Returns the duration of the call that the event ends.
    fn span_ms(&self, event: &Event) -> Option<i64> {
        let known = event.data.get("duration_ms").and_then(Value::as_i64);
        known.or_else(|| Some(event.at_ms?.saturating_sub(self.call.as_ref()?.at_ms?)))
    }

    fn is_code(&self, tool: &str) -> bool {
        tool == "execute_go_code" || self.options.code_tools.iter().any(|known| known == tool)
    }

    /// Describes the start of an agent: `haiku, by main`.
    fn start_facts(&self, event: &Event) -> String {
        let mut facts = Vec::new();
        if let Some(model) = event.text("model") {
            facts.push(self.style().one_line(crate::tree::short_model(model), 20));
        }
        if let Some(parent) = event.text("parent_id").map(AgentId::from) {
            let name = if parent.is_root() { "main".to_owned() } else { self.name_of(&parent, 40) };
            facts.push(format!("by {name}"));
        }
        if event.data.get("background").and_then(Value::as_bool) == Some(true) {
            facts.push("in the background".to_owned());
        }
        facts.join(", ")
    }

    /// Describes the usage of an ended agent, as far as known: `21s, 4 tools, 17k tokens, $0.02`.
    fn stop_facts(&self, event: &Event) -> String {
        let number = |field: &str| event.data.get(field).and_then(Value::as_i64);
        let mut facts = Vec::new();
        facts.extend(number("duration_ms").map(|span| crate::text::duration(Some(span))));
        facts.extend(number("tool_calls").map(|calls| crate::text::plural(calls, "tool")));
        let tokens = number("total_tokens").and_then(|tokens| u64::try_from(tokens).ok());
        facts.extend(tokens.map(|tokens| format!("{} tokens", crate::text::tokens(tokens))));
        let is_floor = event.data.get("cost_floor").and_then(Value::as_bool) == Some(true);
        facts.extend(number("cost_micro_usd").map(|cost| self.style().money(cost, is_floor)));
        facts.join(", ")
    }

    /// Describes a stall: `waits for the model since 3m 0s`.
    fn stall_facts(&self, event: &Event) -> String {
        let since = event.data.get("since_ms").and_then(Value::as_i64).zip(event.at_ms);
        let since = since
            .map(|(since, now)| format!(" since {}", crate::text::duration(Some(now.saturating_sub(since)))));
        let waits = match event.text("waiting_for") {
            None | Some("") => "silent".to_owned(),
            Some("model") => "waits for the model".to_owned(),
            Some(other) => format!("waits for {}", self.style().one_line(other, 60)),
        };
        waits + &since.unwrap_or_default()
    }
}

fn is_final_answer(tool: &str) -> bool {
    tool == FINAL_ANSWER || tool.strip_suffix(FINAL_ANSWER).is_some_and(|server| server.ends_with("__"))
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the text of a `budget` event.
pub fn budget_words(event: &Event) -> String {
    let amount = |key: &str, is_floor: bool| {
        crate::text::money(event.data.get(key).and_then(Value::as_i64).unwrap_or(0), is_floor)
    };
    let is_floor = event.data.get("cost_floor").and_then(Value::as_bool).unwrap_or(false);
    let (cost, budget) = (amount("cost_micro_usd", is_floor), amount("budget_micro_usd", false));
    let what = match event.text("day") {
        Some(day) => format!("the sessions of {day} have cost {cost}"),
        None => format!("the session has cost {cost}"),
    };
    match event.data.get("percent").and_then(Value::as_u64) {
        Some(percent @ ..100) => format!("{what}: over {percent} % of the budget of {budget}"),
        _ => format!("{what}: the budget is {budget}"),
    }
}

/// Whether an event proves that its agent continued after its last message. Usage and heartbeats may follow a final
/// message.
fn is_own_step(kind: EventKind) -> bool {
    match kind {
        EventKind::ToolPre
        | EventKind::ToolPost
        | EventKind::ToolFailure
        | EventKind::PermissionRequest
        | EventKind::PermissionDenied
        | EventKind::SubagentStart
        | EventKind::AgentMessage
        | EventKind::Reasoning
        | EventKind::UserPrompt
        | EventKind::CompactPre
        | EventKind::CompactPost
        | EventKind::Stall => true,
        EventKind::SessionStart
        | EventKind::SessionEnd
        | EventKind::RunStart
        | EventKind::RunEnd
        | EventKind::SubagentProgress
        | EventKind::SubagentStop
        | EventKind::Usage
        | EventKind::Heartbeat
        | EventKind::Retry
        | EventKind::Notification
        | EventKind::TodoCreated
        | EventKind::TodoCompleted
        | EventKind::UnknownHook
        | EventKind::Attribution
        | EventKind::AgentRenamed
        | EventKind::Budget
        | EventKind::Problem => false,
    }
}

#[cfg(test)]
mod tests;
