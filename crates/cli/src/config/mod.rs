//! Settings in layers: built in, the user's file, the project's file, the environment, flags; the later wins.
//!
//! Flow: [`Places::find`] says where files are looked for, [`load`] reads them and the environment into [`Raw`] layers
//! and lays the flags over them; [`Settings`] is what comes out, every value with its [`Origin`].
//!
//! To add a setting: a key in its section's `KEYS`, a line in its `set`, `over` and `rows`. Environment, `config show`
//! and warnings follow from these.

mod display;
mod file;
mod given;
mod hub;
mod limits;
mod origin;
mod places;
mod prices;
mod raw;
mod settings;
mod store;
mod tracing;
mod ui;
mod watch;

pub(crate) use display::{AsciiChoice, Display};
pub(crate) use file::{read_text, syntax_error};
pub(crate) use hub::parse_listen;
pub(crate) use origin::{Origin, Sourced};
pub(crate) use places::Places;
pub(crate) use raw::Raw;
pub(crate) use settings::{Settings, Shown};
pub(crate) use store::{KEEP_DAYS, parse_days};
pub(crate) use watch::{parse_heartbeat, parse_limit};

use crate::{
    environment::Environment,
    error::{CliError, Kind},
};

/// What reading all layers gave.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Every setting; a wrong value is left out, so that a lower layer or the built-in one stands.
    pub(crate) settings: Settings,
    /// Where files were looked for.
    pub(crate) places: Places,
    /// Settings that are not known, each with its place.
    pub(crate) warnings: Vec<String>,
    /// What makes a layer wrong, each with its place. Commands that rely on settings must not run with any.
    pub(crate) errors: Vec<CliError>,
}

impl Loaded {
    /// Gives the first thing that is wrong; the others show when that is mended.
    pub(crate) fn take_error(&mut self) -> Option<CliError> {
        (!self.errors.is_empty()).then(|| self.errors.remove(0))
    }
}

/// Reads the files and the environment, and lays `flags` over them.
pub(crate) fn load(places: Places, environment: &Environment, flags: Raw) -> Loaded {
    let mut raw = Raw::default();
    let (mut warnings, mut errors) = (Vec::new(), Vec::new());
    for place in places.existing() {
        match file::read(&place) {
            Ok(read) => {
                warnings.extend(read.warnings);
                errors.extend(read.errors);
                raw = read.raw.over(raw);
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(places.missing());
    let (variables, wrong) = Raw::from_environment(environment);
    errors.extend(wrong.into_iter().map(|message| CliError::new(Kind::Usage, message)));
    let settings = Settings::from(flags.over(variables.over(raw)));
    Loaded { settings, places, warnings, errors }
}

#[cfg(test)]
mod tests;
