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

/// An untyped value.
#[derive(Clone, Debug)]
pub(super) enum SettingValue {
    /// From an environment variable; the setting decides how it is read.
    Variable(String),
    /// From a file, like the ones below.
    Text(String),
    /// True or false.
    Switch(bool),
    /// Digits of a number.
    Number(String),
    /// A date or time, which no setting takes.
    Date,
    /// A list.
    List(Vec<SettingValue>),
    /// A section.
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
        match self {
            Self::Variable(text) | Self::Text(text) => Ok(text),
            other => Err(SettingError(format!("must be text in quotes, not {}", other.kind()))),
        }
    }

    /// Returns the elements of a list of texts; comma-separated in a variable.
    fn list(&self) -> Option<Vec<&str>> {
        match self {
            Self::Variable(text) => {
                Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect())
            }
            Self::List(items) => items.iter().map(|item| item.text().ok()).collect(),
            _ => None,
        }
    }

    /// Returns the type in words; a variable's text itself.
    fn kind(&self) -> String {
        match self {
            Self::Variable(text) => format!("{text:?}"),
            Self::Text(_) => "text".to_owned(),
            Self::Switch(_) => "true or false".to_owned(),
            Self::Number(_) => "a number".to_owned(),
            Self::Date => "a date".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a section".to_owned(),
        }
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
        let wrong = || SettingError(format!("must be true or false, not {}", self.kind()));
        match self {
            SettingValue::Switch(value) => visitor.visit_bool(*value),
            SettingValue::Variable(text) if ["true", "yes", "1"].contains(&text.as_str()) => {
                visitor.visit_bool(true)
            }
            SettingValue::Variable(text) if ["false", "no", "0"].contains(&text.as_str()) => {
                visitor.visit_bool(false)
            }
            // A setting may take other words besides.
            SettingValue::Variable(text) | SettingValue::Text(text) => {
                visitor.visit_str(text).map_err(|_: SettingError| wrong())
            }
            _ => Err(wrong()),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        match self {
            SettingValue::Variable(digits) | SettingValue::Number(digits) => visitor.visit_str(digits),
            other => Err(SettingError(format!("must be a number, not {}", other.kind()))),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        let wrong = || SettingError("must be a list of texts, such as [\"run_code\"]".to_owned());
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
        match self {
            SettingValue::Table(entries) => visitor
                .visit_map(MapDeserializer::new(entries.iter().map(|(key, value)| (key.as_str(), value)))),
            other => Err(SettingError(format!("must be a section, not {}", other.kind()))),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        tuple tuple_struct map identifier ignored_any
    }
}
