//! Reads one settings file: invalid values become errors with their line, unknown keys become warnings.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use toml::de::{DeTable, DeValue};

use super::{RawSettings, SettingOrigin, given::GivenValue, origin::FileOwner, paths::ConfigPath};
use crate::error::{CliError, ErrorKind};

/// Largest file that is read. Real ones have a few hundred bytes; a project's file comes with its repository and is not
/// trusted.
const LIMIT_BYTES: u64 = 1 << 20;

/// Content of a settings file.
#[derive(Debug)]
pub(super) struct Contents {
    /// Its settings, without those that have invalid values.
    pub(super) raw: RawSettings,
    /// Unknown keys, each with file and line.
    pub(super) warnings: Vec<String>,
    /// Invalid values, each with file and line.
    pub(super) errors: Vec<CliError>,
}

/// Reads a settings file.
///
/// # Errors
/// If the file cannot be read or is not TOML.
pub(super) fn read(source: &ConfigPath) -> Result<Contents, CliError> {
    // A repository may hold a named pipe there, which would block for ever.
    if source.owner == FileOwner::Project && !source.path.is_file() {
        return Err(CliError::new(
            ErrorKind::Failed,
            format!("{} is no regular file", source.path.display()),
        ));
    }
    let text = read_text(&source.path)?;
    parse(source.owner, &source.path, &text)
}

fn parse(owner: FileOwner, path: &Path, text: &str) -> Result<Contents, CliError> {
    let table = DeTable::parse(text).map_err(|error| syntax_error(path, text, &error))?;
    let mut contents = Contents { raw: RawSettings::default(), warnings: Vec::new(), errors: Vec::new() };
    let path: Arc<Path> = path.into();
    for entry in entries(table.get_ref(), text) {
        let Entry { key, value, line } = entry;
        let origin = SettingOrigin::File { owner, path: path.clone(), line };
        match contents.raw.set(&key, GivenValue::Toml(value), &origin) {
            Ok(true) => {}
            Ok(false) => contents
                .warnings
                .push(format!("{}:{line}: there is no setting {key:?}; it is ignored", path.display())),
            Err(what) => contents
                .errors
                .push(CliError::new(ErrorKind::Usage, format!("{}:{line}: {key}: {what}", path.display()))),
        }
    }
    Ok(contents)
}

/// One setting of a file.
struct Entry<'t> {
    /// Its key; `table.name` in a table.
    key: String,
    value: &'t DeValue<'t>,
    /// Its line (1-based).
    line: usize,
}

/// Returns the settings in file order.
fn entries<'t>(table: &'t DeTable<'t>, text: &str) -> Vec<Entry<'t>> {
    let mut all = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        match value.get_ref() {
            DeValue::Table(inner) if RawSettings::TABLES.contains(&name) => {
                all.extend(inner.iter().map(|(key, value)| Entry {
                    key: format!("{name}.{}", key.get_ref()),
                    value: value.get_ref(),
                    line: line_of(text, key.span().start),
                }));
            }
            leaf => {
                all.push(Entry { key: name.to_owned(), value: leaf, line: line_of(text, key.span().start) })
            }
        }
    }
    all.sort_by_key(|entry| entry.line);
    all
}

/// Returns the line (1-based) of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the error, with its line, of a text that is not TOML or not of the expected structure.
pub(crate) fn syntax_error(path: &Path, text: &str, error: &toml::de::Error) -> CliError {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    CliError::new(ErrorKind::Usage, format!("{}:{line}: {}", path.display(), error.message()))
}

/// Reads a file of at most [`LIMIT_BYTES`].
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        let kind =
            if error.kind() == io::ErrorKind::InvalidData { ErrorKind::Usage } else { ErrorKind::Failed };
        CliError::caused(kind, anyhow::Error::new(error).context(format!("cannot read {}", path.display())))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file.take(LIMIT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(length).is_ok_and(|length| length > LIMIT_BYTES) {
        return Err(CliError::new(
            ErrorKind::Usage,
            format!("{} is larger than {LIMIT_BYTES} bytes", path.display()),
        ));
    }
    Ok(text)
}
