//! Tracing settings: `subagent_tracing_detail` (requirement 1.5) and `code_tools` (requirement 4.4).

use subscope_render::Detail;

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue};

/// Keys of this section, at the top level of the file.
pub(super) const KEYS: [&str; 2] = ["subagent_tracing_detail", "code_tools"];

/// One layer of this section.
#[derive(Debug, Default)]
pub(crate) struct RawTracing {
    /// `subagent_tracing_detail`, `--detail`.
    pub(crate) detail: Option<Sourced<Detail>>,
    /// `code_tools`.
    pub(crate) code_tools: Option<Sourced<Vec<String>>>,
}

impl RawTracing {
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        match key {
            "subagent_tracing_detail" => self.detail = Some(Sourced::new(parse_detail(given)?, origin)),
            "code_tools" => self.code_tools = Some(Sourced::new(given.list()?, origin)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { detail: self.detail.or(lower.detail), code_tools: self.code_tools.or(lower.code_tools) }
    }
}

fn parse_detail(given: GivenValue<'_>) -> Result<Detail, String> {
    let allowed = || format!("allowed are {}", Detail::ALL.map(Detail::as_str).join(", "));
    let word = given.text().map_err(|wrong| format!("{wrong}: {}", allowed()))?;
    word.parse().map_err(|_| format!("{word:?} is no level of detail: {}", allowed()))
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct TracingSettings {
    /// Level of detail of trees.
    pub(crate) detail: Sourced<Detail>,
    /// Tools with an argument that is code, in addition to `execute_go_code`.
    pub(crate) code_tools: Sourced<Vec<String>>,
}

impl TracingSettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 2] {
        let Self { detail, code_tools } = self;
        [
            SettingRow::new("subagent_tracing_detail", detail.value.as_str(), &detail.origin),
            SettingRow::new("code_tools", code_tools.value.as_slice(), &code_tools.origin),
        ]
    }
}

impl From<RawTracing> for TracingSettings {
    fn from(raw: RawTracing) -> Self {
        Self {
            detail: raw.detail.unwrap_or(Sourced::built_in(Detail::Moderate)),
            code_tools: raw.code_tools.unwrap_or(Sourced::built_in(Vec::new())),
        }
    }
}
