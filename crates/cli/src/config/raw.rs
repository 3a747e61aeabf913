//! One layer of settings: what one file, the environment or the flags set, and nothing else.

use super::{
    Origin, display, display::RawDisplay, given::Given, hub, hub::RawHub, prices, prices::RawPrices, store,
    store::RawStore, tracing, tracing::RawTracing, ui, ui::RawUi, watch, watch::RawWatch,
};
use crate::environment::Environment;

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    /// What is shown of subagents.
    pub(crate) tracing: RawTracing,
    /// How output looks.
    pub(crate) display: RawDisplay,
    /// What tokens cost.
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

/// Whether a name is one of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// It is.
    Known,
    /// It is not.
    Unknown,
}

impl Raw {
    /// Sections that have a table of their own in the file.
    pub(super) const TABLES: [&str; 4] = ["watch", "store", "hub", "ui"];

    /// Returns the names of all settings; those of a table as `table.name`.
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

    /// Sets one setting. The error says what is wrong with the value, as a fragment that follows the name.
    pub(crate) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<Name, String> {
        let is_known = self.tracing.set(key, given, origin)?
            || self.display.set(key, given, origin)?
            || self.prices.set(key, given, origin)?
            || self.watch.set(key, given, origin)?
            || self.store.set(key, given, origin)?
            || self.hub.set(key, given, origin)?
            || self.ui.set(key, given, origin)?;
        Ok(if is_known { Name::Known } else { Name::Unknown })
    }

    /// Returns this layer over a lower one.
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

    /// Returns what the environment sets, and what is wrong there. Empty variables count as not set.
    pub(crate) fn from_environment(environment: &Environment) -> (Self, Vec<String>) {
        let (mut raw, mut wrong) = (Self::default(), Vec::new());
        for key in Self::keys() {
            let name = variable(key);
            let Some(text) = environment.text(&name) else { continue };
            if let Err(what) = raw.set(key, Given::Text(&text), &Origin::Variable(name.clone())) {
                wrong.push(format!("{name}: {what}"));
            }
        }
        (raw, wrong)
    }
}

/// Returns the variable that sets a setting: `SUBSCOPE_WATCH_STALL` for `watch.stall`.
pub(crate) fn variable(key: &str) -> String {
    format!("SUBSCOPE_{}", key.replace('.', "_").to_uppercase())
}
