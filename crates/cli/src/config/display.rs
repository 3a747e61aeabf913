//! How output looks: `color`, `ascii`.

use clap::{ColorChoice, ValueEnum};

use super::{Origin, Shown, Sourced, given::Given};

/// The section's settings; they stand at the top of the file.
pub(super) const KEYS: [&str; 2] = ["color", "ascii"];

/// Which characters are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsciiChoice {
    /// What the terminal and the locale can show.
    Auto,
    /// Only ASCII.
    Always,
    /// Also box drawing and symbols.
    Never,
}

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct RawDisplay {
    /// `color`, `--color`.
    pub(crate) color: Option<Sourced<ColorChoice>>,
    /// `ascii`, `--ascii`.
    pub(crate) ascii: Option<Sourced<AsciiChoice>>,
}

impl RawDisplay {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
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

    /// Returns this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { color: self.color.or(lower.color), ascii: self.ascii.or(lower.ascii) }
    }
}

/// What holds.
#[derive(Debug)]
pub(crate) struct Display {
    /// Whether colours are used.
    pub(crate) color: Sourced<ColorChoice>,
    /// Which characters are drawn.
    pub(crate) ascii: Sourced<AsciiChoice>,
}

impl Display {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 2] {
        let ascii = match self.ascii.value {
            AsciiChoice::Auto => serde_json::Value::from("auto"),
            AsciiChoice::Always => true.into(),
            AsciiChoice::Never => false.into(),
        };
        [
            Shown::new("color", self.color.value.to_string(), &self.color.origin),
            Shown::new("ascii", ascii, &self.ascii.origin),
        ]
    }
}

impl From<RawDisplay> for Display {
    fn from(raw: RawDisplay) -> Self {
        Self {
            color: raw.color.unwrap_or(Sourced::built_in(ColorChoice::Auto)),
            ascii: raw.ascii.unwrap_or(Sourced::built_in(AsciiChoice::Auto)),
        }
    }
}
