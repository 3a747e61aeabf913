//! One layer of settings: only what one file, the environment or the flags set.

use super::{
    SettingOrigin, display, display::RawDisplay, given::GivenValue, hub, hub::RawHub, prices,
    prices::RawPrices, store, store::RawStore, tracing, tracing::RawTracing, ui, ui::RawUi, watch,
    watch::RawWatch,
};
use crate::environment::Environment;

/// One layer of settings.
#[derive(Debug, Default)]
pub(crate) struct RawSettings {
    /// Detail of the tracing output.
    pub(crate) tracing: RawTracing,
    /// Colours and character set.
    pub(crate) display: RawDisplay,
    /// Token prices.
    pub(crate) prices: RawPrices,
    /// `[watch]`.
    pub(crate) watch: RawWatch,
    /// `[store]`.
    pub(crate) store: RawStore,
    /// `[hub]`.
    pub(crate) hub: RawHub,
    /// `[ui]`.
    pub(crate) ui: RawUi,
}

impl RawSettings {
    /// Sections that are TOML tables.
    pub(super) const TABLES: [&str; 4] = ["watch", "store", "hub", "ui"];

    /// Returns the keys of all settings; those of a table as `table.name`.
    pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
        tracing::KEYS
            .into_iter()
            .chain(display::KEYS)
            .chain(prices::KEYS)
            .chain(watch::KEYS)
            .chain(store::KEYS)
            .chain(hub::KEYS)
            .chain(ui::KEYS)
    }

    /// Sets one setting. Returns false if the key is unknown.
    ///
    /// # Errors
    /// If the value is invalid: a fragment of a sentence that follows the key.
    pub(crate) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        Ok(self.tracing.set(key, given, origin)?
            || self.display.set(key, given, origin)?
            || self.prices.set(key, given, origin)?
            || self.watch.set(key, given, origin)?
            || self.store.set(key, given, origin)?
            || self.hub.set(key, given, origin)?
            || self.ui.set(key, given, origin)?)
    }

    /// Merges this layer over a lower one.
    pub(crate) fn over(self, lower: Self) -> Self {
        Self {
            tracing: self.tracing.over(lower.tracing),
            display: self.display.over(lower.display),
            prices: self.prices.over(lower.prices),
            watch: self.watch.over(lower.watch),
            store: self.store.over(lower.store),
            hub: self.hub.over(lower.hub),
            ui: self.ui.over(lower.ui),
        }
    }

    /// Reads all settings from environment variables; also returns the errors. Empty variables count as unset.
    pub(crate) fn from_environment(environment: &Environment) -> (Self, Vec<String>) {
        let (mut raw, mut wrong) = (Self::default(), Vec::new());
        for key in Self::keys() {
            let name = variable(key);
            let Some(text) = environment.text(&name) else { continue };
            if let Err(what) = raw.set(key, GivenValue::Text(&text), &SettingOrigin::Variable(name.clone())) {
                wrong.push(format!("{name}: {what}"));
            }
        }
        (raw, wrong)
    }
}

/// Returns the environment variable of a setting: `SUBSCOPE_WATCH_STALL` for `watch.stall`.
pub(crate) fn variable(key: &str) -> String {
    format!("SUBSCOPE_{}", key.replace('.', "_").to_uppercase())
}
