//! Fields of foreign JSON read leniently: a value of an unexpected type counts as absent and costs nothing else.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use subscope_model::RawJson;

/// A string, borrowed where it has no escapes; anything else is absent.
#[derive(Clone, Debug, Default)]
pub struct Str<'a>(pub Option<Cow<'a, str>>);

impl Str<'_> {
    /// The text, where there is one.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The text, where there is one and it is not empty.
    pub fn filled(&self) -> Option<&str> {
        self.get().filter(|text| !text.is_empty())
    }

    /// Whether it is the given text.
    pub fn is(&self, text: &str) -> bool {
        self.get() == Some(text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar).map(|scalar| Self(scalar.text))
    }
}

/// A whole number; anything else is absent. Numbers with a fraction are cut, negative ones absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Num(pub Option<u64>);

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar).map(|scalar| Self(scalar.number))
    }
}

/// A truth value; anything else is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flag(pub Option<bool>);

impl Flag {
    /// Whether it is there and true.
    pub fn is_true(self) -> bool {
        self.0 == Some(true)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar).map(|scalar| Self(scalar.truth))
    }
}

#[derive(Default)]
struct Scalar<'a> {
    text: Option<Cow<'a, str>>,
    number: Option<u64>,
    truth: Option<bool>,
}

struct AnyScalar;

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar { text: Some(Cow::Borrowed(text)), ..Scalar::default() })
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar { text: Some(Cow::Owned(text.to_owned())), ..Scalar::default() })
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Scalar { number: Some(number), ..Scalar::default() })
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Scalar { number: u64::try_from(number).ok(), ..Scalar::default() })
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        // `as` saturates: NaN and negative numbers give 0, which is as absent as such a number is.
        Ok(Scalar { number: (number >= 0.0).then_some(number as u64), ..Scalar::default() })
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(Scalar { truth: Some(truth), ..Scalar::default() })
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::default())
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::default())
    }
}

/// The line that is being read: turns slices of it back into offsets of the source.
#[derive(Clone, Copy)]
pub struct LineText<'a> {
    /// The line's text.
    pub text: &'a str,
    /// The offset at which it begins; `None` where the text is not byte for byte that of the source.
    pub offset: Option<u64>,
}

impl<'a> LineText<'a> {
    /// The place of a raw value of this line. `u64::MAX` as offset says that the source does not have these bytes.
    pub fn raw(&self, value: &'a RawValue) -> RawJson<'a> {
        self.slice(value.get())
    }

    /// The place of a slice of this line.
    pub fn slice(&self, json: &'a str) -> RawJson<'a> {
        let inside = (json.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let offset = match self.offset {
            Some(offset) if inside + json.len() <= self.text.len() => offset + inside as u64,
            _ => u64::MAX,
        };
        RawJson { json, offset }
    }

    /// The JSON string (with its quotes) whose unescaped inner text is `inner`, a slice of this line.
    pub fn quoted(&self, inner: &'a str) -> Option<RawJson<'a>> {
        let start = (inner.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?.checked_sub(1)?;
        let json = self.text.get(start..start + inner.len() + 2)?;
        json.starts_with('"').then(|| self.slice(json))
    }
}
