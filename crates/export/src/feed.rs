//! The feed of a session as newline-delimited JSON: our events as they are, or in the shape of execution traces
//! (requirement 5.3).
//!
//! In the second shape the line that ends a subagent is its whole execution trace, so the writer remembers of each
//! subagent at work what its events told. A reader needs nothing but these lines.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subscope_model::{AgentId, Event, EventKind, ExecutionTrace, Millis, ToolExecution, Usage, feed_line};

use crate::execution::{UNKNOWN_TYPE, execution_usage};

/// The shape of a feed's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each event as it is.
    Event,
    /// `subagent_start`, `subagent_event`, `subagent_end` in the fields of execution traces. Events of the root are
    /// not in it.
    Uap,
}

/// Writes events as lines, in their order.
///
/// # Errors
/// What the writer gives; what was written until then stays.
pub fn write_feed(events: &[Event], shape: Shape, w: &mut dyn Write) -> io::Result<()> {
    let mut writer = FeedWriter::new(shape);
    events.iter().try_for_each(|event| writer.write(event, w))
}

/// Writes a feed event by event, for feeds that go on. [`write_feed`] is this in a loop.
#[derive(Debug)]
pub struct FeedWriter {
    shape: Shape,
    agents: BTreeMap<AgentId, Known>,
}

impl FeedWriter {
    /// Returns a writer that has seen nothing yet.
    pub fn new(shape: Shape) -> Self {
        Self { shape, agents: BTreeMap::new() }
    }

    /// Writes an event as one line, or none where the shape has no line for it.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn write(&mut self, event: &Event, w: &mut dyn Write) -> io::Result<()> {
        let line = match self.shape {
            Shape::Event => Some(feed_line(event)),
            Shape::Uap => self.uap_line(event),
        };
        line.map_or(Ok(()), |line| w.write_all(line.as_bytes()).and_then(|()| w.write_all(b"\n")))
    }

    fn uap_line(&mut self, event: &Event) -> Option<String> {
        if event.kind == EventKind::AgentRenamed {
            self.rename(event);
        }
        let id = subject(event)?;
        let known = self.agents.entry(id.clone()).or_default();
        let line = if event.kind == EventKind::SubagentStart && !known.at_work {
            known.start(event);
            Line::Start(known.start_line(&id, event))
        } else if event.kind == EventKind::SubagentStop && !known.ended {
            Line::End { timestamp: event.at_ms, trace: Box::new(known.end(&id, event)) }
        } else {
            known.note(event);
            Line::Event { subagent_id: &id, timestamp: event.at_ms, event }
        };
        serde_json::to_string(&line).ok()
    }

    fn rename(&mut self, event: &Event) {
        let (Some(from), Some(to)) = (event.text("from"), event.text("to")) else { return };
        if let Some(known) = self.agents.remove(&AgentId::from(from)) {
            self.agents.entry(AgentId::from(to)).or_insert(known);
        }
    }
}

/// Returns the subagent that an event is about: for its start, progress, stall and end the one that the data names,
/// else the actor. `None` for the root.
fn subject(event: &Event) -> Option<AgentId> {
    let is_named = matches!(
        event.kind,
        EventKind::SubagentStart | EventKind::SubagentProgress | EventKind::SubagentStop | EventKind::Stall
    );
    let named = event.text("agent_id").filter(|_| is_named).map(AgentId::from);
    Some(named.unwrap_or_else(|| event.actor_id.0.clone())).filter(|id| !id.is_root())
}

/// One line of the shape [`Shape::Uap`].
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Line<'a> {
    /// A subagent started, or was resumed.
    #[serde(rename = "subagent_start")]
    Start(Start<'a>),
    /// Something happened in it; the event as it is.
    #[serde(rename = "subagent_event")]
    Event { subagent_id: &'a str, timestamp: Option<Millis>, event: &'a Event },
    /// It ended; the trace of this stretch of its activity.
    #[serde(rename = "subagent_end")]
    End {
        timestamp: Option<Millis>,
        #[serde(flatten)]
        trace: Box<ExecutionTrace>,
    },
}

/// A start in the fields of execution traces. A time that no source tells is null.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    subagent_id: &'a str,
    subagent_type: &'a str,
    parent_tool_call_id: &'a str,
    prompt: &'a str,
    timestamp: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_subagent_id: Option<&'a str>,
}

