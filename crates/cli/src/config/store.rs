//! What of the store stays, and for how long: the section `[store]`.

use subscope_model::Millis;

use super::{Origin, Shown, Sourced, given::Given};

/// The name of the setting that ends what is kept.
pub(crate) const KEEP_DAYS: &str = "store.keep_days";

/// The section's settings.
pub(super) const KEYS: [&str; 2] = ["store.archive", KEEP_DAYS];

const DAY_MS: Millis = 86_400_000;

/// Reads a number of days: at least one.
pub(crate) fn parse_days(text: &str) -> Result<u32, String> {
    let days = text.trim().parse::<u32>().map_err(|_| format!("{text:?} is no number of days"))?;
    if days > 0 { Ok(days) } else { Err("0 would keep nothing; leave it out to keep everything".to_owned()) }
}

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct RawStore {
    /// `archive`, `--archive`.
    pub(crate) archive: Option<Sourced<bool>>,
    /// `keep_days`, `--keep-days`.
    pub(crate) keep_days: Option<Sourced<u32>>,
}

impl RawStore {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
        match key {
            "store.archive" => self.archive = Some(Sourced::new(given.switch()?, origin)),
            KEEP_DAYS => self.keep_days = Some(Sourced::new(parse_days(&given.number()?)?, origin)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { archive: self.archive.or(lower.archive), keep_days: self.keep_days.or(lower.keep_days) }
    }
}

/// What holds.
#[derive(Debug)]
pub(crate) struct Store {
    /// Whether transcripts stay when the harness deletes them.
    pub(crate) archive: Sourced<bool>,
    /// For how many days sessions are kept after their last event; for ever where nothing is set.
    pub(crate) keep_days: Sourced<Option<u32>>,
}

impl Store {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 2] {
        let Self { archive, keep_days } = self;
        [
            Shown::new("store.archive", archive.value, &archive.origin),
            Shown::new(KEEP_DAYS, keep_days.value, &keep_days.origin),
        ]
    }

    /// For how long sessions are kept after their last event.
    pub(crate) fn keep_ms(&self) -> Option<Millis> {
        self.keep_days.value.map(|days| Millis::from(days) * DAY_MS)
    }
}

impl From<RawStore> for Store {
    fn from(raw: RawStore) -> Self {
        let days = raw.keep_days.map(|days| Sourced { value: Some(days.value), origin: days.origin });
        Self {
            archive: raw.archive.unwrap_or(Sourced::built_in(false)),
            keep_days: days.unwrap_or(Sourced::built_in(None)),
        }
    }
}
