//! Events as printed blocks: what `watch` and `run` write while agents work.
//!
//! Flow: [`Blocks::block`] takes one event and gives the whole text for it, to be written in one write, so
//! that agents that work at the same time interleave by block and never inside one. `concise` has a line an
//! event, `verbose` a header and a fenced payload.
//!
//! A subagent's final message is its result and is shown by its parent's tool result. It is known as final
//! only when the agent stops, so the last message of each subagent is held back until its next event. The
//! report of a background agent is in no tool result: its message is printed.
//! Pitfall: after the last event [`Blocks::finish`] has to be asked for what is still held.

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
pub use payload::{detail, fence, first_line, laid_out, truncate_lines, whole};

/// Open calls that are remembered for their spans. A call that never ends is forgotten when this many newer
/// ones are open; it then only lacks a span that its source did not give either.
const REMEMBERED_CALLS: usize = 4096;

/// The tool whose call and result carry a subagent's final output.
const FINAL_ANSWER: &str = "final_answer";

/// How blocks look.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// Whether payloads are printed whole in fences; else one line an event.
    pub verbose: bool,
    /// Whether results longer than 20 lines are printed to their end.
    pub full: bool,
    /// How it looks.
    pub style: Style,
    /// Tools beside `execute_go_code` whose argument is code and whose result is its output.
    pub code_tools: Vec<String>,
    /// Minutes east of UTC of the clock times shown.
    pub offset_minutes: i32,
}

/// Prints events; holds what one event needs to know of earlier ones.
#[derive(Debug)]
pub struct Blocks {
    options: BlockOptions,
    calls: HashMap<(SessionId, Text), OpenCall>,
    order: VecDeque<(SessionId, Text)>,
    agents: HashMap<(SessionId, AgentId), Spoken>,
}

/// What is remembered of a subagent and its words.
#[derive(Debug, Default)]
struct Spoken {
    /// Its last message, as long as nothing of it came after.
    held: Option<Held>,
    /// The hash of what it reported when it stopped: the same message may come after the stop.
    reported: Option<u64>,
    /// Whether its starter goes on without it, so that no tool result shows its report.
    is_background: bool,
}

/// What is remembered of a call until its end.
#[derive(Clone, Debug, Default)]
struct OpenCall {
    at_ms: Option<Millis>,
    tool: String,
    /// Whether it started a subagent, whose report is then its result.
    is_spawn: bool,
}

#[derive(Debug)]
struct Held {
    text_hash: u64,
    block: String,
    /// The place in the order of held messages.
    seq: u64,
}

/// What a printer of one look needs beside the event.
struct Scene<'a> {
    options: &'a BlockOptions,
    names: &'a dyn Fn(&AgentId) -> Option<String>,
    /// The call that the event ends.
    call: Option<OpenCall>,
}

impl Blocks {
    /// Returns a printer that has seen nothing.
    pub fn new(options: BlockOptions) -> Self {
        Self { options, calls: HashMap::new(), order: VecDeque::new(), agents: HashMap::new() }
    }

    /// Returns the text for an event, ending in a newline, to be written in one write; `None` where it prints
    /// nothing. A message that was held back may come before it. `names` gives the name of a subagent as
    /// people know it; its id is shown where it gives none.
    pub fn block(&mut self, event: &Event, names: &dyn Fn(&AgentId) -> Option<String>) -> Option<String> {
        let actor = self.subject(event);
        let mut out = String::new();
        if event.kind == EventKind::AgentRenamed {
            self.rename(event);
        } else if let Some(held) = self.agents.get_mut(&actor).and_then(|agent| agent.release(event)) {
            out.push_str(&held.block);
        }
        if event.kind == EventKind::SubagentStart {
            let is_background = event.data.get("background").and_then(Value::as_bool) == Some(true);
            self.agents.insert(actor.clone(), Spoken { is_background, ..Spoken::default() });
        } else if event.kind == EventKind::SubagentStop {
            let report = event.text("result").map(|report| hash(report.trim()));
            let agent = self.agents.entry(actor.clone()).or_default();
            agent.reported = report.filter(|_| !agent.is_background);
        }
        let call = self.follow_call(event);
        let block = self.print(event, names, call);
        if event.kind == EventKind::AgentMessage && !actor.1.is_root() {
            let text_hash = hash(event.text("text").unwrap_or_default().trim());
            let agent = self.agents.entry(actor).or_default();
            if agent.reported != Some(text_hash) {
                agent.held = block.map(|block| Held { text_hash, block, seq: event.seq });
            }
        } else {
            out.extend(block);
        }
        (!out.is_empty()).then_some(out)
    }

    /// Returns what is still held back, in the order it came, once no more events are to come.
    pub fn finish(&mut self) -> Option<String> {
        let mut held: Vec<Held> = self.agents.values_mut().filter_map(|agent| agent.held.take()).collect();
        held.sort_by_key(|held| held.seq);
        let out: String = held.into_iter().map(|held| held.block).collect();
        (!out.is_empty()).then_some(out)
    }

    /// Returns whom an event is about: starts and stops name their agent in their data.
    fn subject(&self, event: &Event) -> (SessionId, AgentId) {
        let agent = match event.kind {
            EventKind::SubagentStart | EventKind::SubagentStop => event.text("agent_id").map(AgentId::from),
            _ => None,
        };
        (event.session_id.clone(), agent.unwrap_or_else(|| event.actor_id.0.clone()))
    }

