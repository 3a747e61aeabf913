//! Example agent that publishes its subagents' events: one subagent per file argument, which counts the lines.
//!
//! ```sh
//! subscope serve &
//! CPE_SUBAGENT_LOGGING_ADDRESS=http://127.0.0.1:7337 cargo run -p subscope-client --example agent -- README.md
//! subscope tree last
//! ```

#![allow(clippy::print_stderr, reason = "an example speaks to whoever runs it")]

use std::{error::Error, fs};

use serde_json::json;
use subscope_client::publish::{Event, EventKind, PublishError, Published, Publisher};

fn main() -> Result<(), Box<dyn Error>> {
    // Without an address nothing is published.
    let publisher = Publisher::from_env()?;
    for path in std::env::args().skip(1) {
        // An undeliverable event aborts its run, and here the agent, too.
        count_lines(&publisher, &path)?;
    }
    Ok(())
}

/// A subagent with one tool. An undeliverable event aborts its run.
pub(crate) fn count_lines(publisher: &Publisher, path: &str) -> Result<(), PublishError> {
    let run = format!("counter-{}-{path}", std::process::id());
    let event = |kind| Event::new("counter", run.as_str(), kind);
    let tool = |kind| event(kind).with_tool("read", format!("{run}-1"));

    publisher
        .publish(&event(EventKind::SubagentStart).with_payload(format!("Count the lines of {path}.")))?;
    let called = publisher.publish(&tool(EventKind::ToolCall).with_json(&json!({ "path": path })))?;
    if matches!(called, Published::StopRequested) {
        // `subscope stop`: the run ends here, and says so.
        publisher.publish(&event(EventKind::SubagentEnd).with_stopped())?;
        return Ok(());
    }
    let read = fs::read_to_string(path);
    let result = match &read {
        Ok(text) => format!("{} lines", text.lines().count()),
        Err(error) => error.to_string(),
    };
    publisher
        .publish(&tool(EventKind::ToolResult).with_payload(result.as_str()).with_is_error(read.is_err()))?;
    let end = event(EventKind::SubagentEnd);
    let end = if read.is_err() { end.with_payload(result) } else { end.with_result(result) };
    // An undeliverable end event is only a warning.
    if let Some(warning) = publisher.publish(&end)?.warning() {
        eprintln!("warning: {warning}");
    }
    Ok(())
}
