//! What is shown of subagents: `subagent_tracing_detail` (requirement 1.5) and `code_tools` (requirement 4.4).

use subscope_render::Detail;

use super::{Origin, Shown, Sourced, given::Given};

/// The section's settings; they stand at the top of the file.
pub(super) const KEYS: [&str; 2] = ["subagent_tracing_detail", "code_tools"];

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct RawTracing {
    /// `subagent_tracing_detail`, `--detail`.
    pub(crate) detail: Option<Sourced<Detail>>,
    /// `code_tools`.
    pub(crate) code_tools: Option<Sourced<Vec<String>>>,
}

impl RawTracing {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
        match key {
            "subagent_tracing_detail" => self.detail = Some(Sourced::new(detail(given)?, origin)),
            "code_tools" => self.code_tools = Some(Sourced::new(given.list()?, origin)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { detail: self.detail.or(lower.detail), code_tools: self.code_tools.or(lower.code_tools) }
    }
}

fn detail(given: Given<'_>) -> Result<Detail, String> {
    let allowed = || format!("allowed are {}", Detail::ALL.map(Detail::as_str).join(", "));
    let word = given.text().map_err(|wrong| format!("{wrong}: {}", allowed()))?;
    word.parse().map_err(|_| format!("{word:?} is no level of detail: {}", allowed()))
}

/// What holds.
#[derive(Debug)]
pub(crate) struct Tracing {
    /// How much of a tree is shown.
    pub(crate) detail: Sourced<Detail>,
    /// Tools beside `execute_go_code` whose argument is code.
    pub(crate) code_tools: Sourced<Vec<String>>,
}

impl Tracing {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 2] {
        let Self { detail, code_tools } = self;
        [
            Shown::new("subagent_tracing_detail", detail.value.as_str(), &detail.origin),
            Shown::new("code_tools", code_tools.value.as_slice(), &code_tools.origin),
        ]
    }
}

impl From<RawTracing> for Tracing {
    fn from(raw: RawTracing) -> Self {
        Self {
            detail: raw.detail.unwrap_or(Sourced::built_in(Detail::Moderate)),
            code_tools: raw.code_tools.unwrap_or(Sourced::built_in(Vec::new())),
        }
    }
}
