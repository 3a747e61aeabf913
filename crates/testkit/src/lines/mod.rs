//! Hand-made lines of each dialect, for unit tests that need a few of them.
//!
//! ```
//! use subscope_testkit::lines::{hook, transcript};
//!
//! let pre = hook("PreToolUse").session("s").tool("Read", "toolu_1").agent("a1").line();
//! let text = transcript::assistant("Done.").after_ms(1500).stop("end_turn").line();
//! assert!(pre.contains("\"agent_id\":\"a1\"") && text.contains("\"stop_reason\":\"end_turn\""));
//! ```
//!
//! A line has every field that a real line needs to be decoded, with defaults: session `session-1`, folder
//! `/home/user/shop`, the time [`START`], ids that follow from the line's content. So two equal lines are duplicates;
//! to make them different, give them a time, an id or another text.

pub mod events;
mod hook;
pub mod stream;
pub mod transcript;

use serde_json::{Map, Value, json};
use subscope_model::{Millis, Usage, event_id, iso8601};

pub use self::hook::hook;
use crate::clock::START;

/// The session of lines that name none.
pub const SESSION: &str = "session-1";
/// The folder of lines that name none.
pub const CWD: &str = "/home/user/shop";

/// The dialect of a line; its fields have other names in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Transcript,
    Meta,
    Stream,
    Hook,
    Events,
}

/// One line in the making.
#[derive(Clone, Debug)]
pub struct Line {
    dialect: Dialect,
    fields: Map<String, Value>,
}

impl Line {
    fn new(dialect: Dialect, fields: Value) -> Self {
        let Value::Object(fields) = fields else { panic!("a line is an object, not {fields}") };
        Self { dialect, fields }
    }

    /// Sets any field, by its name in the dialect.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(key.to_owned(), value.into());
        self
    }

    /// Takes a field away, as older versions do not have it.
    pub fn without(mut self, key: &str) -> Self {
        self.fields.shift_remove(key);
        self
    }

    /// Sets the session.
    pub fn session(self, id: &str) -> Self {
        let key = match self.dialect {
            Dialect::Transcript | Dialect::Events => "sessionId",
            Dialect::Stream | Dialect::Hook => "session_id",
            Dialect::Meta => panic!("a meta file names no session"),
        };
        self.set(key, id)
    }

    /// Sets the subagent that the line is of; an entry of a transcript becomes one of a sidechain. The type of a
    /// hook's agent is `general-purpose` until [`agent_type`](Self::agent_type) says otherwise.
    pub fn agent(self, id: &str) -> Self {
        match self.dialect {
            Dialect::Transcript => self.set("agentId", id).set("isSidechain", true),
            Dialect::Stream => self.set("agent_id", id),
            Dialect::Hook if self.fields.contains_key("agent_type") => self.set("agent_id", id),
            Dialect::Hook => self.set("agent_id", id).set("agent_type", "general-purpose"),
            Dialect::Events => self.set("subagentRunId", id),
            Dialect::Meta => panic!("the name of a meta file names its agent"),
        }
    }

    /// Sets the type of the line's subagent.
    pub fn agent_type(self, kind: &str) -> Self {
        let key = match self.dialect {
            Dialect::Transcript => "attributionAgent",
            Dialect::Meta => "agentType",
            Dialect::Stream => "subagent_type",
            Dialect::Hook => "agent_type",
            Dialect::Events => "subagentName",
        };
        self.set(key, kind)
    }

    /// Sets the time to some milliseconds after [`START`].
    ///
    /// Hook payloads, meta files and the stream's `system` lines have no time: they take the field, but no real one
    /// has it.
    pub fn after_ms(self, millis: Millis) -> Self {
        self.set("timestamp", iso8601(START + millis))
    }

    /// Sets the line's own id.
    pub fn uuid(self, id: &str) -> Self {
        let key = if self.dialect == Dialect::Events { "eventId" } else { "uuid" };
        self.set(key, id)
    }

    /// Sets the prompt's id (transcripts from 2.1.110, hooks from 2.1.197).
    pub fn prompt_id(self, id: &str) -> Self {
        let key = if self.dialect == Dialect::Transcript { "promptId" } else { "prompt_id" };
        self.set(key, id)
    }

    /// Sets the tool and the call of a hook or of a posted event.
    pub fn tool(self, name: &str, id: &str) -> Self {
        match self.dialect {
            Dialect::Events => self.set("toolName", name).set("toolCallId", id),
            Dialect::Transcript | Dialect::Meta | Dialect::Stream | Dialect::Hook => {
                self.set("tool_name", name).set("tool_use_id", id)
            }
        }
    }

    /// Sets the arguments of a call.
    pub fn input(mut self, input: Value) -> Self {
        match self.dialect {
            Dialect::Transcript | Dialect::Stream => {
                *self.block("input") = input;
                self
            }
            Dialect::Events => self.set("payload", input),
            Dialect::Hook | Dialect::Meta => self.set("tool_input", input),
        }
    }

    /// Says that a tool result is an error.
    pub fn failed(mut self) -> Self {
        if self.dialect == Dialect::Events {
            return self.set("isError", true);
        }
        *self.block("is_error") = true.into();
        self
    }

    /// Sets the result stored by the harness.
    pub fn harness_result(self, result: impl Into<Value>) -> Self {
        let key = match self.dialect {
            Dialect::Transcript | Dialect::Meta | Dialect::Events => "toolUseResult",
            Dialect::Stream => "tool_use_result",
            Dialect::Hook => "tool_response",
        };
        self.set(key, result)
    }

    /// Sets the id of a message of the model: lines with the same are one API response.
    pub fn message_id(mut self, id: &str) -> Self {
        *self.message("id") = id.into();
        self
    }

    /// Sets the model of a message.
    pub fn model(mut self, model: &str) -> Self {
        *self.message("model") = model.into();
        self
    }

    /// Sets why the model stopped, as `end_turn`.
    pub fn stop(mut self, reason: &str) -> Self {
        *self.message("stop_reason") = reason.into();
        self
    }

    /// Sets the tokens of a message; of a posted event, its `tokenUsage`.
    pub fn usage(mut self, usage: Usage) -> Self {
        let [input, output, read, write] = usage.kinds();
        if self.dialect == Dialect::Events {
            return self.set(
                "tokenUsage",
                json!({"inputTokens": input, "outputTokens": output, "cacheReadTokens": read, "cacheWriteTokens": write}),
            );
        }
        *self.message("usage") = json!({
            "input_tokens": input,
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": read,
            "output_tokens": output,
        });
        self
    }

    /// Returns the line as a JSON value.
    pub fn value(mut self) -> Value {
        let digest = event_id("line", &Value::Object(self.fields.clone()).to_string());
        if self.fields.get("type").is_some_and(|kind| kind == "assistant") && self.message("id").is_null() {
            *self.message("id") = format!("msg_{}", &digest[..24]).into();
        }
        let has_id = matches!(self.dialect, Dialect::Transcript | Dialect::Stream);
        if has_id && !self.fields.contains_key("uuid") {
            let id =
                [&digest[..8], &digest[8..12], &digest[12..16], &digest[16..20], &digest[20..32]].join("-");
            self.fields.insert("uuid".to_owned(), id.into());
        }
        Value::Object(self.fields)
    }

    /// Returns the line, without its line end.
    pub fn line(self) -> String {
        self.value().to_string()
    }

    /// A field of the message.
    fn message(&mut self, key: &str) -> &mut Value {
        let message = self.fields.entry("message").or_insert_with(|| json!({}));
        message
            .as_object_mut()
            .unwrap_or_else(|| panic!("the message is no object"))
            .entry(key)
            .or_insert(Value::Null)
    }

    /// A field of the first content block.
    fn block(&mut self, key: &str) -> &mut Value {
        let content = self.message("content");
        let block = content.get_mut(0).and_then(Value::as_object_mut);
        block
            .unwrap_or_else(|| panic!("the line has no content block for {key}"))
            .entry(key)
            .or_insert(Value::Null)
    }
}

