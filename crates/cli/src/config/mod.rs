//! Configuration in layers: built-in defaults, user file, project file, environment, flags; later ones win.
//!
//! Flow: [`ConfigPaths::find`] locates the files; [`load`] reads them and the environment into [`RawSettings`] layers
//! and merges the flags over them into [`EffectiveSettings`], in which every value has its [`SettingOrigin`].
//!
//! To add a setting: a key in its section's `KEYS`, a line in its `set`, `over` and `rows`. Environment, `config show`
//! and warnings follow from these.

mod display;
mod file;
mod given;
mod hub;
mod limits;
mod origin;
mod paths;
mod prices;
mod raw;
mod settings;
mod store;
mod tracing;
mod ui;
mod watch;

pub(crate) use display::{AsciiChoice, DisplaySettings};
pub(crate) use file::{read_text, syntax_error};
pub(crate) use hub::parse_listen;
pub(crate) use origin::{SettingOrigin, Sourced};
pub(crate) use paths::ConfigPaths;
pub(crate) use raw::RawSettings;
pub(crate) use settings::{EffectiveSettings, SettingRow};
pub(crate) use store::{KEEP_DAYS, parse_days};
pub(crate) use watch::{parse_heartbeat, parse_limit};

use crate::{
    environment::Environment,
    error::{CliError, ErrorKind},
};

/// Result of loading all layers.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    /// Every setting; where a layer's value is invalid, the lower layer's.
    pub(crate) settings: EffectiveSettings,
    /// Paths at which files were looked for.
    pub(crate) paths: ConfigPaths,
    /// Unknown settings, each with file and line.
    pub(crate) warnings: Vec<String>,
    /// Errors, each with file and line or variable. Commands that rely on settings must not run if there are any.
    pub(crate) errors: Vec<CliError>,
}

impl LoadedConfig {
    /// Removes and returns the first error; only one is reported at a time.
    pub(crate) fn take_error(&mut self) -> Option<CliError> {
        (!self.errors.is_empty()).then(|| self.errors.remove(0))
    }
}

/// Loads the files and the environment, and merges `flags` over them.
pub(crate) fn load(paths: ConfigPaths, environment: &Environment, flags: RawSettings) -> LoadedConfig {
    let mut raw = RawSettings::default();
    let (mut warnings, mut errors) = (Vec::new(), Vec::new());
    for path in paths.existing() {
        match file::read(&path) {
            Ok(read) => {
                warnings.extend(read.warnings);
                errors.extend(read.errors);
                raw = read.raw.over(raw);
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(paths.missing());
    let (variables, wrong) = RawSettings::from_environment(environment);
    errors.extend(wrong.into_iter().map(|message| CliError::new(ErrorKind::Usage, message)));
    let settings = EffectiveSettings::from(flags.over(variables.over(raw)));
    LoadedConfig { settings, paths, warnings, errors }
}

#[cfg(test)]
mod tests;
