//! The effective settings, each with the layer that set it.

use serde_json::Value;

use super::{
    DisplaySettings, RawSettings, SettingOrigin, hub::HubSettings, prices::PriceSettings,
    store::StoreSettings, tracing::TracingSettings, ui::UiSettings, watch::WatchSettings,
};

/// All effective settings.
#[derive(Debug)]
pub(crate) struct EffectiveSettings {
    /// Detail of the tracing output.
    pub(crate) tracing: TracingSettings,
    /// Colours and character set.
    pub(crate) display: DisplaySettings,
    /// Token prices.
    pub(crate) prices: PriceSettings,
    /// Output and stall limits of `watch`.
    pub(crate) watch: WatchSettings,
    /// Archive and retention.
    pub(crate) store: StoreSettings,
    /// Address and idle timeout of the hub.
    pub(crate) hub: HubSettings,
    /// Appearance of the terminal UI.
    pub(crate) ui: UiSettings,
}

impl From<RawSettings> for EffectiveSettings {
    fn from(raw: RawSettings) -> Self {
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

impl EffectiveSettings {
    /// Returns every setting as a row for display and JSON, in a fixed order.
    pub(crate) fn rows(&self) -> Vec<SettingRow> {
        let Self { tracing, display, prices, watch, store, hub, ui } = self;
        let looks = tracing.rows().into_iter().chain(display.rows()).chain(prices.rows());
        looks.chain(watch.rows()).chain(store.rows()).chain(hub.rows()).chain(ui.rows()).collect()
    }
}

/// One setting as `config show` prints it.
#[derive(Debug, PartialEq)]
pub(crate) struct SettingRow {
    /// Its name.
    pub(crate) key: &'static str,
    /// Its value.
    pub(crate) value: Value,
    /// Its origin.
    pub(crate) origin: SettingOrigin,
}

impl SettingRow {
    /// Returns a row.
    pub(super) fn new(key: &'static str, value: impl Into<Value>, origin: &SettingOrigin) -> Self {
        Self { key, value: value.into(), origin: origin.clone() }
    }
}