/// What the events told of a subagent.
#[derive(Debug, Default)]
struct Known {
    /// Started and not ended; a start that is told again is no second one.
    at_work: bool,
    /// Ended and not heard of since; an end that is told again is no second one.
    ended: bool,
    agent_type: Option<String>,
    spawned_by: Option<String>,
    parent: Option<String>,
    prompt: Option<String>,
    first_at: Option<Millis>,
    last_at: Option<Millis>,
    tools: Vec<ToolExecution>,
    /// When each of `tools` began.
    began: Vec<Option<Millis>>,
    /// Tokens by API response, so that one told twice counts once.
    usage: BTreeMap<String, Usage>,
}

impl Known {
    /// A start is told: what was known of an earlier stretch of activity is forgotten, but not who it is.
    fn start(&mut self, event: &Event) {
        let told =
            |key: &str, before: &mut Option<String>| event.text(key).map(str::to_owned).or(before.take());
        *self = Self {
            at_work: true,
            agent_type: told("agent_type", &mut self.agent_type),
            spawned_by: told("spawned_by", &mut self.spawned_by),
            parent: told("parent_id", &mut self.parent),
            prompt: told("prompt", &mut self.prompt),
            first_at: event.at_ms,
            last_at: event.at_ms,
            ..Self::default()
        };
    }

    fn start_line<'a>(&'a self, id: &'a AgentId, event: &Event) -> Start<'a> {
        Start {
            subagent_id: id.as_str(),
            subagent_type: self.agent_type.as_deref().unwrap_or(UNKNOWN_TYPE),
            parent_tool_call_id: self.spawned_by.as_deref().unwrap_or_default(),
            prompt: self.prompt.as_deref().unwrap_or_default(),
            timestamp: event.at_ms,
            parent_subagent_id: self.parent(),
        }
    }

    fn parent(&self) -> Option<&str> {
        self.parent.as_deref().filter(|parent| *parent != AgentId::ROOT)
    }

    /// Remembers what an inner event tells for the trace.
    fn note(&mut self, event: &Event) {
        self.first_at = self.first_at.or(event.at_ms);
        self.last_at = event.at_ms.or(self.last_at);
        if event.kind == EventKind::ToolPre {
            self.ended = false;
            self.began.push(event.at_ms);
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

    /// Ends the call with the event's id; without an id, the last open one of that name.
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
        let Some(place) = self.tools.iter().rposition(is_it) else { return };
        let (Some(tool), Some(began)) = (self.tools.get_mut(place), self.began.get(place)) else { return };
        let measured = || began.zip(event.at_ms).map(|(from, to)| to.saturating_sub(from).max(0));
        tool.is_error = Some(is_error);
        tool.result = result;
        tool.duration = event.data.get("duration_ms").and_then(Value::as_i64).or_else(measured);
    }

    /// An end is told: returns the trace, and keeps only who the agent is.
    fn end(&mut self, id: &AgentId, event: &Event) -> ExecutionTrace {
        let status = event.text("status");
        let error = event.text("error").map(str::to_owned);
        let success = status.map_or(error.is_none(), |status| status == "completed");
        let known_end = event.at_ms.or(self.last_at);
        let told_ms = event.data.get("duration_ms").and_then(Value::as_i64);
        let told_start = || known_end.zip(told_ms).map(|(end, ms)| end.saturating_sub(ms));
        let start_time = self.first_at.or_else(told_start).or(known_end).unwrap_or(0);
        let sum = std::mem::take(&mut self.usage).into_values().reduce(|left, right| left + right);
        let usage = event.data.get("usage").and_then(usage).or(sum);
        self.began.clear();
        (self.at_work, self.ended, self.first_at, self.last_at) = (false, true, None, None);
        ExecutionTrace {
            subagent_id: id.to_string(),
            subagent_type: self
                .agent_type
                .as_deref()
                .or(event.text("agent_type"))
                .unwrap_or(UNKNOWN_TYPE)
                .to_owned(),
            parent_tool_call_id: self.spawned_by.clone().unwrap_or_default(),
            prompt: self.prompt.clone().unwrap_or_default(),
            start_time,
            end_time: known_end.unwrap_or(start_time),
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

/// Reads tokens where at least one kind is told, in `data` itself or in its `usage`.
fn usage(data: &Value) -> Option<Usage> {
    let told = data.get("usage").unwrap_or(data);
    told.get("input_tokens").or_else(|| told.get("output_tokens"))?;
    Usage::deserialize(told).ok()
}

#[cfg(test)]
mod tests;
