//! How the UI looks and behaves, as its host's settings say.

use std::str::FromStr;

use subscope_model::Millis;
use subscope_render::{Detail, Style};

use crate::theme::Palette;

/// What holds when the UI begins.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is shown.
    pub detail: Detail,
    /// Whether the panel with the tree is there.
    pub tree: TreePanel,
    /// What tells a person that looks elsewhere.
    pub alerts: Alerts,
    /// The colours.
    pub palette: Palette,
    /// Colours at all, and characters; its width is nobody's.
    pub style: Style,
    /// Minutes east of UTC of the clock times shown.
    pub offset_minutes: i32,
    /// The command that shows or edits a text.
    pub editor: Option<String>,
}

/// Whether the panel with the tree is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreePanel {
    /// From the first subagent on.
    Auto,
    /// Always.
    Shown,
    /// Never, until somebody asks for it.
    Hidden,
}

/// What tells a person that looks elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alerts {
    /// A line on the screen.
    Line,
    /// Also the terminal's bell.
    Bell,
    /// Also a message through the terminal (OSC 9).
    Notify,
}

/// A setting that the UI can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// How much is shown.
    Detail,
    /// Whether the panel with the tree is there.
    Tree,
    /// The colours.
    Theme,
}

/// The word of a setting's value.
pub type Choice = &'static str;

impl TreePanel {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Shown, Self::Hidden];

    /// The word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shown => "shown",
            Self::Hidden => "hidden",
        }
    }
}

impl Alerts {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Line, Self::Bell, Self::Notify];

    /// The word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Bell => "bell",
            Self::Notify => "notify",
        }
    }
}

/// A word that is none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {allowed}")]
pub struct ChoiceError {
    word: String,
    allowed: String,
}

/// Finds the choice with a word.
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

/// The clocks that the UI is given: it reads none itself.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Milliseconds since 1970.
    pub now_ms: fn() -> Millis,
    /// Milliseconds that never step, for measuring.
    pub awake_ms: fn() -> Millis,
}
