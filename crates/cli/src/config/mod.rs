//! Configuration in layers: built-in defaults, the organization's file, user file, project file, environment, flags; later ones win.
//!
//! [`Settings`] is the one definition: its fields are the keys, its `Default` the built-in layer, its doc comments the
//! documentation. [`ConfigPaths::find`] locates the files; [`load`] sets the keys of each layer in turn and records the
//! [`SettingOrigin`] of each. A new setting is a new field; `cargo xtask types` writes its documentation.

mod file;
mod limits;
mod paths;
mod settings;
mod value;
mod words;
mod writer;

use std::{collections::BTreeMap, fmt, path::Path};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subscope_program::CliError;

pub(crate) use self::{
    file::{LIMIT_BYTES, read_text, syntax_error},
    limits::SilenceLimit,
    paths::{ConfigPaths, SYSTEM_FILE},
    settings::{
        AsciiChoice, KEEP_DAYS, PRICES, ProjectFrom, RemoteSettings, Settings, TeamSettings, usual_silence,
    },
    writer::{add_remote, create, save, toml_value},
};
use self::{
    paths::ConfigPath,
    settings::{FORWARD, PROJECT_KEYS},
    value::SettingValue,
};

use crate::environment::Environment;

/// Beginning of the names of our variables.
pub(crate) const VARIABLE_PREFIX: &str = "SUBSCOPE_";
/// Variables that are no settings.
const OTHER_VARIABLES: [&str; 11] = [
    "SUBSCOPE_CLICKHOUSE_PASSWORD",
    "SUBSCOPE_COMPLETE",
    "SUBSCOPE_CONFIG",
    "SUBSCOPE_DATA_DIR",
    "SUBSCOPE_DEPTH",
    "SUBSCOPE_LOG",
    "SUBSCOPE_NO_AUTOSTART",
    "SUBSCOPE_OUTER_RUN",
    "SUBSCOPE_PARENT_RUN_ID",
    "SUBSCOPE_TEAM_TOKEN",
    subscope_harness::TOKEN_VARIABLE,
];
/// Likeness (0 to 1, Jaro) from which a word is taken for a misspelt one.
const MIN_LIKENESS: f64 = 0.85;
/// Characters from which on a beginning is taken for the word.
const MIN_BEGINNING: usize = 3;

/// Layer of settings; the weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layer {
    #[default]
    Default,
    /// The file of the organization that owns the machine: it applies to all users, and may lock keys.
    System,
    /// The user's file: it applies to all projects.
    User,
    Project,
    Environment,
    Flag,
}

impl Layer {
    /// Name for people and JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// Origin of a setting's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SettingOrigin {
    pub(crate) layer: Layer,
    /// Place within the layer: `file:line`, a variable or an option; `None` for a default.
    pub(crate) place: Option<String>,
}

impl SettingOrigin {
    pub(crate) fn new(layer: Layer, place: impl Into<String>) -> Self {
        Self { layer, place: Some(place.into()) }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layer.as_str())?;
        self.place.as_ref().map_or(Ok(()), |place| write!(f, " ({place})"))
    }
}

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
    /// Keys that the organization's file locks.
    locked: Vec<String>,
}

/// One setting as `config show` prints it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SettingRow {
    /// Its key; `section.name` in a section.
    pub(crate) key: String,
    pub(crate) value: Value,
    #[serde(flatten)]
    pub(crate) origin: SettingOrigin,
}

impl LoadedConfig {
    /// Removes and returns the first error; only one is reported at a time.
    pub(crate) fn take_error(&mut self) -> Option<CliError> {
        (!self.errors.is_empty()).then(|| self.errors.remove(0))
    }

    /// Whether the organization's file locks a setting.
    pub(crate) fn locks(&self, key: &str) -> bool {
        self.locked.iter().any(|locked| locked == key)
    }

