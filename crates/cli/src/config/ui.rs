//! The terminal UI: the section `[ui]`.

use subscope_tui::{Alerts, Palette, TreePanel};

use super::{Origin, Shown, Sourced, given::Given};

/// The section's settings.
pub(super) const KEYS: [&str; 3] = ["ui.theme", "ui.tree", "ui.alerts"];

/// The theme that follows the terminal.
const AUTO: &str = "auto";

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct RawUi {
    /// `theme`.
    pub(crate) theme: Option<Sourced<Option<Palette>>>,
    /// `tree`.
    pub(crate) tree: Option<Sourced<TreePanel>>,
    /// `alerts`.
    pub(crate) alerts: Option<Sourced<Alerts>>,
}

impl RawUi {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
        match key {
            "ui.theme" => {
                let theme = match given.text()? {
                    AUTO => None,
                    word => Some(word.parse::<Palette>().map_err(|error| format!("{error}, {AUTO}"))?),
                };
                self.theme = Some(Sourced::new(theme, origin));
            }
            "ui.tree" => {
                let tree = given.text()?.parse::<TreePanel>().map_err(|error| error.to_string())?;
                self.tree = Some(Sourced::new(tree, origin));
            }
            "ui.alerts" => {
                let alerts = given.text()?.parse::<Alerts>().map_err(|error| error.to_string())?;
                self.alerts = Some(Sourced::new(alerts, origin));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self {
            theme: self.theme.or(lower.theme),
            tree: self.tree.or(lower.tree),
            alerts: self.alerts.or(lower.alerts),
        }
    }
}

/// What holds.
#[derive(Debug)]
pub(crate) struct Ui {
    /// The colours; `None` follows the terminal.
    pub(crate) theme: Sourced<Option<Palette>>,
    /// Whether the panel with the tree is there.
    pub(crate) tree: Sourced<TreePanel>,
    /// What tells a person that looks elsewhere.
    pub(crate) alerts: Sourced<Alerts>,
}

impl Ui {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 3] {
        let Self { theme, tree, alerts } = self;
        [
            Shown::new("ui.theme", theme.value.map_or(AUTO, Palette::as_str), &theme.origin),
            Shown::new("ui.tree", tree.value.as_str(), &tree.origin),
            Shown::new("ui.alerts", alerts.value.as_str(), &alerts.origin),
        ]
    }
}

impl From<RawUi> for Ui {
    fn from(raw: RawUi) -> Self {
        Self {
            theme: raw.theme.unwrap_or(Sourced::built_in(None)),
            tree: raw.tree.unwrap_or(Sourced::built_in(TreePanel::Auto)),
            alerts: raw.alerts.unwrap_or(Sourced::built_in(Alerts::Line)),
        }
    }
}
