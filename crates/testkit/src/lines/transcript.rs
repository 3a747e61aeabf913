//! Entries of a transcript and of a meta file, as Claude Code 2.1.330 writes them.

use serde_json::{Value, json};

use super::{CWD, Dialect, Line, SESSION, assistant_message, call_block, result_block, text_block};
use subscope_model::iso8601;

use crate::clock::START;

/// An entry of any type that is part of the conversation's chain.
pub fn entry(kind: &str) -> Line {
    let fields = json!({
        "parentUuid": null, "isSidechain": false, "type": kind, "timestamp": iso8601(START),
        "userType": "external", "cwd": CWD, "sessionId": SESSION, "version": "2.1.330", "gitBranch": "main",
    });
    Line::new(Dialect::Transcript, fields)
}

/// A prompt: of the user, or, with [`Line::agent`], of the subagent's caller.
pub fn user(text: &str) -> Line {
    entry("user").set("message", json!({"role": "user", "content": text}))
}

/// Text of the model; ends nothing until [`Line::stop`] says so.
pub fn assistant(text: &str) -> Line {
    message(&text_block(text), None)
}

/// A thought of the model.
pub fn thinking(text: &str) -> Line {
    message(&json!({"type": "thinking", "thinking": text, "signature": ""}), None)
}

/// A tool call of the model.
pub fn tool_use(name: &str, id: &str) -> Line {
    message(&call_block(name, id), Some("tool_use"))
}

/// The result of a tool call.
pub fn tool_result(id: &str, content: &str) -> Line {
    entry("user").set("message", json!({"role": "user", "content": [result_block(id, content)]}))
}

/// `agent-<id>.meta.json` of an agent of the first level that has not finished.
pub fn meta(agent_type: &str, call: &str) -> Line {
    let fields = json!({
        "agentType": agent_type, "isBuiltIn": true, "description": "Look into it", "toolUseId": call, "spawnDepth": 1,
        "requestShape": "foreground", "requestNonInteractive": true, "model": "claude-opus-5-5",
    });
    Line::new(Dialect::Meta, fields)
}

impl Line {
    /// Sets the entry that this one follows.
    pub fn follows(self, uuid: &str) -> Self {
        self.set("parentUuid", uuid)
    }
}

fn message(block: &Value, stop: Option<&str>) -> Line {
    entry("assistant").set("message", assistant_message(block, stop))
}
