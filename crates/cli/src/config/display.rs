//! Output settings: `color`, `ascii`.

use clap::{ColorChoice, ValueEnum};

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue};

/// Keys of this section, at the top level of the file.
pub(super) const KEYS: [&str; 2] = ["color", "ascii"];

/// Character set of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsciiChoice {
    /// Unicode if terminal and locale support it.
    Auto,
    /// Only ASCII.
    Always,
    /// Unicode.
    Never,
}

/// One layer of this section.
#[derive(Debug, Default)]
pub(crate) struct RawDisplay {
    /// `color`, `--color`.
    pub(crate) color: Option<Sourced<ColorChoice>>,
    /// `ascii`, `--ascii`.
    pub(crate) ascii: Option<Sourced<AsciiChoice>>,
}

impl RawDisplay {
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        match key {
            "color" => {
                let word = given.text()?;
                let color = ColorChoice::from_str(word, false);
                let color = color.map_err(|_| format!("{word:?} is none of auto, always, never"))?;
                self.color = Some(Sourced::new(color, origin));
            }
            "ascii" => {
                let choice = match given.text() {
                    Ok("auto") => AsciiChoice::Auto,
                    _ if given.switch()? => AsciiChoice::Always,
                    _ => AsciiChoice::Never,
                };
                self.ascii = Some(Sourced::new(choice, origin));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { color: self.color.or(lower.color), ascii: self.ascii.or(lower.ascii) }
    }
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct DisplaySettings {
    /// Whether colours are used.
    pub(crate) color: Sourced<ColorChoice>,
    /// Character set of drawings.
    pub(crate) ascii: Sourced<AsciiChoice>,
}

impl DisplaySettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 2] {
        let ascii = match self.ascii.value {
            AsciiChoice::Auto => serde_json::Value::from("auto"),
            AsciiChoice::Always => true.into(),
            AsciiChoice::Never => false.into(),
        };
        [
            SettingRow::new("color", self.color.value.to_string(), &self.color.origin),
            SettingRow::new("ascii", ascii, &self.ascii.origin),
        ]
    }
}

impl From<RawDisplay> for DisplaySettings {
    fn from(raw: RawDisplay) -> Self {
        Self {
            color: raw.color.unwrap_or(Sourced::built_in(ColorChoice::Auto)),
            ascii: raw.ascii.unwrap_or(Sourced::built_in(AsciiChoice::Auto)),
        }
    }
}
