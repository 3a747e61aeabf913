//! What tokens cost: `prices`, a file in the form of the bundled one.

use std::path::PathBuf;

use super::{Origin, Shown, Sourced, given::Given};

/// The section's settings; they stand at the top of the file.
pub(super) const KEYS: [&str; 1] = ["prices"];

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct RawPrices {
    /// `prices`, `--prices`.
    pub(crate) file: Option<Sourced<PathBuf>>,
}

impl RawPrices {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
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

    /// Returns this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { file: self.file.or(lower.file) }
    }
}

/// What holds.
#[derive(Debug)]
pub(crate) struct Prices {
    /// The file; `None` for the bundled table.
    pub(crate) file: Option<Sourced<PathBuf>>,
}

impl Prices {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 1] {
        [match &self.file {
            Some(file) => Shown::new("prices", file.value.to_string_lossy(), &file.origin),
            None => Shown::new("prices", "bundled", &Origin::BuiltIn),
        }]
    }
}

impl From<RawPrices> for Prices {
    fn from(raw: RawPrices) -> Self {
        Self { file: raw.file }
    }
}
