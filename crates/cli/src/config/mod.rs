//! Configuration in layers: built-in defaults, user file, project file, environment, flags; later ones win.
//!
//! [`Settings`] is the one definition: its fields are the keys, its `Default` the built-in layer, its doc comments the
//! documentation. [`ConfigPaths::find`] locates the files; [`load`] sets the keys of each layer in turn and records the
//! [`SettingOrigin`] of each. A new setting is a new field; `cargo xtask types` writes its documentation.

mod file;
mod limits;
mod origin;
mod paths;
mod settings;
mod value;
mod words;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::{
    file::{read_text, syntax_error},
    origin::SettingOrigin,
    paths::ConfigPaths,
    settings::{AsciiChoice, KEEP_DAYS, PRICES, Settings},
};
use self::{paths::ConfigPath, value::SettingValue};
use crate::{
    environment::Environment,
    error::{CliError, ErrorKind},
};

/// Result of loading all layers.
#[derive(Debug, Default)]
pub(crate) struct LoadedConfig {
    /// Every setting; where a layer's value is invalid, the lower layer's.
    pub(crate) settings: Settings,
    /// Paths at which files were looked for.
    pub(crate) paths: ConfigPaths,
    /// Unknown settings, each with file and line.
    pub(crate) warnings: Vec<String>,
    /// Errors, each with file and line or variable. Commands that rely on settings must not run if there are any.
    pub(crate) errors: Vec<CliError>,
    /// Origins by key; the other settings have their defaults.
    origins: BTreeMap<String, SettingOrigin>,
}

/// One setting as `config show` prints it.
#[derive(Debug, PartialEq)]
pub(crate) struct SettingRow {
    /// Its key; `section.name` in a section.
    pub(crate) key: String,
    /// Its value.
    pub(crate) value: Value,
    /// Its origin.
    pub(crate) origin: SettingOrigin,
}

impl LoadedConfig {
    /// Removes and returns the first error; only one is reported at a time.
    pub(crate) fn take_error(&mut self) -> Option<CliError> {
        (!self.errors.is_empty()).then(|| self.errors.remove(0))
    }

    /// Returns the origin of a setting.
    pub(crate) fn origin(&self, key: &str) -> SettingOrigin {
        self.origins.get(key).cloned().unwrap_or(SettingOrigin::BuiltIn)
    }

    /// Sets a setting to the value of a command's option, if given.
    pub(crate) fn set_option<T>(
        &mut self,
        option: &'static str,
        value: Option<T>,
        key: &str,
        slot: impl FnOnce(&mut Settings) -> &mut T,
    ) {
        let Some(value) = value else { return };
        *slot(&mut self.settings) = value;
        self.origins.insert(key.to_owned(), SettingOrigin::Flag(option));
    }

    /// Returns every setting in the order of its definition.
    pub(crate) fn rows(&self) -> Vec<SettingRow> {
        let row = |(key, value): (String, Value)| {
            let value = if key == PRICES && value.is_null() { "bundled".into() } else { value };
            SettingRow { value, origin: self.origin(&key), key }
        };
        flatten(&self.settings).into_iter().map(row).collect()
    }
}

/// The layers below the options while they are loaded.
struct Layers {
    config: LoadedConfig,
    /// All valid values so far.
    values: SettingValue,
}

impl Layers {
    /// Sets a setting. An invalid value is an error, and leaves the lower layer's.
    fn set(&mut self, key: &str, value: SettingValue, origin: SettingOrigin, place: &str) {
        let mut values = self.values.clone();
        values.set(key, value);
        match Settings::deserialize(&values) {
            Ok(settings) => {
                self.config.settings = settings;
                self.config.origins.insert(key.to_owned(), origin);
                self.values = values;
            }
            Err(what) => self.config.errors.push(CliError::new(ErrorKind::Usage, format!("{place}: {what}"))),
        }
    }

    fn read_file(&mut self, source: &ConfigPath, keys: &[String]) {
        let sections: Vec<&str> = keys.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        let entries = match file::read(source, &sections) {
            Ok(entries) => entries,
            Err(error) => return self.config.errors.push(error),
        };
        for (line, key, value) in entries {
            let place = format!("{}:{line}", source.path.display());
            if keys.contains(&key) {
                let origin =
                    SettingOrigin::File { owner: source.owner, path: source.path.as_path().into(), line };
                self.set(&key, value, origin, &format!("{place}: {key}"));
            } else {
                self.config.warnings.push(format!("{place}: there is no setting {key:?}; it is ignored"));
            }
        }
    }
}

/// Loads the files and the environment.
pub(crate) fn load(paths: ConfigPaths, environment: &Environment) -> LoadedConfig {
    let mut layers = Layers { config: LoadedConfig::default(), values: SettingValue::Table(BTreeMap::new()) };
    let keys: Vec<String> = flatten(&Settings::default()).into_iter().map(|(key, _)| key).collect();
    paths.existing().for_each(|source| layers.read_file(source, &keys));
    layers.config.errors.extend(paths.missing());
    for key in keys {
        let name = variable(&key);
        if let Some(text) = environment.text(&name) {
            layers.set(&key, SettingValue::Variable(text), SettingOrigin::Variable(name.clone()), &name);
        }
    }
    let mut config = LoadedConfig { paths, ..layers.config };
    let origin = config.origin(PRICES);
    config.settings.prices = config.settings.prices.map(|path| origin.resolve(&path));
    config
}

/// Returns the keys and values of all settings in the order of their definition; the key of one in a section is
/// `section.name`.
fn flatten(settings: &Settings) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    // Every setting has a JSON form.
    let Ok(Value::Object(entries)) = serde_json::to_value(settings) else { return all };
    for (key, value) in entries {
        if let Value::Object(section) = value {
            all.extend(section.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
        } else {
            all.push((key, value));
        }
    }
    all
}

/// Returns the environment variable of a setting: `SUBSCOPE_WATCH_STALL` for `watch.stall`.
fn variable(key: &str) -> String {
    format!("SUBSCOPE_{}", key.replace('.', "_").to_uppercase())
}

/// Returns the JSON Schema of a settings file, indented.
pub(crate) fn schema() -> String {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    format!("{:#}\n", settings.into_generator().into_root_schema_for::<Settings>().as_value())
}

#[cfg(test)]
mod tests;
