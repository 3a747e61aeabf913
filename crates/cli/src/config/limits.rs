//! An entry of `watch.limits`: stall limits of one harness or model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_harness::harnesses;
use subscope_session::{LimitRule, LimitScope};

use crate::args::value::{ValueError, parse_limit};

/// Limits of a harness or a model, with their text in the settings.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub(crate) struct SilenceLimit {
    text: String,
    pub(crate) limits: LimitRule,
}

impl TryFrom<String> for SilenceLimit {
    type Error = ValueError;

    /// Parses `NAME KEY=DURATION…`; NAME is a harness or a model.
    fn try_from(text: String) -> Result<Self, ValueError> {
        let wrong = || ValueError::Limit(text.clone());
        let mut words = text.split_whitespace();
        let name = words.next().filter(|name| !name.contains('=')).ok_or_else(wrong)?;
        let is_harness = harnesses().any(|harness| harness.name() == name);
        let scope = match is_harness {
            true => LimitScope::Harness(name.into()),
            false => LimitScope::Model(name.into()),
        };
        let mut limits = LimitRule { scope, stall_ms: None, stall_subagents_ms: None, stall_open_ms: None };
        let mut has_any = false;
        for word in words {
            let (key, span) = word.split_once('=').ok_or_else(wrong)?;
            let ms = i64::try_from(parse_limit(span)?.as_millis()).unwrap_or(i64::MAX);
            let slot = match key {
                "stall" => &mut limits.stall_ms,
                "stall_subagents" => &mut limits.stall_subagents_ms,
                "stall_open" => &mut limits.stall_open_ms,
                _ => return Err(wrong()),
            };
            *slot = Some(ms);
            has_any = true;
        }
        if has_any { Ok(Self { text, limits }) } else { Err(wrong()) }
    }
}

impl From<SilenceLimit> for String {
    fn from(limit: SilenceLimit) -> Self {
        limit.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SilenceLimit, String> {
        text.to_owned().try_into().map_err(|error: ValueError| error.to_string())
    }

    #[test]
    fn entry_names_a_harness_or_a_model_and_its_limits() {
        let rule = parse("claude-code  stall=5m stall_open=2h").unwrap().limits;
        assert_eq!(rule.scope, LimitScope::Harness("claude-code".into()));
        assert_eq!((rule.stall_ms, rule.stall_subagents_ms), (Some(300_000), None));
        assert_eq!(rule.stall_open_ms, Some(7_200_000));
        let rule = parse("claude-opus stall_subagents=20m").unwrap().limits;
        assert_eq!(rule.scope, LimitScope::Model("claude-opus".into()));
        for wrong in ["", "claude-opus", "stall=5m", "claude-opus stal=5m", "claude-opus stall"] {
            let told = parse(wrong).unwrap_err();
            assert!(told.contains("is not a limit: write it as"), "{told}");
        }
        assert_eq!(parse("x stall=soon").unwrap_err().split(':').next(), Some("\"soon\" is not a duration"));
    }
}
