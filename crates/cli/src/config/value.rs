//! Untyped value of a setting, from a file or an environment variable, as a serde data format.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserializer,
    de::{
        Error, IntoDeserializer, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use toml::de::DeValue;

#[derive(Clone, Debug)]
pub(super) enum SettingValue {
    /// From an environment variable; the setting decides how it is read.
    Variable(String),
    /// From a file, like the ones below.
    Text(String),
    Switch(bool),
    /// Digits of a number.
    Number(String),
    /// A date or time, which no setting takes.
    Date,
    List(Vec<SettingValue>),
    Table(BTreeMap<String, SettingValue>),
}

/// An invalid value: a fragment of a sentence that follows the key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct SettingError(String);

impl Error for SettingError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn unknown_variant(word: &str, allowed: &'static [&'static str]) -> Self {
        Self(format!("{word:?} is none of {}", allowed.join(", ")))
    }
}

impl SettingValue {
    /// Sets a value of a table; the key of one in a section is `section.name`.
    pub(super) fn set(&mut self, key: &str, value: Self) {
        let Self::Table(entries) = self else { return };
        match key.split_once('.') {
            Some((section, name)) => {
                entries
                    .entry(section.to_owned())
                    .or_insert_with(|| Self::Table(BTreeMap::new()))
                    .set(name, value);
            }
            None => {
                entries.insert(key.to_owned(), value);
            }
        }
    }

    fn text(&self) -> Result<&str, SettingError> {
        if let Self::Variable(text) | Self::Text(text) = self {
            Ok(text)
        } else {
            Err(self.is_not("text in quotes"))
        }
    }

    /// Returns the value of a variable or an argument; one that is written as a list in a file is a list here, too.
    pub(super) fn of_variable(text: String) -> Self {
        let parsed = text.trim_start().starts_with('[').then(|| DeValue::parse(&text).ok()).flatten();
        match parsed.as_ref().map(|value| value.get_ref()) {
            Some(list @ DeValue::Array(_)) => Self::from(list),
            _ => Self::Variable(text),
        }
    }

    /// Returns the elements of a list of texts; comma-separated in a variable.
    pub(super) fn list(&self) -> Option<Vec<&str>> {
        match self {
            Self::Variable(text) if text.starts_with('[') => None,
            Self::Variable(text) => {
                Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect())
            }
            Self::List(items) => items.iter().map(|item| item.text().ok()).collect(),
            Self::Text(_) | Self::Switch(_) | Self::Number(_) | Self::Date | Self::Table(_) => None,
        }
    }

    /// Whether it is `false` in a file.
    pub(super) fn is_false(&self) -> bool {
        matches!(self, Self::Switch(false))
    }

    /// Returns the error that names the expected type and the value's.
    fn is_not(&self, expected: &str) -> SettingError {
        let kind = match self {
            Self::Variable(text) => &format!("{text:?}"),
            Self::Text(_) => "text",
            Self::Switch(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a section",
        };
        SettingError(format!("must be {expected}, not {kind}"))
    }
}

impl From<&DeValue<'_>> for SettingValue {
    fn from(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => Self::Number(number.as_str().to_owned()),
            DeValue::Float(number) => Self::Number(number.as_str().to_owned()),
            DeValue::Boolean(value) => Self::Switch(*value),
            DeValue::Datetime(_) => Self::Date,
            DeValue::Array(items) => Self::List(items.iter().map(|item| item.get_ref().into()).collect()),
            DeValue::Table(entries) => Self::Table(
                entries
                    .iter()
                    .map(|(key, value)| (key.get_ref().to_string(), value.get_ref().into()))
                    .collect(),
            ),
        }
    }
}

impl<'de> IntoDeserializer<'de, SettingError> for &'de SettingValue {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de SettingValue {
    type Error = SettingError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        let wrong = || self.is_not("true or false");
        if let SettingValue::Switch(value) = self {
            return visitor.visit_bool(*value);
        }
        match (self, self.text().map_err(|_| wrong())?) {
            (SettingValue::Variable(_), "true" | "yes" | "1") => visitor.visit_bool(true),
            (SettingValue::Variable(_), "false" | "no" | "0") => visitor.visit_bool(false),
            // A setting may take other words besides.
            (_, text) => visitor.visit_str(text).map_err(|_: SettingError| wrong()),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        let (SettingValue::Variable(digits) | SettingValue::Number(digits)) = self else {
            return Err(self.is_not("a number"));
        };
        visitor.visit_str(digits)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        self.deserialize_u32(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        let wrong = || SettingError("must be a list of texts, such as [\"run_code\"]".to_owned());
        if let SettingValue::List(items) = self
            && items.iter().any(|item| matches!(item, SettingValue::Table(_)))
        {
            return visitor.visit_seq(SeqDeserializer::new(items.iter()));
        }
        visitor.visit_seq(SeqDeserializer::new(self.list().ok_or_else(wrong)?.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingError> {
        self.text()?.into_deserializer().deserialize_enum(name, variants, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingError> {
        let SettingValue::Table(entries) = self else { return Err(self.is_not("a section")) };
        visitor.visit_map(MapDeserializer::new(entries.iter().map(|(key, value)| (key.as_str(), value))))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 char str string bytes byte_buf option unit unit_struct newtype_struct
        tuple tuple_struct map identifier ignored_any
    }
}
