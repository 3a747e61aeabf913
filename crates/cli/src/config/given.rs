//! Untyped value of a setting, from a file or an environment variable.

use std::time::Duration;

use toml::de::DeValue;

use crate::args::value::parse_duration;

/// An untyped value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GivenValue<'a> {
    /// From a file.
    Toml(&'a DeValue<'a>),
    /// From an environment variable.
    Text(&'a str),
}

impl<'a> GivenValue<'a> {
    /// Returns the value as text.
    ///
    /// # Errors
    /// Here and below: the expected type, as a fragment of a sentence that follows the key.
    pub(crate) fn text(self) -> Result<&'a str, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Toml(DeValue::String(text)) => Ok(text),
            Self::Toml(other) => Err(format!("must be text in quotes, not {}", kind(other))),
        }
    }

    /// Returns the value as a boolean.
    pub(crate) fn switch(self) -> Result<bool, String> {
        match self {
            Self::Toml(DeValue::Boolean(value)) => Ok(*value),
            Self::Toml(other) => Err(format!("must be true or false, not {}", kind(other))),
            Self::Text("true" | "yes" | "1") => Ok(true),
            Self::Text("false" | "no" | "0") => Ok(false),
            Self::Text(other) => Err(format!("must be true or false, not {other:?}")),
        }
    }

    /// Returns the digits of an integer.
    pub(crate) fn number(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.to_owned()),
            Self::Toml(DeValue::Integer(number)) => Ok(number.as_str().to_owned()),
            Self::Toml(other) => Err(format!("must be a number, not {}", kind(other))),
        }
    }

    /// Returns the value as a duration.
    pub(crate) fn span(self) -> Result<Duration, String> {
        parse_duration(
            self.text().map_err(|_| "must be a span of time in quotes, such as \"10s\"".to_owned())?,
        )
    }

    /// Returns a list of strings; comma-separated in a variable.
    pub(crate) fn list(self) -> Result<Vec<String>, String> {
        let wrong = || "must be a list of texts, such as [\"run_code\"]".to_owned();
        match self {
            Self::Text(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()),
            Self::Toml(DeValue::Array(items)) => items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned).ok_or_else(wrong))
                .collect(),
            Self::Toml(_) => Err(wrong()),
        }
    }
}

/// Returns the type of a value in words.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}
