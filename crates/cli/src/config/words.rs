//! Reads and shows values of settings whose text form is not serde's own.

use std::{fmt, path::PathBuf, time::Duration};

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected, Visitor},
};
use subscope_model::Zone;
use subscope_render::Detail;
use subscope_server::PublicNames;

use super::{AsciiChoice, RemoteSettings};
use crate::args::value::{format_duration, parse_days, parse_heartbeat, parse_limit, parse_public_url};

/// Reads a level of detail; an error names the allowed ones.
pub(super) fn detail<'de, D: Deserializer<'de>>(value: D) -> Result<Detail, D::Error> {
    let wrong = |what: String| {
        let allowed = Detail::ALL.map(Detail::as_str).join(", ");
        D::Error::custom(format!("{what}: allowed are {allowed}"))
    };
    let word = String::deserialize(value).map_err(|error| wrong(error.to_string()))?;
    word.parse().map_err(|_| wrong(format!("{word:?} is not a level of detail")))
}

pub(super) fn file<'de, D: Deserializer<'de>>(value: D) -> Result<Option<PathBuf>, D::Error> {
    let path = String::deserialize(value)?;
    if path.is_empty() { Err(D::Error::custom("must name a file")) } else { Ok(Some(path.into())) }
}

/// Schemes of URLs that a browser runs or reads itself: they open no editor.
const BROWSER_SCHEMES: [&str; 9] =
    ["about", "blob", "data", "file", "filesystem", "javascript", "vbscript", "view-source", "ws"];

/// Reads the URL that opens a file: a scheme, then `{path}`; or nothing.
pub(super) fn editor<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let url = String::deserialize(value)?;
    let is_plain = |text: &str| text.chars().all(|it| it.is_ascii_graphic());
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '.'))
            && !BROWSER_SCHEMES.iter().any(|known| text.eq_ignore_ascii_case(known))
    };
    let is_url = url
        .split_once(':')
        .is_some_and(|(scheme, rest)| is_scheme(scheme) && rest.contains("{path}") && is_plain(&url));
    if url.is_empty() || is_url {
        return Ok(url);
    }
    let form = "vscode://file/{path}:{line}";
    Err(D::Error::custom(format!(
        "{url:?} is not the URL of an editor: write it as {form:?}, or \"\" for none"
    )))
}

/// Reads the other machines; each name occurs once.
pub(super) fn remotes<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<RemoteSettings>, D::Error> {
    let mut remotes: Vec<RemoteSettings> = Vec::new();
    for remote in Vec::<RemoteSettings>::deserialize(value)? {
        let remote = remote.checked().map_err(D::Error::custom)?;
        if remotes.iter().any(|other| other.name == remote.name) {
            return Err(D::Error::custom(format!("two remotes have the name {:?}", remote.name)));
        }
        remotes.push(remote);
    }
    Ok(remotes)
}

/// Reads a word that is not empty.
pub(super) fn word<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let word = String::deserialize(value)?;
    if word.trim().is_empty() { Err(D::Error::custom("must not be empty")) } else { Ok(Some(word)) }
}

/// Reads a time zone.
pub(super) fn zone<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Zone>, D::Error> {
    Zone::deserialize(value).map(Some)
}

/// Shows the name of a file, with replacement characters if it is not Unicode.
pub(super) fn show_file<S: Serializer>(file: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    file.as_ref().map(|file| file.to_string_lossy()).serialize(to)
}

pub(super) fn heartbeat<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    span(value, parse_heartbeat)
}

pub(super) fn limit<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    span(value, parse_limit)
}

fn span<'de, D, E>(value: D, parse: fn(&str) -> Result<Duration, E>) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    let text = String::deserialize(value)
        .map_err(|_| D::Error::custom("must be a span of time in quotes, such as \"10s\""))?;
    parse(&text).map_err(D::Error::custom)
}

/// Shows a duration in its largest unit.
pub(super) fn show_span<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format_duration(*span))
}

pub(super) fn public_url<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    parse_public_url(&String::deserialize(value)?).map(Some).map_err(D::Error::custom)
}

pub(super) fn hosts<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    let hosts = Vec::deserialize(value)?;
    PublicNames::new(None, &hosts, &[]).map_err(D::Error::custom)?;
    Ok(hosts)
}

pub(super) fn frame_ancestors<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    let pages = Vec::deserialize(value)?;
    PublicNames::new(None, &[], &pages).map_err(D::Error::custom)?;
    Ok(pages)
}

pub(super) fn listen<'de, D: Deserializer<'de>>(value: D) -> Result<std::net::SocketAddr, D::Error> {
    subscope_program::parse_listen(&String::deserialize(value)?).map_err(D::Error::custom)
}

pub(super) fn days<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    value.deserialize_u32(DaysVisitor).map(Some)
}

/// Takes the digits of a number, so that an error can quote them.
struct DaysVisitor;

impl Visitor<'_> for DaysVisitor {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of days")
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<u32, E> {
        parse_days(digits).map_err(E::custom)
    }
}

/// Amounts of money, in dollars in the file and in micro-dollars here.
pub(super) mod dollars {
    use subscope_model::MicroUsd;

    use super::*;

    const MICROS: f64 = 1_000_000.0;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        value: D,
    ) -> Result<Option<MicroUsd>, D::Error> {
        value.deserialize_f64(DollarsVisitor).map(Some)
    }

    pub(in super::super) fn serialize<S: Serializer>(
        amount: &Option<MicroUsd>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        amount.map(|micro| micro as f64 / MICROS).serialize(to)
    }

    struct DollarsVisitor;

    impl Visitor<'_> for DollarsVisitor {
        type Value = MicroUsd;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an amount in dollars, such as 20 or 2.5")
        }

        fn visit_str<E: Error>(self, digits: &str) -> Result<MicroUsd, E> {
            let amount: f64 = digits.parse().map_err(|_| E::invalid_value(Unexpected::Str(digits), &self))?;
            let micros = (amount * MICROS).round();
            if (0.01 * MICROS..1e9 * MICROS).contains(&micros) {
                Ok(micros as MicroUsd)
            } else {
                Err(E::custom("must be from 0.01 to 1000000000 dollars"))
            }
        }
    }
}

struct AsciiVisitor;

impl Visitor<'_> for AsciiVisitor {
    type Value = AsciiChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or \"auto\"")
    }

    fn visit_bool<E: Error>(self, only_ascii: bool) -> Result<AsciiChoice, E> {
        Ok(if only_ascii { AsciiChoice::Always } else { AsciiChoice::Never })
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<AsciiChoice, E> {
        match word {
            "auto" => Ok(AsciiChoice::Auto),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for AsciiChoice {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_bool(AsciiVisitor)
    }
}

impl Serialize for AsciiChoice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => to.serialize_str("auto"),
            Self::Always => to.serialize_bool(true),
            Self::Never => to.serialize_bool(false),
        }
    }
}

pub(super) fn content_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": subscope_model::ContentLevel::ALL.map(subscope_model::ContentLevel::as_str) })
}

pub(super) fn ascii_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": [true, false, "auto"] })
}
