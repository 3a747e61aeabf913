//! Setting `prices`: a price file in the format of the bundled one.

use std::path::PathBuf;

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue};

/// Keys of this section, at the top level of the file.
pub(super) const KEYS: [&str; 1] = ["prices"];

/// One layer of this section.
#[derive(Debug, Default)]
pub(crate) struct RawPrices {
    /// `prices`, `--prices`.
    pub(crate) file: Option<Sourced<PathBuf>>,
}

impl RawPrices {
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        if key != "prices" {
            return Ok(false);
        }
        let path = given.text()?;
        if path.is_empty() {
            return Err("must name a file".to_owned());
        }
        self.file = Some(Sourced::new(origin.resolve(path), origin));
        Ok(true)
    }

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { file: self.file.or(lower.file) }
    }
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct PriceSettings {
    /// The file; `None` for the bundled table.
    pub(crate) file: Option<Sourced<PathBuf>>,
}

impl PriceSettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 1] {
        [match &self.file {
            Some(file) => SettingRow::new("prices", file.value.to_string_lossy(), &file.origin),
            None => SettingRow::new("prices", "bundled", &SettingOrigin::BuiltIn),
        }]
    }
}

impl From<RawPrices> for PriceSettings {
    fn from(raw: RawPrices) -> Self {
        Self { file: raw.file }
    }
}