    pub(crate) fn origin(&self, key: &str) -> SettingOrigin {
        self.origins.get(key).cloned().unwrap_or_default()
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
        self.origins.insert(key.to_owned(), SettingOrigin::new(Layer::Flag, option));
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

/// Key of the list of locked keys in the organization's file.
const LOCKED: &str = "locked";
/// The setting to which a user may always add, locked or not.
const EXCLUDE: &str = "team.exclude";

impl Layers {
    /// Sets a setting. An invalid value is an error, and leaves the lower layer's.
    fn set(&mut self, key: &str, value: SettingValue, origin: SettingOrigin, place: &str) {
        let is_allowed = PROJECT_KEYS.contains(&key) || (key == FORWARD && value.is_false());
        if origin.layer == Layer::Project && !is_allowed {
            let warning = format!("{place}: a project's file may not set it; it is ignored");
            return self.config.warnings.push(warning);
        }
        let is_locked = origin.layer > Layer::System && self.config.locks(key);
        let mut value = value;
        if is_locked
            && key == EXCLUDE
            && let Some(more) = value.list()
        {
            let before = self.config.settings.team.exclude.iter().map(String::as_str);
            value = SettingValue::List(
                before.chain(more).map(|one| SettingValue::Text(one.to_owned())).collect(),
            );
        }
        let mut values = self.values.clone();
        values.set(key, value);
        match Settings::deserialize(&values) {
            Ok(settings) => {
                if is_locked {
                    let before = &self.config.settings.team;
                    match key {
                        // Less content and more exclusions are always a user's choice.
                        "team.content" if settings.team.content <= before.content => {}
                        EXCLUDE => {}
                        FORWARD if !settings.team.forward => {}
                        _ => {
                            let warning = format!("{place}: {SYSTEM_FILE} locks it; it is ignored");
                            return self.config.warnings.push(warning);
                        }
                    }
                }
                self.config.settings = settings;
                self.config.origins.insert(key.to_owned(), origin);
                self.values = values;
            }
            Err(what) => self.config.errors.push(CliError::usage(format!("{place}: {what}"))),
        }
    }

    fn read_file(&mut self, source: &ConfigPath, keys: &[String]) {
        let sections: Vec<&str> = keys.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        let entries = match file::read(source, &sections) {
            Ok(entries) => entries,
            Err(error) => return self.config.errors.push(error),
        };
        for (line, key, value) in entries {
            if source.layer == Layer::System && key == LOCKED {
                match value.list() {
                    Some(keys) => self.config.locked = keys.into_iter().map(str::to_owned).collect(),
                    None => {
                        let place = source.path.display();
                        let message = format!("{place}:{line}: locked must be a list of keys");
                        self.config.errors.push(CliError::usage(message));
                    }
                }
                continue;
            }
            let place = format!("{}:{line}", source.path.display());
            if keys.contains(&key) {
                let origin = SettingOrigin::new(source.layer, &place);
                self.set(&key, value, origin, &format!("{place}: {key}"));
            } else {
                let meant = did_you_mean(&key, keys.iter().map(String::as_str));
                self.config
                    .warnings
                    .push(format!("{place}: there is no setting {key:?}; it is ignored{meant}"));
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
    let known: Vec<String> =
        keys.iter().map(|key| variable(key)).chain(OTHER_VARIABLES.map(str::to_owned)).collect();
    for name in environment.own_names().filter(|name| !known.contains(name)) {
        // One that resembles none may be another program's.
        let meant = did_you_mean(name, known.iter().map(String::as_str));
        if !meant.is_empty() {
            layers.config.warnings.push(format!("there is no variable {name}; it is ignored{meant}"));
        }
    }
    for key in keys {
        let name = variable(&key);
        if let Some(text) = environment.text(&name) {
            let origin = SettingOrigin::new(Layer::Environment, &name);
            layers.set(&key, SettingValue::of_variable(text), origin, &name);
        }
    }
    let mut config = LoadedConfig { paths, ..layers.config };
    // In a file, a relative path starts at the file's directory.
    let layer = config.origin(PRICES).layer;
    let file = config.paths.all.iter().find(|source| source.layer == layer);
    let folder = file.and_then(|file| file.path.parent()).unwrap_or(Path::new(""));
    config.settings.prices = config.settings.prices.map(|path| folder.join(path));
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

/// Returns a question after the known word that is most like an unknown one; empty if none is like it.
pub(crate) fn did_you_mean<'k>(unknown: &str, known: impl Iterator<Item = &'k str>) -> String {
    let bare = |word: &str| word.strip_prefix(VARIABLE_PREFIX).unwrap_or(word).to_owned();
    let begins = |word: &str| unknown.len() >= MIN_BEGINNING && word.starts_with(unknown);
    let likeness = |word: &str| {
        let likeness = strsim::jaro(&bare(unknown), &bare(word));
        if begins(word) { likeness.max(MIN_LIKENESS) } else { likeness }
    };
    let nearest = known.map(|word| (likeness(word), word)).max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((likeness, word)) if likeness >= MIN_LIKENESS => format!("; did you mean {word}?"),
        _ => String::new(),
    }
}

/// Parses a setting's value given as text, as in a variable. Returns it in the form of [`SettingRow`].
///
/// # Errors
/// If there is no such setting, or the value is invalid.
pub(crate) fn parse(key: &str, text: &str) -> Result<Value, CliError> {
    let keys: Vec<String> = flatten(&Settings::default()).into_iter().map(|(key, _)| key).collect();
    if !keys.iter().any(|known| known == key) {
        return Err(unknown(key));
    }
    let mut values = SettingValue::Table(BTreeMap::new());
    values.set(key, SettingValue::of_variable(text.to_owned()));
    let settings =
        Settings::deserialize(&values).map_err(|what| CliError::usage(format!("{key}: {what}")))?;
    let all = flatten(&settings);
    Ok(all.into_iter().find(|(known, _)| known == key).map(|(_, value)| value).unwrap_or_default())
}

/// Returns the error of a setting that does not exist.
pub(crate) fn unknown(key: &str) -> CliError {
    let keys: Vec<String> = flatten(&Settings::default()).into_iter().map(|(key, _)| key).collect();
    let meant = did_you_mean(key, keys.iter().map(String::as_str));
    let error = CliError::usage(format!("there is no setting {key:?}{meant}"));
    error.hint("`subscope config` shows all settings")
}

/// Returns the environment variable of a setting: `SUBSCOPE_WATCH_STALL` for `watch.stall`.
fn variable(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Returns the JSON Schema of a settings file, indented. `x-project` says which values a project's file may give a
/// setting; it may not set those without it.
pub(crate) fn schema() -> String {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Settings>().to_value();
    for (key, values) in PROJECT_KEYS.map(|key| (key, "any")).into_iter().chain([(FORWARD, "false")]) {
        let place = format!("/properties/{}", key.replace('.', "/properties/"));
        if let Some(setting) = schema.pointer_mut(&place).and_then(Value::as_object_mut) {
            setting.insert("x-project".to_owned(), values.into());
        }
    }
    format!("{schema:#}\n")
}

#[cfg(test)]
mod tests;
