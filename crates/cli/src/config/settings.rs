//! The settings that hold, each with the layer that set it.

use serde_json::Value;

use super::{
    Display, Origin, Raw, hub::Hub, prices::Prices, store::Store, tracing::Tracing, ui::Ui, watch::Watch,
};

/// All settings.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What is shown of subagents.
    pub(crate) tracing: Tracing,
    /// How output looks.
    pub(crate) display: Display,
    /// What tokens cost.
    pub(crate) prices: Prices,
    /// How `watch` prints and when it warns.
    pub(crate) watch: Watch,
    /// What of the store stays, and for how long.
    pub(crate) store: Store,
    /// How the hub is reached and when it leaves.
    pub(crate) hub: Hub,
    /// How the terminal UI looks.
    pub(crate) ui: Ui,
}

impl From<Raw> for Settings {
    fn from(raw: Raw) -> Self {
        Self {
            tracing: raw.tracing.into(),
            display: raw.display.into(),
            prices: raw.prices.into(),
            watch: raw.watch.into(),
            store: raw.store.into(),
            hub: raw.hub.into(),
            ui: raw.ui.into(),
        }
    }
}

impl Settings {
    /// Returns every setting for people and JSON, in a fixed order.
    pub(crate) fn rows(&self) -> Vec<Shown> {
        let Self { tracing, display, prices, watch, store, hub, ui } = self;
        let looks = tracing.rows().into_iter().chain(display.rows()).chain(prices.rows());
        looks.chain(watch.rows()).chain(store.rows()).chain(hub.rows()).chain(ui.rows()).collect()
    }
}

/// One setting as `config show` prints it.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    /// Its name.
    pub(crate) key: &'static str,
    /// Its value.
    pub(crate) value: Value,
    /// Where it was set.
    pub(crate) origin: Origin,
}

impl Shown {
    /// Returns a setting to show.
    pub(super) fn new(key: &'static str, value: impl Into<Value>, origin: &Origin) -> Self {
        Self { key, value: value.into(), origin: origin.clone() }
    }
}
