//! Events from a pipe, one a line, as they come.

use std::io::{BufRead, Read};

use serde::Deserialize;
use serde_json::Value;
use subscope_client::publish::Event;

use crate::error::{CliError, Kind};

/// The longest line: far more than an event may have, so that what is too long is still told with its run.
const LINE_BYTES: u64 = 16 << 20;
/// What an event always has.
const REQUIRED: [(&str, &str); 4] = [
    ("subagentName", "subagentName"),
    ("subagentRunId", "subagentRunID"),
    ("timestamp", "timestamp"),
    ("type", "type"),
];

/// One line.
pub(super) enum Line {
    /// An event.
    Event(Box<Event>),
    /// Something else.
    Bad {
        /// Which line, from 1.
        number: u64,
        /// Whose event it was to be, where that can be read.
        run: Option<String>,
        /// What is wrong with it.
        what: String,
    },
}

/// Reads lines.
pub(super) struct Lines<R> {
    input: R,
    number: u64,
}

/// What of a bad line may still be good.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whose {
    #[serde(alias = "subagentRunID", default)]
    subagent_run_id: Value,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// Waits for the next line that is not blank; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line>, CliError> {
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.input).take(LINE_BYTES).read_until(b'\n', &mut bytes);
            let count = read.map_err(|error| {
                CliError::caused(Kind::Failed, anyhow::Error::new(error).context("cannot read stdin"))
            })?;
            if count == 0 {
                return Ok(None);
            }
            self.number += 1;
            if count as u64 == LINE_BYTES && !bytes.ends_with(b"\n") {
                // The rest of it is not another line.
                let _ = self.input.skip_until(b'\n');
                return Ok(Some(self.bad(&[], format!("longer than {} MiB", LINE_BYTES >> 20))));
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(self.read(&bytes)));
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> Line {
        match serde_json::from_slice::<Event>(bytes) {
            Ok(event) if event.subagent_run_id.trim().is_empty() => {
                self.bad(&[], "subagentRunId is missing or blank".to_owned())
            }
            Ok(event) => Line::Event(Box::new(event)),
            Err(error) => self.bad(bytes, describe(bytes, &error)),
        }
    }

    fn bad(&self, bytes: &[u8], what: String) -> Line {
        let whose = serde_json::from_slice::<Whose>(bytes).ok();
        let run = whose.and_then(|whose| whose.subagent_run_id.as_str().map(str::to_owned));
        Line::Bad { number: self.number, run, what }
    }
}

/// Says what is wrong with a line, a missing field first.
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
    // Where in the line serde stopped says nothing about the field.
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}
