//! Settings of the UI, set by its host.

use std::str::FromStr;

use subscope_model::Millis;
use subscope_render::{Detail, Style};

use crate::theme::Palette;

/// Initial settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Level of detail.
    pub detail: Detail,
    /// Visibility of the tree panel.
    pub tree: TreePanel,
    /// How alerts are signalled.
    pub alerts: Alerts,
    /// Colour palette.
    pub palette: Palette,
    /// Whether to use colours and Unicode; its width is unused.
    pub style: Style,
    /// Time zone of displayed times, in minutes east of UTC.
    pub offset_minutes: i32,
    /// Shell command that opens a text file.
    pub editor: Option<String>,
}

/// Visibility of the tree panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreePanel {
    /// Shown once the session has a subagent.
    Auto,
    /// Always shown.
    Shown,
    /// Hidden until the user shows it.
    Hidden,
}

/// How alerts are signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alerts {
    /// A line in the footer.
    Line,
    /// Also the terminal bell.
    Bell,
    /// Also a desktop notification through the terminal (OSC 9).
    Notify,
}

/// A setting that the UI can change and save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Level of detail.
    Detail,
    /// Visibility of the tree panel.
    Tree,
    /// Colour palette.
    Theme,
}

/// A setting's value as written in the settings file.
pub type Choice = &'static str;

impl TreePanel {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Shown, Self::Hidden];

    /// The value as written in the settings file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shown => "shown",
            Self::Hidden => "hidden",
        }
    }
}

impl Alerts {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Line, Self::Bell, Self::Notify];

    /// The value as written in the settings file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Bell => "bell",
            Self::Notify => "notify",
        }
    }
}

/// A word that is not a value of the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {allowed}")]
pub struct ChoiceError {
    word: String,
    allowed: String,
}

/// Finds the value named `word`.
pub(crate) fn choose<T: Copy>(
    word: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, ChoiceError> {
    all.iter().copied().find(|choice| name(*choice) == word).ok_or_else(|| ChoiceError {
        word: word.to_owned(),
        allowed: all.iter().map(|choice| name(*choice)).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for TreePanel {
    type Err = ChoiceError;

    fn from_str(word: &str) -> Result<Self, ChoiceError> {
        choose(word, &Self::ALL, Self::as_str)
    }
}

impl FromStr for Alerts {
    type Err = ChoiceError;

    fn from_str(word: &str) -> Result<Self, ChoiceError> {
        choose(word, &Self::ALL, Self::as_str)
    }
}

/// Clock functions, injected: the UI reads no clock itself.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Wall clock: milliseconds since 1970.
    pub now_ms: fn() -> Millis,
    /// Monotonic clock in milliseconds.
    pub awake_ms: fn() -> Millis,
}
