//! Events that a program posts about its own subagents.

use serde_json::json;

use super::{Dialect, Line};
use subscope_model::iso8601;

use crate::clock::START;

/// An event of any type. It names no session: [`Line::session`] does.
pub fn event(kind: &str, name: &str, run: &str) -> Line {
    let fields =
        json!({"subagentName": name, "subagentRunId": run, "timestamp": iso8601(START), "type": kind});
    Line::new(Dialect::Events, fields)
}

/// The start of a subagent, by the root.
pub fn start(name: &str, run: &str) -> Line {
    event("subagent_start", name, run)
}

/// The end of a subagent; with a payload, its failure.
pub fn end(name: &str, run: &str) -> Line {
    event("subagent_end", name, run)
}

impl Line {
    /// Sets the run of the subagent that started this one.
    pub fn parent_run(self, run: &str) -> Self {
        self.set("parentRunId", run)
    }
}
