//! Settings of the UI, set by its host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_model::{MicroUsd, Millis, Zone};
use subscope_render::{Detail, Style};

use crate::theme::Palette;

/// Initial settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Level of detail.
    pub detail: Detail,
    /// Visibility of the tree panel.
    pub tree: TreePanel,
    /// How alerts are signaled.
    pub alerts: Alerts,
    /// Color palette.
    pub palette: Palette,
    /// Whether to use colors and Unicode; its width is unused.
    pub style: Style,
    /// Time zone of displayed times, in minutes east of UTC.
    pub offset_minutes: i32,
    /// Time zone whose days statistics count.
    pub zone: Zone,
    /// Shell command that opens a text file.
    pub editor: Option<String>,
    /// Budgets to show what is used of.
    pub budgets: BudgetLimits,
}

/// Visibility of the tree panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TreePanel {
    /// Shown once the session has a subagent.
    #[default]
    Auto,
    /// Always shown.
    Shown,
    /// Hidden until the user shows it.
    Hidden,
}

/// How alerts are signaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Alerts {
    /// A line in the footer.
    #[default]
    Line,
    /// Also the terminal bell.
    Bell,
    /// Also a desktop notification through the terminal (OSC 9).
    Notify,
}

/// Budgets, in millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// For all sessions of a day together.
    pub day: Option<MicroUsd>,
    /// For each session.
    pub session: Option<MicroUsd>,
}

/// A setting that the UI can change and save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Level of detail.
    Detail,
    /// Visibility of the tree panel.
    Tree,
    /// Color palette.
    Theme,
}

/// A setting's value as written in the settings file.
pub type Choice = &'static str;

impl TreePanel {
    /// The value as written in the settings file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shown => "shown",
            Self::Hidden => "hidden",
        }
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
