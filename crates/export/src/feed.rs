//! Event feed as newline-delimited JSON: events as they are, or in the shape of execution traces (requirement 5.3).
//!
//! In the second shape the last line of a subagent contains its complete execution trace, so the writer collects the
//! events of each running subagent.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subscope_model::{AgentId, Event, EventKind, ExecutionTrace, Millis, ToolExecution, Usage, feed_line};

use crate::execution::{UNKNOWN_TYPE, execution_usage};

/// Format of a feed's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Events as they are.
    Event,
    /// `subagent_start`, `subagent_event` and `subagent_end` with the fields of execution traces; no events of the
    /// root.
    Uap,
}

/// Writes events as lines, in order.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_feed(
    events: impl IntoIterator<Item = Event>,
    shape: Shape,
    w: &mut dyn Write,
) -> io::Result<()> {
    let mut agents = BTreeMap::new();
    for event in events {
        let line = match shape {
            Shape::Event => Some(feed_line(&event)),
            Shape::Uap => uap_line(&mut agents, &event),
        };
        if let Some(line) = line {
            w.write_all(line.as_bytes())?;
            w.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Returns the line of [`Shape::Uap`] for an event, if any. `agents` is the state from earlier events.
fn uap_line(agents: &mut BTreeMap<AgentId, PartialTrace>, event: &Event) -> Option<String> {
    if event.kind == EventKind::AgentRenamed
        && let (Some(from), Some(to)) = (event.text("from"), event.text("to"))
        && let Some(trace) = agents.remove(&AgentId::from(from))
    {
        agents.entry(AgentId::from(to)).or_insert(trace);
    }
    let id = subject(event)?;
    let trace = agents.entry(id.clone()).or_default();
    let line = if event.kind == EventKind::SubagentStart && !trace.is_running {
        trace.start(event);
        UapLine::Start {
            subagent_id: &id,
            subagent_type: trace.agent_type.as_deref().unwrap_or(UNKNOWN_TYPE),
            parent_tool_call_id: trace.spawned_by.as_deref().unwrap_or_default(),
            prompt: trace.prompt.as_deref().unwrap_or_default(),
            timestamp: event.at_ms,
            parent_subagent_id: trace.parent(),
        }
    } else if event.kind == EventKind::SubagentStop && !trace.has_ended {
        UapLine::End { timestamp: event.at_ms, trace: Box::new(trace.end(&id, event)) }
    } else {
        trace.add(event);
        UapLine::Event { subagent_id: &id, timestamp: event.at_ms, event }
    };
    serde_json::to_string(&line).ok()
}

/// Returns the subagent that an event is about: the one named in the data for start, progress, stall and end, else the
/// actor. `None` for the root.
fn subject(event: &Event) -> Option<AgentId> {
    let is_named = matches!(
        event.kind,
        EventKind::SubagentStart | EventKind::SubagentProgress | EventKind::SubagentStop | EventKind::Stall
    );
    let named = event.text("agent_id").filter(|_| is_named).map(AgentId::from);
    Some(named.unwrap_or_else(|| event.actor_id.0.clone())).filter(|id| !id.is_root())
}

/// A line of [`Shape::Uap`].
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum UapLine<'a> {
    /// A subagent started or was resumed; an unknown time is null.
    #[serde(rename = "subagent_start")]
    Start {
        subagent_id: &'a str,
        subagent_type: &'a str,
        parent_tool_call_id: &'a str,
        prompt: &'a str,
        timestamp: Option<Millis>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_id: Option<&'a str>,
    },
    /// Another event of the subagent, unchanged.
    #[serde(rename = "subagent_event")]
    Event { subagent_id: &'a str, timestamp: Option<Millis>, event: &'a Event },
    /// It ended; the trace since its last start.
    #[serde(rename = "subagent_end")]
    End {
        timestamp: Option<Millis>,
        #[serde(flatten)]
        trace: Box<ExecutionTrace>,
    },
}

/// Data of a subagent collected from its events.
#[derive(Debug, Default)]
struct PartialTrace {
    /// Started and not ended; further start events are ignored.
    is_running: bool,
    /// Ended without later events; further end events are ignored.
    has_ended: bool,
    agent_type: Option<String>,
    spawned_by: Option<String>,
    parent: Option<String>,
    prompt: Option<String>,
    first_at: Option<Millis>,
    last_at: Option<Millis>,
    tools: Vec<ToolExecution>,
    /// Start times of `tools`.
    tool_starts: Vec<Option<Millis>>,
    /// Tokens by API response id, so that repeats count once.
    usage: BTreeMap<String, Usage>,
}

impl PartialTrace {
    /// Handles a start event: clears the data of an earlier activity, except identity.
    fn start(&mut self, event: &Event) {
        let text =
            |key: &str, before: &mut Option<String>| event.text(key).map(str::to_owned).or(before.take());
        *self = Self {
            is_running: true,
            agent_type: text("agent_type", &mut self.agent_type)
                .or_else(|| event.text("name").map(str::to_owned)),
            spawned_by: text("spawned_by", &mut self.spawned_by),
            parent: text("parent_id", &mut self.parent),
            prompt: text("prompt", &mut self.prompt),
            first_at: event.at_ms,
            last_at: event.at_ms,
            ..Self::default()
        };
    }

    fn parent(&self) -> Option<&str> {
        self.parent.as_deref().filter(|parent| *parent != AgentId::ROOT)
    }

    /// Adds an event between start and end.
    fn add(&mut self, event: &Event) {
        self.first_at = self.first_at.or(event.at_ms);
        self.last_at = event.at_ms.or(self.last_at);
        if event.kind == EventKind::ToolPre {
            self.has_ended = false;
            self.tool_starts.push(event.at_ms);
            self.tools.push(ToolExecution {
                tool_name: event.text("tool_name").unwrap_or_default().to_owned(),
                tool_call_id: event.text("tool_use_id").map(str::to_owned),
                arguments: value(event, "input"),
                result: Value::Null,
                is_error: None,
                duration: None,
            });
        } else if event.kind == EventKind::ToolPost {
            self.end_tool(event, false, value(event, "result"));
        } else if matches!(event.kind, EventKind::ToolFailure | EventKind::PermissionDenied) {
            let result = event.data.get("error").or_else(|| event.data.get("result"));
            self.end_tool(event, true, result.cloned().unwrap_or_default());
        } else if event.kind == EventKind::Usage {
            let key = event.text("message_id").unwrap_or(&event.id).to_owned();
            if let Some(usage) = usage(&event.data) {
                self.usage.insert(key, usage);
            }
        }
    }

    /// Ends the call with the event's id; without an id, the last open call of that name.
    fn end_tool(&mut self, event: &Event, is_error: bool, result: Value) {
        let (id, name) = (event.text("tool_use_id"), event.text("tool_name"));
        let is_it = |tool: &ToolExecution| match id {
            Some(_) => tool.tool_call_id.as_deref() == id,
            None => {
                tool.tool_call_id.is_none()
                    && tool.is_error.is_none()
                    && name == Some(tool.tool_name.as_str())
            }
        };
        let Some(index) = self.tools.iter().rposition(is_it) else { return };
        let (tool, began) = (&mut self.tools[index], self.tool_starts[index]);
        let measured = || began.zip(event.at_ms).map(|(from, to)| to.saturating_sub(from).max(0));
        tool.is_error = Some(is_error);
        tool.result = result;
        tool.duration = event.data.get("duration_ms").and_then(Value::as_i64).or_else(measured);
    }

    /// Handles an end event: returns the trace and keeps only the agent's identity.
    fn end(&mut self, id: &AgentId, event: &Event) -> ExecutionTrace {
        let agent_type = self.agent_type.as_deref().or(event.text("agent_type"));
        let status = event.text("status");
        let error = event.text("error").map(str::to_owned);
        let success = status.map_or(error.is_none(), |status| status == "completed");
        let known_end = event.at_ms.or(self.last_at);
        let reported_ms = event.data.get("duration_ms").and_then(Value::as_i64);
        let derived_start = || known_end.zip(reported_ms).map(|(end, ms)| end.saturating_sub(ms));
        let start_time = self.first_at.or_else(derived_start).or(known_end);
        let sum = std::mem::take(&mut self.usage).into_values().reduce(|left, right| left + right);
        let usage = event.data.get("usage").and_then(usage).or(sum);
        self.tool_starts.clear();
        (self.is_running, self.has_ended, self.first_at, self.last_at) = (false, true, None, None);
        ExecutionTrace {
            subagent_id: id.to_string(),
            subagent_type: agent_type.unwrap_or(UNKNOWN_TYPE).to_owned(),
            parent_tool_call_id: self.spawned_by.clone().unwrap_or_default(),
            prompt: self.prompt.clone().unwrap_or_default(),
            start_time,
            end_time: known_end.or(start_time),
            success,
            result: event.text("result").map(str::to_owned),
            error: if success { None } else { error.or_else(|| status.map(str::to_owned)) },
            tool_executions: std::mem::take(&mut self.tools),
            usage: usage.map(|usage| execution_usage(&usage)),
            parent_subagent_id: self.parent().map(str::to_owned),
            depth: None,
            model: None,
            cost_micro_usd: None,
        }
    }
}

fn value(event: &Event, key: &str) -> Value {
    event.data.get(key).cloned().unwrap_or_default()
}

/// Reads token counts from `data` or its `usage`; `None` if there are none.
fn usage(data: &Value) -> Option<Usage> {
    let usage = data.get("usage").unwrap_or(data);
    usage.get("input_tokens").or_else(|| usage.get("output_tokens"))?;
    Usage::deserialize(usage).ok()
}

#[cfg(test)]
mod tests;
