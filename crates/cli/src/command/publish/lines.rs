//! Reads events from stdin, one JSON line each, as they arrive.

use std::io::{BufRead, Read};

use serde::Deserialize;
use serde_json::Value;
use subscope_client::publish::Event;

use crate::prelude::*;

/// Longest line: far above the limit of an event, so that an oversized event can still be reported with its run.
const LINE_BYTES: u64 = 16 << 20;
/// Required fields of an event, with their alternative spellings.
const REQUIRED: [(&str, &str); 4] = [
    ("subagentName", "subagentName"),
    ("subagentRunId", "subagentRunID"),
    ("timestamp", "timestamp"),
    ("type", "type"),
];

pub(super) enum PublishLine {
    Event(Box<Event>),
    Bad {
        /// Line number (1-based).
        number: u64,
        /// Run id, if it can be read.
        run: Option<String>,
        what: String,
    },
}

pub(super) struct LineReader<R> {
    input: R,
    number: u64,
}

/// The run id of a line that is not a valid event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunIdOnly {
    #[serde(alias = "subagentRunID", default)]
    subagent_run_id: Value,
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// Blocks until the next line that is not blank; `None` at the end.
    ///
    /// # Errors
    /// If stdin cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<PublishLine>, CliError> {
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.input).take(LINE_BYTES).read_until(b'\n', &mut bytes);
            let count = read.map_err(|error| CliError::because("cannot read stdin", error))?;
            if count == 0 {
                return Ok(None);
            }
            self.number += 1;
            if count as u64 == LINE_BYTES && !bytes.ends_with(b"\n") {
                // Skip the remaining part of the line.
                let _ = self.input.skip_until(b'\n');
                return Ok(Some(self.bad(&[], format!("longer than {} MiB", LINE_BYTES >> 20))));
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(self.read(&bytes)));
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> PublishLine {
        match serde_json::from_slice::<Event>(bytes) {
            Ok(event) if event.subagent_run_id.trim().is_empty() => {
                self.bad(&[], "subagentRunId is missing or blank".to_owned())
            }
            Ok(event) => PublishLine::Event(Box::new(event)),
            Err(error) => self.bad(bytes, describe(bytes, &error)),
        }
    }

    fn bad(&self, bytes: &[u8], what: String) -> PublishLine {
        let found = serde_json::from_slice::<RunIdOnly>(bytes).ok();
        let run = found.and_then(|found| found.subagent_run_id.as_str().map(str::to_owned));
        PublishLine::Bad { number: self.number, run, what }
    }
}

/// Returns the error message for a line; a missing field first.
fn describe(bytes: &[u8], error: &serde_json::Error) -> String {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else {
        return format!("not JSON (column {})", error.column());
    };
    let Some(event) = json.as_object() else { return "not a JSON object".to_owned() };
    let is_missing =
        |(name, other): &&(&str, &str)| !event.contains_key(*name) && !event.contains_key(*other);
    if let Some((name, _)) = REQUIRED.iter().find(is_missing) {
        return format!("{name} is missing");
    }
    let text = error.to_string();
    // Drop serde's position: it does not identify the field.
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}
