//! The formats of exports: one list for the command line and for HTTP.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// A format of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The lifecycle of all subagents, their hierarchy and figures.
    Trace,
    /// Execution traces of ended subagents.
    Execution,
    /// A checkpoint: execution traces with metadata.
    Checkpoint,
    /// Events.
    Feed,
    /// A page in one file.
    Html,
    /// A table of agents.
    Csv,
    /// A Perfetto trace.
    Perfetto,
    /// OpenTelemetry spans.
    Otlp,
    /// A trajectory document.
    Atif,
}

/// Events of a session that a format is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededEvents {
    /// None: the rows are enough.
    Nothing,
    /// Those that say what was waited for.
    Waits,
    /// Those with texts: prompts, messages, thoughts, calls.
    Texts,
    /// All.
    All,
}

/// Facts of a session that a format is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededFacts {
    /// Those of the rows.
    Rows,
    /// Runs and responses, too.
    Responses,
    /// Arguments and results of calls, too.
    Payloads,
}

/// What has to be read of a session to write a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatNeeds {
    /// The events.
    pub events: NeededEvents,
    /// The facts.
    pub facts: NeededFacts,
    /// Whether it has runs and responses, derived from the facts.
    pub detail: bool,
}

/// What the bytes of a format are, which says who masks and escapes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatEncoding {
    /// JSON that is masked as a whole.
    Json,
    /// JSON whose writer masks it: what is a secret depends on the place of a text.
    SelfMaskedJson,
    /// Another text, which its writer masks and escapes.
    Text,
    /// Bytes that no terminal shows, which their writer masks.
    Binary,
}

/// An unknown word for a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no export format {0:?}")]
pub struct UnknownFormat(String);

impl Format {
    /// All formats, in the order of their documentation.
    pub const ALL: [Self; 9] = [
        Self::Trace,
        Self::Execution,
        Self::Checkpoint,
        Self::Feed,
        Self::Html,
        Self::Csv,
        Self::Perfetto,
        Self::Otlp,
        Self::Atif,
    ];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Execution => "execution",
            Self::Checkpoint => "checkpoint",
            Self::Feed => "feed",
            Self::Html => "html",
            Self::Csv => "csv",
            Self::Perfetto => "perfetto",
            Self::Otlp => "otlp",
            Self::Atif => "atif",
        }
    }

    /// Returns a description for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Trace => "One JSON object: lifecycle, hierarchy and figures of all subagents",
            Self::Execution => "A JSON array with one record per ended subagent",
            Self::Checkpoint => "A folder with checkpoint.json and metadata.json; needs --output",
            Self::Feed => "Events as JSON, one per line",
            Self::Html => "The page with this session in one file, for any browser",
            Self::Csv => "A table with one line per agent, for spreadsheets",
            Self::Perfetto => {
                "A binary trace for the Perfetto UI (ui.perfetto.dev): agents as tracks, calls as slices"
            }
            Self::Otlp => {
                "OpenTelemetry spans of what has ended, by the GenAI conventions: OTLP/JSON, one request per line"
            }
            Self::Atif => {
                "One JSON document of the Agent Trajectory Interchange Format 1.8, which `import` reads again"
            }
        }
    }

    /// Returns what has to be read of a session to write it; of spans, without prompts and answers.
    pub const fn needs(self) -> FormatNeeds {
        let (events, facts) = match self {
            Self::Trace | Self::Feed => (NeededEvents::All, NeededFacts::Rows),
            Self::Html => (NeededEvents::All, NeededFacts::Payloads),
            Self::Atif => (NeededEvents::Texts, NeededFacts::Payloads),
            Self::Otlp => (NeededEvents::Nothing, NeededFacts::Responses),
            Self::Execution | Self::Checkpoint => (NeededEvents::Nothing, NeededFacts::Payloads),
            Self::Perfetto => (NeededEvents::Waits, NeededFacts::Rows),
            Self::Csv => (NeededEvents::Nothing, NeededFacts::Rows),
        };
        FormatNeeds { events, facts, detail: matches!(self, Self::Html | Self::Atif | Self::Otlp) }
    }

    /// Returns what its bytes are.
    pub const fn encoding(self) -> FormatEncoding {
        match self {
            Self::Trace | Self::Execution | Self::Checkpoint | Self::Feed => FormatEncoding::Json,
            Self::Otlp | Self::Atif => FormatEncoding::SelfMaskedJson,
            Self::Html | Self::Csv => FormatEncoding::Text,
            Self::Perfetto => FormatEncoding::Binary,
        }
    }

    /// Returns the ending of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Trace | Self::Execution | Self::Checkpoint | Self::Atif => "json",
            Self::Feed | Self::Otlp => "jsonl",
            Self::Html => "html",
            Self::Csv => "csv",
            Self::Perfetto => "pftrace",
        }
    }

    /// Returns the media type of a download: no browser shows any of them in the origin of the server.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Trace | Self::Execution | Self::Checkpoint | Self::Atif => "application/json",
            Self::Feed | Self::Otlp => "application/x-ndjson",
            Self::Html | Self::Perfetto => "application/octet-stream",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.as_str() == word);
        known.ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<str>::deserialize(deserializer)?;
        word.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_its_format_and_no_other() {
        for format in Format::ALL {
            assert_eq!(format.as_str().parse(), Ok(format));
        }
        assert_eq!("pdf".parse::<Format>(), Err(UnknownFormat("pdf".to_owned())));
    }
}
