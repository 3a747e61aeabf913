//! Section `[ui]`: the terminal UI.

use subscope_tui::{Alerts, Palette, TreePanel};

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue};

/// Keys of this section.
pub(super) const KEYS: [&str; 3] = ["ui.theme", "ui.tree", "ui.alerts"];

/// Name of the theme that follows the terminal.
const AUTO: &str = "auto";

/// One layer of this section.
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
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
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

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self {
            theme: self.theme.or(lower.theme),
            tree: self.tree.or(lower.tree),
            alerts: self.alerts.or(lower.alerts),
        }
    }
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct UiSettings {
    /// Colour palette; `None` follows the terminal.
    pub(crate) theme: Sourced<Option<Palette>>,
    /// Visibility of the tree panel.
    pub(crate) tree: Sourced<TreePanel>,
    /// Notification of someone who is looking elsewhere.
    pub(crate) alerts: Sourced<Alerts>,
}

impl UiSettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 3] {
        let Self { theme, tree, alerts } = self;
        [
            SettingRow::new("ui.theme", theme.value.map_or(AUTO, Palette::as_str), &theme.origin),
            SettingRow::new("ui.tree", tree.value.as_str(), &tree.origin),
            SettingRow::new("ui.alerts", alerts.value.as_str(), &alerts.origin),
        ]
    }
}

impl From<RawUi> for UiSettings {
    fn from(raw: RawUi) -> Self {
        Self {
            theme: raw.theme.unwrap_or(Sourced::built_in(None)),
            tree: raw.tree.unwrap_or(Sourced::built_in(TreePanel::Auto)),
            alerts: raw.alerts.unwrap_or(Sourced::built_in(Alerts::Line)),
        }
    }
}