    fn rename(&mut self, event: &Event) {
        let (Some(from), Some(to)) = (event.text("from"), event.text("to")) else { return };
        let key = |id: &str| (event.session_id.clone(), AgentId::from(id));
        if let Some(agent) = self.agents.remove(&key(from)) {
            self.agents.insert(key(to), agent);
        }
    }

    /// Remembers calls that begin and returns the one that ends with this event.
    fn follow_call(&mut self, event: &Event) -> Option<OpenCall> {
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
            _ => None,
        }
    }

    fn forget_old_calls(&mut self) {
        while self.calls.len() > REMEMBERED_CALLS {
            let Some(oldest) = self.order.pop_front() else { return };
            self.calls.remove(&oldest);
        }
        // Ended calls leave their place in the order; it is swept when they are the most of it.
        if self.order.len() > REMEMBERED_CALLS * 2 {
            self.order.retain(|key| self.calls.contains_key(key));
        }
    }

    fn print(
        &self,
        event: &Event,
        names: &dyn Fn(&AgentId) -> Option<String>,
        call: Option<OpenCall>,
    ) -> Option<String> {
        let scene = Scene { options: &self.options, names, call };
        // A failed final answer is no final output: it is shown.
        if matches!(event.kind, EventKind::ToolPre | EventKind::ToolPost)
            && is_final_answer(scene.tool(event))
        {
            return None;
        }
        if self.options.verbose { verbose::block(event, &scene) } else { concise::block(event, &scene) }
    }
}

impl Spoken {
    /// Takes the held message if this event of the agent shows it; drops it if it was the agent's report.
    fn release(&mut self, event: &Event) -> Option<Held> {
        if event.kind == EventKind::SubagentStop {
            let report = event.text("result").map(|report| hash(report.trim()));
            return self.held.take().filter(|held| self.is_background || report != Some(held.text_hash));
        }
        if is_own_step(event.kind) { self.held.take() } else { None }
    }
}

impl Scene<'_> {
    fn style(&self) -> &Style {
        &self.options.style
    }

    /// Returns an agent's name, safe and cut to `width`; nothing for the root.
    fn name_of(&self, agent: &AgentId, width: usize) -> String {
        if agent.is_root() {
            return String::new();
        }
        match (self.names)(agent).filter(|name| !name.is_empty()) {
            Some(name) => self.style().one_line(&name, width),
            None => self.style().one_line(agent, width),
        }
    }

    /// Returns the name of who did it, with `~` where that is a guess.
    fn actor(&self, event: &Event, width: usize) -> String {
        let name = self.name_of(&event.actor_id.0, width);
        if event.basis.is_guess() { format!("~{name}") } else { name }
    }

    /// Returns the name of the agent that a start or stop is about, from its data where nobody knows it yet.
    fn subject(&self, event: &Event, width: usize) -> String {
        let id = event.text("agent_id").map_or_else(|| event.actor_id.0.clone(), AgentId::from);
        if let Some(name) = (self.names)(&id).filter(|name| !name.is_empty()) {
            return self.style().one_line(&name, width);
        }
        let known = match (event.text("agent_type"), event.text("description")) {
            (Some(kind), Some(description)) => format!("{kind}: {description}"),
            (Some(only), None) | (None, Some(only)) => only.to_owned(),
            (None, None) => id.to_string(),
        };
        self.style().one_line(&known, width)
    }

    /// Returns the event's tool, else that of the call it ends.
    fn tool<'e>(&'e self, event: &'e Event) -> &'e str {
        let of_call = || self.call.as_ref().map(|call| call.tool.as_str()).filter(|tool| !tool.is_empty());
        event.text("tool_name").or_else(of_call).unwrap_or("tool")
    }

    /// Returns how long the call took that the event ends.
    fn span_ms(&self, event: &Event) -> Option<i64> {
        let told = event.data.get("duration_ms").and_then(Value::as_i64);
        told.or_else(|| Some(event.at_ms?.saturating_sub(self.call.as_ref()?.at_ms?)))
    }

    fn is_code(&self, tool: &str) -> bool {
        tool == "execute_go_code" || self.options.code_tools.iter().any(|known| known == tool)
    }

    /// Returns how a started agent was started: `haiku, by main`.
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

    /// Returns what an ended agent took: `21s, 4 tools, 17k tokens, $0.02`; only what is known.
    fn stop_facts(&self, event: &Event) -> String {
        let number = |field: &str| event.data.get(field).and_then(Value::as_i64);
        let mut facts = Vec::new();
        facts.extend(number("duration_ms").map(|span| crate::text::duration(Some(span))));
        facts.extend(
            number("tool_calls")
                .map(|calls| if calls == 1 { "1 tool".into() } else { format!("{calls} tools") }),
        );
        let tokens = number("total_tokens").and_then(|tokens| u64::try_from(tokens).ok());
        facts.extend(tokens.map(|tokens| format!("{} tokens", crate::text::tokens(tokens))));
        let is_floor = event.data.get("cost_floor").and_then(Value::as_bool) == Some(true);
        facts.extend(number("cost_micro_usd").map(|cost| self.style().money(cost, is_floor)));
        facts.join(", ")
    }

    /// Returns what a stalled agent waits for and since when: `waits for the model since 3m 0s`.
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

/// Whether an event shows that its agent went on, so that its last message was not its final one. Figures
/// and signs of life come after a final message too.
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
        | EventKind::Problem => false,
    }
}

#[cfg(test)]
mod tests;
