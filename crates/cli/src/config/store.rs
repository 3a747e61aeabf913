//! Section `[store]`: archive and retention.

use subscope_model::Millis;

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue};

/// Key of the retention time.
pub(crate) const KEEP_DAYS: &str = "store.keep_days";

/// Keys of this section.
pub(super) const KEYS: [&str; 2] = ["store.archive", KEEP_DAYS];

const DAY_MS: Millis = 86_400_000;

/// Parses a number of days, at least 1.
pub(crate) fn parse_days(text: &str) -> Result<u32, String> {
    let days = text.trim().parse::<u32>().map_err(|_| format!("{text:?} is no number of days"))?;
    if days > 0 { Ok(days) } else { Err("0 would keep nothing; leave it out to keep everything".to_owned()) }
}

/// One layer of this section.
#[derive(Debug, Default)]
pub(crate) struct RawStore {
    /// `archive`, `--archive`.
    pub(crate) archive: Option<Sourced<bool>>,
    /// `keep_days`, `--keep-days`.
    pub(crate) keep_days: Option<Sourced<u32>>,
}

impl RawStore {
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        match key {
            "store.archive" => self.archive = Some(Sourced::new(given.switch()?, origin)),
            KEEP_DAYS => self.keep_days = Some(Sourced::new(parse_days(&given.number()?)?, origin)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { archive: self.archive.or(lower.archive), keep_days: self.keep_days.or(lower.keep_days) }
    }
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    /// Whether transcripts are archived when the harness deletes them.
    pub(crate) archive: Sourced<bool>,
    /// Days that sessions are kept after their last event; `None`: for ever.
    pub(crate) keep_days: Sourced<Option<u32>>,
}

impl StoreSettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 2] {
        let Self { archive, keep_days } = self;
        [
            SettingRow::new("store.archive", archive.value, &archive.origin),
            SettingRow::new(KEEP_DAYS, keep_days.value, &keep_days.origin),
        ]
    }

    /// Returns the retention time in milliseconds.
    pub(crate) fn keep_ms(&self) -> Option<Millis> {
        self.keep_days.value.map(|days| Millis::from(days) * DAY_MS)
    }
}

impl From<RawStore> for StoreSettings {
    fn from(raw: RawStore) -> Self {
        let days = raw.keep_days.map(|days| Sourced { value: Some(days.value), origin: days.origin });
        Self {
            archive: raw.archive.unwrap_or(Sourced::built_in(false)),
            keep_days: days.unwrap_or(Sourced::built_in(None)),
        }
    }
}