/// Returns lines as the text of a file, each with its line end.
pub fn jsonl(lines: impl IntoIterator<Item = Line>) -> String {
    lines.into_iter().map(|line| line.line() + "\n").collect()
}

/// A message of the model with one content block.
fn assistant_message(block: &Value, stop: Option<&str>) -> Value {
    json!({
        "id": null, "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [block], "stop_reason": stop, "stop_sequence": null,
        "usage": {
            "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 40,
        },
    })
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call_block(name: &str, id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

fn result_block(id: &str, content: &str) -> Value {
    json!({"tool_use_id": id, "type": "tool_result", "content": content, "is_error": false})
}

/// The arguments of a spawn call, in the foreground.
pub fn spawn_input(agent_type: &str, description: &str, prompt: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": agent_type, "run_in_background": false})
}

/// Returns the harness's result of a spawn call whose agent has completed.
pub fn spawn_result(agent: &str, report: &str) -> Value {
    json!({
        "status": "completed", "prompt": "", "agentId": agent,
        "content": [{"type": "text", "text": report}], "totalDurationMs": 1000, "totalTokens": 100, "totalToolUseCount": 0,
    })
}

/// Returns the harness's result of a spawn call that launched its agent in the background.
pub fn launch_result(agent: &str) -> Value {
    json!({"isAsync": true, "status": "async_launched", "agentId": agent, "outputFile": "", "canReadOutputFile": true})
}

/// Returns the text, in a user message, by which the harness reports the end of a background task.
pub fn task_notification(agent: &str, call: &str, status: &str) -> String {
    format!(
        "<task-notification>\n<task-id>{agent}</task-id>\n<tool-use-id>{call}</tool-use-id>\n<status>{status}</status>\n\
         <summary>The agent has ended</summary>\n</task-notification>"
    )
}

#[cfg(test)]
mod tests;
