//! Fields of foreign JSON read leniently: a value of an unexpected type counts as absent and costs nothing else.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use subscope_model::{RawJson, SourcePosition};

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
        deserialize(deserializer)
    }
}

impl<'de: 'a, 'a> Lenient<'de> for Str<'a> {
    fn from_text(text: &'de str) -> Self {
        Self(Some(Cow::Borrowed(text)))
    }

    fn from_unescaped(text: &str) -> Self {
        Self(Some(Cow::Owned(text.to_owned())))
    }
}

/// Strings: those of an array, or one string; anything else is absent.
#[derive(Clone, Debug, Default)]
pub struct Strs<'a>(pub Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Strs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl<'de: 'a, 'a> Lenient<'de> for Strs<'a> {
    fn from_text(text: &'de str) -> Self {
        Self(vec![Cow::Borrowed(text)])
    }

    fn from_unescaped(text: &str) -> Self {
        Self(vec![Cow::Owned(text.to_owned())])
    }

    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = seq.next_element::<Str<'de>>()? {
            texts.extend(text.0);
        }
        Ok(Self(texts))
    }
}

/// A whole number; anything else is absent. Numbers with a fraction are cut, negative ones absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Num(pub Option<u64>);

impl Num {
    /// The number, where there is one and it is not too great.
    pub fn signed(self) -> Option<i64> {
        self.0.and_then(|number| i64::try_from(number).ok())
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl Lenient<'_> for Num {
    fn from_number(number: u64) -> Self {
        Self(Some(number))
    }
}

/// A truth value; anything else is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flag(pub Option<bool>);

impl Flag {
    /// Whether it is present and true.
    pub fn is_true(self) -> bool {
        self.0 == Some(true)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl Lenient<'_> for Flag {
    fn from_truth(truth: bool) -> Self {
        Self(Some(truth))
    }
}

/// A value that is read from JSON of any type: the default, where the type has no method of its own.
pub trait Lenient<'de>: Default {
    /// Reads a string without escapes.
    fn from_text(_: &'de str) -> Self {
        Self::default()
    }

    /// Reads a string that had escapes.
    fn from_unescaped(_: &str) -> Self {
        Self::default()
    }

    /// Reads a number; a fraction is cut, and a negative number gives the default.
    fn from_number(_: u64) -> Self {
        Self::default()
    }

    /// Reads a truth value.
    fn from_truth(_: bool) -> Self {
        Self::default()
    }

    /// Reads an array.
    ///
    /// # Errors
    /// Where it is not JSON.
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// Where it is not JSON.
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Reads a value of any type: the body of `Deserialize::deserialize` for a [`Lenient`] type.
///
/// # Errors
/// Where it is not JSON.
pub fn deserialize<'de, T: Lenient<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(AnyValue(PhantomData))
}

struct AnyValue<T>(PhantomData<T>);

impl<'de, T: Lenient<'de>> Visitor<'de> for AnyValue<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::from_text(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::from_unescaped(text))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::from_number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(u64::try_from(number).map_or_else(|_| T::default(), T::from_number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        // `as` saturates.
        Ok(if number >= 0.0 { T::from_number(number as u64) } else { T::default() })
    }

    fn visit_bool<E>(self, truth: bool) -> Result<T, E> {
        Ok(T::from_truth(truth))
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::from_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_map(map)
    }
}

/// The line that is being read: turns slices of it back into offsets of the source.
#[derive(Clone, Copy)]
pub struct LineText<'a> {
    /// Where the line is.
    pub place: SourcePosition,
    /// The line's text.
    pub text: &'a str,
    /// Whether the text is byte for byte that of the source.
    pub is_exact: bool,
}

impl<'a> LineText<'a> {
    /// The place of a raw value of this line. `u64::MAX` as offset means that the source does not have these bytes.
    pub fn raw(&self, value: &'a RawValue) -> RawJson<'a> {
        self.slice(value.get())
    }

    /// The place of a slice of this line.
    pub fn slice(&self, json: &'a str) -> RawJson<'a> {
        let inside = (json.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let is_inside = self.is_exact && inside + json.len() <= self.text.len();
        RawJson { json, offset: if is_inside { self.place.offset + inside as u64 } else { u64::MAX } }
    }

    /// The JSON string (with its quotes) whose unescaped inner text is `inner`, a slice of this line.
    pub fn quoted(&self, inner: &'a str) -> Option<RawJson<'a>> {
        let start = (inner.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?.checked_sub(1)?;
        let json = self.text.get(start..start + inner.len() + 2)?;
        json.starts_with('"').then(|| self.slice(json))
    }
}
