//! A setting's value as a file or a variable gives it, before its meaning is known.

use std::time::Duration;

use toml::de::DeValue;

use crate::args::value::parse_duration;

/// A value as it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// In a file.
    Toml(&'a DeValue<'a>),
    /// In a variable.
    Text(&'a str),
}

impl<'a> Given<'a> {
    /// Returns the text; the error says what it must be instead.
    pub(crate) fn text(self) -> Result<&'a str, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Toml(DeValue::String(text)) => Ok(text),
            Self::Toml(other) => Err(format!("must be text in quotes, not {}", kind(other))),
        }
    }

    /// Returns true or false.
    pub(crate) fn switch(self) -> Result<bool, String> {
        match self {
            Self::Toml(DeValue::Boolean(value)) => Ok(*value),
            Self::Toml(other) => Err(format!("must be true or false, not {}", kind(other))),
            Self::Text("true" | "yes" | "1") => Ok(true),
            Self::Text("false" | "no" | "0") => Ok(false),
            Self::Text(other) => Err(format!("must be true or false, not {other:?}")),
        }
    }

    /// Returns a whole number as its digits.
    pub(crate) fn number(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.to_owned()),
            Self::Toml(DeValue::Integer(number)) => Ok(number.as_str().to_owned()),
            Self::Toml(other) => Err(format!("must be a number, not {}", kind(other))),
        }
    }

    /// Returns a span of time.
    pub(crate) fn span(self) -> Result<Duration, String> {
        parse_duration(
            self.text().map_err(|_| "must be a span of time in quotes, such as \"10s\"".to_owned())?,
        )
    }

    /// Returns a list of texts; in a variable they stand between commas.
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

/// What a value is, in words.
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
